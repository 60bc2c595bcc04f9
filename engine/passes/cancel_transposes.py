"""Transposes walk through the graph until they meet their inverse.

They sink: op(transpose(x)) becomes transpose(op(x)), wherever the op treats axes alike or names
them by number. Only the ones that bring channels to the front rise instead, towards the input that
they come from: so both kinds meet, and the two walks never undo each other. What is left stands at
the borders of the graph or before a reshape that regroups the axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from palmkit.engine.ir import Array, Graph, Node
from palmkit.engine.ops import traits_of
from palmkit.engine.passes.rewrite import (
    Change,
    Draft,
    has_any,
    input_at,
    ops_among,
    rewrite,
    with_attrs,
)

Perm: TypeAlias = tuple[int, ...]


def cancel_transposes(graph: Graph) -> Graph:
    """Move transposes one node further, merge those that meet, drop those that do nothing."""
    if not has_any(graph, ("transpose",)):
        return graph
    walks = {name for name in ops_among(graph, lambda traits: True) if _walk_of(name) is not None}
    graph = rewrite(graph, _sink, {"transpose", *walks})
    return rewrite(graph, _rise, ("transpose",))


def _sink(draft: Draft, node: Node) -> Change:
    if node.op == "transpose":
        return _merge(draft, node)
    perms = [_perm_of(draft, draft.producer(name)) for name in node.inputs]
    perm = next((each for each in perms if each is not None), None)
    if perm is None or _rises(perm):
        return None
    sources: dict[str, str] = {}
    for name, each in zip(node.inputs, perms, strict=True):
        source = draft.producer(name)
        if each == perm and source is not None:
            sources[name] = source.inputs[0]
    return _through(draft, node, perm, sources)


def _rise(draft: Draft, node: Node) -> Change:
    """Rewrite transpose(op(x)) of a channels-first transpose, as sinking its inverse through op."""
    perm = _perm_of(draft, node)
    if perm is None or not _rises(perm):
        return None
    op = draft.producer(node.inputs[0])
    if op is None or draft.sole_producer(node.inputs[0], op.op) is None:
        return None
    computed = {n for n in op.inputs if n and draft.constant(n) is None}
    if len(computed) != 1 or op.op in ("transpose", "reshape") or _drops_axes(op):
        return None
    (x,) = computed
    first = Node("transpose", (x,), (draft.new_value(f"{x}/transposed"),), {"perm": perm})
    walked = _through(draft, op, _inverse(perm), {x: first.outputs[0]})
    if walked is None or len(walked) != 2 or walked[-1].integers("perm") != _inverse(perm):
        return None
    return [first, replace(walked[0], outputs=node.outputs)]


def _drops_axes(node: Node) -> bool:
    """Return whether the output has fewer axes than the input, so that it has another transpose."""
    is_reduction = traits_of(node.op).reduces
    return node.op == "squeeze" or (is_reduction and not node.integer("keepdims"))


def _perm_of(draft: Draft, node: Node | None) -> Perm | None:
    if node is None or node.op != "transpose":
        return None
    perm = node.integers("perm")
    if not perm:
        dims = draft.dims(node.inputs[0])
        return None if dims is None else tuple(reversed(range(len(dims))))
    return perm


def _rises(perm: Perm) -> bool:
    """Return whether the permutation moves the last axis after the first: channels to the front."""
    rank = len(perm)
    return rank > 3 and perm == (0, rank - 1, *range(1, rank - 1))


def _inverse(perm: Perm) -> Perm:
    return tuple(perm.index(axis) for axis in range(len(perm)))


def _merge(draft: Draft, node: Node) -> Change:
    second = _perm_of(draft, node)
    before = draft.producer(node.inputs[0])
    first = _perm_of(draft, before)
    if second is None:
        return None
    if second == tuple(range(len(second))):
        return {node.outputs[0]: node.inputs[0]}
    if first is None or before is None:
        return None
    perm = tuple(first[axis] for axis in second)
    if perm == tuple(range(len(perm))):
        return {node.outputs[0]: before.inputs[0]}
    return [with_attrs(replace(node, inputs=before.inputs), perm=perm)]


def _through(
    draft: Draft, node: Node, perm: Perm, sources: dict[str, str]
) -> Sequence[Node] | None:
    """Return the node on untransposed inputs and a transpose for each output; None without a rule.

    sources: what each transposed input is a transpose of.
    """
    walk = _walk_of(node.op)
    return None if walk is None else walk(draft, node, perm, sources)


def _behind(draft: Draft, node: Node, perm: Perm) -> list[Node]:
    """Return the node, writing new values, and transposes that write its former outputs."""
    inner = tuple(draft.new_value(f"{name}/before") if name else "" for name in node.outputs)
    return [replace(node, outputs=inner)] + [
        Node("transpose", (source,), (name,), {"perm": perm}, node.name)
        for source, name in zip(inner, node.outputs, strict=True)
        if name
    ]


def _like(draft: Draft, node: Node, perm: Perm, sources: dict[str, str]) -> list[Node] | None:
    """Rewrite a node whose inputs share the axes: drop their transposes, transpose constants."""
    inputs: list[str] = []
    for name in node.inputs:
        value = draft.constant(name)
        if name in sources:
            inputs.append(sources[name])
        elif value is not None and value.ndim <= len(perm):
            inputs.append(_transposed_constant(draft, name, value, _inverse(perm)))
        else:
            return None
    return _behind(draft, replace(node, inputs=tuple(inputs)), perm)


def _transposed_constant(draft: Draft, name: str, value: Array, perm: Perm) -> str:
    """Transpose a constant that broadcasts; one element broadcasts any way."""
    if value.size == 1 and value.ndim <= 1:
        return name
    value = value.reshape((1,) * (len(perm) - value.ndim) + value.shape).transpose(perm)
    return draft.new_constant(f"{name}/transposed", value)


def _unary(draft: Draft, node: Node, perm: Perm, sources: dict[str, str]) -> list[Node] | None:
    """Rewrite a node of which only the first input has the axes; clip's bounds are numbers."""
    if node.inputs[0] not in sources or any(name in sources for name in node.inputs[1:]):
        return None
    return _behind(draft, replace(node, inputs=(sources[node.inputs[0]], *node.inputs[1:])), perm)


