"""Within which numbers a value is cut off."""

from __future__ import annotations

from palmkit.engine.ir import Node
from palmkit.engine.ops import traits_of
from palmkit.engine.passes.rewrite import Draft


def bounds_of(draft: Draft, node: Node) -> tuple[float, float] | None:
    """The lower and the upper bound of relu, clip and their like; None for others.

    None, too, if a bound is no constant of one element. The lower one may lie above the other.
    """
    own = traits_of(node.op).bounds
    if own is None:
        return None
    bounds = [*own]
    for place, name in enumerate(node.inputs[1:3]):
        value = draft.constant(name) if name else None
        if name and (value is None or value.size != 1):
            return None
        if value is not None:
            bounds[place] = float(value.reshape(-1)[0])
    return bounds[0], bounds[1]
