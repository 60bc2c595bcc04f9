"""Multiply-accumulates against numbers that are published, or counted by hand."""

import numpy as np
import pytest

from palmkit.engine.ir import Array, Attr, Graph, Node, Type
from palmkit.engine.macs import macs
from palmkit.engine.ops import infer_types
from palmkit.engine.summary import most_live_bytes, summarise


class Net:
    """A graph in the making; weights are all zero and take no memory."""

    def __init__(self, *shape: int) -> None:
        self.inputs = {"x": Type("float32", shape)}
        self.constants: dict[str, Array] = {}
        self.nodes: list[Node] = []
        self.last, self.channels = "x", shape[1]

    def constant(self, *shape: int) -> str:
        name = f"w{len(self.constants)}"
        self.constants[name] = np.broadcast_to(np.float32(0), shape)
        return name

    def add(self, op: str, *inputs: str, **attrs: Attr) -> str:
        self.last = f"v{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, (self.last,), attrs))
        return self.last

    def conv(self, x: str, outputs: int, kernel: int, stride: int = 1, group: int = 1) -> str:
        types = infer_types(self.graph(x))
        weight = self.constant(outputs, types[x].dims[1] // group, kernel, kernel)
        pad = kernel // 2
        strides, pads = (stride, stride), (pad, pad, pad, pad)
        bias = self.constant(outputs)
        return self.add("conv", x, weight, bias, strides=strides, pads=pads, group=group)

    def graph(self, *outputs: str) -> Graph:
        names = dict.fromkeys(outputs, Type("float32", ()))
        return Graph(self.inputs, names, tuple(self.nodes), self.constants)


def resnet18() -> Graph:
    """He, Zhang, Ren, Sun, Deep Residual Learning (2015), table 1."""
    net = Net(1, 3, 224, 224)
    x = net.conv("x", 64, 7, 2)
    window: dict[str, Attr] = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
    x = net.add("max_pool", x, **window)
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = net.conv(net.conv(x, channels, 3, stride), channels, 3)
            short = net.conv(x, channels, 1, stride) if stride == 2 else x
            x = net.add("add", y, short)
    flat = net.add("flatten", net.add("global_average_pool", x))
    return net.graph(net.add("gemm", flat, net.constant(512, 1000), net.constant(1000)))


def mobilenet_v2() -> Graph:
    """Sandler et al., MobileNetV2 (2018), table 2."""
    net = Net(1, 3, 224, 224)
    x, channels = net.conv("x", 32, 3, 2), 32
    table = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1)]
    for expansion, outputs, repeats, first in [*table, (6, 160, 3, 2), (6, 320, 1, 1)]:
        for block in range(repeats):
            wide = channels * expansion
            y = net.conv(x, wide, 1) if expansion > 1 else x
            y = net.conv(y, wide, 3, first if not block else 1, group=wide)
            x, channels = net.conv(y, outputs, 1), outputs
    flat = net.add("flatten", net.add("global_average_pool", net.conv(x, 1280, 1)))
    return net.graph(net.add("gemm", flat, net.constant(1280, 1000), net.constant(1000)))


def test_known_networks() -> None:
    """1.814 G and 300.8 M: what torchvision's cards and fvcore's counter give."""
    resnet = summarise(resnet18())
    assert resnet.macs == 1_814_073_344 and resnet.uncounted == 0
    # The published 11,689,512 count 4800 scales of batch normalization, folded here.
    assert resnet.parameters == 11_684_712
    mobilenet = summarise(mobilenet_v2())
    assert mobilenet.macs == 300_774_272
    assert mobilenet.parameters == 3_487_816


def count(node: Node, *shapes: tuple[int, ...]) -> int | None:
    inputs = {name: Type("float32", s) for name, s in zip(node.inputs, shapes, strict=True)}
    graph = Graph(inputs, dict.fromkeys(node.outputs, Type("float32", ())), (node,))
    return macs(node, infer_types(graph))


