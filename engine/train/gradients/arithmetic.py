"""Gradients of element-wise arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Node
from palmkit.engine.train.gradients import Backward, Rule

Back = Sequence["str | None"]


def _to(tape: Backward, gradient: str, x: str) -> str | None:
    return tape.sum_to(gradient, tape.dims(x)) if x in tape.wants else None


def _add(tape: Backward, node: Node, dy: str) -> Back:
    return [_to(tape, dy, x) for x in node.inputs]


def _sub(tape: Backward, node: Node, dy: str) -> Back:
    a, b = node.inputs
    return [_to(tape, dy, a), _to(tape, tape.add("neg", dy), b) if b in tape.wants else None]


def _mul(tape: Backward, node: Node, dy: str) -> Back:
    a, b = node.inputs
    return [
        _to(tape, tape.add("mul", dy, other), x) if x in tape.wants else None
        for x, other in ((a, b), (b, a))
    ]


def _div(tape: Backward, node: Node, dy: str) -> Back:
    a, b = node.inputs
    share = tape.add("div", dy, b)
    below = None
    if b in tape.wants:
        below = _to(tape, tape.add("neg", tape.add("mul", share, node.outputs[0])), b)
    return [_to(tape, share, a), below]


def _pow(tape: Backward, node: Node, dy: str) -> Back:
    a, b = node.inputs
    if b in tape.wants:
        raise UnsupportedError(f"node {node.label}: no gradient of an exponent")
    exponent = tape.value(b)
    if exponent is None:
        raise UnsupportedError(f"node {node.label}: exponent is not constant")
    less = tape.constant(np.asarray(exponent - 1, tape.type(a).dtype))
    slope = tape.add(
        "mul", tape.add("pow", a, less), tape.constant(exponent.astype(tape.type(a).dtype))
    )
    return [_to(tape, tape.add("mul", dy, slope), a), None]


def _mean(tape: Backward, node: Node, dy: str) -> Back:
    share = tape.add("mul", dy, tape.number(1 / len(node.inputs), dy))
    return [_to(tape, share, x) for x in node.inputs]


def _where(tape: Backward, node: Node, dy: str) -> Back:
    condition, a, b = node.inputs
    zero = tape.number(0.0, dy)
    return [
        None,
        _to(tape, tape.add("where", condition, dy, zero), a) if a in tape.wants else None,
        _to(tape, tape.add("where", condition, zero, dy), b) if b in tape.wants else None,
    ]


def _extreme(sign: float) -> Rule:
    def rule(tape: Backward, node: Node, dy: str) -> Back:
        if len(node.inputs) == 1:
            return [dy]
        # write_out leaves two inputs; where they are equal the first gets the whole gradient.
        a, b = node.inputs
        ahead = tape.add("sub", b, a) if sign > 0 else tape.add("sub", a, b)
        second = tape.add("sign", tape.add("relu", ahead))
        to_second = tape.add("mul", dy, second)
        return [_to(tape, tape.add("sub", dy, to_second), a), _to(tape, to_second, b)]

    return rule


def _clip(tape: Backward, node: Node, dy: str) -> Back:
    x, y = node.inputs[0], node.outputs[0]
    # Inside, y is x; where they differ nothing flows. A bound itself counts as inside.
    moved = tape.add("sign", tape.add("abs", tape.add("sub", x, y)))
    return [tape.add("sub", dy, tape.add("mul", dy, moved)), *[None] * (len(node.inputs) - 1)]


def _slope(of: str, *ops: str) -> Rule:
    """Return a rule for dy times a chain of ops applied to x or y."""

    def rule(tape: Backward, node: Node, dy: str) -> Back:
        slope = node.inputs[0] if of == "x" else node.outputs[0]
        for op in ops:
            slope = tape.add(op, slope)
        return [tape.add("mul", dy, slope)]

    return rule


def _reciprocal(tape: Backward, node: Node, dy: str) -> Back:
    square = tape.add("mul", node.outputs[0], node.outputs[0])
    return [tape.add("neg", tape.add("mul", dy, square))]


def _sqrt(tape: Backward, node: Node, dy: str) -> Back:
    return [tape.add("div", dy, tape.add("mul", node.outputs[0], tape.number(2.0, dy)))]


def _log(tape: Backward, node: Node, dy: str) -> Back:
    return [tape.add("div", dy, node.inputs[0])]


def _erf(tape: Backward, node: Node, dy: str) -> Back:
    x = node.inputs[0]
    bell = tape.add("exp", tape.add("neg", tape.add("mul", x, x)))
    return [tape.add("mul", dy, tape.add("mul", bell, tape.number(2 / math.sqrt(math.pi), x)))]


def _cast(tape: Backward, node: Node, dy: str) -> Back:
    to = tape.type(node.inputs[0]).dtype
    return [tape.add("cast", dy, to=to) if to.startswith("float") else None]


def _same(tape: Backward, node: Node, dy: str) -> Back:
    return [dy]


RULES: dict[str, Rule] = {
    "abs": _slope("x", "sign"),
    "add": _add,
    "cast": _cast,
    "clip": _clip,
    "cos": _slope("x", "sin", "neg"),
    "div": _div,
    "erf": _erf,
    "exp": _slope("y"),
    "identity": _same,
    "log": _log,
    "max": _extreme(1),
    "mean": _mean,
    "min": _extreme(-1),
    "mul": _mul,
    "neg": lambda tape, node, dy: [tape.add("neg", dy)],
    "pow": _pow,
    "reciprocal": _reciprocal,
    "sin": _slope("x", "cos"),
    "sqrt": _sqrt,
    "sub": _sub,
    "sum": _add,
    "where": _where,
}
