"""Random graphs: ops of every family, and the structures that passes look for."""

from collections.abc import Callable, Collection
from dataclasses import replace
from math import prod
from typing import Any, TypeVar

import numpy as np

from palmkit.engine.ir import Array, Attr, Graph, Node, Type
from palmkit.engine.ops import infer_types

Choose = Callable[[int, int], int]

MOST_ELEMENTS = 3000
UNARY = (
    "relu", "sigmoid", "tanh", "hard_swish", "hard_sigmoid", "leaky_relu", "elu", "neg", "abs",
    "erf", "softplus", "identity",
)  # fmt: skip
STEPS: list[Callable[["Sketch"], None]] = []
Step = TypeVar("Step", bound=Callable[..., None])


def step(function: Step) -> Step:
    """One way for a sketch to grow."""
    STEPS.append(function)
    return function


class Sketch:
    """A graph that grows by random steps; every value is float64 of known shape.

    choose: gives a number of low..high, both included; all choices but those of the constants'
    values go through it.
    """

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.random = np.random.default_rng(choose(0, 9999))
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        batch = (1, 1, 1, 2, 0)[choose(0, 4)]
        shape = (batch, choose(1, 6), *(choose(1, 7) for _ in range(2)))
        self.inputs = {name: Type("float64", shape) for name in ("x", "z")}
        self.types = dict(self.inputs)

    def chance(self, percent: int) -> bool:
        return self.choose(0, 99) >= 100 - percent

    def one_of(self, *things: Any) -> Any:
        return things[self.choose(0, len(things) - 1)]

    def pick(self, rank: int = 4, least: int = 0) -> str:
        """One of the last values of this rank with at least `least` pixels to a side."""
        names = [
            name
            for name, type in self.types.items()
            if len(type.shape) == rank
            and type.dtype == "float64"
            and min(type.dims[2:], default=9) >= least
        ]
        return str(self.one_of(*names[-5:])) if names else ""

    def dims(self, name: str) -> tuple[int, ...]:
        return self.types[name].dims

    def weights(self, *shape: int, low: float = -1.0, high: float = 1.0) -> str:
        return self.constant(self.random.uniform(low, high, shape))

    def number(self, value: float, shape: tuple[int, ...] = ()) -> str:
        return self.constant(np.full(shape, value, np.float64))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def constant(self, value: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attrs: Attr) -> str:
        """Its first output; the first input again where the node would be too large."""
        names = tuple(f"v{len(self.nodes)}_{i}" for i in range(outputs))
        node = Node(op, inputs, names, attrs)
        inferred = infer_types(Graph(dict(self.types), {}, (node,), self.constants))
        if any(inferred[name].elements > MOST_ELEMENTS for name in names):
            return inputs[0]
        self.nodes.append(node)
        self.types.update({name: inferred[name] for name in names})
        return names[0]

    def conv(self, x: str, outputs: int, kernel: int = 1, **attrs: Any) -> str:
        inputs = self.dims(x)[1] // attrs.get("group", 1)
        bias = [self.weights(outputs)] if self.chance(50) else []
        scale = 1 / max(1, inputs * kernel)
        weights = self.weights(outputs, inputs, kernel, kernel, low=-scale, high=2 * scale)
        return self.node("conv", x, weights, *bias, **attrs)

    def either_way(self, op: str, a: str, b: str) -> str:
        return self.node(op, *((a, b) if self.chance(70) else (b, a)))

    def graph(self, steps: int) -> Graph:
        """The graph after so many steps; some of its values are its outputs."""
        for _ in range(steps):
            STEPS[self.choose(0, len(STEPS) - 1)](self)
        written = [name for node in self.nodes for name in node.outputs] or ["x"]
        ends = dict.fromkeys(
            [written[-1], *(self.one_of(*written[-8:], "x") for _ in range(self.choose(0, 2)))]
        )
        outputs = {name: Type(self.types[name].dtype, self.dims(name)) for name in ends}
        return Graph(self.inputs, outputs, tuple(self.nodes), self.constants)


