"""precision="low": products of bfloat16 or float16 where the CPU has them, float32 elsewhere."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import palmkit.models
from palmkit import engine
from palmkit.engine.backends import BACKENDS
from palmkit.engine.backends.cpu import CpuProgram, narrow_dtype, plan
from palmkit.engine.backends.cpu.summary import plan_summaries
from palmkit.engine.backends.options import Options
from palmkit.engine.ir import Array, Attr, Graph, Node, Type
from palmkit.engine.ops import Case, find, infer_types

_native = pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")
NARROW = narrow_dtype(_native.isas())
needs_narrow = pytest.mark.skipif(not NARROW, reason="this CPU has no narrow products")
MODEL = Path(palmkit.models.__file__).parent / "face_detector" / "face_detector.palm"
# Half a step of bfloat16, relative to the number: it has 8 bits.
ROUNDING = 2.0**-8
# What a sum of products may be off by, of the sum of their sizes: both factors are rounded.
PRODUCTS = 2 * ROUNDING + ROUNDING**2 + 1e-6


def single(op: str, case: Case) -> tuple[Graph, dict[str, Array]]:
    """A graph of one node, all inputs but the first being constant; and its input."""
    rng = np.random.default_rng(0)
    values = {
        f"v{i}": rng.normal(size=v.dims).astype(v.dtype) if isinstance(v, Type) else v
        for i, v in enumerate(case.inputs)
        if v is not None
    }
    names = tuple(f"v{i}" if v is not None else "" for i, v in enumerate(case.inputs))
    feed = {"v0": values.pop("v0")}
    node = Node(op, names, ("y",), case.attrs)
    graph = Graph({"v0": Type.of(feed["v0"])}, {"y": Type("float32", ())}, (node,), values)
    return Graph(graph.inputs, {"y": infer_types(graph)["y"]}, graph.nodes, values), feed


def low(graph: Graph, threads: int = 1) -> CpuProgram:
    return CpuProgram(graph, Options(threads, "low"))


def stored(program: CpuProgram) -> list[str]:
    return [each.dtype for each in program.plan.tensors if each.place == "arena"]


CASES = [(op, case) for op in ("conv", "gemm", "matmul") for case in find(op).cases]


@pytest.mark.parametrize(("op", "case"), CASES, ids=str)
def test_products_are_off_by_the_rounding_of_their_factors(op: str, case: Case) -> None:
    if any(isinstance(v, Type) and v.dtype != "float32" for v in case.inputs):
        pytest.skip("not of float32")
    graph, feed = single(op, case)
    sizes = Graph(
        graph.inputs,
        graph.outputs,
        graph.nodes,
        {name: np.abs(value) for name, value in graph.constants.items()},
    )
    reference = BACKENDS["reference"]
    expected = reference.compile(graph).run(feed)["y"]
    bound = reference.compile(sizes).run({"v0": np.abs(feed["v0"])})["y"]
    got = low(graph).run(feed)["y"]
    assert (np.abs(got - expected) <= PRODUCTS * np.abs(bound) + 1e-6).all()


@pytest.mark.parametrize("case", find("fused_conv").cases, ids=str)
def test_what_follows_the_sum_is_float32(case: Case) -> None:
    """Of factors that bfloat16 holds the result is that of float32."""
    graph, feed = single("fused_conv", case)

    def narrow(value: Array) -> Array:
        return np.asarray(value.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)

    weights = {**graph.constants, "v1": narrow(np.ascontiguousarray(graph.constants["v1"]))}
    graph = Graph(graph.inputs, graph.outputs, graph.nodes, weights)
    feed = {"v0": narrow(feed["v0"])}
    expected = BACKENDS["reference"].compile(graph).run(feed)["y"]
    got = low(graph).run(feed)["y"]
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)


def two_convolutions(channels: int = 24) -> tuple[Graph, dict[str, Array]]:
    rng = np.random.default_rng(1)
    dims = (1, channels, 9, 11)
    nodes = (
        Node("conv", ("x", "w"), ("a",), {"pads": (1, 1, 1, 1)}),
        Node("transpose", ("a",), ("b",), {"perm": (0, 1, 3, 2)}),
        Node("conv", ("b", "w"), ("y",), {"pads": (1, 1, 1, 1)}),
    )
    weights = rng.normal(size=(channels, channels, 3, 3)).astype(np.float32)
    graph = Graph(
        {"x": Type("float32", dims)},
        {"y": Type("float32", (1, channels, 11, 9))},
        nodes,
        {"w": weights},
    )
    return graph, {"x": rng.normal(size=dims).astype(np.float32)}


def stacked() -> tuple[Graph, dict[str, Array]]:
    rng = np.random.default_rng(1)
    w = rng.normal(size=(24, 24, 1, 1)).astype(np.float32)
    nodes = (Node("conv", ("x", "w"), ("a",)), Node("conv", ("a", "w"), ("y",)))
    type = Type("float32", (1, 24, 9, 11))
    graph = Graph({"x": type}, {"y": type}, nodes, {"w": w})
    return graph, {"x": rng.normal(size=type.dims).astype(np.float32)}


@needs_narrow
def test_what_lies_between_convolutions_is_narrow() -> None:
    graph, feed = stacked()
    program = low(graph)
    assert NARROW in stored(program)
    assert program.run(feed)["y"].dtype == np.float32


def test_narrow_values_are_widened_for_what_cannot_read_them() -> None:
    graph, feed = two_convolutions()
    expected = BACKENDS["reference"].compile(graph).run(feed)["y"]
    got = low(graph).run(feed)["y"]
    assert np.abs(got - expected).max() <= 0.02 * np.ptp(expected)


@pytest.mark.parametrize(
    ("isas", "dtype"),
    [
        (["avx512bf16", "avx512", "avx2", "scalar"], "bfloat16"),
        (["neon_fp16", "neon"], "float16"),
        (["avx512", "avx2", "scalar"], ""),
        (["neon"], ""),
    ],
)
def test_the_narrow_dtype_is_what_the_cpu_has(isas: list[str], dtype: str) -> None:
    assert narrow_dtype(isas) == dtype


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_plan_has_narrow_values_between_convolutions_only(dtype: str) -> None:
    made, outputs = plan(stacked()[0], dtype)
    dtypes = [tensor.dtype for tensor in made.tensors]
    precisions = [step.attrs.get("precision") for step in made.steps if step.kernel == "conv"]
    assert precisions == [dtype, dtype]
    assert set(dtypes) == {"float32", dtype}
    assert outputs["y"].dtype == "float32"
    assert {each.dtype for each in made.tensors if each.place != "arena"} == {"float32"}


@pytest.mark.parametrize("isas", [["avx512", "avx2", "scalar"], ["neon"]])
def test_without_narrow_products_low_means_high(
    isas: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, feed = two_convolutions()
    high = CpuProgram(graph, Options()).run(feed)["y"]
    monkeypatch.setattr(_native, "isas", lambda: isas)
    program = low(graph)
    assert set(stored(program)) == {"float32"}
    np.testing.assert_array_equal(program.run(feed)["y"], high)


def test_normal_means_high() -> None:
    graph, feed = two_convolutions()
    high = CpuProgram(graph, Options()).run(feed)["y"]
    np.testing.assert_array_equal(CpuProgram(graph, Options(1, "normal")).run(feed)["y"], high)


def test_threads_do_not_change_the_result() -> None:
    graph, feed = two_convolutions(40)
    one = low(graph).run(feed)["y"]
    np.testing.assert_array_equal(low(graph, 3).run(feed)["y"], one)


def test_a_detector_is_off_by_a_fraction_of_a_cell() -> None:
    random = np.random.default_rng(0)
    inputs = {"image": random.uniform(0, 255, (1, 96, 160, 3)).astype(np.float32)}
    expected = engine.load(MODEL).run(inputs)
    got = engine.load(MODEL, precision="low").run(inputs)
    for name, value in expected.items():
        # Scores are of 0 to 1, boxes and points are in cells of the grid.
        assert np.abs(got[name] - value).max() <= (0.01 if "score" in name else 0.1), name


def between_convolutions(nodes: list[Node], channels: int) -> tuple[Graph, dict[str, Array]]:
    """A convolution to "a", what makes "b" of it, with `channels`, and one of that."""
    rng = np.random.default_rng(2)
    dims = (1, 12, 8, 16)
    weights: dict[str, Array] = {
        "w": rng.normal(size=(32, 12, 1, 1)).astype(np.float32),
        "v": rng.normal(size=(8, channels, 1, 1)).astype(np.float32) / 8,
        "t": rng.normal(size=(32, 8, 2, 2)).astype(np.float32),
        "sizes": np.array([16, 16], np.int64),
        **{name: np.array([k], np.int64) for k, name in enumerate(("zero", "one", "two"))},
    }
    read = {name for node in nodes for name in node.inputs} | {"w", "v"}
    constants = {name: value for name, value in weights.items() if name in read}
    first, last = Node("conv", ("x", "w"), ("a",)), Node("conv", ("b", "v"), ("y",))
    graph = Graph(
        {"x": Type("float32", dims)}, {"y": Type("float32", ())}, (first, *nodes, last), constants
    )
    graph = Graph(graph.inputs, {"y": infer_types(graph)["y"]}, graph.nodes, constants)
    return graph, {"x": rng.normal(size=dims).astype(np.float32)}


POOLING = {"kernel_shape": (2, 2), "strides": (2, 2)}
MOVES: dict[str, tuple[list[Node], int]] = {
    "concat": ([Node("concat", ("a", "a"), ("b",), {"axis": 1})], 64),
    "interleave": (
        [Node("interleave", ("a", "a"), ("b",), {"axis": 1, "first": 0, "count": 32})],
        64,
    ),
    "split": (
        [
            Node("split", ("a", "sizes"), ("c", "d"), {"axis": 1}),
            Node("concat", ("d", "c"), ("b",), {"axis": 1}),
        ],
        32,
    ),
    "slice": ([Node("slice", ("a", "zero", "two", "one"), ("b",))], 2),
    "reshape": (
        [
            Node("transpose", ("a",), ("c",), {"perm": (0, 3, 2, 1)}),
            Node("transpose", ("c",), ("b",), {"perm": (0, 3, 2, 1)}),
        ],
        32,
    ),
    "depth_to_space": ([Node("depth_to_space", ("a",), ("b",), {"blocksize": 2})], 8),
    "max_pool": ([Node("max_pool", ("a",), ("b",), POOLING)], 32),
    "average_pool": ([Node("average_pool", ("a",), ("b",), POOLING)], 32),
    "max_unpooling_2d": (
        [
            Node("max_pooling_with_argmax_2d", ("a",), ("c", "places"), POOLING),
            Node("max_unpooling_2d", ("c", "places"), ("b",), POOLING),
        ],
        32,
    ),
    "conv_transpose": ([Node("conv_transpose", ("a", "t"), ("b",), {"strides": (2, 2)})], 8),
}


@needs_narrow
@pytest.mark.parametrize("name", MOVES)
def test_what_is_moved_between_convolutions_is_narrow(name: str) -> None:
    graph, feed = between_convolutions(*MOVES[name])
    program = low(graph)
    steps = [step for step in program.plan.steps if step.kernel != "fill"]
    first, last = (i for i, step in enumerate(steps) if step.kernel == "conv")
    between = {i for step in steps[first + 1 : last] for i in step.outputs.values()}
    between |= {next(iter(step.inputs.values())) for step in steps[first + 1 : last]}
    between |= {steps[first].outputs["y"], steps[last].inputs["image"]}
    assert {program.plan.tensors[i].dtype for i in between} == {NARROW}
    expected = BACKENDS["reference"].compile(graph).run(feed)["y"]
    got = program.run(feed)["y"]
    off = np.abs(got - expected)
    # Where two of a window round to the same number, another place may be the first.
    assert np.quantile(off, 0.9 if name == "max_unpooling_2d" else 1) <= 0.02 * np.ptp(expected)
    np.testing.assert_array_equal(low(graph, 3).run(feed)["y"], got)


@pytest.fixture
def _no_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans as on CPUs without AMX: with its tiles bfloat16 is faster wherever tests look."""
    ask = _native.candidates

    def priced(tensors: Any, steps: Any, isa: str, constants: Any) -> Any:
        return ask(tensors, steps, "avx512bf16", constants)

    monkeypatch.setattr(_native, "candidates", priced)


