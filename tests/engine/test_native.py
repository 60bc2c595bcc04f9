"""The C++ runtime: its kernels' own tests, its symbols, and plans given to it from Python."""

import math
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.engine.errors import BackendError, ModelError, PalmError, ShapeError, UnsupportedError
from tests.engine.fuzz_plans import Guarded

native = pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")

Array = NDArray[Any]
BUILD = Path(__file__).parents[2] / "build/editable"
TESTS = sorted((BUILD / "test").glob("*_test*"))
BENCHES = sorted((BUILD / "bench").glob("*_bench*"))
ISAS = native.isas()
# Every instruction set, also those of other machines.
LISTS = sorted((Path(__file__).parents[2] / "engine/native/base").glob("*isas.inc"))
ROW = re.compile(r"^PALM_\w*ISA\((\w+),", re.MULTILINE)
SETS = sorted({name for each in LISTS for name in ROW.findall(each.read_text())})


@pytest.mark.skipif(not TESTS, reason="no kernel tests: build with PALM_DEV (pip install -e)")
@pytest.mark.parametrize("test", TESTS, ids=lambda path: path.stem)
def test_kernel(test: Path) -> None:
    done = subprocess.run([test], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not BENCHES, reason="no benches: build with PALM_DEV (pip install -e)")
@pytest.mark.parametrize("bench", BENCHES, ids=lambda path: path.stem)
def test_bench(bench: Path) -> None:
    """Every kernel's bench still runs; what it measures is not looked at."""
    once = {**os.environ, "PALM_BENCH_ONCE": "1"}
    done = subprocess.run(
        [bench], env=once, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("isa", SETS)
def test_instruction_sets_share_no_symbols(isa: str) -> None:
    """Else the linker could keep one set's copy, and an old CPU would meet new instructions."""
    assert set(ISAS) <= set(SETS)
    objects = sorted(BUILD.glob(f"CMakeFiles/palm_{isa}.dir/**/*.o"))
    if not objects or not shutil.which("nm"):
        pytest.skip("no object files: build with PALM_DEV (pip install -e), and have nm")
    for each in objects:
        nm = ["nm", "--defined-only", "--extern-only", "--demangle", str(each)]
        lines = subprocess.run(nm, capture_output=True, text=True, check=True).stdout.splitlines()
        symbols = [line.split(maxsplit=2)[1:] for line in lines if line]
        stem = each.name.split(".")[0]
        ends: tuple[str, ...] = (f"_{stem}_{isa}",)
        if stem == "simd":
            ends = tuple(f"_{number}_{isa}" for number in ("f32", "f16", "int8", "bytes"))
        elif stem == isa:
            ends = (f"_{isa}",)
        assert symbols, each
        for kind, name in symbols:
            assert kind == "T", (each, kind, name)
            assert name.split("(")[0].endswith(ends), (each, name)


def test_isas_and_kernels() -> None:
    assert ISAS[-1] in ("scalar", "neon")
    kernels = {name: (inputs, outputs) for name, inputs, outputs in native.kernels()}
    assert {"conv", "matmul", "copy"} <= set(kernels)
    assert kernels["prelu"] == ("x slope", "y")
    with pytest.raises(BackendError, match="no instruction set mmx"):
        native.Program([], [], [], 0, "mmx")


def add_program(n: int = 6, isa: str = "") -> Any:
    """y = x + 1, by way of the arena."""
    one = np.ones(n, np.float32)
    tensors = [
        ("input", 0, "float32", [n]),
        ("constant", 0, "float32", [n]),
        ("arena", 64, "float32", [n]),
        ("output", 0, "float32", [n]),
    ]
    steps: list[Any] = [
        ("binary", [0, 1], [2], {"op": "add", "shape": [n]}),
        ("copy", [2], [3], {}),
    ]
    return native.Program(tensors, steps, [one], 64 + 4 * n, isa)


def network(isa: str = "") -> tuple[Any, Array, tuple[int, ...]]:
    """Convolutions of every kind one after another, an input for them, and the output's shape."""
    rng = np.random.default_rng(0)
    sizes = [(40, 40, 3), (20, 20, 24), (20, 20, 24), (20, 20, 40), (10, 10, 40), (10, 10, 16)]
    kernels = [(24, 3, 3, 3), (24, 3, 3, 1), (40, 1, 1, 24), (40, 5, 5, 1), (16, 3, 3, 40)]
    strides, groups = [2, 1, 1, 2, 1], [1, 24, 1, 40, 1]
    tensors: list[Any] = [("input", 0, "float32", [1, *sizes[0]])]
    steps: list[Any] = []
    constants: list[Array] = []
    offset = 0
    for i, shape in enumerate(kernels):
        scale = float(np.prod(shape[1:])) ** -0.5
        constants.append((rng.normal(size=shape) * scale).astype(np.float32))
        tensors.append(("constant", i, "float32", list(shape)))
        last = i == len(kernels) - 1
        tensors.append(
            ("output" if last else "arena", 0 if last else offset, "float32", [1, *sizes[i + 1]])
        )
        offset += (4 * int(np.prod(sizes[i + 1])) + 63) // 64 * 64
        pad = shape[1] // 2
        attrs = {
            "strides": [strides[i]] * 2,
            "pads": [pad] * 4,
            "group": groups[i],
            "activation": "hard_swish" if i % 2 else "clip",
            **({} if i % 2 else {"activation_params": [0.0, 6.0]}),
        }
        steps.append(("conv", [2 * i, 2 * i + 1], [2 * i + 2], attrs))
    x = rng.normal(size=(1, *sizes[0])).astype(np.float32)
    return native.Program(tensors, steps, constants, offset, isa), x, (1, *sizes[-1])


def run(program: Any, x: Array, shape: tuple[int, ...], threads: int = 1) -> Array:
    y = np.full(shape, np.nan, np.float32)
    program.session(threads).run([x], [y])
    return y


@pytest.mark.parametrize("isa", ISAS)
def test_run(isa: str) -> None:
    x = np.arange(6, dtype=np.float32)
    assert np.array_equal(run(add_program(isa=isa), x, (6,)), x + 1)


def test_read_only_arrays_are_taken() -> None:
    x = np.arange(6, dtype=np.float32)
    x.flags.writeable = False
    assert np.array_equal(run(add_program(), x, (6,)), x + 1)


def test_profile_has_an_entry_a_step() -> None:
    x = np.zeros(6, np.float32)
    seconds = add_program().session(1).profile([x], [np.empty(6, np.float32)])
    assert len(seconds) == 2
    assert all(0 <= each < 1 for each in seconds)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.zeros(6), np.zeros(6, np.float32)),
        (np.zeros(5, np.float32), np.zeros(6, np.float32)),
        (np.zeros(12, np.float32)[::2], np.zeros(6, np.float32)),
        (np.zeros(6, np.float32), np.zeros(12, np.float32)[::2]),
        (np.zeros(6, np.float32), np.zeros(7, np.float32)),
        (np.zeros(6, np.float32), np.zeros(6, np.int32)),
        (np.zeros(6, np.float32), np.broadcast_to(np.float32(0), (6,))),
        ("text", np.zeros(6, np.float32)),
        (None, np.zeros(6, np.float32)),
    ],
    ids=str,
)
def test_wrong_arrays_are_refused(x: Any, y: Any) -> None:
    with pytest.raises(ShapeError):
        add_program().session(1).run([x], [y])


