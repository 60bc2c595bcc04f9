"""A 1x1 convolution reads two pictures whose channels it takes by turns; none is made of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from palmkit.engine.backends.cpu.joining import (
    IMAGE,
    OTHER,
    is_pointwise,
    join_pairs,
    over_residual,
)
from palmkit.engine.plan import JOINED, Step, StepAttr, View


def join_interleaves(steps: Sequence[Step]) -> list[Step]:
    """The steps, each interleave of two and the float32 convolution that alone reads it as one."""
    return join_pairs(steps, _one)


def _one(first: Step, second: Step, index: int) -> Step | None:
    if index != IMAGE or first.kernel != "interleave" or not is_pointwise(second):
        return None
    image = second.inputs[IMAGE]
    # Half the channels of each make as many as each has.
    same = all(view is not None and image and view.dims == image.dims for view in first.inputs)
    if len(first.inputs) != 2 or first.attrs["inner"] != 1 or not same:
        return None
    inputs: list[View | None] = [first.inputs[0], *second.inputs[1:]]
    inputs += [None] * (OTHER - len(inputs))
    attrs: dict[str, StepAttr] = {**second.attrs, "first": first.attrs["first"]}
    return replace(
        second,
        node=f"{first.node}{JOINED}{second.node}",
        inputs=(*inputs, first.inputs[1]),
        attrs=attrs,
        in_place=over_residual(second, first.inputs),
    )