def with_symbolic_dims(graph: Graph, axes: Collection[int] = (0,)) -> Graph:
    """The same graph, some dims of its inputs not known yet."""
    unknown = {
        name: Type(
            type.dtype,
            tuple(f"d{axis}" if axis in axes else dim for axis, dim in enumerate(type.shape)),
        )
        for name, type in graph.inputs.items()
    }
    return replace(graph, inputs=unknown)


@step
def convolution(s: Sketch) -> None:
    x = s.pick(least=1)
    c, h, w = s.dims(x)[1:]
    kernel, stride = s.choose(1, min(3, h, w)), s.choose(1, 2)
    group = s.one_of(1, 1, c)
    paddings: list[dict[str, Any]] = [
        {}, {"auto_pad": "SAME_UPPER"}, {"pads": (1, 0, 0, 1)}, {"auto_pad": "VALID"},
    ]  # fmt: skip
    padding = s.one_of(*paddings)
    s.conv(x, s.choose(1, 4) * group, kernel, strides=(stride, stride), group=group, **padding)


@step
def layer(s: Sketch) -> None:
    """Convolution, batch normalisation, activation, addition, in orders of the field."""
    x = s.pick(least=1)
    c = s.dims(x)[1]
    kernel = s.one_of(1, 3)
    group = s.one_of(1, 1, c)
    pad = kernel // 2
    y = s.conv(x, c, kernel, pads=(pad,) * 4, group=group)
    for part in (batch_normalization, by_channel, activation, clip, prelu):
        if s.chance(30):
            part(s, y)
            y = s.nodes[-1].outputs[0]
    if s.chance(50):
        s.either_way("add", x, y)
        if s.chance(50):
            activation(s, s.nodes[-1].outputs[0])


@step
def transposed_convolution(s: Sketch) -> None:
    x = s.pick(least=1)
    kernel, stride = s.choose(1, 3), s.choose(1, 3)
    weights = s.weights(s.dims(x)[1], s.choose(1, 3), kernel, kernel)
    bias = [s.weights(s.constants[weights].shape[1])] if s.chance(50) else []
    s.node("conv_transpose", x, weights, *bias, strides=(stride, stride))


@step
def activation(s: Sketch, x: str = "") -> None:
    s.node(str(s.one_of(*UNARY)), x or s.pick(s.one_of(4, 4, 2)) or "x")


@step
def prelu(s: Sketch, x: str = "") -> None:
    x = x or s.pick()
    s.node("prelu", x, s.weights(s.one_of(1, s.dims(x)[1]), 1, 1))


@step
def clip(s: Sketch, x: str = "") -> None:
    low, high = s.one_of((0, 6), (-1, 1), (0, np.inf), (-np.inf, 0.5))
    x = s.node("clip", x or s.pick(), s.number(low), s.number(high))
    if s.chance(30):
        s.node(str(s.one_of("relu", "abs", "neg")), x)


@step
def by_channel(s: Sketch, x: str = "") -> None:
    x = x or s.pick()
    shape = [1, 1, 1, 1]
    axis = s.one_of(1, 1, 1, 2, 3)
    shape[axis] = s.dims(x)[axis]
    value = s.weights(*shape[s.choose(0, 1) :], low=0.5, high=2.0)
    if s.chance(30):
        value = s.number(s.one_of(0.0, 1.0, 2.0, 0.5, -1.0))
    op = str(s.one_of("add", "sub", "mul", "div"))
    if op == "div":
        s.node(op, x, s.weights(*s.constants[value].shape, low=0.5, high=2.0))
    else:
        s.either_way(op, x, value)


@step
def batch_normalization(s: Sketch, x: str = "") -> None:
    x = x or s.pick()
    parts = [s.weights(s.dims(x)[1]) for _ in range(3)]
    s.node("batch_normalization", x, *parts, s.weights(s.dims(x)[1], low=0.5, high=1.5))


@step
def pair(s: Sketch) -> None:
    x = s.pick(s.one_of(4, 4, 2)) or "x"
    same = [name for name, type in s.types.items() if type == s.types[x]]
    s.node(str(s.one_of("add", "sub", "mul", "max", "min", "sum")), x, str(s.one_of(*same)))