def test_wrong_number_of_arrays_is_refused() -> None:
    x = np.zeros(6, np.float32)
    session = add_program().session(1)
    with pytest.raises(ShapeError, match="inputs: expected 1 arrays, got 0"):
        session.run([], [x])
    with pytest.raises(ShapeError, match="outputs: expected 1 arrays, got 2"):
        session.run([x], [x, x])


@pytest.mark.parametrize("threads", [0, -1, 100_000])
def test_wrong_number_of_threads_is_refused(threads: int) -> None:
    with pytest.raises(BackendError):
        add_program().session(threads)


@pytest.mark.parametrize("isa", ISAS)
def test_result_does_not_depend_on_threads(isa: str) -> None:
    program, x, shape = network(isa)
    one = run(program, x, shape)
    assert np.isfinite(one).all()
    for threads in (2, 3):
        assert np.array_equal(run(program, x, shape, threads), one)


def test_instruction_sets_agree() -> None:
    results = [run(*network(isa)) for isa in ISAS]
    for each in results[1:]:
        np.testing.assert_allclose(each, results[0], rtol=1e-4, atol=1e-5)


def test_sessions_run_side_by_side() -> None:
    program, x, shape = network()
    expected = run(program, x, shape)
    wrong: list[int] = []

    def work(index: int) -> None:
        session, y = program.session(1 + index % 2), np.empty(shape, np.float32)
        for _ in range(30):
            session.run([x], [y])
            if not np.array_equal(y, expected):
                wrong.append(index)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_session_outlives_its_program() -> None:
    program, x, shape = network()
    expected, session = run(program, x, shape), program.session(2)
    del program
    y = np.empty(shape, np.float32)
    session.run([x], [y])
    assert np.array_equal(y, expected)


def test_nan_and_infinity_pass_through() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    tensors = [("input", 0, "float32", [4]), ("output", 0, "float32", [4])]
    program = native.Program(tensors, [("unary", [0], [1], {"op": "relu"})], [], 0)
    np.testing.assert_array_equal(run(program, x, (4,)), [np.nan, np.inf, 0, 1])


FLOATS = ("input", 0, "float32", [4])
OUT = ("output", 0, "float32", [4])
RELU = {"op": "relu"}


def copy_of(
    shape: list[int], x_strides: list[int], y_strides: list[int], x_offset: int = 0
) -> Callable[[], Any]:
    """Return a function that makes a copy from a view of four numbers to another one."""
    x = ("input", 0, "float32", shape, x_offset, x_strides)
    y = ("output", 0, "float32", shape, 0, y_strides)
    return lambda: native.Program([FLOATS, OUT, x, y], [("copy", [2], [3], {})], [], 0)