def _quantized(draft: Draft, node: Node, perm: Perm, sources: dict[str, str]) -> list[Node] | None:
    """Rewrite a node of quantized values with one scale, or a lookup with one table."""
    scale = draft.constant(node.inputs[1])
    if scale is None or (scale.ndim > 1 if node.op == "lookup" else scale.size != 1):
        return None
    has_blocks = node.op != "lookup" and node.integer("block_size") != 0
    return None if has_blocks else _unary(draft, node, perm, sources)


def _along_axis(draft: Draft, node: Node, perm: Perm, sources: dict[str, str]) -> list[Node] | None:
    moved = with_attrs(node, axis=perm[node.integer("axis")])
    return (_like if node.op == "concat" else _unary)(draft, moved, perm, sources)


def _pad(draft: Draft, node: Node, perm: Perm, sources: dict[str, str]) -> list[Node] | None:
    amounts = draft.constant(node.inputs[1])
    if amounts is None or len(amounts) != 2 * len(perm) or input_at(node, 3):
        return None
    moved = amounts.reshape(2, -1)[:, list(_inverse(perm))].reshape(-1)
    name = draft.new_constant(f"{node.inputs[1]}/transposed", moved)
    return _unary(
        draft, replace(node, inputs=(node.inputs[0], name, *node.inputs[2:])), perm, sources
    )


def _slice(draft: Draft, node: Node, perm: Perm, sources: dict[str, str]) -> list[Node] | None:
    starts = draft.constant(node.inputs[1])
    if starts is None:
        return None
    inputs = [*node.inputs, *[""] * (5 - len(node.inputs))]
    axes = draft.constant(inputs[3]) if inputs[3] else np.arange(len(starts))
    if axes is None:
        return None
    moved = np.array([perm[int(axis)] for axis in axes], np.int64)
    inputs[3] = draft.new_constant(f"{node.outputs[0]}/axes", moved)
    while not inputs[-1]:
        inputs.pop()
    return _unary(draft, replace(node, inputs=tuple(inputs)), perm, sources)


def _dropping_axes(
    draft: Draft, node: Node, perm: Perm, sources: dict[str, str]
) -> list[Node] | None:
    """Rewrite reductions and squeeze: the axes that stay keep their order, fewer of them."""
    if len(node.inputs) < 2 or node.inputs[0] not in sources:
        return None
    axes = draft.constant(node.inputs[1])
    if axes is None or not axes.size:
        return None
    gone = {perm[int(axis)] for axis in axes.reshape(-1)}
    name = draft.new_constant(f"{node.inputs[1]}/transposed", np.array(sorted(gone), np.int64))
    moved = replace(node, inputs=(sources[node.inputs[0]], name))
    if not _drops_axes(node):
        return _behind(draft, moved, perm)
    stays = [axis for axis in perm if axis not in gone]
    left = tuple(sorted(stays).index(axis) for axis in stays)
    return [moved] if left == tuple(range(len(left))) else _behind(draft, moved, left)


_Walk: TypeAlias = Callable[[Draft, Node, Perm, dict[str, str]], "list[Node] | None"]
_WALKS: dict[str, _Walk] = {
    **dict.fromkeys(("softmax", "log_softmax", "concat", "split"), _along_axis),
    **dict.fromkeys(("quantize_linear", "dequantize_linear", "lookup"), _quantized),
    "squeeze": _dropping_axes,
    "pad": _pad,
    "slice": _slice,
}


def _walk_of(op: str) -> _Walk | None:
    """Return how a transpose goes through an op; None if it does not."""
    traits = traits_of(op)
    if traits.elementwise is not None:
        return _unary if traits.is_unary else _like
    return _dropping_axes if traits.reduces else _WALKS.get(op)