def large_windows() -> tuple[Graph, dict[str, Array]]:
    """A ResNet's head: Winograd's way is far cheaper, and is there for float32 alone."""
    rng = np.random.default_rng(4)
    pads: dict[str, Attr] = {"strides": (2, 2), "pads": (1, 1, 1, 1)}
    nodes = (
        Node("conv", ("x", "w"), ("a",), {"strides": (2, 2), "pads": (3, 3, 3, 3)}),
        Node("max_pool", ("a",), ("b",), {"kernel_shape": (3, 3), **pads}),
        Node("conv", ("b", "v"), ("y",), {"pads": (1, 1, 1, 1)}),
    )
    weights: dict[str, Array] = {
        "w": (rng.normal(size=(64, 3, 7, 7)) / 12).astype(np.float32),
        "v": (rng.normal(size=(64, 64, 3, 3)) / 24).astype(np.float32),
    }
    type = Type("float32", (1, 3, 224, 224))
    graph = Graph({"x": type}, {"y": Type("float32", (1, 64, 56, 56))}, nodes, weights)
    return graph, {"x": rng.normal(size=type.dims).astype(np.float32)}


@pytest.mark.skipif(NARROW != "bfloat16", reason="prices are of bfloat16")
@pytest.mark.usefixtures("_no_tiles")
def test_what_is_faster_in_float32_stays_so_and_is_cast_when_it_is_small() -> None:
    graph, feed = large_windows()
    program = low(graph)
    steps = [step for step in program.plan.steps if step.kernel in ("conv", "pool")]
    assert [step.attrs.get("precision") for step in steps] == ["normal", None, "bfloat16"]
    pooled = program.plan.tensors[steps[1].outputs["y"]]
    assert program.plan.tensors[steps[0].outputs["y"]].dtype == pooled.dtype == "float32"
    expected = BACKENDS["reference"].compile(graph).run(feed)["y"]
    got = program.run(feed)["y"]
    assert np.abs(got - expected).max() <= 0.02 * np.ptp(expected)


