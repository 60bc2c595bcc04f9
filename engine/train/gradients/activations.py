"""Gradients of activations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from palmkit.engine.ir import Node
from palmkit.engine.train.gradients import Backward, Rule

Back = Sequence["str | None"]
Slope = Callable[[Backward, Node, str, str], str]


def _by_slope(slope: Slope) -> Rule:
    """Return a rule for dy times the slope, which is written from x and y."""

    def rule(tape: Backward, node: Node, dy: str) -> Back:
        return [tape.add("mul", dy, slope(tape, node, node.inputs[0], node.outputs[0]))]

    return rule


def _positive(tape: Backward, x: str) -> str:
    """Write 1 where x is above 0, else 0."""
    return tape.add("sign", tape.add("relu", x))


def _relu(tape: Backward, node: Node, x: str, y: str) -> str:
    return tape.add("sign", y)


def _mixed(tape: Backward, x: str, above: str, below: str) -> str:
    """Write `above` where x is above 0, else `below`."""
    share = _positive(tape, x)
    return tape.add("add", below, tape.add("mul", share, tape.add("sub", above, below)))


def _leaky_relu(tape: Backward, node: Node, x: str, y: str) -> str:
    return _mixed(tape, x, tape.number(1.0, x), tape.number(node.number("alpha"), x))


def _prelu(tape: Backward, node: Node, dy: str) -> Back:
    x, slope = node.inputs
    one = tape.number(1.0, x)
    back: list[str | None] = [None, None]
    if x in tape.wants:
        back[0] = tape.add("mul", dy, _mixed(tape, x, one, slope))
    if slope in tape.wants:
        below = tape.add("sub", x, tape.add("relu", x))
        back[1] = tape.sum_to(tape.add("mul", dy, below), tape.dims(slope))
    return back


def _elu(tape: Backward, node: Node, x: str, y: str) -> str:
    alpha = tape.number(node.number("alpha"), x)
    return _mixed(tape, x, tape.number(1.0, x), tape.add("add", y, alpha))


def _sigmoid(tape: Backward, node: Node, x: str, y: str) -> str:
    return tape.add("mul", y, tape.add("sub", tape.number(1.0, y), y))


def _tanh(tape: Backward, node: Node, x: str, y: str) -> str:
    return tape.add("sub", tape.number(1.0, y), tape.add("mul", y, y))


def _hard_sigmoid(tape: Backward, node: Node, x: str, y: str) -> str:
    inside = tape.add(
        "mul", _positive(tape, y), _positive(tape, tape.add("sub", tape.number(1.0, y), y))
    )
    return tape.add("mul", inside, tape.number(node.number("alpha"), x))


def _hard_swish(tape: Backward, node: Node, x: str, y: str) -> str:
    # x clip(x / 6 + 1 / 2, 0, 1): x / 3 + 1 / 2 between -3 and 3, else 0 or 1.
    line = tape.add("add", tape.add("mul", x, tape.number(1 / 3, x)), tape.number(0.5, x))
    above = _positive(tape, tape.add("add", x, tape.number(3.0, x)))
    beyond = _positive(tape, tape.add("sub", x, tape.number(3.0, x)))
    inside = tape.add("mul", line, tape.add("sub", above, beyond))
    return tape.add("add", inside, beyond)


def _swish(tape: Backward, node: Node, x: str, y: str) -> str:
    alpha = node.number("alpha")
    gate = tape.add("sigmoid", tape.add("mul", x, tape.number(alpha, x)))
    rest = tape.add("sub", tape.number(1.0, x), gate)
    bent = tape.add("mul", tape.add("mul", y, rest), tape.number(alpha, x))
    return tape.add("add", gate, bent)


def _softplus(tape: Backward, node: Node, x: str, y: str) -> str:
    return tape.add("sigmoid", x)


def _gelu(tape: Backward, node: Node, x: str, y: str) -> str:
    half, one = tape.number(0.5, x), tape.number(1.0, x)
    if node.text("approximate") == "tanh":
        # y = x (1 + tanh(u)) / 2, u = a (x + b x^3)
        a, b = math.sqrt(2 / math.pi), 0.044715
        square = tape.add("mul", x, x)
        inner = tape.add("add", one, tape.add("mul", square, tape.number(b, x)))
        bend = tape.add("tanh", tape.add("mul", tape.add("mul", x, inner), tape.number(a, x)))
        steep = tape.add("add", one, tape.add("mul", square, tape.number(3 * b, x)))
        slope = tape.add("mul", tape.add("sub", one, tape.add("mul", bend, bend)), steep)
        slope = tape.add("mul", tape.add("mul", slope, x), tape.number(a / 2, x))
        return tape.add("add", tape.add("mul", tape.add("add", one, bend), half), slope)
    share = tape.add("erf", tape.add("mul", x, tape.number(1 / math.sqrt(2), x)))
    share = tape.add("mul", tape.add("add", one, share), half)
    bell = tape.add("exp", tape.add("neg", tape.add("mul", tape.add("mul", x, x), half)))
    bell = tape.add("mul", tape.add("mul", x, bell), tape.number(1 / math.sqrt(2 * math.pi), x))
    return tape.add("add", share, bell)


def _axes(tape: Backward, node: Node) -> list[int]:
    return [node.integer("axis") % len(tape.dims(node.outputs[0]))]


def _softmax(tape: Backward, node: Node, dy: str) -> Back:
    y = node.outputs[0]
    weighted = tape.add("mul", dy, y)
    total = tape.sum(weighted, _axes(tape, node), keepdims=True)
    return [tape.add("sub", weighted, tape.add("mul", y, total))]


def _log_softmax(tape: Backward, node: Node, dy: str) -> Back:
    total = tape.sum(dy, _axes(tape, node), keepdims=True)
    share = tape.add("exp", node.outputs[0])
    return [tape.add("sub", dy, tape.add("mul", share, total))]


RULES: dict[str, Rule] = {
    "elu": _by_slope(_elu),
    "gelu": _by_slope(_gelu),
    "hard_sigmoid": _by_slope(_hard_sigmoid),
    "hard_swish": _by_slope(_hard_swish),
    "leaky_relu": _by_slope(_leaky_relu),
    "log_softmax": _log_softmax,
    "prelu": _prelu,
    "relu": _by_slope(_relu),
    "sigmoid": _by_slope(_sigmoid),
    "softmax": _softmax,
    "softplus": _by_slope(_softplus),
    "swish": _by_slope(_swish),
    "tanh": _by_slope(_tanh),
}