def conv(attrs: dict[str, Any], weights: tuple[int, ...] = (2, 3, 3, 1)) -> Callable[[], Any]:
    tensors = [
        ("input", 0, "float32", [1, 5, 5, 1]),
        ("constant", 0, "float32", list(weights)),
        ("output", 0, "float32", [1, 3, 3, 2]),
    ]
    constants = [np.zeros(weights, np.float32)]
    return lambda: native.Program(tensors, [("conv", [0, 1], [2], attrs)], constants, 0)


def plan(tensors: list[Any], steps: list[Any], arena: int = 0) -> Callable[[], Any]:
    return lambda: native.Program(tensors, steps, [], arena)


def one(kernel: str, attrs: dict[str, Any], shape: Any = (4,)) -> Callable[[], Any]:
    return plan([("input", 0, "float32", shape), OUT], [(kernel, [0], [1], attrs)])


def typed(
    kernel: str, inputs: list[str], outputs: list[str], attrs: dict[str, Any]
) -> Callable[[], Any]:
    """A step over arrays of four elements of these dtypes."""
    tensors = [("input", i, dtype, [4]) for i, dtype in enumerate(inputs)]
    tensors += [("output", i, dtype, [4]) for i, dtype in enumerate(outputs)]
    first = len(inputs)
    places = list(range(first)), list(range(first, len(tensors)))
    return plan(tensors, [(kernel, *places, attrs)])


def sampling(
    kernel: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any]
) -> Callable[[], Any]:
    """A step over float images, into one of two by two pixels."""
    tensors = [("input", i, "float32", list(shape)) for i, shape in enumerate(shapes)]
    tensors.append(("output", 0, "float32", [1, 2, 2, 1]))
    return plan(tensors, [(kernel, list(range(len(shapes))), [len(shapes)], attrs)])


def resample(index: list[int], taps: int = 1) -> Callable[[], Any]:
    tensors = [
        FLOATS,
        ("constant", 0, "int32", [len(index)]),
        ("constant", 1, "float32", [len(index)]),
        ("output", 0, "float32", [len(index)]),
    ]
    constants = [np.array(index, np.int32), np.ones(len(index), np.float32)]
    attrs = {**LINE, "taps": taps}
    return lambda: native.Program(tensors, [("resample", [0, 1, 2], [3], attrs)], constants, 0)


def volume_conv(attrs: dict[str, Any], depth: int = 2) -> Callable[[], Any]:
    tensors = [
        ("input", 0, "float32", [1, 3, 3, 3, 2]),
        ("constant", 0, "float32", [2, 2, 2, 2, 2]),
        ("output", 0, "float32", [1, depth, 2, 2, 2]),
    ]
    constants = [np.zeros((2, 2, 2, 2, 2), np.float32)]
    return lambda: native.Program(tensors, [("volume_conv", [0, 1], [2], attrs)], constants, 0)


def recurrent(attrs: dict[str, Any], directions: int = 1, state: int = 2) -> Callable[[], Any]:
    weights = np.zeros((directions, 2, 2), np.float32)
    tensors = [
        ("input", 0, "float32", [3, 1, 2]),
        ("constant", 0, "float32", list(weights.shape)),
        ("output", 0, "float32", [3, directions, 1, 2]),
        ("output", 1, "float32", [directions, 1, state]),
    ]
    return lambda: native.Program(tensors, [("recurrent", [0, 1, 1], [2, 3], attrs)], [weights], 0)


ELEMENTS = {"op": "add", "shape": [4], "a_strides": [1], "b_strides": [1]}
TUPLES = {"batch": 1, "dims": [4], "inner": 1}
LINE = {"outer": 1, "axis": 4, "inner": 1}

OVERLAP = {"out_shape": [4], "out_strides": [1], "red_shape": [1 << 30], "red_strides": [0]}

