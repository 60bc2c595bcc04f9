"""Runtimes with the kernels of some models, built by the platform's compiler."""

import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int32, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine, models
from palmkit.engine.backends.cpu.c_library import TARGETS, export_runtime
from palmkit.engine.ir import Array, Graph, Node, Type
from tests.engine.backends.test_c_library import HERE, PRECOMPILED, built
from tests.engine.native.program import library

MODELS = Path(next(iter(models.__path__)))
MESH, HANDS = MODELS / "face_mesh/face_mesh.palm", MODELS / "hand_landmarks/hand_landmarks.palm"
ISA = HERE[-1]


class Buffer(ctypes.Structure):
    _fields_ = (("data", c_void_p), ("size", c_size_t))


class Options(ctypes.Structure):
    _fields_ = (("size", c_size_t), ("threads", c_int32), ("precision", c_int32), ("isa", c_char_p))


class Runtime:
    """A library with palm.h."""

    def __init__(self, path: Path) -> None:
        self._palm = palm = ctypes.CDLL(str(path))
        for name in ("palm_error", "palm_isa_name"):
            getattr(palm, name).restype = c_char_p
        for name in ("palm_model_input", "palm_program_output"):
            getattr(palm, name).restype = c_void_p
        for name in ("palm_isa_count", "palm_program_output_count", "palm_value_size"):
            getattr(palm, name).restype = c_size_t

    def isas(self) -> list[str]:
        palm = self._palm
        return [palm.palm_isa_name(c_size_t(i)).decode() for i in range(palm.palm_isa_count())]

    def outputs(self, file: Path, inputs: list[Array], isa: str | None = None) -> list[bytes]:
        """The outputs of the file's first plan; RuntimeError with the library's text."""
        palm = self._palm
        options = Options(ctypes.sizeof(Options), 1, 0, isa.encode() if isa else None)
        with (
            self._made("model", palm.palm_open, str(file).encode()) as model,
            self._made(
                "program", palm.palm_program_create, model, c_size_t(0), byref(options)
            ) as program,
            self._made("session", palm.palm_session_create, program, 2) as session,
        ):
            given = (Buffer * len(inputs))(*(Buffer(x.ctypes.data, x.nbytes) for x in inputs))
            sizes = [
                palm.palm_value_size(c_void_p(palm.palm_program_output(program, c_size_t(i))))
                for i in range(palm.palm_program_output_count(program))
            ]
            found = [np.zeros(size, np.uint8) for size in sizes]
            asked = (Buffer * len(found))(*(Buffer(x.ctypes.data, x.nbytes) for x in found))
            counts = [c_size_t(len(each)) for each in (inputs, found)]
            self._check(palm.palm_run(session, given, counts[0], asked, counts[1]))
        return [each.tobytes() for each in found]

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(self._palm.palm_error().decode())

    @contextmanager
    def _made(self, kind: str, make: Any, *arguments: Any) -> Generator[c_void_p]:
        made = c_void_p()
        self._check(make(*arguments, byref(made)))
        try:
            yield made
        finally:
            getattr(self._palm, f"palm_{kind}_free")(made)


def inputs_of(file: Path) -> list[Array]:
    random = np.random.default_rng(0)
    types = engine.convert(file).inputs.values()
    return [random.uniform(0, 255, type.dims).astype(type.dtype) for type in types]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    folder = export_runtime([MESH], tmp_path_factory.mktemp("runtime") / "sources", [ISA])
    # What the compiler is quickest with. Multiply-adds are no more contracted than at -Os.
    return Runtime(built(folder, "libpalm.so", "-DCMAKE_BUILD_TYPE=None", *PRECOMPILED))


@pytest.fixture(scope="module")
def whole() -> Runtime:
    folder = library()
    if folder is None:
        pytest.skip("libpalm.so is not built")
    return Runtime(folder / "libpalm.so")


def test_it_gives_what_the_whole_runtime_gives(runtime: Runtime, whole: Runtime) -> None:
    inputs = inputs_of(MESH)
    isa = TARGETS[ISA].simd
    assert runtime.isas() == [isa]
    assert runtime.outputs(MESH, inputs) == whole.outputs(MESH, inputs, isa)


