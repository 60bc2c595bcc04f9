"""Ops that only give the dims another grouping: one reshape each, and one for a chain of them."""

from dataclasses import replace

import numpy as np

from palmkit.engine.ir import Graph, Node
from palmkit.engine.passes.rewrite import ELEMENTWISE, Change, Draft, ints, rewrite

_REGROUPING = ("reshape", "flatten", "squeeze", "unsqueeze")


def merge_reshapes(graph: Graph) -> Graph:
    """Of known shapes: flatten, squeeze and unsqueeze become reshape, and chains become one.

    A transpose in such a chain that only moves dims of size one moves no data and leaves. A reshape
    goes behind the activation that reads it, so that the activation stands beside its layer.
    """
    return rewrite(rewrite(graph, _merge), _sink)


def _sink(draft: Draft, node: Node) -> Change:
    before = draft.sole_producer(node.inputs[0], "reshape") if node.op in ELEMENTWISE else None
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
    if before is not None and _regroups(draft, before):
        source = before.inputs[0]
    elif node.op == "transpose" or (node.op == "reshape" and _is_plain(draft, node, dims)):
        return None
    else:
        source = node.inputs[0]
    shape = draft.new_constant(f"{node.outputs[0]}/shape", np.array(dims, np.int64))
    return [Node("reshape", (source, shape), node.outputs, name=node.name)]


def _is_plain(draft: Draft, node: Node, dims: tuple[int, ...]) -> bool:
    shape = draft.constant(node.inputs[1])
    return shape is not None and tuple(shape.tolist()) == dims


def _regroups(draft: Draft, node: Node) -> bool:
    if node.op in _REGROUPING:
        return True
    dims = draft.dims(node.inputs[0])
    if node.op != "transpose" or dims is None:
        return False
    perm = ints(node, "perm", tuple(reversed(range(len(dims)))))
    moved = [axis for axis in perm if dims[axis] != 1]
    return moved == sorted(moved)