@step
def concatenation(s: Sketch) -> None:
    """Of values, of concatenations, and of slices or splits of one."""
    x = s.pick()
    axis: int = s.one_of(1, 1, 2, 3, -3)
    size = s.dims(x)[axis]
    if s.chance(40) and size > 1:
        first = s.choose(1, size - 1)
        s.node("split", x, s.ints(first, size - first), outputs=2, axis=axis)
        parts = [*s.nodes[-1].outputs]
        if s.chance(30):
            parts.reverse()
    else:
        parts = [n for n, t in s.types.items() if t == s.types[x]][: s.choose(1, 3)]
    y = s.node("concat", *parts, axis=axis)
    if s.chance(40):
        s.node("concat", y, x, axis=axis)


@step
def slices(s: Sketch) -> None:
    x = s.pick()
    for _ in range(s.choose(1, 2)):
        axis = s.choose(1, 3)
        size = s.dims(x)[axis]
        start, count = s.choose(0, max(0, size - 1)), s.choose(1, 7)
        steps = s.one_of(1, 1, 2, -1)
        ends = (start, start + count) if steps > 0 else (size - 1 - start, -size - 1)
        x = s.node("slice", x, s.ints(ends[0]), s.ints(ends[1]), s.ints(axis), s.ints(steps))


@step
def transpose(s: Sketch) -> None:
    s.node("transpose", s.pick(), perm=s.one_of((0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2)))


@step
def channels_last(s: Sketch) -> None:
    """As a converted TFLite model does it."""
    x = s.node("transpose", s.pick(), perm=(0, 2, 3, 1))
    x = s.node(str(s.one_of("relu", "tanh", "abs")), x)
    if s.chance(50):
        x = s.node("pad", x, s.ints(0, 1, 0, 0, 0, 0, 1, s.choose(0, 1)))
    s.node("transpose", x, perm=(0, 3, 1, 2))


