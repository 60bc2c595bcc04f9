"""A 1x1 convolution reads two pictures whose channels it takes by turns; none is made of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from palmkit.engine.backends.cpu.joining import (
    IMAGE,
    OTHER,
    is_pointwise,
    join_pairs,
    reading,
)
from palmkit.engine.plan import Step


def join_interleaves(steps: Sequence[Step]) -> list[Step]:
    """The steps, each interleave of two and the float32 convolution that alone reads it as one."""
    return join_pairs(steps, _one)


def _one(first: Step, second: Step, index: int) -> Step | None:
    if index != IMAGE or first.kernel != "interleave" or not is_pointwise(second):
        return None
    if len(first.inputs) != 2 or first.attrs["inner"] != 1:
        return None
    one, other = first.inputs
    assert one and other
    # Half the channels of each make as many as each has.
    if not one.dims == other.dims == first.outputs[0].dims:
        return None
    both = reading(first, second, one, OTHER, other)
    return replace(both, attrs={**second.attrs, "first": first.attrs["first"]})