HOSTILE: dict[str, tuple[Callable[[], Any], type[PalmError]]] = {
    "copy of more elements than there are": (
        copy_of([1 << 37], [0], [0]),
        ModelError,
    ),
    "reduce of more elements than there are": (one("reduce", {"op": "sum", **OVERLAP}), ModelError),
    "reduce_integers of more elements than there are": (
        plan(
            [("input", 0, "int32", [4]), ("output", 0, "int32", [4])],
            [("reduce_integers", [0], [1], {"op": "sum", **OVERLAP})],
        ),
        ModelError,
    ),
    "conv_transpose by weights of one dim": (
        lambda: native.Program(
            [
                ("input", 0, "float32", [1, 2, 2, 1]),
                ("constant", 0, "float32", [4]),
                ("output", 0, "float32", [1, 3, 3, 1]),
            ],
            [("conv_transpose", [0, 1], [2], {})],
            [np.zeros(4, np.float32)],
            0,
        ),
        ModelError,
    ),
    "no such kernel": (one("no", {}), UnsupportedError),
    "no such op": (one("unary", {"op": "no"}), UnsupportedError),
    "no such attribute": (one("unary", {"op": "relu", "alhpa": 1.0}), ModelError),
    "attribute of the wrong kind": (one("unary", {"op": 3}), ModelError),
    "attribute of no kind": (one("unary", {"op": object()}), ModelError),
    "attribute beyond 64 bits": (one("copy", {"x": 1 << 70}), ModelError),
    "missing input": (plan([FLOATS, OUT], [("unary", [-1], [1], RELU)]), ModelError),
    "no inputs": (plan([FLOATS, OUT], [("unary", [], [1], RELU)]), ModelError),
    "tensor that is not there": (plan([FLOATS, OUT], [("unary", [7], [1], RELU)]), ModelError),
    "negative tensor": (plan([FLOATS, OUT], [("unary", [-2], [1], RELU)]), ModelError),
    "output that is not there": (plan([FLOATS, OUT], [("unary", [0], [-1], RELU)]), ModelError),
    "writes an input": (plan([FLOATS, FLOATS], [("unary", [0], [1], RELU)]), ModelError),
    "no such place": (plan([("moon", 0, "float32", [4])], []), ModelError),
    "no such dtype": (plan([("input", 0, "float", [4])], []), UnsupportedError),
    "no such constant": (plan([("constant", 0, "float32", [4])], []), ModelError),
    "huge slot": (plan([("input", 1 << 40, "float32", [4])], []), ModelError),
    "negative slot": (plan([("input", -1, "float32", [4])], []), ModelError),
    "negative dim": (plan([("input", 0, "float32", [-4])], []), ModelError),
    "huge dims": (plan([("input", 0, "float32", [1 << 40, 1 << 40])], []), ModelError),
    "huge dims and a zero": (
        plan([("input", 0, "float32", [1 << 62, 0, 1 << 62])], []),
        ModelError,
    ),
    "one slot, two sizes": (plan([FLOATS, ("input", 0, "float32", [5])], []), ModelError),
    "beyond the arena": (plan([("arena", 64, "float32", [1])], [], 67), ModelError),
    "arena offset overflows": (
        plan([("arena", (1 << 63) - 64, "float32", [64])], [], 256),
        ModelError,
    ),
    "arena offset not aligned": (plan([("arena", 4, "float32", [1])], [], 64), ModelError),
    "negative arena": (plan([], [], -1), ModelError),
    "tensor of three": (plan([("input", 0, "float32")], []), ModelError),
    "step of three": (plan([FLOATS, OUT], [("unary", [0], [1])]), ModelError),
    "attributes as a list": (plan([FLOATS, OUT], [("unary", [0], [1], [])]), ModelError),
    "overlapping tensors": (
        plan(
            [
                ("arena", 0, "float32", [32]),
                ("arena", 64, "float32", [16]),
                ("arena", 0, "float32", [16], 8, []),
            ],
            [("unary", [2], [1], RELU)],
            128,
        ),
        ModelError,
    ),
    "copy reads past the end": (copy_of([4], [], [], 1), ModelError),
    "copy reads before the start": (copy_of([4], [-1], []), ModelError),
    "copy reads far before the start": (copy_of([4], [-(1 << 63)], []), ModelError),
    "copy writes past the end": (copy_of([4], [], [2]), ModelError),
    "copy writes one place twice": (copy_of([2, 2], [2, 1], [1, 1]), ModelError),
    "copy of too few strides": (copy_of([2, 2], [2, 1], [1]), ModelError),
    "copy's strides overflow": (copy_of([4], [(1 << 63) - 1], []), ModelError),
    "copy from far beyond the end": (copy_of([4], [], [], (1 << 63) - 1), ModelError),
    "copy from before the start": (copy_of([4], [], [], -1), ModelError),
    "copy into another shape": (
        plan([FLOATS, OUT, ("input", 0, "float32", [2, 2])], [("copy", [2], [1], {})]),
        ModelError,
    ),
    "strides where a kernel takes none": (
        plan([FLOATS, OUT, ("input", 0, "float32", [2], 0, [2])], [("unary", [2], [1], RELU)]),
        ModelError,
    ),
    "a part before the whole": (
        plan([("input", 0, "float32", [2], 2, []), FLOATS, OUT], [("unary", [1], [2], RELU)]),
        ModelError,
    ),
    "unary into another size": (one("unary", RELU, (5,)), ModelError),
    "softmax of another size": (one("softmax", {"outer": 1, "axis": 5, "inner": 1}), ModelError),
    "softmax of a negative size": (
        one("softmax", {"outer": -1, "axis": -4, "inner": 1}),
        ModelError,
    ),
    "reduce past the end": (
        one(
            "reduce",
            {
                "op": "sum",
                "out_shape": [4],
                "out_strides": [1],
                "red_shape": [2],
                "red_strides": [1],
            },
        ),
        ModelError,
    ),
    "matmul past the end": (
        plan(
            [FLOATS, ("input", 1, "float32", [4]), OUT],
            [("matmul", [0, 1], [2], {"m": 2, "k": 3, "n": 2})],
        ),
        ModelError,
    ),
    "gather of another size": (one("gather", {"outer": 1, "axis": 4, "inner": 1}), ModelError),
    "conv of another size": (conv({"pads": [1, 1, 1, 1]}), ModelError),
    "conv with stride 0": (conv({"strides": [0, 1]}), ModelError),
    "conv with a negative pad": (conv({"pads": [-1, 0, 0, 0]}), ModelError),
    "conv with a huge dilation": (conv({"dilations": [1 << 40, 1]}), ModelError),
    "conv with a huge pad": (conv({"pads": [1 << 62, 0, 1 << 62, 0]}), ModelError),
    "conv with three strides": (conv({"strides": [1, 1, 1]}), ModelError),
    "conv by no known algorithm": (conv({"algorithm": "fft"}), ModelError),
    "conv by an algorithm for other shapes": (conv({"algorithm": "depthwise"}), ModelError),
    "conv by a number": (conv({"algorithm": 4}), ModelError),
    "conv with group 0": (conv({"group": 0}), ModelError),
    "conv with a group that does not divide": (conv({"group": 2}), ModelError),
    "conv with a kernel of nothing": (conv({}, (2, 0, 3, 1)), ModelError),
    "conv with prelu but no slopes": (conv({"activation": "prelu"}), ModelError),
    "conv with no such activation": (conv({"activation": "no"}), UnsupportedError),
    "overlapping outputs": (
        plan(
            [FLOATS, ("arena", 0, "float32", [4]), ("arena", 0, "int64", [4])],
            [("top_k", [0], [1, 2], {"outer": 1, "axis": 4, "inner": 1, "k": 4})],
            64,
        ),
        ModelError,
    ),
    "elementwise past the end": (
        typed("elementwise", ["int32", "int32"], ["int32"], {**ELEMENTS, "a_strides": [2]}),
        ModelError,
    ),
    "elementwise into another dtype": (
        typed("elementwise", ["int32", "int32"], ["bool"], ELEMENTS),
        ModelError,
    ),
    "elementwise of two dtypes": (
        typed("elementwise", ["int32", "int64"], ["int32"], ELEMENTS),
        ModelError,
    ),
    "elementwise of no such op": (
        typed("elementwise", ["int32", "int32"], ["int32"], {**ELEMENTS, "op": "no"}),
        UnsupportedError,
    ),
    "elementwise of strings of bytes": (
        typed("elementwise", ["uint16", "uint16"], ["uint16"], ELEMENTS),
        UnsupportedError,
    ),
    "where without bools": (
        typed(
            "elementwise",
            ["int32", "int32", "int32"],
            ["int32"],
            {**ELEMENTS, "op": "where", "c_strides": [1]},
        ),
        ModelError,
    ),
    "gather_nd of other dims": (
        typed("gather_nd", ["float32", "int64"], ["float32"], {**TUPLES, "dims": [5]}),
        ModelError,
    ),
    "gather_nd of overflowing dims": (
        typed("gather_nd", ["float32", "int64"], ["float32"], {**TUPLES, "dims": [1 << 62] * 4}),
        ModelError,
    ),
    "gather_nd of tuples that do not fit": (
        typed("gather_nd", ["float32", "int64"], ["float32"], {**TUPLES, "batch": 3}),
        ModelError,
    ),
    "gather_nd by floats": (
        typed("gather_nd", ["float32", "float32"], ["float32"], TUPLES),
        UnsupportedError,
    ),
    "scatter_nd of other updates": (
        typed("scatter_nd", ["float32", "int64", "int64"], ["float32"], TUPLES),
        ModelError,
    ),
    "scatter_nd with no such reduction": (
        typed(
            "scatter_nd",
            ["float32", "int64", "float32"],
            ["float32"],
            {**TUPLES, "reduction": "no"},
        ),
        ModelError,
    ),
    "gather_elements beyond dims": (
        typed(
            "gather_elements",
            ["float32", "int64"],
            ["float32"],
            {"shape": [2, 2], "dims": [1, 4], "axis": 1},
        ),
        ModelError,
    ),
    "gather_elements along no axis": (
        typed(
            "gather_elements",
            ["float32", "int64"],
            ["float32"],
            {"shape": [4], "dims": [4], "axis": 1},
        ),
        ModelError,
    ),
    "scatter_elements of another shape": (
        typed(
            "scatter_elements",
            ["float32", "int64", "float32"],
            ["float32"],
            {"shape": [5], "dims": [4], "axis": 0},
        ),
        ModelError,
    ),
    "cum_sum of another size": (
        typed("cum_sum", ["float32"], ["float32"], {**LINE, "axis": 5}),
        ModelError,
    ),
    "cum_sum of huge dims": (
        typed("cum_sum", ["float32"], ["float32"], {**LINE, "outer": 1 << 62, "axis": 1 << 62}),
        ModelError,
    ),
    "arg_max into floats": (
        typed("arg_max", ["float32"], ["float32"], {**LINE, "op": "max"}),
        UnsupportedError,
    ),
    "arg_max of no such op": (
        typed("arg_max", ["float32"], ["int64"], {**LINE, "op": "no"}),
        ModelError,
    ),
    "top_k of more than there are": (
        typed("top_k", ["float32"], ["float32", "int64"], {**LINE, "axis": 2, "outer": 2, "k": 4}),
        ModelError,
    ),
    "reduce_integers past the end": (
        typed(
            "reduce_integers",
            ["int64"],
            ["int64"],
            {
                "op": "sum",
                "out_shape": [4],
                "out_strides": [1],
                "red_shape": [2],
                "red_strides": [1],
            },
        ),
        ModelError,
    ),
    "quantize with a computed scale": (
        typed("quantize", ["float32", "float32"], ["int8"], {**LINE, "op": "quantize"}),
        UnsupportedError,
    ),
    "quantize to floats": (
        typed("quantize", ["float32", "float32"], ["float64"], {**LINE, "op": "quantize"}),
        UnsupportedError,
    ),
    "normalize of another size": (
        typed(
            "normalize",
            ["float32"],
            ["float32"],
            {"items": 2, "rows": 1, "groups": 1, "n": 4, "epsilon": 1e-5},
        ),
        ModelError,
    ),
    "normalize of empty rows": (
        typed(
            "normalize",
            ["float32"],
            ["float32"],
            {"items": 4, "rows": 1, "groups": 1, "n": 0, "epsilon": 1e-5},
        ),
        ModelError,
    ),
    "local_response of too many channels": (
        typed(
            "local_response",
            ["float32"],
            ["float32"],
            {"channels": 3, "size": 2, "alpha": 1.0, "beta": 0.5, "bias": 1.0},
        ),
        ModelError,
    ),
    "resample with an index outside": (resample([0, 4]), ModelError),
    "resample with a negative index": (resample([0, -1]), ModelError),
    "resample of no taps": (resample([0, 1], taps=0), ModelError),
    "grid_sample of another grid": (
        sampling("grid_sample", [(1, 2, 2, 1), (1, 3, 3, 2)], {"mode": "linear"}),
        ModelError,
    ),
    "grid_sample of no such mode": (
        sampling("grid_sample", [(1, 2, 2, 1), (1, 2, 2, 2)], {"mode": "no"}),
        ModelError,
    ),
    "max_pool_indices of another size": (
        plan(
            [
                ("input", 0, "float32", [1, 4, 4, 1]),
                ("output", 0, "float32", [1, 4, 4, 1]),
                ("output", 1, "int64", [1, 4, 4, 1]),
            ],
            [("max_pool_indices", [0], [1, 2], {"kernel": [3, 3]})],
        ),
        ModelError,
    ),
    "max_unpool at other places": (
        sampling("max_unpool", [(1, 2, 2, 1), (1, 1, 2, 1)], {}),
        ModelError,
    ),
    "max_unpool with stride 0": (
        sampling("max_unpool", [(1, 2, 2, 1), (1, 2, 2, 1)], {"strides": [0, 1]}),
        ModelError,
    ),
    "volume_conv past the end": (volume_conv({}, 3), ModelError),
    "volume_conv with stride 0": (volume_conv({"strides": [0, 1, 1]}), ModelError),
    "volume_conv with a huge dilation": (volume_conv({"dilations": [1, 1, 1 << 40]}), ModelError),
    "volume_conv with a group that does not divide": (volume_conv({"group": 3}), ModelError),
    "recurrent of no such op": (recurrent({"op": "no"}), UnsupportedError),
    "recurrent of other gates": (recurrent({"op": "lstm"}), ModelError),
    "recurrent of three directions": (recurrent({"op": "tanh"}, directions=3), ModelError),
    "recurrent with a short state": (recurrent({"op": "tanh"}, state=3), ModelError),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_plans_are_refused(case: str) -> None:
    make, error = HOSTILE[case]
    with pytest.raises(error):
        make()


def test_algorithms_are_those_that_suit_the_shape() -> None:
    tensors = [
        ("input", 0, "float32", [1, 20, 20, 64]),
        ("constant", 0, "float32", [64, 3, 3, 64]),
        ("constant", 1, "float32", [64, 3, 3, 1]),
        ("output", 0, "float32", [1, 20, 20, 64]),
    ]
    pads = {"pads": [1, 1, 1, 1]}
    steps = [
        ("conv", [0, 1], [3], pads),
        ("conv", [0, 2], [3], {**pads, "group": 64}),
        ("unary", [0], [3], {"op": "relu"}),
    ]
    lists = native.candidates(tensors, steps)
    dense, depthwise, none = ([name for name, *_ in each] for each in lists)
    assert {"winograd_4", "rows", "gemm"} <= set(dense)
    assert "depthwise" not in dense
    assert set(depthwise) == {"depthwise", "gemm"}
    assert none == []
    wrong = ("conv", [0, 1], [3], {**pads, "algorithm": "depthwise"})
    with pytest.raises(ModelError, match=r"expected one of .*gemm.*, got depthwise"):
        native.Program(
            tensors, [wrong], [np.zeros(t[3], np.float32) for t in tensors if t[0] == "constant"], 0
        )


def test_zeros_among_weights_are_skipped_where_that_is_faster() -> None:
    rng = np.random.default_rng(0)
    tensors = [
        ("input", 0, "float32", [1, 20, 20, 64]),
        ("constant", 0, "float32", [64, 1, 1, 64]),
        ("output", 0, "float32", [1, 20, 20, 64]),
    ]
    steps: list[Any] = [("conv", [0, 1], [2], {})]
    x = rng.normal(size=(1, 20, 20, 64)).astype(np.float32)
    for zeros, fastest in [(0.0, "gemm"), (0.9, "sparse")]:
        weights = rng.normal(size=(64, 1, 1, 64)).astype(np.float32)
        weights[rng.random(weights.shape) < zeros] = 0
        names = [name for name, *_ in native.candidates(tensors, steps, "", [weights])[0]]
        assert names[0] == fastest
        assert ("sparse" in names) == (zeros > 0.5)
        y = np.zeros_like(x)
        native.Program(tensors, steps, [weights], 0).session(2).run([x], [y])
        np.testing.assert_allclose(y, x @ weights[:, 0, 0].T, rtol=1e-5, atol=1e-5)
    assert [name for name, *_ in native.candidates(tensors, steps)[0]] == ["gemm"]


@pytest.mark.parametrize(
    ("kernel", "algorithm"), [(1, "gemm"), (3, "rows"), (3, "gemm"), (3, "winograd_4")]
)
def test_conv_may_write_over_its_residual(kernel: int, algorithm: str) -> None:
    rng = np.random.default_rng(0)
    x, z = (rng.normal(size=(1, 24, 24, 40)).astype(np.float32) for _ in range(2))
    weights = rng.normal(size=(40, kernel, kernel, 40)).astype(np.float32)
    size, dims = x.nbytes, list(x.shape)
    attrs = {"pads": [kernel // 2] * 4, "activation": "clip", "algorithm": algorithm}

    def result(place: int) -> Array:
        tensors = [
            ("input", 0, "float32", dims),
            ("input", 1, "float32", dims),
            ("constant", 0, "float32", list(weights.shape)),
            ("arena", 0, "float32", dims),
            ("arena", place, "float32", dims),
            ("output", 0, "float32", dims),
        ]
        steps: list[Any] = [
            ("copy", [1], [3], {}),
            ("conv", [0, 2, -1, -1, 3], [4], attrs),
            ("copy", [4], [5], {}),
        ]
        y = np.zeros_like(x)
        native.Program(tensors, steps, [weights], 2 * size).session(2).run([x, z], [y])
        return y

    assert np.array_equal(result(0), result(size))


def test_weights_must_be_constant() -> None:
    tensors = [
        ("input", 0, "float32", [1, 5, 5, 1]),
        ("input", 1, "float32", [2, 3, 3, 1]),
        ("output", 0, "float32", [1, 3, 3, 2]),
    ]
    with pytest.raises(UnsupportedError, match="input 1: expected a constant"):
        native.Program(tensors, [("conv", [0, 1], [2], {})], [], 0)


def test_gather_out_of_range_is_refused_when_run() -> None:
    tensors = [
        ("input", 0, "float32", [4]),
        ("input", 1, "int64", [1]),
        ("output", 0, "float32", [1]),
    ]
    steps = [("gather", [0, 1], [2], {"outer": 1, "axis": 4, "inner": 1})]
    session, y = native.Program(tensors, steps, [], 0).session(1), np.zeros(1, np.float32)
    x = np.arange(4, dtype=np.float32)
    session.run([x, np.array([-1])], [y])
    assert y[0] == 3
    for index in (4, -5, 1 << 62):
        with pytest.raises(ShapeError, match="outside of an axis of 4"):
            session.run([x, np.array([index])], [y])


@pytest.mark.parametrize("branches", [(1, 2), (2, 1)])
def test_a_branch_that_fails_waits_for_the_other(branches: tuple[int, int]) -> None:
    """The failing index is that of the first step, of the second, or of both."""
    rows = 1 << 12
    tensors = [
        ("input", 0, "float32", [rows, 64]),
        ("input", 1, "int32", [rows]),
        ("input", 2, "int32", [rows]),
        ("output", 0, "float32", [rows, 64]),
        ("output", 1, "float32", [rows, 64]),
    ]
    attrs = {"outer": 1, "axis": rows, "inner": 64}
    steps = [
        ("gather", [0, 1], [3], {**attrs, "branch": branches[0]}),
        ("gather", [0, 2], [4], {**attrs, "branch": branches[1]}),
    ]
    session = native.Program(tensors, steps, [], 0).session(2)
    x = np.random.default_rng(0).random((rows, 64), np.float32)
    good = np.arange(rows, dtype=np.int32)
    bad = good.copy()
    bad[-1] = rows
    for _ in range(50):
        for indices in ((bad, good), (good, bad), (bad, bad)):
            with pytest.raises(ShapeError, match=f"{rows} is outside of an axis"):
                session.run([x, *indices], [x.copy(), x.copy()])
        outputs = [np.zeros_like(x), np.zeros_like(x)]
        session.run([x, good, good], outputs)
        assert np.array_equal(outputs[0], x)
        assert np.array_equal(outputs[1], x)


@pytest.mark.parametrize("pixels", [(1, 1), (1, 2), (3, 3), (5, 13)])
@pytest.mark.parametrize("channels", [1, 2, 3, 5])
@pytest.mark.parametrize("isa", native.isas())
def test_conv_of_bytes_reads_nothing_beyond(
    isa: str, channels: int, pixels: tuple[int, int]
) -> None:
    """Arrays that end at a page that cannot be read."""
    shape = [1, *pixels, channels]
    tensors = [
        ("input", 0, "uint8", shape),
        ("constant", 0, "int8", [1, 1, 1, channels]),
        ("constant", 1, "float32", [1]),
        ("output", 0, "float32", [1, *pixels, 1]),
    ]
    room = Guarded(1 << 12)
    x = room.array(math.prod(shape), "uint8", 0)
    x[:] = np.arange(x.size)
    weights = np.arange(1, channels + 1, dtype=np.int8)
    constants = [weights.reshape(1, 1, 1, channels), np.ones(1, np.float32)]
    y = np.zeros((1, *pixels, 1), np.float32)
    program = native.Program(tensors, [("conv_int8", [0, 1, 2], [3], {})], constants, 0, isa)
    program.session(2, eager=True).run([x], [y])
    assert np.array_equal(y.reshape(-1), x.reshape(-1, channels).astype(np.float32) @ weights)


def test_a_long_run_can_be_interrupted() -> None:
    code = """
import os, signal, threading
import numpy as np
from palmkit.engine import _native as native
signal.signal(signal.SIGINT, signal.default_int_handler)
types = [("input", 0, "float32", [1 << 22]), ("output", 0, "float32", [1 << 22])]
steps = [("unary", [0], [1], {"op": "exp"})] * 50000
session = native.Program(types, steps, [], 0).session(%d, priority=%d)
x, y = np.zeros(1 << 22, np.float32), np.zeros(1 << 22, np.float32)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    session.run([x], [y])
except KeyboardInterrupt:
    print("interrupted")
session = native.Program(types, steps[:1], [], 0).session(2)
session.run([x], [y])
print(y.min(), y.max())
"""
    for how in ((1, 0), (2, 0), (2, 1)):
        done = subprocess.run(
            [sys.executable, "-c", code % how],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.stderr == ""
        assert done.stdout == "interrupted\n1.0 1.0\n"


def test_tuples_out_of_range_are_refused_when_run() -> None:
    tensors = [
        ("input", 0, "float32", [2, 3]),
        ("input", 1, "int32", [1, 2]),
        ("output", 0, "float32", [1]),
    ]
    steps = [("gather_nd", [0, 1], [2], {"batch": 1, "dims": [2, 3], "inner": 1})]
    session, y = native.Program(tensors, steps, [], 0).session(1), np.zeros(1, np.float32)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    session.run([x, np.array([[1, -1]], np.int32)], [y])
    assert y[0] == 5
    for index in ([2, 0], [0, 3], [-3, 0]):
        with pytest.raises(ShapeError, match="outside of an axis"):
            session.run([x, np.array([index], np.int32)], [y])


def test_nothing_of_huge_dims_takes_no_time() -> None:
    shape = [1 << 18, 1 << 19, 0]
    tensors = [("input", 0, "float32", shape), ("output", 0, "float32", shape)]
    steps = [("softmax", [0], [1], {"outer": 1 << 37, "axis": 0, "inner": 1})]
    nothing = np.zeros(0, np.float32)
    native.Program(tensors, steps, [], 0).session(1).run([nothing], [nothing.copy()])


def test_empty_arrays() -> None:
    tensors = [("input", 0, "float32", [0, 3]), ("output", 0, "float32", [0, 3])]
    steps: list[Any] = [("copy", [0], [1], {})]
    session = native.Program(tensors, steps, [], 0).session(2)
    session.run([np.zeros((0, 3), np.float32)], [np.zeros((0, 3), np.float32)])


@pytest.mark.parametrize("axes", [(0, 2, 1), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_copy_moves_every_element_size(dtype: str, axes: tuple[int, int, int]) -> None:
    x = np.random.default_rng(0).integers(0, 100, (6, 35, 20)).astype(dtype)
    view = x.transpose(axes)
    y = np.zeros(view.shape, dtype)
    strides = [stride // x.itemsize for stride in view.strides]
    tensors = [
        ("input", 0, dtype, list(x.shape)),
        ("output", 0, dtype, list(y.shape)),
        ("input", 0, dtype, list(y.shape), 0, strides),
    ]
    native.Program(tensors, [("copy", [2], [1], {})], [], 0).session(2).run([x], [y])
    assert np.array_equal(y, view)
