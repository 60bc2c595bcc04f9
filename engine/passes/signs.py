"""What is known of the signs of values."""

from __future__ import annotations

from typing import Any

from palmkit.engine.passes.rewrite import Draft, input_at

_NON_NEGATIVE = ("relu", "sigmoid", "hard_sigmoid", "exp", "abs", "softmax", "sqrt", "softplus")
_KEEP_SIGN = (
    "max_pool", "average_pool", "global_average_pool", "global_max_pool", "reshape", "flatten",
    "squeeze", "unsqueeze", "transpose", "identity", "reduce_mean", "reduce_sum", "reduce_max",
    "expand", "split", "slice",
)  # fmt: skip
_MOST_NODES = 8


def is_non_negative(draft: Draft, name: str, most_nodes: int = _MOST_NODES) -> bool:
    """No element is below zero (it may be no number), by what wrote the value."""
    value = draft.constant(name)
    if value is not None:
        return value.dtype.kind in "fiu" and bool((value >= 0).all())
    node = draft.producer(name)
    while node is not None and node.op in _KEEP_SIGN:
        name = node.inputs[0]
        node = draft.producer(name)
    if node is None or not most_nodes:
        return False
    if node.op == "clip":
        low = draft.constant(input_at(node, 1))
        return low is not None and bool((low >= 0).all())
    if node.op in ("fused_conv", "fused_conv_transpose"):
        params: Any = node.attrs.get("activation_params", ())
        activation = node.attrs.get("activation", "")
        return activation == "sigmoid" or (activation == "clip" and params[0] >= 0)
    if node.op == "mul" and node.inputs[0] == node.inputs[1]:
        return _is_float(draft, name)
    if node.op in ("add", "mul"):
        both = all(is_non_negative(draft, each, most_nodes - 1) for each in node.inputs)
        return both and _is_float(draft, name)
    return node.op in _NON_NEGATIVE


def _is_float(draft: Draft, name: str) -> bool:
    """Sums and products of whole numbers may wrap round."""
    type = draft.type(name)
    return type is not None and type.dtype.startswith("float")
