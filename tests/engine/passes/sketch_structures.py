"""Steps by which a sketch grows: structures that passes look for."""

from collections.abc import Callable
from math import prod

import numpy as np

from tests.engine.passes.sketch import Sketch
from tests.engine.passes.sketch_ops import activation, batch_normalization, by_channel, clip, prelu


def layer(s: Sketch) -> None:
    """Add convolution, batch normalisation, activation and addition, in usual orders."""
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


def channels_last(s: Sketch) -> None:
    """Add structures of a converted TFLite model."""
    x = s.node("transpose", s.pick(), perm=(0, 2, 3, 1))
    x = s.node(str(s.one_of("relu", "tanh", "abs")), x)
    if s.chance(50):
        x = s.node("pad", x, s.ints(0, 1, 0, 0, 0, 0, 1, s.choose(0, 1)))
    s.node("transpose", x, perm=(0, 3, 1, 2))


def computed_reshape(s: Sketch) -> None:
    x = s.pick()
    if prod(s.dims(x)):
        batch = s.node("shape", x, end=1)
        s.node("reshape", x, s.node("concat", batch, s.ints(-1, 1, 1), axis=0))


def squeeze_and_excite(s: Sketch) -> None:
    x = s.pick(least=1)
    c = s.dims(x)[1]
    gate = s.node("global_average_pool", x)
    gate = s.node("relu", s.conv(gate, s.choose(1, 3)))
    gate = s.node(str(s.one_of("sigmoid", "hard_sigmoid")), s.conv(gate, c))
    y = s.either_way("mul", x, gate)
    if s.chance(60):
        s.conv(y, s.choose(1, 4))


def heads(s: Sketch) -> None:
    """Add convolutions of one input, of equal and of other geometry."""
    x = s.pick(least=1)
    kernel = s.choose(1, min(2, *s.dims(x)[2:]))
    for _ in range(s.choose(2, 3)):
        y = s.conv(x, s.choose(1, 3), kernel)
        if s.chance(50):
            s.node("sigmoid", y)


def pointwise_chain(s: Sketch) -> None:
    x = s.conv(s.pick(), s.choose(1, 6))
    s.conv(x, s.choose(1, 6))


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


def powers(s: Sketch) -> None:
    x = s.node("abs", s.pick())
    x = s.node("add", x, s.number(0.5))
    exponent = s.one_of(0.5, 1.0, 2.0, 3.0, -1.0)
    s.node("pow", x, s.number(exponent))


def repeated(s: Sketch) -> None:
    """Add the same node once more."""
    if s.nodes:
        again = s.one_of(*s.nodes[-6:])
        s.node(again.op, *again.inputs, outputs=len(again.outputs), **dict(again.attrs))


def arithmetic(s: Sketch) -> None:
    """Add arithmetic by constants, one after the other, and by an expanded value."""
    x = s.pick()
    for _ in range(s.choose(2, 3)):
        op = str(s.one_of("add", "sub", "mul", "div", "max", "min"))
        x = s.node(op, x, s.number(s.one_of(0.5, 2.0, -1.0, 3.0)))
    if s.chance(30):
        y = s.node("expand", s.weights(s.dims(x)[1], 1, 1), s.ints(*s.dims(x)))
        s.either_way("mul", x, y)


def scaled_first(s: Sketch) -> None:
    """Add arithmetic by channel before a layer."""
    x = s.pick(least=1)
    c = s.dims(x)[1]
    value = s.weights(c, 1, 1, low=0.5, high=2.0) if s.chance(60) else s.number(0.5)
    x = s.either_way(str(s.one_of("add", "mul")), x, value)
    if s.chance(70):
        s.conv(x, s.choose(1, 2) * c, s.choose(1, min(2, *s.dims(x)[2:])), group=s.one_of(1, c))
    else:
        s.node("conv_transpose", x, s.weights(c, 2, 2, 2))


def written_out(s: Sketch) -> None:
    """Add activations in simple ops."""
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


def normalization_of_groups(s: Sketch) -> None:
    x = s.pick(least=1)
    n, c, h, w = s.dims(x)
    if n and c % 2 == 0:
        y = s.node("reshape", x, s.ints(n, 2, -1))
        y = s.node("instance_normalization", y, s.number(1.0, (2,)), s.number(0.0, (2,)))
        y = s.node("reshape", y, s.ints(n, c, h, w))
        s.either_way("mul", y, s.weights(c, 1, 1))


def projection(s: Sketch) -> None:
    """Add a matmul of three axes, scaled and shifted."""
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


def repeated_pixels(s: Sketch) -> None:
    """Add the nearest resize as a reshape and an expand."""
    x = s.pick(least=1)
    n, c, h, w = s.dims(x)
    if n:
        y = s.node("reshape", x, s.ints(n, c, h, 1, w, 1))
        y = s.node("expand", y, s.ints(n, c, h, 2, w, 2))
        if s.nodes[-1].op == "expand":
            y = s.node("reshape", y, s.ints(n, c, 2 * h, 2 * w))
            activation(s, y)


STEPS: tuple[Callable[[Sketch], None], ...] = (
    layer,
    channels_last,
    computed_reshape,
    squeeze_and_excite,
    heads,
    pointwise_chain,
    rearrangement,
    powers,
    repeated,
    arithmetic,
    scaled_first,
    written_out,
    written_out_normalization,
    normalization_of_groups,
    projection,
    repeated_pixels,
)
