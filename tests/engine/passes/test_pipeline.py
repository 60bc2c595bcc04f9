"""The passes together: any graph keeps its numbers, and nothing is left to do."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from palmkit.engine.errors import PalmError
from palmkit.engine.ir import Array, Attr, Dim, Graph, Node, Type, check
from palmkit.engine.ops import infer_types
from palmkit.engine.passes import PIPELINE, optimise

SHAPE = (1, 4, 6, 6)


class Sketch:
    """A random graph of pictures, most of them [1, c, h, w] or [1, h, w, c]."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.types = {name: Type("float32", SHAPE) for name in ("x", "z")}

    def pick(self, rank: int = 4) -> str:
        names = [name for name, type in self.types.items() if len(type.shape) == rank]
        return str(self.random.choice(names[-6:]))

    def shape(self, name: str) -> tuple[int, ...]:
        return self.types[name].dims

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high))

    def weights(self, *shape: int) -> str:
        return self.constant(self.random.normal(size=shape, scale=0.5).astype(np.float32))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def constant(self, value: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attrs: Attr) -> str:
        names = tuple(f"v{len(self.nodes)}_{i}" for i in range(outputs))
        node = Node(op, inputs, names, attrs)
        inferred = infer_types(Graph(self.types, {}, (node,), self.constants))
        if any(inferred[name].elements > 4000 or not inferred[name].elements for name in names):
            return inputs[0]
        self.nodes.append(node)
        self.types.update({name: inferred[name] for name in names})
        return names[0]

    def convolution(self) -> None:
        x = self.pick()
        c, h, w = self.shape(x)[1:]
        if min(h, w) < 2:
            return
        k, m, stride = self.number(1, 3), self.number(1, 6), self.number(1, 3)
        group = self.random.choice([1, c])
        weights = self.weights(m * group, c // group, k, k)
        bias = [self.weights(m * group)] if self.random.random() < 0.5 else []
        paddings: list[dict[str, Any]] = [{}, {"auto_pad": "SAME_UPPER"}, {"pads": (1, 0, 0, 1)}]
        padding = paddings[self.number(0, 3)]
        strides = (stride, stride)
        self.node("conv", x, weights, *bias, strides=strides, group=int(group), **padding)

    def same_size_convolution(self) -> None:
        x = self.pick()
        c = self.shape(x)[1]
        y = self.node("conv", x, self.weights(c, c, 3, 3), pads=(1, 1, 1, 1))
        if self.random.random() < 0.7:
            self.node("add", *self.random.permutation([x, y]).tolist())

    def activation(self) -> None:
        op = self.random.choice(["relu", "sigmoid", "tanh", "hard_swish", "leaky_relu", "neg"])
        self.node(str(op), self.pick())

    def prelu(self) -> None:
        x = self.pick()
        self.node("prelu", x, self.weights(self.shape(x)[1], 1, 1))

    def clip(self) -> None:
        bounds = [self.constant(np.array(n, np.float32)) for n in (0, 6)]
        self.node("clip", self.pick(), *bounds)

    def written_out_swish(self) -> None:
        x = self.pick()
        three, zero, six = (self.constant(np.array(n, np.float32)) for n in (3, 0, 6))
        gate = self.node("clip", self.node("add", x, three), zero, six)
        self.node("mul", x, self.node("div", gate, six))

    def by_channel(self) -> None:
        x = self.pick()
        op = str(self.random.choice(["add", "sub", "mul"]))
        axis = self.number(1, 4)
        shape = [1, 1, 1, 1]
        shape[axis] = self.shape(x)[axis]
        inputs = [x, self.weights(*shape)]
        self.node(op, *(inputs if self.random.random() < 0.7 else inputs[::-1]))

    def batch_normalization(self) -> None:
        x = self.pick()
        parts = [self.weights(self.shape(x)[1]) for _ in range(3)]
        variance = self.constant(self.random.random(self.shape(x)[1]).astype(np.float32) + 0.5)
        self.node("batch_normalization", x, *parts, variance)

    def pair(self) -> None:
        x = self.pick()
        same = [name for name, type in self.types.items() if type == self.types[x]]
        op = str(self.random.choice(["add", "mul", "max", "concat"]))
        attrs = {"axis": self.number(-4, 4)} if op == "concat" else {}
        self.node(op, x, str(self.random.choice(same)), **attrs)

    def transpose(self) -> None:
        perms = [(0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2), (3, 2, 1, 0)]
        self.node("transpose", self.pick(), perm=perms[self.number(0, 4)])

    def channels_last(self) -> None:
        """As a converted TFLite model does it."""
        x = self.node("transpose", self.pick(), perm=(0, 2, 3, 1))
        x = self.node(str(self.random.choice(["relu", "exp", "abs"])), x)
        if self.random.random() < 0.5:
            x = self.node("pad", x, self.ints(0, 1, 0, 0, 0, 0, 1, self.number(0, 2)))
        self.node("transpose", x, perm=(0, 3, 1, 2))

    def pad(self) -> None:
        amounts = [0, self.number(-1, 2), *(self.number(0, 2) for _ in range(2))]
        self.node("pad", self.pick(), self.ints(*amounts, 0, 0, 1, self.number(0, 3)))

    def pool(self) -> None:
        x = self.pick()
        if min(self.shape(x)[2:]) > 1:
            op = str(self.random.choice(["max_pool", "average_pool"]))
            kernel = (2, 2) if self.random.random() < 0.7 else self.shape(x)[2:]
            self.node(op, x, kernel_shape=kernel, strides=(2, 1))

    def reduce(self) -> None:
        axes = self.ints(*[(2, 3), (1, 2), (-1,), (0, 2)][self.number(0, 4)])
        x = self.node("reduce_mean", self.pick(), axes, keepdims=self.number(0, 2))
        if len(self.shape(x)) == 2:
            m = self.node("matmul", x, self.weights(self.shape(x)[1], 3))
            self.node("add", m, self.weights(3))

    def slice(self) -> None:
        self.node("slice", self.pick(), self.ints(0, 0), self.ints(3, 9), self.ints(3, 1))

    def split(self) -> None:
        x, axis = self.pick(), self.number(0, 4)
        if self.shape(x)[axis] > 1:
            self.node("split", x, outputs=2, axis=axis, num_outputs=2)

    def softmax(self) -> None:
        self.node("softmax", self.pick(), axis=self.number(-4, 4))

    def reshape(self) -> None:
        x = self.pick()
        n, c, h, w = self.shape(x)
        flat = self.node("reshape", x, self.ints(n, -1, c))
        self.node("reshape", flat, self.ints(n, c, h, w))

    def computed_reshape(self) -> None:
        x = self.pick()
        batch = self.node("shape", x, end=1)
        self.node("reshape", x, self.node("concat", batch, self.ints(-1, 1, 1), axis=0))

    def squeeze(self) -> None:
        x = self.node("unsqueeze", self.pick(), self.ints(0))
        self.node("squeeze", x, self.ints(0))

    def resize(self) -> None:
        x = self.pick()
        sizes = self.ints(*self.shape(x)[:2], self.number(1, 9), self.number(1, 9))
        self.node("resize", x, "", "", sizes, mode="linear")

    def graph(self, steps: int) -> Graph:
        kinds: list[Callable[[], None]] = [
            getattr(self, name)
            for name, member in vars(Sketch).items()
            if name
            not in ("pick", "number", "weights", "ints", "constant", "node", "graph", "shape")
            and not name.startswith("_")
            and callable(member)
        ]
        for _ in range(steps):
            kinds[self.number(0, len(kinds))]()
        inputs = {name: Type("float32", SHAPE) for name in ("x", "z")}
        written = [name for node in self.nodes for name in node.outputs]
        ends = {*written[-1:], *self.random.choice([*written, "x"], 2).tolist()}
        graph = Graph(inputs, {}, tuple(self.nodes), self.constants)
        types = infer_types(graph)
        outputs = {name: Type(types[name].dtype, types[name].shape) for name in sorted(ends)}
        return replace(graph, outputs=outputs)


@pytest.mark.parametrize("seed", range(150))
def test_numbers_stay(same_numbers: Callable[..., None], seed: int) -> None:
    graph = Sketch(seed).graph(4 + seed % 25)
    check(graph)
    after = optimise(graph)
    assert after.inputs == graph.inputs
    assert after.outputs == graph.outputs
    types = infer_types(after)
    assert {n: Type(types[n].dtype, types[n].shape) for n in after.outputs} == graph.outputs
    same_numbers(graph, after, seed)


@pytest.mark.parametrize("seed", range(20))
def test_each_pass_alone_keeps_the_numbers(same_numbers: Callable[..., None], seed: int) -> None:
    graph = Sketch(1000 + seed).graph(20)
    for each in PIPELINE:
        same_numbers(graph, each(graph), seed)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_left_to_do(seed: int) -> None:
    once = optimise(Sketch(2000 + seed).graph(20))
    assert optimise(once).nodes == once.nodes


@pytest.mark.parametrize("seed", range(30))
def test_unknown_sizes_first_and_known_ones_later(
    same_numbers: Callable[..., None], seed: int
) -> None:
    graph = Sketch(3000 + seed).graph(12)
    unknown = {name: Type(type.dtype, ("n", 4, "h", 6)) for name, type in graph.inputs.items()}
    after = optimise(replace(graph, inputs=unknown))
    assert after.inputs == unknown
    assert list(after.outputs) == list(graph.outputs)
    known = replace(after, inputs=graph.inputs)
    same_numbers(graph, known, seed)
    same_numbers(graph, optimise(known), seed)


def test_a_constant_may_be_an_output(becomes: Callable[..., Graph]) -> None:
    after = becomes(
        optimise,
        """
        x = input(2, 3)
        dims = shape(x)
        y = cast(dims, to="float32")
        z = relu(x)
        output(y, z)
        """,
        """
        y = identity(y/folded)
        z = relu(x)
        """,
    )
    assert optimise(after).nodes == after.nodes


@pytest.mark.parametrize(
    "node",
    [
        Node("pad", ("x",), ("y",)),
        Node("mul", ("x",), ("y",)),
        Node("prelu", ("x",), ("y",)),
        Node("conv", ("x",), ("y",)),
        Node("clip", ("x", "x", "x", "x"), ("y",)),
        Node("transpose", ("x",), ("y",), {"perm": (0, 9)}),
        Node("transpose", ("x",), ("y",), {"perm": "ab"}),
        Node("max_pool", ("x",), ("y",), {"kernel_shape": 3}),
        Node("conv", ("x", "x"), ("y",), {"auto_pad": "SAME", "pads": 1}),
        Node("no_such_op", ("x",), ("y",)),
        Node("relu", ("nothing",), ("y",)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dims", [(1, 3, 4, 4), (1, 3, "h", 4)])
def test_malformed_graphs_give_typed_errors(node: Node, dims: tuple[Dim, ...]) -> None:
    """Or, where sizes are not known yet, nothing at all."""
    after = Node("transpose", ("y",), ("z",), {"perm": (0, 2, 3, 1)})
    types = {"x": Type("float32", dims)}
    graph = Graph(types, {"z": Type("float32", dims)}, (node, after))
    if all(isinstance(dim, int) for dim in dims) or node.op == "no_such_op":
        with pytest.raises(PalmError):
            optimise(graph)
    else:
        with suppress(PalmError):
            optimise(graph)


def test_a_squeeze_and_excite_block(becomes: Callable[..., Graph]) -> None:
    becomes(
        optimise,
        """
        x = input(1, 8, 8, 3)
        w = random(6, 3, 3, 3)
        down = random(2, 6, 1, 1)
        up = random(6, 2, 1, 1)
        a = transpose(x, perm=(0, 3, 1, 2))
        b = conv(a, w, auto_pad="SAME_UPPER", strides=(2, 2))
        c = transpose(b, perm=(0, 2, 3, 1))
        d = hard_swish(c)
        e = transpose(d, perm=(0, 3, 1, 2))
        f = average_pool(e, kernel_shape=(4, 4), strides=(4, 4))
        g = conv(f, down)
        h = relu(g)
        i = conv(h, up)
        j = transpose(i, perm=(0, 2, 3, 1))
        k = sigmoid(j)
        y = mul(d, k)
        output(y)
        """,
        """
        a = transpose(x, perm=(0, 3, 1, 2))
        d/before = fused_conv(a, w, activation='hard_swish', pads=(0, 0, 1, 1), strides=(2, 2))
        f = global_average_pool(d/before)
        h = fused_conv(f, down, activation='clip', activation_params=(0.0, inf))
        k/before = fused_conv(h, up, activation='sigmoid')
        y/before = mul(d/before, k/before)
        y = transpose(y/before, perm=(0, 2, 3, 1))
        """,
    )
