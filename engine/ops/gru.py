"""The op gru."""

from functools import partial

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Results, op, recurrent
from palmkit.engine.ops.products import macs_of_gates
from palmkit.engine.ops.recurrent import Direction, State
from palmkit.engine.ops.traits import Family, Traits

GATES = 3
ACTIVATIONS = ("Sigmoid", "Tanh")


def _infer(
    x: Type,
    w: Type,
    r: Type,
    b: Type | None = None,
    sequence_lens: Type | None = None,
    initial_h: Type | None = None,
    *,
    activation_alpha: tuple[float, ...],
    activation_beta: tuple[float, ...],
    activations: tuple[str, ...],
    clip: float,
    direction: str,
    hidden_size: int,
    layout: int,
    linear_before_reset: int,
) -> tuple[Type, Type]:
    names = recurrent.activation_names(activations, ACTIVATIONS, recurrent.directions(direction))
    return recurrent.infer(
        "gru",
        GATES,
        [x, w, r, b, sequence_lens, initial_h],
        direction=direction,
        hidden_size=hidden_size,
        layout=layout,
        names=names,
    )


_case = partial(recurrent.layer, GATES)


@op(
    _infer,
    _case(5, 1, 3, 4),
    _case(5, 1, 3, 4, bias=False, outputs=1),
    _case(4, 3, 7, 19, linear_before_reset=1),
    _case(3, 2, 5, 33, direction="reverse"),
    _case(6, 2, 5, 17, direction="bidirectional", linear_before_reset=1),
    _case(6, 2, 5, 17, direction="bidirectional"),
    _case(3, 2, 5, 4, None, (1, 2, 4)),
    _case(3, 2, 5, 4, None, (2, 2, 4), direction="bidirectional", linear_before_reset=1),
    _case(3, 2, 5, 4, clip=0.2),
    _case(4, 3, 5, 4, np.array([4, 2, 1], np.int32)),
    _case(4, 3, 5, 4, np.array([4, 2, 1], np.int32), direction="bidirectional"),
    _case(3, 2, 5, 4, layout=1),
    _case(3, 2, 5, 4, None, (2, 2, 4), layout=1, direction="bidirectional"),
    _case(3, 2, 5, 4, activations=("HardSigmoid", "Softsign"), linear_before_reset=1),
    _case(
        3,
        2,
        5,
        4,
        activations=("Sigmoid", "ScaledTanh"),
        activation_alpha=(1.2,),
        activation_beta=(0.8,),
    ),
    traits=Traits(family=Family.RECURRENT),
    macs=macs_of_gates,
)
def gru(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    *,
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    activations: tuple[str, ...] = (),
    clip: float = 0.0,
    direction: str = "forward",
    hidden_size: int = 0,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> Results:
    """Gated recurrent unit; all outputs h[t] and the last h.

    x: [steps, batch, input], or in layout 1 [batch, steps, input]; w, r: [directions, 3 hidden,
    ...] in the order update, reset, hidden.
    linear_before_reset: the reset gate scales r h + its bias, and not h.
    clip: bound of the activations' inputs; 0 is none.
    """
    names = recurrent.activation_names(activations, ACTIVATIONS, r.shape[0])
    if layout:
        x = x.swapaxes(0, 1)
        initial_h = None if initial_h is None else initial_h.swapaxes(0, 1)

    def step(d: Direction, xt: Array, state: State) -> State:
        (h,) = state
        f, g = d.activations
        z, reset = (
            f(recurrent.clipped(d.project(xt, gate) + d.recur(h, gate), clip)) for gate in (0, 1)
        )
        new = reset * d.recur(h, 2) if linear_before_reset else d.recur(reset * h, 2)
        new = g(recurrent.clipped(d.project(xt, 2) + new, clip))
        return ((1 - z) * new + z * h,)

    passes = recurrent.each_direction(
        GATES, x, w, r, b, (initial_h,), names, activation_alpha, activation_beta
    )
    return recurrent.run(x, sequence_lens, direction, layout, passes, step)
