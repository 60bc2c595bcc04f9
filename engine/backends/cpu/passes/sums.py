"""A sum takes in the clamp behind it, and a resized picture the sum that alone reads it.

Each number is made in one pass over the pictures, not in three: the same numbers, bit for bit.
"""

from __future__ import annotations

from math import inf

from palmkit.engine.steps.rewriting import Lowered, join_pairs, joined_name
from palmkit.engine.steps.step import Step, StepAttr

_ONE_RUN = [1]
_CLAMP = ("activation", "activation_params")


def join_clamps(lowered: Lowered) -> Lowered:
    """Make a step over two operands and relu or clip of what it gives one step."""

    def join(first: Step, second: Step, name: str) -> Step | None:
        if first.kernel != "binary" or second.kernel != "unary" or "activation" in first.attrs:
            return None
        low: StepAttr = 0.0
        high: StepAttr = inf
        if second.attrs["op"] == "clip":
            low, high = second.attrs["min"], second.attrs["max"]
        elif second.attrs["op"] != "relu":
            return None
        assert isinstance(low, float) and isinstance(high, float)
        return lowered.kernels.step(
            first.kernel,
            joined_name(first, second),
            first.inputs,
            second.outputs,
            {**first.attrs, "activation": "clip", "activation_params": [low, high]},
            first.in_place,
        )

    return join_pairs(lowered, join)


def join_resized_sums(lowered: Lowered) -> Lowered:
    """Make a resized picture and one that is added to it one step, which may write over that."""

    def join(first: Step, second: Step, name: str) -> Step | None:
        if first.kernel != "resize" or second.kernel != "binary" or second.attrs["op"] != "add":
            return None
        # One that has taken in a sum already has no room for another.
        if first.inputs.get("addend") is not None:
            return None
        addend = second.input("b" if name == "a" else "a")
        runs = second.attrs["a_strides"] == second.attrs["b_strides"] == _ONE_RUN
        if not runs or not addend.dims == second.y.dims == first.y.dims:
            return None
        # Other threads may still read it as the picture.
        is_read = any(view.buffer is addend.buffer for view in first.reads)
        clamp = {name: second.attrs[name] for name in _CLAMP if name in second.attrs}
        return lowered.kernels.step(
            first.kernel,
            joined_name(first, second),
            {**first.inputs, "addend": addend},
            second.outputs,
            {**first.attrs, **clamp},
            None if is_read else "addend",
        )

    return join_pairs(lowered, join)
