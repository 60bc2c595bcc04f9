"""Helpers shared by lstm, gru and rnn: shapes, directions, activations."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Attr, Type
from palmkit.engine.ops import Case, Results, case
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.rules import need_dtype, need_rank

Activation: TypeAlias = Callable[[Array], Array]
State: TypeAlias = tuple[Array, ...]

DIRECTIONS = ("forward", "reverse", "bidirectional")


def _sigmoid(x: Array, _alpha: float, _beta: float) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


# By lower-case name: the function, and the defaults of its alpha and beta as far as it has them.
ACTIVATIONS: dict[str, tuple[Callable[[Array, float, float], Any], tuple[float, ...]]] = {
    "relu": (lambda x, a, b: np.maximum(x, 0), ()),
    "tanh": (lambda x, a, b: np.tanh(x), ()),
    "sigmoid": (_sigmoid, ()),
    "affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
    "leakyrelu": (lambda x, a, b: np.where(x < 0, a * x, x), (0.01,)),
    "thresholdedrelu": (lambda x, a, b: np.where(x > a, x, 0), (1.0,)),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), (1.0, 1.0)),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), (0.2, 0.5)),
    "elu": (lambda x, a, b: np.where(x < 0, a * np.expm1(x), x), (1.0,)),
    "softsign": (lambda x, a, b: x / (1 + np.abs(x)), ()),
    "softplus": (lambda x, a, b: np.logaddexp(x, 0), ()),
}


def directions(direction: str) -> int:
    """Return the number of directions, 1 or 2."""
    if direction not in DIRECTIONS:
        raise ValueError(f"unknown direction: {direction}")
    return 2 if direction == "bidirectional" else 1


def activation_names(names: Sequence[str], default: Sequence[str], count: int) -> list[str]:
    """Return the names for every direction in lower case; one direction's names serve both."""
    chosen = [name.lower() for name in names or default]
    if len(chosen) == len(default):
        chosen *= count
    unknown = [name for name in chosen if name not in ACTIVATIONS]
    if unknown or len(chosen) != count * len(default):
        raise ValueError(f"expected {count * len(default)} known activations, got {names}")
    return chosen