@pytest.mark.parametrize(
    ("node", "shapes", "expected"),
    [
        # Each of 2 x 5 x 3 inputs goes to 3 outputs over 2 x 2 places, twice for the batch.
        (
            Node("conv_transpose", ("x", "w"), ("y",), {"strides": (2, 2)}),
            [(2, 5, 3, 1), (5, 3, 2, 2)],
            2 * 5 * 3 * 3 * 4,
        ),
        (Node("conv", ("x", "w"), ("y",), {"group": 4}), [(1, 8, 5, 5), (12, 2, 3, 3)], 1944),
        (Node("gemm", ("x", "w"), ("y",), {"transB": 1}), [(2, 3), (4, 3)], 24),
        (Node("gemm", ("x", "w"), ("y",), {"transA": 1}), [(3, 2), (3, 4)], 24),
        (Node("matmul", ("x", "w"), ("y",)), [(7, 2, 3), (3, 5)], 7 * 2 * 3 * 5),
        (Node("matmul", ("x", "w"), ("y",)), [(6, 1, 2, 3), (4, 3, 5)], 6 * 4 * 2 * 3 * 5),
        (Node("add", ("x", "w"), ("y",)), [(7, 2, 3), (3,)], 0),
        # 4 steps, batch 2, 3 gates' rows of 5 hidden units over 3 inputs and 5 states.
        (
            Node("gru", ("x", "w", "r"), ("y",), {"hidden_size": 5}),
            [(4, 2, 3), (1, 15, 3), (1, 15, 5)],
            4 * 2 * 15 * (3 + 5),
        ),
        (
            Node("lstm", ("x", "w", "r"), ("y",), {"hidden_size": 5, "direction": "bidirectional"}),
            [(4, 2, 3), (2, 20, 3), (2, 20, 5)],
            2 * 4 * 2 * 20 * (3 + 5),
        ),
        (
            Node("einsum", ("x", "w"), ("y",), {"equation": "bij,bjk->bik"}),
            [(2, 3, 4), (2, 4, 5)],
            2 * 3 * 4 * 5,
        ),
        (
            Node("einsum", ("x", "w"), ("y",), {"equation": "...ij,jk"}),
            [(7, 2, 3, 4), (4, 5)],
            7 * 2 * 3 * 4 * 5,
        ),
    ],
)
def test_by_hand(node: Node, shapes: list[tuple[int, ...]], expected: int) -> None:
    assert count(node, *shapes) == expected


def test_what_only_a_run_can_tell() -> None:
    node = Node("matmul", ("x", "w"), ("y",))
    assert macs(node, {"x": Type("float32", ("n", 3)), "w": Type("float32", (3, 5))}) is None
    body = Graph({}, {}, ())
    branches = Node("if", ("c",), ("y",), {"then_branch": body, "else_branch": body})
    assert macs(branches, {}) is None


def test_open_sizes_give_no_number_but_what_is_stored() -> None:
    graph = Graph(
        {"x": Type("float32", ("n", 4))},
        {"y": Type("float32", ("n", 5))},
        (Node("matmul", ("x", "w"), ("y",)),),
        {"w": np.zeros((4, 5), np.float32)},
    )
    found = summarise(graph)
    assert (found.macs, found.activation_bytes) == (None, None)
    assert (found.parameters, found.weights, found.ops) == (20, {"float32": 80}, {"matmul": 1})


def test_memory_is_what_lives_at_once() -> None:
    nodes = (
        Node("exp", ("x",), ("a",)),
        Node("neg", ("a",), ("b",)),
        Node("add", ("a", "b"), ("c",)),
        Node("exp", ("c",), ("y",)),
    )
    type = Type("float32", (10,))
    # a, b and c are there when c is written.
    assert most_live_bytes(Graph({"x": type}, {"y": type}, nodes)) == 3 * 40