@pytest.mark.skipif("amx_bf16" not in _native.isas(), reason="this CPU has no AMX")
def test_large_windows_are_of_tiles_where_there_are_some() -> None:
    graph, feed = large_windows()
    (summary,) = plan_summaries(graph, Options(1, "low"))
    assert [step.algorithm for step in summary.steps if step.algorithm] == ["amx_rows"] * 2
    got = low(graph).run(feed)["y"]
    expected = BACKENDS["reference"].compile(graph).run(feed)["y"]
    assert np.abs(got - expected).max() <= 0.02 * np.ptp(expected)
    np.testing.assert_array_equal(low(graph, 3).run(feed)["y"], got)


@pytest.mark.skipif(NARROW != "bfloat16", reason="prices are of bfloat16")
@pytest.mark.usefixtures("_no_tiles")
@pytest.mark.parametrize("zeros", [0.0, 0.97])
def test_many_zeros_are_skipped_rather_than_multiplied_in_bfloat16(zeros: float) -> None:
    rng = np.random.default_rng(5)
    w = rng.normal(size=(256, 256, 1, 1)).astype(np.float32)
    w[rng.uniform(size=w.shape) < zeros] = 0
    type = Type("float32", (1, 256, 28, 28))
    graph = Graph({"x": type}, {"y": type}, (Node("conv", ("x", "w"), ("y",)),), {"w": w})
    (step,) = (step for step in low(graph).plan.steps if step.kernel == "conv")
    assert step.attrs.get("precision") == ("normal" if zeros else "bfloat16")


@needs_narrow
def test_what_no_convolution_reads_stays_float32() -> None:
    rng = np.random.default_rng(3)
    w = rng.normal(size=(8, 8, 1, 1)).astype(np.float32)
    nodes = (
        Node("conv", ("x", "w"), ("a",)),
        Node("concat", ("a", "a"), ("b",), {"axis": 1}),
        Node("sigmoid", ("b",), ("y",)),
    )
    type, twice = Type("float32", (1, 8, 5, 5)), Type("float32", (1, 16, 5, 5))
    assert NARROW not in stored(low(Graph({"x": type}, {"y": twice}, nodes, {"w": w})))
