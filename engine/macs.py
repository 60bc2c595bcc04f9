"""How many multiply-accumulates a node takes.

Counted are the products of what multiplies matrices and kernels: the op says how many (`macs` in
its file). What works element by element counts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from palmkit.engine.ir import Node, Type
from palmkit.engine.ops import find


def macs(node: Node, types: Mapping[str, Type]) -> int | None:
    """Multiply-accumulates of one run of the node; None if they hang on what only a run gives.

    types: of the values, as infer_types gives them.
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