@step
def pad(s: Sketch) -> None:
    x = s.pick(least=1)
    begins, ends = ([0, s.choose(-1, 1) // 2, s.choose(0, 1), s.choose(0, 1)] for _ in range(2))
    if s.dims(x)[1] + begins[1] + ends[1] < 1:
        return
    value = [s.number(s.one_of(0.0, 0.0, 2.0))] if s.chance(50) else []
    x = s.node("pad", x, s.ints(*begins, *ends), *value)
    c = s.dims(x)[1]
    if s.chance(60) and min(s.dims(x)[2:]) > 1:
        s.conv(x, c, s.choose(1, 2), group=s.one_of(1, c))


@step
def pool(s: Sketch) -> None:
    x = s.pick(least=2)
    if x:
        op = str(s.one_of("max_pool", "average_pool"))
        whole = s.chance(30)
        attrs: dict[str, Any] = {} if whole or s.chance(50) else {"pads": (1, 0, 0, 1)}
        kernel = s.dims(x)[2:] if whole else (2, 2)
        s.node(op, x, kernel_shape=kernel, strides=s.one_of((1, 1), (2, 1), (2, 2)), **attrs)


@step
def reduction(s: Sketch) -> None:
    x = s.pick(least=1)
    axes = s.ints(*s.one_of((2, 3), (2, 3), (1, 2), (-1,), (1,)))
    op = str(s.one_of("reduce_mean", "reduce_sum", "reduce_l2", "reduce_max"))
    x = s.node(op, x, axes, keepdims=s.choose(0, 1))
    if s.chance(50) and len(s.dims(x)) == 2:
        dense(s)


@step
def dense(s: Sketch) -> None:
    x = s.pick(2)
    if not x or not s.dims(x)[1]:
        return
    size, outputs = s.dims(x)[1], s.choose(1, 4)
    if s.chance(50):
        y = s.node("matmul", x, s.weights(size, outputs))
    else:
        trans = s.choose(0, 1)
        shape = (outputs, size) if trans else (size, outputs)
        bias = [s.weights(s.one_of(1, outputs))] if s.chance(50) else []
        y = s.node("gemm", x, s.weights(*shape), *bias, transB=trans, alpha=s.one_of(1.0, 0.5))
    if s.chance(60):
        op, value = s.one_of(("add", 0.5), ("mul", 2.0), ("sub", 0.25))
        s.either_way(op, y, s.weights(outputs) if s.chance(60) else s.number(value))


@step
def flattened(s: Sketch) -> None:
    x = s.pick()
    n, c, h, w = s.dims(x)
    if s.chance(50):
        s.node("flatten", x, axis=1)
    elif n * c * h * w:
        flat = s.node("reshape", x, s.ints(n, -1, c))
        s.node("reshape", flat, s.ints(n, c, h, w))


@step
def computed_reshape(s: Sketch) -> None:
    x = s.pick()
    if prod(s.dims(x)):
        batch = s.node("shape", x, end=1)
        s.node("reshape", x, s.node("concat", batch, s.ints(-1, 1, 1), axis=0))


@step
def squeeze(s: Sketch) -> None:
    x = s.node("unsqueeze", s.pick(), s.ints(s.choose(0, 4)))
    if len(s.dims(x)) == 5:
        axis = next((axis for axis, dim in enumerate(s.dims(x)) if dim == 1), None)
        if axis is not None:
            s.node("squeeze", x, s.ints(axis))


@step
def resize(s: Sketch) -> None:
    x = s.pick(least=1)
    h, w = s.dims(x)[2:]
    if s.chance(60):
        rest: tuple[str, ...] = ("", s.constant(np.array([2, 2], np.float32)))
    else:
        rest = ("", "", s.ints(s.choose(1, 2 * h), s.choose(1, 2 * w)))
    modes = ("half_pixel", "asymmetric", "align_corners")
    attrs: dict[str, Any] = {"mode": s.one_of("nearest", "linear"), "axes": (2, 3)}
    y = s.node("resize", x, *rest, coordinate_transformation_mode=s.one_of(*modes), **attrs)
    if s.chance(60):
        y = s.conv(y, s.choose(1, 4), s.one_of(1, 1, 2) if min(s.dims(y)[2:]) > 1 else 1)
        if s.chance(50):
            activation(s, y)


@step
def squeeze_and_excite(s: Sketch) -> None:
    x = s.pick(least=1)
    c = s.dims(x)[1]
    gate = s.node("global_average_pool", x)
    gate = s.node("relu", s.conv(gate, s.choose(1, 3)))
    gate = s.node(str(s.one_of("sigmoid", "hard_sigmoid")), s.conv(gate, c))
    y = s.either_way("mul", x, gate)
    if s.chance(60):
        s.conv(y, s.choose(1, 4))


@step
def heads(s: Sketch) -> None:
    """Convolutions of one input, of equal and of other geometry."""
    x = s.pick(least=1)
    kernel = s.choose(1, min(2, *s.dims(x)[2:]))
    for _ in range(s.choose(2, 3)):
        y = s.conv(x, s.choose(1, 3), kernel)
        if s.chance(50):
            s.node("sigmoid", y)


@step
def pointwise_chain(s: Sketch) -> None:
    x = s.conv(s.pick(), s.choose(1, 6))
    s.conv(x, s.choose(1, 6))


@step
def rearrangement(s: Sketch) -> None:
    x = s.pick(least=1)
    n, c, h, w = s.dims(x)
    if not n:
        return
    kind = s.choose(0, 3)
    if kind == 0:
        y = s.conv(x, 4)
        s.node("depth_to_space", y, blocksize=2, mode=s.one_of("DCR", "CRD"))
    elif kind == 1 and not h % 2 and not w % 2:
        s.node("space_to_depth", x, blocksize=2)
    elif kind == 2 and not c % 2:
        y = s.node("reshape", x, s.ints(n, 2, c // 2, h, w))
        y = s.node("transpose", y, perm=(0, 2, 1, 3, 4))
        s.node("reshape", y, s.ints(n, c, h, w))
    elif kind == 3:
        y = s.conv(x, 8)
        if y == x:
            return
        y = s.node("reshape", y, s.ints(n, 2, 2, 2, h, w))
        y = s.node("transpose", y, perm=s.one_of((0, 3, 4, 1, 5, 2), (0, 1, 4, 2, 5, 3)))
        s.node("reshape", y, s.ints(n, 2, 2 * h, 2 * w))


@step
def tiled(s: Sketch) -> None:
    x = s.pick()
    if s.chance(50):
        s.node("tile", x, s.ints(1, 1, s.choose(1, 2), s.choose(1, 2)))
    else:
        n, c = s.dims(x)[:2]
        pooled = s.node("reduce_sum", x, s.ints(2, 3), keepdims=1)
        s.node("expand", pooled, s.ints(n, c, s.choose(1, 3), s.choose(1, 3)))


@step
def softmax(s: Sketch) -> None:
    s.node(str(s.one_of("softmax", "log_softmax")), s.pick(least=1), axis=s.choose(-3, 3) or 1)


@step
def powers(s: Sketch) -> None:
    x = s.node("abs", s.pick())
    x = s.node("add", x, s.number(0.5))
    exponent = s.one_of(0.5, 1.0, 2.0, 3.0, -1.0)
    s.node("pow", x, s.number(exponent))


@step
def comparison(s: Sketch) -> None:
    x = s.pick()
    mask = s.node(str(s.one_of("greater", "less")), x, s.number(0.1))
    s.node("where", mask, x, s.number(s.one_of(0.0, 1.0)))


@step
def casts(s: Sketch) -> None:
    x = s.node("cast", s.pick(), to=s.one_of("float32", "float64"))
    s.node("cast", x, to="float64")


@step
def gathered(s: Sketch) -> None:
    x = s.pick(least=1)
    axis = s.choose(1, 3)
    size = s.dims(x)[axis]
    s.node("gather", x, s.ints(*(s.choose(0, size - 1) for _ in range(s.choose(1, 4)))), axis=axis)


@step
def repeated(s: Sketch) -> None:
    """The same node once more."""
    if s.nodes:
        again = s.one_of(*s.nodes[-6:])
        s.node(again.op, *again.inputs, outputs=len(again.outputs), **dict(again.attrs))


@step
def arithmetic(s: Sketch) -> None:
    """By constants, one after the other, and by a value that is expanded."""
    x = s.pick()
    for _ in range(s.choose(2, 3)):
        op = str(s.one_of("add", "sub", "mul", "div", "max", "min"))
        x = s.node(op, x, s.number(s.one_of(0.5, 2.0, -1.0, 3.0)))
    if s.chance(30):
        y = s.node("expand", s.weights(s.dims(x)[1], 1, 1), s.ints(*s.dims(x)))
        s.either_way("mul", x, y)


@step
def scaled_first(s: Sketch) -> None:
    """Arithmetic by channel before a layer."""
    x = s.pick(least=1)
    c = s.dims(x)[1]
    value = s.weights(c, 1, 1, low=0.5, high=2.0) if s.chance(60) else s.number(0.5)
    x = s.either_way(str(s.one_of("add", "mul")), x, value)
    if s.chance(70):
        s.conv(x, s.choose(1, 2) * c, s.choose(1, min(2, *s.dims(x)[2:])), group=s.one_of(1, c))
    else:
        s.node("conv_transpose", x, s.weights(c, 2, 2, 2))


@step
def written_out(s: Sketch) -> None:
    """Activations in simple ops."""
    x = s.pick()
    one, half, n = s.number(1.0), s.number(0.5), s.node
    kind = s.choose(0, 8)
    if kind == 0:
        s.either_way("mul", x, n("div", n("clip", n("add", x, s.number(3.0)), s.number(0.0),
                                          s.number(6.0)), s.number(6.0)))  # fmt: skip
    elif kind == 1:
        inner = n("add", n("erf", n("div", x, s.number(2**0.5))), one)
        s.either_way("mul", n("mul", x, half), inner) if s.chance(50) else n(
            "mul", n("mul", x, inner), half
        )
    elif kind == 2:
        cube = n("mul", n("pow", x, s.number(3.0)), s.number(0.044715))
        tanh = n("tanh", n("mul", n("add", x, cube), s.number((2 / np.pi) ** 0.5)))
        n("mul", n("mul", x, half), n("add", one, tanh))
    elif kind == 3:
        n("div", one, n("add", n("exp", n("neg", x)), one))
    elif kind == 4:
        s.either_way("mul", x, n("sigmoid", x))
    elif kind == 5:
        y = n("log", n("add", n("exp", x), one))
        n("mul", x, n("tanh", y))
    elif kind == 6:
        n("max", x, n("mul", x, s.number(s.one_of(0.1, 0.3))))
    elif kind == 7:
        slope = s.weights(s.dims(x)[1], 1, 1)
        n("sub", n("relu", x), n("mul", n("relu", n("neg", x)), slope))
    else:
        slope = s.weights(s.dims(x)[1], 1, 1)
        below = n("mul", n("mul", n("sub", x, n("abs", x)), half), slope)
        n("add", n("relu", x), below)


@step
def written_out_normalization(s: Sketch) -> None:
    x = s.pick(s.one_of(4, 4, 2), least=1) or s.pick(least=1)
    rank = len(s.dims(x))
    axes = s.ints(*s.one_of((-1,), (2, 3) if rank == 4 else (1,)))
    kind = s.choose(0, 2)
    epsilon, n = s.number(1e-3), s.node
    if kind == 2:
        e = n("exp", n("sub", x, n("reduce_max", x, axes)))
        if s.chance(50):
            n("div", e, n("reduce_sum", e, axes))
        return
    centred = n("sub", x, n("reduce_mean", x, axes)) if kind else x
    square = n("mul", centred, centred) if s.chance(50) else n("pow", centred, s.number(2.0))
    deviation = n("sqrt", n("add", n("reduce_mean", square, axes), epsilon))
    y = (
        n("div", centred, deviation)
        if s.chance(50)
        else n("mul", centred, n("reciprocal", deviation))
    )
    if s.chance(70):
        shape = s.one_of(s.dims(x)[-1:], (s.dims(x)[1], *[1] * (rank - 2)), ())
        y = s.either_way("mul", y, s.weights(*shape, low=0.5, high=2.0))
        if s.chance(70):
            s.either_way("add", y, s.weights(*shape))


@step
def normalization_of_groups(s: Sketch) -> None:
    x = s.pick(least=1)
    n, c, h, w = s.dims(x)
    if n and c % 2 == 0:
        y = s.node("reshape", x, s.ints(n, 2, -1))
        y = s.node("instance_normalization", y, s.number(1.0, (2,)), s.number(0.0, (2,)))
        y = s.node("reshape", y, s.ints(n, c, h, w))
        s.either_way("mul", y, s.weights(c, 1, 1))


@step
def projection(s: Sketch) -> None:
    """A matmul of three axes, scaled and shifted."""
    x = s.pick(least=1)
    n, c, h, w = s.dims(x)
    if not n:
        return
    x = s.node("reshape", x, s.ints(n, c, h * w))
    if s.chance(50):
        x = s.node("mul", x, s.weights(h * w, low=0.5, high=2.0))
    y = s.node("matmul", x, s.weights(h * w, 3))
    if s.chance(50):
        y = s.either_way("mul", y, s.weights(3, low=0.5, high=2.0))
    s.either_way("add", y, s.weights(3) if s.chance(70) else s.number(0.5))


@step
def repeated_pixels(s: Sketch) -> None:
    """The nearest resize as a reshape and an expand."""
    x = s.pick(least=1)
    n, c, h, w = s.dims(x)
    if n:
        y = s.node("reshape", x, s.ints(n, c, h, 1, w, 1))
        y = s.node("expand", y, s.ints(n, c, h, 2, w, 2))
        if s.nodes[-1].op == "expand":
            y = s.node("reshape", y, s.ints(n, c, 2 * h, 2 * w))
            activation(s, y)
