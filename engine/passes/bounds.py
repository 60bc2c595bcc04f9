"""The range that an op clamps its value to."""

from __future__ import annotations

from palmkit.engine.ir import Node
from palmkit.engine.ops import traits_of
from palmkit.engine.passes.rewrite import Draft


def bounds_of(draft: Draft, node: Node) -> tuple[float, float] | None:
    """Return the lower and the upper bound of relu, clip and similar ops; None for others.

    Returns None, too, if a bound is not a constant of one element. The lower bound may be above the
    upper one.
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
