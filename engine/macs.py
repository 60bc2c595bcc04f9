"""The number of multiply-accumulates of a node.

Counted are the products of ops that multiply matrices or convolve: each such op gives its count
(`macs` in its file). Element-wise ops count nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from palmkit.engine.ir import Node, Type
from palmkit.engine.ops import find


def macs(node: Node, types: Mapping[str, Type]) -> int | None:
    """Return the multiply-accumulates of one run of the node.

    types: the types of the values, as infer_types gives them.
    Returns None if the count depends on what only a run gives.
    """
    if node.bodies:
        return None
    rule = find(node.op).macs
    if rule is None:
        return 0
    named = [name for name in (*node.inputs, *node.outputs) if name]
    if any(name not in types or not types[name].is_static for name in named):
        return None
    return rule(
        node,
        [types[name] if name else None for name in node.inputs],
        [types[name] if name else None for name in node.outputs],
    )
