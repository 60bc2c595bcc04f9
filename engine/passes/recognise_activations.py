"""hard_swish and hard_sigmoid written out in simple ops become one op each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from palmkit.engine.ir import Graph, Node
from palmkit.engine.passes.rewrite import Change, Draft, rewrite


def recognise_activations(graph: Graph) -> Graph:
    """clip(x + 3, 0, 6) / 6 is hard_sigmoid; that times x, in any order, is hard_swish."""
    return rewrite(graph, _recognise)


@dataclass(frozen=True)
class _Gate:
    """factor * clip(x + 3, 0, 6), times x once more if `is_swish`."""

    x: str
    factor: float
    is_swish: bool


def _recognise(draft: Draft, node: Node) -> Change:
    if node.op not in ("mul", "div"):
        return None
    gate = _gate(draft, node)
    if gate is None or not np.isclose(gate.factor, 1 / 6, rtol=1e-6, atol=0):
        return None
    if gate.is_swish:
        return [Node("hard_swish", (gate.x,), node.outputs, name=node.name)]
    attrs = {"alpha": 1 / 6, "beta": 0.5}
    return [Node("hard_sigmoid", (gate.x,), node.outputs, attrs, node.name)]


def _gate(draft: Draft, node: Node | None, depth: int = 4) -> _Gate | None:
    """What a node computes; at most `depth` nodes back."""
    if node is None or not depth:
        return None
    if node.op == "clip":
        return _clipped_sum(draft, node)
    if node.op == "hard_sigmoid":
        slope, offset = node.attrs.get("alpha", 0.2), node.attrs.get("beta", 0.5)
        is_sixth = np.isclose(float(slope), 1 / 6, rtol=1e-6, atol=0)  # type: ignore[arg-type]
        return _Gate(node.inputs[0], 1 / 6, False) if is_sixth and offset == 0.5 else None
    if node.op not in ("mul", "div"):
        return None
    left, right = node.inputs
    number = _number(draft, right)
    if number is not None:
        inner = _gate(draft, draft.producer(left), depth - 1)
        if inner is None or not number:
            return None
        factor = inner.factor * number if node.op == "mul" else inner.factor / number
        return _Gate(inner.x, factor, inner.is_swish)
    if node.op == "div":
        return None
    if _number(draft, left) is not None:
        return _gate(draft, Node("mul", (right, left), node.outputs), depth)
    for x, other in ((left, right), (right, left)):
        inner = _gate(draft, draft.producer(other), depth - 1)
        if inner is not None and not inner.is_swish and inner.x == x:
            return _Gate(x, inner.factor, True)
    return None


def _clipped_sum(draft: Draft, node: Node) -> _Gate | None:
    bounds = [_number(draft, name) for name in node.inputs[1:]]
    total = draft.producer(node.inputs[0])
    if bounds != [0, 6] or total is None or total.op != "add":
        return None
    for x, addend in (total.inputs, total.inputs[::-1]):
        if _number(draft, addend) == 3:
            return _Gate(x, 1.0, False)
    return None


def _number(draft: Draft, name: str) -> float | None:
    """The value of a constant of one element."""
    value = draft.constant(name)
    return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None
