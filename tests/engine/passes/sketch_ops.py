"""Steps by which a sketch grows: ops of every family, one or two at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.engine.passes.sketch import Sketch

UNARY = (
    "relu", "sigmoid", "tanh", "hard_swish", "hard_sigmoid", "leaky_relu", "elu", "neg", "abs",
    "erf", "softplus", "identity",
)  # fmt: skip


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


def transposed_convolution(s: Sketch) -> None:
    x = s.pick(least=1)
    kernel, stride = s.choose(1, 3), s.choose(1, 3)
    weights = s.weights(s.dims(x)[1], s.choose(1, 3), kernel, kernel)
    bias = [s.weights(s.constants[weights].shape[1])] if s.chance(50) else []
    s.node("conv_transpose", x, weights, *bias, strides=(stride, stride))


def activation(s: Sketch, x: str = "") -> None:
    s.node(str(s.one_of(*UNARY)), x or s.pick(s.one_of(4, 4, 2)) or "x")


def prelu(s: Sketch, x: str = "") -> None:
    x = x or s.pick()
    s.node("prelu", x, s.weights(s.one_of(1, s.dims(x)[1]), 1, 1))


def clip(s: Sketch, x: str = "") -> None:
    low, high = s.one_of((0, 6), (-1, 1), (0, np.inf), (-np.inf, 0.5))
    x = s.node("clip", x or s.pick(), s.number(low), s.number(high))
    if s.chance(30):
        s.node(str(s.one_of("relu", "abs", "neg")), x)


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


def batch_normalization(s: Sketch, x: str = "") -> None:
    x = x or s.pick()
    parts = [s.weights(s.dims(x)[1]) for _ in range(3)]
    s.node("batch_normalization", x, *parts, s.weights(s.dims(x)[1], low=0.5, high=1.5))


def pair(s: Sketch) -> None:
    x = s.pick(s.one_of(4, 4, 2)) or "x"
    same = [name for name, type in s.types.items() if type == s.types[x]]
    s.node(str(s.one_of("add", "sub", "mul", "max", "min", "sum")), x, str(s.one_of(*same)))


def concatenation(s: Sketch) -> None:
    """Concatenate values, concatenations, and slices or splits of one."""
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
    if s.chance(20):
        first = s.choose(0, s.dims(y)[axis] - 1) if s.dims(y)[axis] else 0
        s.node("slice", y, s.ints(first), s.ints(first + s.choose(1, 6)), s.ints(axis))
    if s.chance(40):
        s.node("concat", y, x, axis=axis)


def slices(s: Sketch) -> None:
    x = s.pick()
    for _ in range(s.choose(1, 2)):
        axis = s.choose(1, 3)
        size = s.dims(x)[axis]
        start, count = s.choose(0, max(0, size - 1)), s.choose(1, 7)
        steps = s.one_of(1, 1, 2, -1)
        ends = (start, start + count) if steps > 0 else (size - 1 - start, -size - 1)
        x = s.node("slice", x, s.ints(ends[0]), s.ints(ends[1]), s.ints(axis), s.ints(steps))


def transpose(s: Sketch) -> None:
    s.node("transpose", s.pick(), perm=s.one_of((0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2)))


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


def pool(s: Sketch) -> None:
    x = s.pick(least=2)
    if x:
        op = str(s.one_of("max_pool", "average_pool"))
        whole = s.chance(30)
        attrs: dict[str, Any] = {} if whole or s.chance(50) else {"pads": (1, 0, 0, 1)}
        kernel = s.dims(x)[2:] if whole else (2, 2)
        s.node(op, x, kernel_shape=kernel, strides=s.one_of((1, 1), (2, 1), (2, 2)), **attrs)


def reduction(s: Sketch) -> None:
    x = s.pick(least=1)
    axes = s.ints(*s.one_of((2, 3), (2, 3), (1, 2), (-1,), (1,)))
    op = str(s.one_of("reduce_mean", "reduce_sum", "reduce_l2", "reduce_max"))
    x = s.node(op, x, axes, keepdims=s.choose(0, 1))
    if s.chance(50) and len(s.dims(x)) == 2:
        dense(s)


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


def flattened(s: Sketch) -> None:
    x = s.pick()
    n, c, h, w = s.dims(x)
    if s.chance(50):
        s.node("flatten", x, axis=1)
    elif n * c * h * w:
        flat = s.node("reshape", x, s.ints(n, -1, c))
        s.node("reshape", flat, s.ints(n, c, h, w))


def squeeze(s: Sketch) -> None:
    x = s.node("unsqueeze", s.pick(), s.ints(s.choose(0, 4)))
    if len(s.dims(x)) == 5:
        axis = next((axis for axis, dim in enumerate(s.dims(x)) if dim == 1), None)
        if axis is not None:
            s.node("squeeze", x, s.ints(axis))


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


def tiled(s: Sketch) -> None:
    x = s.pick()
    if s.chance(50):
        s.node("tile", x, s.ints(1, 1, s.choose(1, 2), s.choose(1, 2)))
    else:
        n, c = s.dims(x)[:2]
        pooled = s.node("reduce_sum", x, s.ints(2, 3), keepdims=1)
        s.node("expand", pooled, s.ints(n, c, s.choose(1, 3), s.choose(1, 3)))


def softmax(s: Sketch) -> None:
    s.node(str(s.one_of("softmax", "log_softmax")), s.pick(least=1), axis=s.choose(-3, 3) or 1)


def comparison(s: Sketch) -> None:
    x = s.pick()
    mask = s.node(str(s.one_of("greater", "less")), x, s.number(0.1))
    s.node("where", mask, x, s.number(s.one_of(0.0, 1.0)))


def casts(s: Sketch) -> None:
    x = s.node("cast", s.pick(), to=s.one_of("float32", "float64"))
    s.node("cast", x, to="float64")


def gathered(s: Sketch) -> None:
    x = s.pick(least=1)
    axis = s.choose(1, 3)
    size = s.dims(x)[axis]
    s.node("gather", x, s.ints(*(s.choose(0, size - 1) for _ in range(s.choose(1, 4)))), axis=axis)


STEPS: tuple[Callable[[Sketch], None], ...] = (
    convolution,
    transposed_convolution,
    activation,
    prelu,
    clip,
    by_channel,
    batch_normalization,
    pair,
    concatenation,
    slices,
    transpose,
    pad,
    pool,
    reduction,
    dense,
    flattened,
    squeeze,
    resize,
    tiled,
    softmax,
    comparison,
    casts,
    gathered,
)
