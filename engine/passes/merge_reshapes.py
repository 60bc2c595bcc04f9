"""Ops that only regroup dims become reshapes, and a chain of them becomes one."""

from dataclasses import replace

import numpy as np

from palmkit.engine.ir import Graph, Node
from palmkit.engine.ops import traits_of
from palmkit.engine.ops.traits import Movement, Traits
from palmkit.engine.passes.rewrite import (
    Change,
    Draft,
    has_any,
    input_at,
    is_unary,
    ops_among,
    rewrite,
    with_attrs,
)


def _reshapes(traits: Traits) -> bool:
    return traits.movement is Movement.RESHAPES


def merge_reshapes(graph: Graph) -> Graph:
    """Rewrite flatten, squeeze and unsqueeze of known shapes as reshape, and merge chains.

    A transpose in such a chain that only moves dims of size one moves no data and is removed. A
    reshape moves behind the activation that reads it, so that the activation follows its layer. A
    reduction whose dropped axes a reshape brings back keeps them.
    """
    graph = rewrite(graph, _merge, ops_among(graph, _reshapes) | {"transpose"})
    return rewrite(graph, _sink, is_unary) if has_any(graph, ("reshape",)) else graph


def _sink(draft: Draft, node: Node) -> Change:
    before = draft.sole_producer(node.inputs[0], "reshape")
    if before is None or any(n and draft.constant(n) is None for n in node.inputs[1:]):
        return None
    inner = draft.new_value(f"{node.outputs[0]}/before")
    return [
        replace(node, inputs=(before.inputs[0], *node.inputs[1:]), outputs=(inner,)),
        replace(before, inputs=(inner, *before.inputs[1:]), outputs=node.outputs),
    ]


def _merge(draft: Draft, node: Node) -> Change:
    dims = draft.dims(node.outputs[0])
    before = draft.producer(node.inputs[0])
    if dims is None or 0 in dims or not _regroups(draft, node):
        return None
    kept = _kept(draft, node, dims)
    if kept is not None:
        return [kept]
    if before is not None and _regroups(draft, before):
        source = before.inputs[0]
    elif node.op == "transpose" or (node.op == "reshape" and _is_plain(draft, node, dims)):
        return None
    else:
        source = node.inputs[0]
    shape = draft.new_constant(f"{node.outputs[0]}/shape", np.array(dims, np.int64))
    return [Node("reshape", (source, shape), node.outputs, name=node.name)]


def _kept(draft: Draft, node: Node, dims: tuple[int, ...]) -> Node | None:
    """Return the reduction before with its axes kept, if the node brings dropped ones back."""
    before = draft.sole_producer_with(node.inputs[0], lambda traits: traits.reduces)
    if before is None or before.integer("keepdims"):
        return None
    x, axes = draft.dims(before.inputs[0]), draft.constant(input_at(before, 1))
    if x is None or axes is None:
        return None
    gone = {int(axis) % len(x) for axis in axes.reshape(-1)}
    if dims != tuple(1 if axis in gone else dim for axis, dim in enumerate(x)):
        return None
    return with_attrs(replace(before, outputs=node.outputs), keepdims=None)


def _is_plain(draft: Draft, node: Node, dims: tuple[int, ...]) -> bool:
    shape = draft.constant(node.inputs[1])
    return shape is not None and tuple(shape.tolist()) == dims


def _regroups(draft: Draft, node: Node) -> bool:
    if _reshapes(traits_of(node.op)):
        return True
    dims = draft.dims(node.inputs[0])
    if node.op != "transpose" or dims is None:
        return False
    perm = node.integers("perm") or tuple(reversed(range(len(dims))))
    moved = [axis for axis in perm if dims[axis] != 1]
    return moved == sorted(moved)
