"""Patterns of nodes, written as the expressions that they compute."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, TypeVar

import numpy as np

from palmkit.engine.ir import Array, Attr, Graph, Node
from palmkit.engine.ops import traits_of
from palmkit.engine.passes.rewrite import Draft

_CLOSE = 1e-5
_LIKE = {"div": "mul", "sub": "add"}
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class _Variable:
    """A value; equal names in a pattern stand for the same value."""

    name: str


@dataclass(frozen=True)
class _Constant:
    """A constant; equal names in a pattern stand for equal constants."""

    name: str


@dataclass(frozen=True)
class _Call:
    op: str
    operands: tuple[_Pattern, ...]
    attrs: Mapping[str, Attr]


_Pattern: TypeAlias = "_Variable | _Constant | _Call | float"
_Operand: TypeAlias = "str | Array"


@dataclass
class Found:
    """What the names of a pattern stand for."""

    values: dict[str, str]
    constants: dict[str, Array]

    def number(self, name: str) -> float | None:
        """Return a constant of one element as a number."""
        value = self.constants[name]
        return float(value.reshape(-1)[0]) if value.size == 1 else None


def match(draft: Draft, text: str, node: Node) -> Found | None:
    """Return what the names in `text` stand for if `node` computes that expression, or None.

    text: calls of ops, such as `mul(x, add(erf(x), 1))`. Small letters are values, capitals
    constants, numbers constants of one element (to 1e-5), _ an input left out. The operands of
    commutative ops may stand either way; dividing by a constant equals multiplying by its inverse,
    and so with sub. Attributes that are named must have that value.
    """
    found = Found({}, {})
    return found if _matches_node(draft, _parse(text), node, found) else None


def by_root(
    graph: Graph, patterns: Sequence[tuple[str, _Made]], written: Collection[str] = ()
) -> dict[str, list[tuple[str, _Made]]]:
    """Return the patterns whose ops the graph has, by the ops that their last node may have.

    written: ops that the pass itself may add to the graph.
    """
    present = {*written, *(node.op for node in graph.nodes)}
    for op, other in _LIKE.items():
        if op in present:
            present.add(other)
    roots: dict[str, list[tuple[str, _Made]]] = {}
    for text, made in patterns:
        if _ops_of(text) <= present:
            root = _parse(text).op
            for op in (root, *(op for op, other in _LIKE.items() if other == root)):
                roots.setdefault(op, []).append((text, made))
    return roots


@cache
def _parse(text: str) -> _Call:
    pattern = _pattern(ast.parse(text, mode="eval").body)
    assert isinstance(pattern, _Call)
    return pattern


@cache
def _ops_of(text: str) -> frozenset[str]:
    return _ops(_parse(text))


def _ops(pattern: _Pattern) -> frozenset[str]:
    if not isinstance(pattern, _Call):
        return frozenset()
    return frozenset({pattern.op}).union(*map(_ops, pattern.operands))


def _pattern(tree: ast.expr) -> _Pattern:
    if isinstance(tree, ast.Name):
        return _Constant(tree.id) if tree.id.isupper() else _Variable(tree.id)
    if isinstance(tree, ast.Call):
        attrs = {str(each.arg): ast.literal_eval(each.value) for each in tree.keywords}
        return _Call(ast.unparse(tree.func), tuple(map(_pattern, tree.args)), attrs)
    return float(ast.literal_eval(tree))


def _matches(draft: Draft, pattern: _Pattern, operand: _Operand, found: Found) -> bool:
    if isinstance(pattern, _Call):
        node = draft.producer(operand) if isinstance(operand, str) else None
        return node is not None and _matches_node(draft, pattern, node, found)
    if isinstance(pattern, _Variable):
        if pattern.name == "_":
            return isinstance(operand, str) and not operand
        values = found.values
        return isinstance(operand, str) and values.setdefault(pattern.name, operand) == operand
    value = draft.constant(operand) if isinstance(operand, str) else operand
    if value is None:
        return False
    if isinstance(pattern, _Constant):
        return np.array_equal(found.constants.setdefault(pattern.name, value), value)
    return value.size == 1 and bool(np.isclose(value, pattern, rtol=_CLOSE, atol=0).all())


def _matches_node(draft: Draft, pattern: _Call, node: Node, found: Found) -> bool:
    operands: list[_Operand] = [*node.inputs, *[""] * (len(pattern.operands) - len(node.inputs))]
    if node.op != pattern.op:
        value = draft.constant(node.inputs[-1]) if _LIKE.get(node.op) == pattern.op else None
        if value is None:
            return False
        wide = value.astype(np.float64)
        operands[-1] = 1 / wide if node.op == "div" else -wide
    if len(operands) != len(pattern.operands) or not _has_attrs(node, pattern.attrs):
        return False
    orders = [operands, operands[::-1]] if traits_of(pattern.op).commutative else [operands]
    for order in orders:
        trial = Found({**found.values}, {**found.constants})
        pairs = zip(pattern.operands, order, strict=True)
        if all(_matches(draft, each, given, trial) for each, given in pairs):
            found.values, found.constants = trial.values, trial.constants
            return True
    return False


def _has_attrs(node: Node, wanted: Mapping[str, Attr]) -> bool:
    if not wanted:
        return True
    expected: dict[str, Any] = {**wanted}
    return all(np.isclose(node.number(key), value, rtol=_CLOSE) for key, value in expected.items())