def test_sources_of_webassembly_have_what_zig_lacks(tmp_path: Path) -> None:
    # tests/engine/web runs what is built of them.
    folder = export_runtime([MESH], tmp_path / "sources", ["wasm", "wasm_relaxed"])
    modules = [line for line in (folder / "CMakeLists.txt").read_text().splitlines() if "+" in line]
    assert [line.split('"')[0] for line in modules[-2:]] == [
        "palm_module(wasm_relaxed ",
        "palm_module(wasm ",
    ]
    assert (folder / "zig.cmake").is_file() and (folder / "palm/wasm/std/thread").is_file()
    sets = {path.stem for path in (folder / "palm/base/simd").glob("*.h")}
    assert sets == {"math", "wasm", "wasm_relaxed"}
    with pytest.raises(ValueError, match="of one processor"):
        export_runtime([MESH], tmp_path / "mixed", ["wasm", "neon"])


def test_kernels_that_it_has_not_are_named(runtime: Runtime) -> None:
    with pytest.raises(
        RuntimeError, match=r"no kernel (softmax|resize|binary|reduce); known: .*conv"
    ):
        runtime.outputs(HANDS, inputs_of(HANDS))


def test_instruction_sets_that_it_has_not_are_named(runtime: Runtime) -> None:
    with pytest.raises(RuntimeError, match="this host has no instruction set neon_dotprod"):
        runtime.outputs(MESH, inputs_of(MESH), "neon_dotprod")


def test_other_models_of_the_same_kernels_run(
    runtime: Runtime, whole: Runtime, tmp_path: Path
) -> None:
    """A model whose algorithms and kernel sizes the first one does not use gives the same, too."""
    random = np.random.default_rng(1)
    graph = Graph(
        inputs={"x": Type("float32", (1, 8, 24, 24))},
        outputs={"y": Type("float32", (1, 8, 24, 24))},
        nodes=(
            Node("conv", ("x", "w"), ("a",), {"pads": (1, 1, 1, 1)}),
            Node("sigmoid", ("a",), ("b",)),
            Node("conv", ("b", "v"), ("y",), {"pads": (3, 3, 3, 3), "group": 8}),
        ),
        constants={
            "w": random.normal(0, 0.3, (8, 8, 3, 3)).astype(np.float32),
            "v": random.normal(0, 0.3, (8, 1, 7, 7)).astype(np.float32),
        },
    )
    file = tmp_path / "other.palm"
    engine.save(graph, file)
    x = random.normal(size=(1, 8, 24, 24)).astype(np.float32)
    (given,) = runtime.outputs(file, [x])
    (expected,) = whole.outputs(file, [x], TARGETS[ISA].simd)
    np.testing.assert_allclose(
        np.frombuffer(given, np.float32), np.frombuffer(expected, np.float32), atol=2e-6
    )


def test_functions_that_no_model_has_are_refused_by_name(runtime: Runtime, tmp_path: Path) -> None:
    sized = Type("float32", (2, 7))
    graph = Graph({"x": sized}, {"y": sized}, (Node("tanh", ("x",), ("y",)),))
    engine.save(graph, tmp_path / "tanh.palm")
    with pytest.raises(RuntimeError, match="no function tanh"):
        runtime.outputs(tmp_path / "tanh.palm", [np.zeros((2, 7), np.float32)])


def test_files_without_plans_are_refused(tmp_path: Path) -> None:
    sized = Type("float32", ("n", 7))
    engine.save(
        Graph({"x": sized}, {"y": sized}, (Node("sigmoid", ("x",), ("y",)),)), tmp_path / "n.palm"
    )
    with pytest.raises(engine.UnsupportedError, match="has no plans for backend cpu: write it"):
        export_runtime([tmp_path / "n.palm"], tmp_path / "r", [ISA])
    with pytest.raises(ValueError, match="models: expected one or more"):
        export_runtime([], tmp_path / "r", [ISA])
    assert not (tmp_path / "r").exists()
