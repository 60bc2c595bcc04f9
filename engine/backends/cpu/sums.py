"""A sum takes in the clamp behind it, and a resized picture the sum that alone reads it.

Each number is made in one pass over the pictures, not in three: the same numbers, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from palmkit.engine.backends.cpu.joining import join_pairs
from palmkit.engine.plan import JOINED, Step, StepAttr, View

_ONE_RUN = [1]


def join_sums(steps: Sequence[Step]) -> list[Step]:
    """The steps, with such pairs as one; it runs where the second one did."""
    return join_pairs(join_pairs(steps, _clamped), _added)


def _clamped(first: Step, second: Step, index: int) -> Step | None:
    """A step over two operands and relu or clip of what it gives."""
    if first.kernel != "binary" or second.kernel != "unary" or "activation" in first.attrs:
        return None
    low: StepAttr = 0.0
    high: StepAttr = inf
    if second.attrs["op"] == "clip":
        low, high = second.attrs["min"], second.attrs["max"]
    elif second.attrs["op"] != "relu":
        return None
    assert isinstance(low, float) and isinstance(high, float)
    attrs = dict(first.attrs)
    attrs |= {"activation": "clip", "activation_params": [low, high]}
    return _one(first, second, first.inputs, attrs, first.in_place)


def _added(first: Step, second: Step, index: int) -> Step | None:
    """A resized picture and one that is added to it; what is added may be written over."""
    attrs, y = second.attrs, second.outputs[0]
    if first.kernel != "resize" or second.kernel != "binary" or attrs["op"] != "add":
        return None
    other = second.inputs[1 - index]
    runs = attrs["a_strides"] == attrs["b_strides"] == _ONE_RUN
    if other is None or not runs or other.dims != y.dims or first.outputs[0].dims != y.dims:
        return None
    inputs = (*first.inputs, other)
    # Other threads may still read it as the picture.
    read = any(view is not None and view.buffer is other.buffer for view in first.inputs)
    kept = {name: attrs[name] for name in ("activation", "activation_params") if name in attrs}
    return _one(
        first, second, inputs, {**first.attrs, "adds": 1, **kept}, None if read else len(inputs) - 1
    )


def _one(
    first: Step,
    second: Step,
    inputs: tuple[View | None, ...],
    attrs: dict[str, StepAttr],
    in_place: int | None,
) -> Step:
    node = first.node if first.node == second.node else f"{first.node}{JOINED}{second.node}"
    return Step(first.kernel, node, inputs, second.outputs, attrs, in_place)
