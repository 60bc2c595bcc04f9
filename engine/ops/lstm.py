"""The op lstm."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Results, op, recurrent
from palmkit.engine.ops.products import macs_of_gates
from palmkit.engine.ops.recurrent import Direction, State
from palmkit.engine.ops.traits import Family, Traits

GATES = 4
ACTIVATIONS = ("Sigmoid", "Tanh", "Tanh")


def _infer(
    x: Type,
    w: Type,
    r: Type,
    b: Type | None = None,
    sequence_lens: Type | None = None,
    initial_h: Type | None = None,
    initial_c: Type | None = None,
    p: Type | None = None,
    *,
    activation_alpha: tuple[float, ...],
    activation_beta: tuple[float, ...],
    activations: tuple[str, ...],
    clip: float,
    direction: str,
    hidden_size: int,
    input_forget: int,
    layout: int,
) -> tuple[Type, Type, Type]:
    names = recurrent.activation_names(activations, ACTIVATIONS, recurrent.directions(direction))
    y, state = recurrent.infer(
        "lstm",
        GATES,
        [x, w, r, b, sequence_lens, initial_h, initial_c, p],
        direction=direction,
        hidden_size=hidden_size,
        layout=layout,
        names=names,
    )
    return y, state, Type(state.dtype, state.shape)


_case = partial(recurrent.layer, GATES, outputs=3)


@op(
    _infer,
    _case(5, 1, 3, 4),
    _case(5, 1, 3, 4, bias=False, outputs=1),
    _case(4, 3, 7, 19),
    _case(3, 2, 5, 33, direction="reverse"),
    _case(6, 2, 5, 17, direction="bidirectional"),
    _case(3, 2, 5, 4, None, (1, 2, 4), (1, 2, 4)),
    _case(3, 2, 5, 4, None, (2, 2, 4), (2, 2, 4), direction="bidirectional"),
    _case(3, 2, 5, 4, None, None, None, recurrent.weights(1, 12)),
    _case(3, 2, 5, 4, None, None, None, recurrent.weights(2, 12), direction="bidirectional"),
    _case(3, 2, 5, 4, None, None, None, recurrent.weights(1, 12), input_forget=1),
    _case(3, 2, 5, 4, clip=0.2),
    _case(4, 3, 5, 4, np.array([4, 2, 1], np.int32)),
    _case(4, 3, 5, 4, np.array([4, 2, 1], np.int32), direction="bidirectional"),
    _case(4, 3, 5, 4, np.array([3, 1, 2], np.int32), direction="reverse"),
    _case(3, 2, 5, 4, layout=1),
    _case(3, 2, 5, 4, None, (2, 2, 4), (2, 2, 4), layout=1, direction="bidirectional"),
    _case(3, 2, 5, 4, activations=("HardSigmoid", "Softsign", "Relu")),
    _case(
        3,
        2,
        5,
        4,
        activations=("HardSigmoid", "Affine", "LeakyRelu"),
        activation_alpha=(0.3, 0.9, 0.2),
        activation_beta=(0.4, 0.1),
    ),
    _case(
        2,
        2,
        5,
        4,
        direction="bidirectional",
        activations=("Sigmoid", "Tanh", "Softplus", "Sigmoid", "Elu", "ThresholdedRelu"),
        activation_alpha=(1.5, 0.1),
    ),
    traits=Traits(family=Family.RECURRENT),
    macs=macs_of_gates,
)
def lstm(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    initial_c: Array | None = None,
    p: Array | None = None,
    *,
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    activations: tuple[str, ...] = (),
    clip: float = 0.0,
    direction: str = "forward",
    hidden_size: int = 0,
    input_forget: int = 0,
    layout: int = 0,
) -> Results:
    """Long short-term memory; all outputs h[t], the last h and the last c.

    x: [steps, batch, input], or in layout 1 [batch, steps, input]; w, r: [directions, 4 hidden,
    ...] in the order input, output, forget, cell; p: the peepholes, input, output, forget.
    clip: bound of the activations' inputs; 0 is none. input_forget: forget is 1 - input.
    """
    return run(
        (x, w, r, b, sequence_lens, initial_h, initial_c, p),
        lambda h: h,
        activations=activations,
        alphas=activation_alpha,
        betas=activation_beta,
        clip=clip,
        direction=direction,
        input_forget=input_forget,
        layout=layout,
    )


def run(
    inputs: Sequence[Array | None],
    remembered: Callable[[Array], Array],
    *,
    activations: tuple[str, ...] = (),
    alphas: tuple[float, ...] = (),
    betas: tuple[float, ...] = (),
    clip: float = 0.0,
    direction: str = "forward",
    input_forget: int = 0,
    layout: int = 0,
) -> Results:
    """Run lstm over its inputs.

    remembered: maps h to what the gates read of it.
    """
    x, w, r, b, sequence_lens, initial_h, initial_c, p = inputs
    assert x is not None
    assert w is not None
    assert r is not None
    names = recurrent.activation_names(activations, ACTIVATIONS, r.shape[0])
    if layout:
        x = x.swapaxes(0, 1)
        initial_h = None if initial_h is None else initial_h.swapaxes(0, 1)
        initial_c = None if initial_c is None else initial_c.swapaxes(0, 1)
    peepholes = np.zeros((r.shape[0], 3, 1), x.dtype) if p is None else p.reshape(len(p), 3, -1)

    def step(d: Direction, xt: Array, state: State) -> State:
        h, c = remembered(state[0]), state[1]
        f, g, out = d.activations
        peep = peepholes[d.index]
        gi, go, gf, gc = (d.project(xt, gate) + d.recur(h, gate) for gate in range(GATES))
        i = f(recurrent.clipped(gi + peep[0] * c, clip))
        forget = 1 - i if input_forget else f(recurrent.clipped(gf + peep[2] * c, clip))
        c = forget * c + i * g(recurrent.clipped(gc, clip))
        o = f(recurrent.clipped(go + peep[1] * c, clip))
        return o * out(c), c

    passes = recurrent.each_direction(
        GATES, x, w, r, b, (initial_h, initial_c), names, alphas, betas
    )
    return recurrent.run(x, sequence_lens, direction, layout, passes, step)
