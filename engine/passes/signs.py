"""What is known of the signs of values."""

from __future__ import annotations

import numpy as np

from palmkit.engine.ops import traits_of
from palmkit.engine.ops.traits import Traits
from palmkit.engine.passes.rewrite import Draft, input_at

_MOST_NODES = 8


def is_non_negative(draft: Draft, name: str, most_nodes: int = _MOST_NODES) -> bool:
    """Return whether no element is below zero (NaN is allowed), by what wrote the value."""
    value = draft.constant(name)
    if value is not None:
        return value.dtype.kind in "fiu" and bool((value >= 0).all())
    node = draft.producer(name)
    while node is not None and _keeps_sign(traits_of(node.op)):
        name = node.inputs[0]
        node = draft.producer(name)
    if node is None or not most_nodes:
        return False
    traits = traits_of(node.op)
    if traits.bounds is not None:
        low = draft.constant(input_at(node, 1)) if input_at(node, 1) else traits.bounds[0]
        return low is not None and bool(np.all(np.asarray(low) >= 0))
    if traits.is_fused:
        activation = node.text("activation")
        if activation == "clip":
            return node.numbers("activation_params")[0] >= 0
        return bool(activation) and traits_of(activation).non_negative
    if node.op == "mul" and node.inputs[0] == node.inputs[1]:
        return _is_float(draft, name)
    if node.op in ("add", "mul"):
        both = all(is_non_negative(draft, each, most_nodes - 1) for each in node.inputs)
        return both and _is_float(draft, name)
    return traits.non_negative


def _keeps_sign(traits: Traits) -> bool:
    return traits.keeps_sign or traits.moves


def _is_float(draft: Draft, name: str) -> bool:
    """Return whether it is a float: sums and products of integers may wrap round."""
    type = draft.type(name)
    return type is not None and type.dtype.startswith("float")