def _bound(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> list[Activation]:
    """Return the activations; each takes the next alpha and beta, if it has such a parameter."""
    alpha, beta = iter(alphas), iter(betas)
    bound: list[Activation] = []
    for name in names:
        function, defaults = ACTIVATIONS[name]
        a = next(alpha, defaults[0]) if defaults else 0.0
        b = next(beta, defaults[1]) if len(defaults) > 1 else 0.0

        def activate(x: Array, function: Any = function, a: float = a, b: float = b) -> Array:
            return np.asarray(function(x, a, b), x.dtype)

        bound.append(activate)
    return bound


def infer(
    op: str,
    gates: int,
    inputs: Sequence[Type | None],
    *,
    direction: str,
    hidden_size: int,
    layout: int,
    names: list[str],
) -> tuple[Type, Type]:
    """Return the types of Y and Y_h.

    inputs: X, W, R, B, sequence_lens, initial_h, and for lstm initial_c, P.
    Raises ShapeError unless all inputs fit the X, W and R they begin with.
    """
    padded = (*inputs, None, None, None, None, None)[:8]
    x, w, r, b, lengths, h, c, p = padded
    if x is None or w is None or r is None:
        raise ShapeError(f"{op}: expected X, W and R")
    need_dtype(op, *(t for t in (x, w, r, b, h, c, p) if t is not None), among=FLOATS)
    need_rank(op, x, 3, 3)
    need_rank(op, r, 3, 3)
    count, hidden = directions(direction), r.dims[2]
    activation_names(names, names, count)
    if hidden_size not in (0, hidden):
        raise ShapeError(f"{op}: hidden_size {hidden_size} does not fit {r}")
    if layout not in (0, 1):
        raise ValueError(f"unknown layout: {layout}")
    batch, steps = x.dims[:2] if layout else x.dims[1::-1]
    state = (batch, count, hidden) if layout else (count, batch, hidden)
    wanted = (
        (w, (count, gates * hidden, x.dims[2])),
        (r, (count, gates * hidden, hidden)),
        (b, (count, 2 * gates * hidden)),
        (h, state),
        (c, state),
        (p, (count, 3 * hidden)),
        (lengths, (batch,)),
    )
    for type, shape in wanted:
        if type is not None and type.dims != shape:
            raise ShapeError(f"{op}: expected {list(shape)}, got {type}")
    if lengths is not None:
        need_dtype(op, lengths, among=("int32",))
    y = (batch, steps, count, hidden) if layout else (steps, count, batch, hidden)
    return Type(x.dtype, y), Type(x.dtype, state)


@dataclass(frozen=True)
class Direction:
    """One pass over the sequence.

    w: [gates, hidden, input]; r: [gates, hidden, hidden]; wb, rb: [gates, hidden];
    state: h, and of lstm c, [batch, hidden] each.
    """

    index: int
    w: Array
    r: Array
    wb: Array
    rb: Array
    state: State
    activations: Sequence[Activation]

    def project(self, x: Array, gate: int) -> Array:
        """Return the part of a gate that comes from x[batch, input]."""
        return np.asarray(x @ self.w[gate].T + self.wb[gate])

    def recur(self, h: Array, gate: int) -> Array:
        """Return the part of a gate that comes from h[batch, hidden]."""
        return np.asarray(h @ self.r[gate].T + self.rb[gate])


def each_direction(
    gates: int,
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    states: Sequence[Array | None],
    names: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
) -> Iterator[Direction]:
    """Yield the directions with their parameters; x is [steps, batch, input], as in layout 0."""
    count, hidden = r.shape[0], r.shape[2]
    functions = _bound(names, alphas, betas)
    each = len(functions) // count
    for d in range(count):
        bias = np.zeros(2 * gates * hidden, x.dtype) if b is None else b[d]
        wb, rb = bias.reshape(2, gates, hidden)
        empty = np.zeros((x.shape[1], hidden), x.dtype)
        yield Direction(
            d,
            w[d].reshape(gates, hidden, -1),
            r[d].reshape(gates, hidden, hidden),
            wb,
            rb,
            tuple(empty if state is None else state[d] for state in states),
            functions[d * each : (d + 1) * each],
        )


def run(
    x: Array,
    lengths: Array | None,
    direction: str,
    layout: int,
    passes: Iterator[Direction],
    step: Callable[[Direction, Array, State], State],
) -> Results:
    """Return Y and the last states; Y is 0 after the end of a sequence.

    x: [steps, batch, input]; step: computes the next states from x[batch, input] and the states.
    """
    steps, batch = x.shape[:2]
    ends = np.full(batch, steps) if lengths is None else lengths.astype(np.int64)
    if batch and not (int(ends.min()) >= 0 and int(ends.max()) <= steps):
        raise ValueError(f"sequence_lens: expected 0 to {steps}, got {ends.tolist()}")
    outputs: list[Array] = []
    states: list[State] = []
    rows = np.arange(batch, dtype=np.int64)
    for each in passes:
        state = each.state
        y = np.zeros((steps, *state[0].shape), x.dtype)
        backwards = direction == "reverse" or each.index == 1
        for t in range(steps):
            at = ends - 1 - t if backwards else np.full(batch, t)
            live = t < ends
            new = step(each, x[np.where(live, at, 0), rows], state)
            state = tuple(
                np.where(live[:, None], n, old).astype(old.dtype, copy=False)
                for n, old in zip(new, state, strict=True)
            )
            y[at[live], rows[live]] = state[0][live]
        outputs.append(y)
        states.append(state)
    all_y = np.stack(outputs, 1)
    last = [np.stack(list(each), 0) for each in zip(*states, strict=True)]
    if layout:
        all_y = all_y.transpose(2, 0, 1, 3)
        last = [each.swapaxes(0, 1) for each in last]
    return (all_y, *last)


def clipped(x: Array, clip: float) -> Array:
    """Return x clipped to -clip..clip; 0 is no bound."""
    return np.clip(x, -clip, clip) if clip else x


def weights(*shape: int, seed: int = 0) -> Array:
    """Return random weights that keep the magnitude of what they are multiplied with."""
    rng = np.random.default_rng(seed)
    return np.asarray(rng.normal(size=shape) * shape[-1] ** -0.5, np.float32)


def layer(
    gates: int,
    steps: int,
    batch: int,
    inputs: int,
    hidden: int,
    *more: tuple[int, ...] | Array | None,
    bias: bool = True,
    outputs: int = 2,
    **attrs: Attr,
) -> Case:
    """Return a case of a layer of that size.

    more: the inputs after the bias.
    """
    count = directions(str(attrs.get("direction", "forward")))
    return case(
        (batch, steps, inputs) if attrs.get("layout") else (steps, batch, inputs),
        weights(count, gates * hidden, inputs),
        weights(count, gates * hidden, hidden, seed=1),
        weights(count, 2 * gates * hidden, seed=2) if bias else None,
        *more,
        outputs=outputs,
        **{"hidden_size": hidden, **attrs},  # type: ignore[arg-type]
    )
