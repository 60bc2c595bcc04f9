"""Activations written out in simple ops become one op each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from palmkit.engine.ir import Array, Attr, Graph, Node
from palmkit.engine.passes.patterns import Found, by_root, match
from palmkit.engine.passes.rewrite import Change, Draft, rewrite

_Make: TypeAlias = Callable[[Draft, Node, Found], "Node | None"]


def recognise_activations(graph: Graph) -> Graph:
    """Recognise hard_sigmoid, hard_swish, gelu, sigmoid, swish, mish, softplus and others.

    The others are softsign, leaky_relu and prelu. Only floats of at least 32 bits are rewritten:
    with fewer bits the order of rounding would show.
    """
    patterns = by_root(graph, _PATTERNS, ("hard_sigmoid", "sigmoid", "softplus"))

    def recognise(draft: Draft, node: Node) -> Change:
        type = draft.type(node.outputs[0])
        if type is None or type.dtype not in ("float32", "float64"):
            return None
        for text, make in patterns[node.op]:
            found = match(draft, text, node)
            made = None if found is None else make(draft, node, found)
            if made is not None and draft.dims(made.inputs[0]) == type.dims:
                return [made]
        return None

    return rewrite(graph, recognise, patterns)


def _op(op: str, **attrs: Attr) -> _Make:
    def make(draft: Draft, node: Node, found: Found) -> Node:
        return Node(op, (found.values["x"],), node.outputs, attrs, node.name)

    return make


def _hard_sigmoid(draft: Draft, node: Node, found: Found) -> Node | None:
    """Match clip(slope * x + offset, 0, 1)."""
    slope, offset = found.number("SLOPE"), found.number("OFFSET")
    if slope is None or offset is None:
        return None
    attrs = {"alpha": slope, "beta": offset}
    return Node("hard_sigmoid", (found.values["x"],), node.outputs, attrs, node.name)


def _leaky(draft: Draft, node: Node, found: Found) -> Node | None:
    """Match the maximum of x and slope * x, for a slope of 0 to 1."""
    slope = found.number("SLOPE")
    if slope is None or not 0 <= slope <= 1:
        return None
    return Node("leaky_relu", (found.values["x"],), node.outputs, {"alpha": slope}, node.name)


def _prelu(factor: float) -> _Make:
    """Return a rule whose slope is the constant times `factor`."""

    def make(draft: Draft, node: Node, found: Found) -> Node | None:
        x, value = found.values["x"], found.constants["SLOPE"]
        type = draft.type(x)
        if type is None or not _broadcasts(value, type.dims):
            return None
        slope = draft.new_constant(f"{node.outputs[0]}/slope", (value * factor).astype(type.dtype))
        return Node("prelu", (x, slope), node.outputs, name=node.name)

    return make


def _broadcasts(value: Array, dims: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(value.shape, dims) == dims
    except ValueError:
        return False


_CLIPPED = "clip(add(x, 3), 0, 6)"
_CUBE = ("mul(x, mul(x, x))", "pow(x, 3)")
_NORMAL = ("add(erf(mul(x, 0.70710678)), 1)",)
_TANH = (
    *(f"add(tanh(mul(add(x, mul({cube}, 0.044715)), 0.79788456)), 1)" for cube in _CUBE),
    *(f"add(tanh(add(mul(x, 0.79788456), mul({cube}, 0.035677408))), 1)" for cube in _CUBE),
    "add(tanh(mul(mul(x, 0.79788456), add(mul(mul(x, x), 0.044715), 1))), 1)",
    "add(tanh(mul(x, add(mul(mul(x, x), 0.035677408), 0.79788456))), 1)",
    "add(tanh(mul(mul(x, add(mul(mul(x, x), 0.044715), 1)), 0.79788456)), 1)",
)


def _halved(inner: str) -> tuple[str, ...]:
    """Return x / 2 * inner in every order of its factors."""
    return f"mul(mul(x, 0.5), {inner})", f"mul(mul(x, {inner}), 0.5)", f"mul(x, mul({inner}, 0.5))"


_PATTERNS: Sequence[tuple[str, _Make]] = (
    (f"mul({_CLIPPED}, 0.166666667)", _op("hard_sigmoid", alpha=1 / 6, beta=0.5)),
    ("clip(add(mul(x, SLOPE), OFFSET), 0, 1)", _hard_sigmoid),
    (f"mul(mul(x, {_CLIPPED}), 0.166666667)", _op("hard_swish")),
    (f"mul(mul(x, 0.166666667), {_CLIPPED})", _op("hard_swish")),
    (f"mul(x, mul({_CLIPPED}, 0.166666667))", _op("hard_swish")),
    ("mul(x, hard_sigmoid(x, alpha=0.166666667, beta=0.5))", _op("hard_swish")),
    *((text, _op("gelu")) for normal in _NORMAL for text in _halved(normal)),
    *((text, _op("gelu", approximate="tanh")) for tanh in _TANH for text in _halved(tanh)),
    ("mul(x, add(mul(erf(mul(x, 0.70710678)), 0.5), 0.5))", _op("gelu")),
    ("reciprocal(add(exp(neg(x)), 1))", _op("sigmoid")),
    ("div(1, add(exp(neg(x)), 1))", _op("sigmoid")),
    ("mul(x, sigmoid(x))", _op("swish")),
    ("div(x, add(exp(neg(x)), 1))", _op("swish")),
    ("log(add(exp(x), 1))", _op("softplus")),
    ("mul(x, tanh(softplus(x)))", _op("mish")),
    ("div(x, add(abs(x), 1))", _op("softsign")),
    ("max(x, mul(x, SLOPE))", _leaky),
    ("where(greater(x, 0), x, mul(x, SLOPE))", _prelu(1)),
    ("where(greater_or_equal(x, 0), x, mul(x, SLOPE))", _prelu(1)),
    ("where(less(x, 0), mul(x, SLOPE), x)", _prelu(1)),
    ("add(relu(x), mul(relu(neg(x)), SLOPE))", _prelu(-1)),
    ("sub(relu(x), mul(relu(neg(x)), SLOPE))", _prelu(1)),
    ("add(relu(x), mul(neg(relu(neg(x))), SLOPE))", _prelu(1)),
    ("add(relu(x), mul(clip(x, _, 0), SLOPE))", _prelu(1)),
    ("add(relu(x), mul(sub(x, abs(x)), SLOPE))", _prelu(2)),
)
