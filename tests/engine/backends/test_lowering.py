"""What the lowering makes of nodes that are more, or less, than one kernel."""

from typing import Any

import numpy as np
import pytest

from palmkit.engine.backends import BACKENDS
from palmkit.engine.backends.cpu import lower
from palmkit.engine.backends.options import Options
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array, Attr, Graph, Node, Type
from tests.engine.refusals import supports

pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")

SCALE, ZERO = np.array(0.1, np.float32), np.array(3, np.uint8)


def graph_of(nodes: list[Node], types: dict[str, Type], **constants: Array) -> Graph:
    outputs = {name: types[name] for name in types if any(name in n.outputs for n in nodes)}
    inputs = {name: type for name, type in types.items() if name not in outputs}
    return Graph(inputs, outputs, tuple(nodes), constants)


def kernels(graph: Graph) -> list[str]:
    return [step.kernel for step in lower(graph)[0].steps]


def assert_agrees(graph: Graph, threads: int = 1) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    feed: dict[str, Array] = {}
    for name, type in graph.inputs.items():
        values = rng.normal(size=type.dims) * (1 if "float" in type.dtype else 4)
        feed[name] = np.asarray(values).astype(type.dtype)
    got = BACKENDS["cpu"].compile(graph, Options(threads)).run(feed)
    wanted = BACKENDS["reference"].compile(graph).run(feed)
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6)
    return got


def quantized(**more: Type) -> Graph:
    x = Type("float32", (2, 3, 4))
    nodes = [
        Node("quantize_linear", ("x", "s", "z"), ("q",)),
        Node("dequantize_linear", ("q", "s", "z"), ("y",)),
    ]
    return graph_of(nodes, {"x": x, "y": x, **more}, s=SCALE, z=ZERO)


def test_rounding_that_is_taken_back_is_one_step() -> None:
    graph = quantized()
    assert kernels(graph) == ["quantize"]
    values = assert_agrees(graph)["y"] / SCALE
    np.testing.assert_allclose(values, np.rint(values), atol=1e-5)


def test_rounding_that_is_read_stays() -> None:
    graph = quantized(q=Type("uint8", (2, 3, 4)))
    assert kernels(graph) == ["quantize", "quantize"]
    assert_agrees(graph)


def test_rounding_by_other_scales_stays() -> None:
    x = Type("float32", (2, 3, 4))
    nodes = [
        Node("quantize_linear", ("x", "s", "z"), ("q",)),
        Node("dequantize_linear", ("q", "t", "z"), ("y",)),
    ]
    graph = graph_of(nodes, {"x": x, "y": x}, s=SCALE, t=SCALE * 2, z=ZERO)
    assert kernels(graph) == ["quantize", "quantize"]
    assert_agrees(graph)


def test_scatter_into_what_it_reads() -> None:
    """The updates are the data: it cannot be overwritten while it is read."""
    x = Type("float32", (4, 3))
    index = np.array([[2], [0], [3], [1]])
    nodes = [
        Node("neg", ("x",), ("v",)),
        Node("scatter_nd", ("v", "i", "v"), ("y",)),
    ]
    assert_agrees(graph_of(nodes, {"x": x, "y": x}, i=index))


@pytest.mark.parametrize("dtype", ["uint16", "uint64"])
def test_what_has_no_kernel_is_refused(dtype: str) -> None:
    x = Type(dtype, (4,))
    graph = graph_of([Node("add", ("x", "x"), ("y",))], {"x": x, "y": x})
    with pytest.raises(UnsupportedError, match=f"y \\(add\\): {dtype} is not supported"):
        BACKENDS["cpu"].compile(graph)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("groups", [0, 1, 4, 24])
