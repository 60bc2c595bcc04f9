"""Redundant arithmetic is simplified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from palmkit.engine.errors import PalmError
from palmkit.engine.ir import Array, Graph, Node, numpy_dtype
from palmkit.engine.ops import traits_of
from palmkit.engine.passes.bounds import bounds_of
from palmkit.engine.passes.rewrite import Change, Draft, ops_among, rewrite
from palmkit.engine.passes.signs import is_non_negative


def simplify(graph: Graph) -> Graph:
    """Simplify powers, double negations, repeated casts, bounds and constants.

    Two constants of add and sub, or of mul and div, become one. max and min with a number become
    clip, and clip of clip or relu becomes one clip. An expand that broadcasting does anyway is
    removed.
    """
    known = {name for name in ops_among(graph, lambda traits: True) if _rules_of(name)}
    return rewrite(graph, _simplify, known)


def _simplify(draft: Draft, node: Node) -> Change:
    for rule in _rules_of(node.op):
        change = rule(draft, node)
        if change is not None:
            return change
    return None


def _power(draft: Draft, node: Node) -> Change:
    x, exponent = node.inputs
    value = _number(draft, exponent)
    type = draft.type(x)
    if value is None or type is None or type.dims != draft.dims(node.outputs[0]):
        return None
    if value == 1:
        return {node.outputs[0]: x}
    if value == 2:
        return [replace(node, op="mul", inputs=(x, x))]
    if value == 0.5 and type.dtype.startswith("float") and is_non_negative(draft, x):
        return [replace(node, op="sqrt", inputs=(x,))]
    if value == -1 and type.dtype.startswith("float"):
        return [replace(node, op="reciprocal", inputs=(x,))]
    return None


def _inverse(draft: Draft, node: Node) -> Change:
    """Rewrite f(f(x)) as x."""
    before = draft.producer(node.inputs[0])
    return {node.outputs[0]: before.inputs[0]} if before and before.op == node.op else None


def _again(draft: Draft, node: Node) -> Change:
    """Rewrite f(f(x)) as f(x)."""
    before = draft.producer(node.inputs[0])
    same = before is not None and before.op == node.op and before.attrs == node.attrs
    return {node.outputs[0]: node.inputs[0]} if same else None


def _already(draft: Draft, node: Node) -> Change:
    """Drop relu and abs of a value that is not negative."""
    x = node.inputs[0]
    return {node.outputs[0]: x} if is_non_negative(draft, x) else None


def _negated(draft: Draft, node: Node) -> Change:
    """Rewrite the addition of a negated value as a subtraction, and the other way round."""
    for x, other in (node.inputs, node.inputs[::-1]) if node.op == "add" else (node.inputs,):
        minus = draft.sole_producer(other, "neg")
        if minus is not None:
            op = "sub" if node.op == "add" else "add"
            return [replace(node, op=op, inputs=(x, minus.inputs[0]))]
    return None


def _cast(draft: Draft, node: Node) -> Change:
    before = draft.producer(node.inputs[0])
    first = draft.type(before.inputs[0]) if before is not None and before.op == "cast" else None
    if before is None or first is None:
        return None
    if not _holds(before.text("to"), first.dtype):
        return None
    return [replace(node, inputs=before.inputs)]


def _holds(wide: str, narrow: str) -> bool:
    """Return whether every value of dtype `narrow` is one of dtype `wide`."""
    try:
        a, b = numpy_dtype(wide), numpy_dtype(narrow)
    except PalmError:
        return False
    if a == b or b.kind == "b":
        return True
    if a.kind not in "iuf" or b.kind not in "iuf":
        return False
    if a.kind == "f" and b.kind in "iu":
        return bool(np.finfo(a).nmant + 1 >= 8 * b.itemsize - (b.kind == "i"))
    return bool(np.can_cast(b, a, "safe"))


def _bound(draft: Draft, node: Node) -> Change:
    """Rewrite max or min of a value and a number as clip."""
    if len(node.inputs) != 2:
        return None
    x, bound = node.inputs
    if draft.constant(bound) is None:
        x, bound = bound, x
    value, type = draft.constant(bound), draft.type(x)
    if value is None or value.size != 1 or type is None or not type.dtype.startswith("float"):
        return None
    if type.dims != draft.dims(node.outputs[0]) or np.isnan(value).any():
        return None
    number = bound if not value.ndim else draft.new_constant(f"{bound}/number", value.reshape(()))
    inputs = (x, number) if node.op == "max" else (x, "", number)
    return [Node("clip", inputs, node.outputs, name=node.name)]


def _clip(draft: Draft, node: Node) -> Change:
    """Merge the bounds of nested clamps."""
    before = draft.sole_producer_with(node.inputs[0], lambda traits: traits.bounds is not None)
    outer, inner = bounds_of(draft, node), None if before is None else bounds_of(draft, before)
    if before is None or outer is None or inner is None or not _has_floats(draft, node):
        return None
    if not (outer[0] <= outer[1] and inner[0] <= inner[1]):
        return None
    bounds = np.clip(inner, *outer)
    dtype = numpy_dtype(str(draft.type(node.inputs[0]).dtype))  # type: ignore[union-attr]
    y = node.outputs[0]
    low, high = (draft.new_constant(f"{y}/bound", np.array(each, dtype)) for each in bounds)
    return [Node("clip", (before.inputs[0], low, high), node.outputs, name=node.name)]


def _has_floats(draft: Draft, node: Node) -> bool:
    type = draft.type(node.inputs[0])
    return type is not None and type.dtype.startswith("float")


def _constants(draft: Draft, node: Node) -> Change:
    """Merge the constants in x + a + b, x * a / b and similar expressions into one."""
    x, operand = _operands(draft, node)
    before = draft.sole_producer(x, *(_SUMS if node.op in _SUMS else _PRODUCTS))
    if before is None:
        return None
    source, first = _operands(draft, before)
    a, b = draft.constant(first), draft.constant(operand)
    if a is None or b is None or draft.constant(source) is not None or not _has_floats(draft, node):
        return None
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    if node.op in _SUMS:
        value = (wide_a if before.op == "add" else -wide_a) + (
            wide_b if node.op == "add" else -wide_b
        )
        op = "add"
    else:
        value = wide_a if before.op == "mul" else 1 / wide_a
        value = value * wide_b if node.op == "mul" else value / wide_b
        op = "mul"
    value = value.astype(a.dtype)
    dims = draft.dims(node.outputs[0])
    if not np.isfinite(value).all() or dims is None or value.size > max(a.size, b.size):
        return None
    name = draft.new_constant(f"{node.outputs[0]}/{op}", value)
    return [Node(op, (source, name), node.outputs, name=node.name)]


_SUMS, _PRODUCTS = ("add", "sub"), ("mul", "div")


def _operands(draft: Draft, node: Node) -> tuple[str, str]:
    """Return the computed operand and the other one, of an op of two."""
    a, b = node.inputs
    return (b, a) if node.op in ("add", "mul") and draft.constant(b) is None else (a, b)


def _expanded(draft: Draft, node: Node) -> Change:
    """Drop an expand of an operand that broadcasting does anyway."""
    dims = draft.dims(node.outputs[0])
    for place, name in enumerate(node.inputs):
        expand = draft.producer(name)
        if expand is None or expand.op != "expand" or dims is None:
            continue
        inputs = (*node.inputs[:place], expand.inputs[0], *node.inputs[place + 1 :])
        shapes = [draft.dims(each) for each in inputs]
        if all(shape is not None for shape in shapes):
            shape: Any = np.broadcast_shapes(*(each for each in shapes if each is not None))
            if shape == dims:
                return [replace(node, inputs=inputs)]
    return None


def _sum(draft: Draft, node: Node) -> Change:
    """Rewrite a sum of two values as add."""
    return [replace(node, op="add")] if len(node.inputs) == 2 else None


def _number(draft: Draft, name: str) -> float | None:
    """Return the value of a constant of one element."""
    value: Array | None = draft.constant(name)
    return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None


_Rule = Callable[[Draft, Node], Change]
_RULES: dict[str, tuple[_Rule, ...]] = {
    "add": (_negated, _constants),
    "sub": (_negated, _constants),
    "mul": (_constants,),
    "div": (_constants,),
    "max": (_bound,),
    "min": (_bound,),
    "pow": (_power,),
    "sum": (_sum,),
    "cast": (_cast,),
    "clip": (_clip,),
    "relu": (_already,),
    "abs": (_already,),
}


@cache
def _rules_of(op: str) -> tuple[_Rule, ...]:
    """Return the rules to try for an op, in this order."""
    traits = traits_of(op)
    return (
        *((_expanded,) if traits.broadcasts else ()),
        *((_inverse,) if traits.self_inverse else ()),
        *((_again,) if traits.idempotent else ()),
        *_RULES.get(op, ()),
    )
