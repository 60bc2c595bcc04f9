"""A 1x1 convolution reads two pictures whose channels it takes by turns; none is made of both."""

from __future__ import annotations

from dataclasses import replace

from palmkit.engine.backends.cpu.passes.convolutions import is_pointwise, reading
from palmkit.engine.steps.rewriting import Lowered, join_pairs
from palmkit.engine.steps.step import Step


def join_interleaves(lowered: Lowered) -> Lowered:
    """Make each interleave of two and the float32 convolution that alone reads it one step."""

    def join(first: Step, second: Step, name: str) -> Step | None:
        if name != "image" or first.kernel != "interleave" or not is_pointwise(second):
            return None
        if len(first.inputs) != 2 or first.attrs["inner"] != 1:
            return None
        one, other = first.reads
        # Half the channels of each make as many as each has.
        if not one.dims == other.dims == first.y.dims:
            return None
        both = reading(lowered, first, second, one, "other_image", other)
        return replace(both, attrs={**second.attrs, "first": first.attrs["first"]})

    return join_pairs(lowered, join)