def test_channels_are_normalized_in_either_order(
    groups: int, channels_last: bool, threads: int
) -> None:
    """After a convolution channels lie last; groups 0: of instances."""
    rng = np.random.default_rng(3)
    x, hidden = Type("float32", (2, 24, 9, 7)), Type("float32", (2, 24, 9, 7))
    before = Node("conv", ("x", "w"), ("v",)) if channels_last else Node("identity", ("x",), ("v",))
    norm = (
        Node("group_normalization", ("v", "s", "b"), ("y",), {"num_groups": groups})
        if groups
        else Node("instance_normalization", ("v", "s", "b"), ("y",))
    )
    constants = {
        "w": rng.normal(size=(24, 24, 1, 1)).astype(np.float32),
        "s": rng.normal(size=24).astype(np.float32),
        "b": rng.normal(size=24).astype(np.float32),
    }
    graph = Graph({"x": x}, {"y": hidden}, (before, norm), constants)
    assert ("binary" in kernels(graph)) is not channels_last
    assert_agrees(graph, threads)


EMPTY: list[tuple[Node, tuple[int, ...], tuple[int, ...]]] = [
    (Node("pad", ("v", "pads"), ("z",), {"mode": "edge"}), (0, 3), (0, 5)),
    (Node("slice", ("v", "starts", "ends"), ("z",)), (4, 3), (0, 3)),
    (Node("tile", ("v", "repeats"), ("z",)), (2, 3), (0, 3)),
    (Node("concat", ("v", "v"), ("z",), {"axis": 0}), (0, 3), (0, 3)),
    (Node("matmul", ("v", "nothing"), ("z",)), (2, 3), (2, 0)),
]


@pytest.mark.parametrize(("node", "before", "after"), EMPTY, ids=lambda value: str(value))
def test_values_of_no_elements(node: Node, before: tuple[int, ...], after: tuple[int, ...]) -> None:
    """Between two steps that write and read them."""
    nodes = (Node("relu", ("x",), ("v",)), node, Node("relu", ("z",), ("y",)))
    constants = {
        "pads": np.array([0, 1, 0, 1]),
        "starts": np.array([2]),
        "ends": np.array([2]),
        "repeats": np.array([0, 1]),
        "nothing": np.zeros((3, 0), np.float32),
    }
    graph = Graph(
        {"x": Type("float32", before)},
        {"y": Type("float32", after)},
        nodes,
        {name: value for name, value in constants.items() if name in node.inputs},
    )
    assert_agrees(graph)


def test_half_precision_is_computed_in_single() -> None:
    """The sum of 4000 halves of 0.1 is beyond what half precision can count to in such steps."""
    x, y = Type("float16", (1, 4000)), Type("float16", (1, 1))
    axes = np.array([1])
    nodes = [Node("reduce_sum", ("x", "a"), ("y",))]
    graph = graph_of(nodes, {"x": x, "y": y}, a=axes)
    ones = np.full(x.dims, 0.1, np.float16)
    got = BACKENDS["cpu"].compile(graph).run({"x": ones})["y"]
    assert got.dtype == np.float16
    assert got.item() == np.float16(ones.astype(np.float64).sum())


def test_a_cast_to_half_precision_rounds() -> None:
    x = Type("float32", (7,))
    nodes = [
        Node("cast", ("x",), ("h",), {"to": "float16"}),
        Node("cast", ("h",), ("y",), {"to": "float32"}),
    ]
    graph = graph_of(nodes, {"x": x, "h": Type("float16", (7,)), "y": x})
    values = np.linspace(-1, 1, 7, dtype=np.float32) / 3
    got = BACKENDS["cpu"].compile(graph).run({"x": values})
    np.testing.assert_array_equal(got["h"], values.astype(np.float16))
    np.testing.assert_array_equal(got["y"], values.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize(("batch", "hidden"), [(1, 300), (3, 40)])
def test_recurrent_layers_share_their_work(threads: int, batch: int, hidden: int) -> None:
    """Units of a step where there is one sequence, sequences where there are more."""
    rng = np.random.default_rng(1)
    steps, inputs = 5, 20
    weights = [
        (rng.normal(size=(1, 4 * hidden, n)) * n**-0.5).astype(np.float32) for n in (inputs, hidden)
    ]
    graph = graph_of(
        [Node("lstm", ("x", "w", "r"), ("y", "h", "c"))],
        {
            "x": Type("float32", (steps, batch, inputs)),
            "y": Type("float32", (steps, 1, batch, hidden)),
            "h": Type("float32", (1, batch, hidden)),
            "c": Type("float32", (1, batch, hidden)),
        },
        w=weights[0],
        r=weights[1],
    )
    assert_agrees(graph, threads)


LAYERS: list[tuple[str, int, dict[str, Attr]]] = [
    ("lstm", 4, {}),
    ("gru", 3, {"linear_before_reset": 1}),
    ("gru", 3, {}),
    ("rnn", 1, {"activations": ("Relu", "Relu")}),
]


@pytest.mark.parametrize(("op", "gates", "attrs"), LAYERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_layout_is_an_order(backend: str, op: str, gates: int, attrs: dict[str, Any]) -> None:
    """ONNX Runtime has no layout 1; it is layout 0 with the first axes swapped."""
    if not supports(backend, op):
        pytest.skip(f"backend {backend} has no {op}")
    rng = np.random.default_rng(2)
    x = rng.normal(size=(5, 2, 3)).astype(np.float32)
    state = rng.normal(size=(2, 2, 4)).astype(np.float32)
    weights = {
        "w": rng.normal(size=(2, gates * 4, 3)).astype(np.float32),
        "r": rng.normal(size=(2, gates * 4, 4)).astype(np.float32),
    }
    results: list[dict[str, Array]] = []
    for layout in (0, 1):
        swap = (1, 0, 2) if layout else (0, 1, 2)
        fed = {"x": x.transpose(swap), "h0": state.transpose(swap)}
        y = (2, 5, 2, 4) if layout else (5, 2, 2, 4)
        graph = graph_of(
            [
                Node(
                    op,
                    ("x", "w", "r", "", "", "h0"),
                    ("y", "h"),
                    {**attrs, "direction": "bidirectional", "layout": layout},
                )
            ],
            {
                **{name: Type.of(value) for name, value in fed.items()},
                "y": Type("float32", y),
                "h": Type("float32", (2, 2, 4)),
            },
            **weights,
        )
        results.append(BACKENDS[backend].compile(graph).run(fed))
    np.testing.assert_array_equal(results[1]["y"].transpose(1, 2, 0, 3), results[0]["y"])
    np.testing.assert_array_equal(results[1]["h"].transpose(1, 0, 2), results[0]["h"])


def test_split_with_a_part_left_out() -> None:
    node = Node("split", ("x",), ("", "y", "", "z"), {"axis": 1, "num_outputs": 4})
    types = {"x": Type("float32", (2, 7, 3)), "y": Type("float32", (2, 2, 3))}
    assert_agrees(graph_of([node], {**types, "z": Type("float32", (2, 1, 3))}))


def test_space_is_joined_without_a_copy() -> None:
    nodes = [
        Node("conv", ("x", "w"), ("c",)),
        Node("reshape", ("c", "shape"), ("r",)),
        Node("transpose", ("r",), ("y",), {"perm": (0, 2, 1)}),
    ]
    types = {"x": Type("float32", (1, 4, 5, 5)), "y": Type("float32", (1, 9, 4))}
    weights = np.random.default_rng(0).normal(size=(4, 4, 3, 3)).astype(np.float32)
    shape = np.array((1, 4, 9), np.int64)
    graph = graph_of(nodes, types, w=weights, shape=shape)
    assert kernels(graph) == ["copy", "conv"]
    assert_agrees(graph)


def test_a_sum_lies_as_its_reader_wants_it() -> None:
    turned, rows = Type("float32", (1, 6, 5)), Type("float32", (1, 5, 6))
    nodes = [
        Node("transpose", ("x",), ("t",), {"perm": (0, 2, 1)}),
        Node("add", ("t", "z"), ("s",)),
        Node("layer_normalization", ("s", "scale"), ("n",)),
        Node("add", ("s", "n"), ("y",)),
    ]
    types = {"x": turned, "z": rows, "y": rows}
    graph = graph_of(nodes, types, scale=np.ones(6, np.float32))
    assert kernels(graph).count("copy") == 1
    assert_agrees(graph)
