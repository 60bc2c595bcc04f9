"""A convolution that only a concat reads writes its channels where the concat has them.

The copy is saved, and the memory of what was copied.
"""

from __future__ import annotations

from dataclasses import replace

from palmkit.engine.steps.lowering import collapse, strides_of
from palmkit.engine.steps.rewriting import Lowered, Uses, joined_name
from palmkit.engine.steps.step import Step, View

# All of the concat is kept from the first of its writers on.
_MOST_STEPS_APART = 12


def join_concats(lowered: Lowered) -> Lowered:
    """Drop each copy of channels that the convolution before it may write in place itself."""
    steps = lowered.steps
    uses = Uses.of(steps)
    joined: list[Step | None] = list(steps)
    for i, copy in enumerate(steps):
        # What else may write there, as zeros around an image, comes before all parts.
        parts = [steps[part] for part in uses.writers[id(copy.y.buffer)]]
        if any((part.kernel, part.node) != ("copy", copy.node) for part in parts):
            continue
        source = copy.input("x")
        place = uses.only_writer(source)
        if place is None or i - place > _MOST_STEPS_APART:
            continue
        first = joined[place]
        if first is None or not _can_write(first):
            continue
        offset = _first_channel(copy, source, first.y)
        if offset is not None:
            joined[place], joined[i] = _writing(first, copy, offset), None
    return replace(lowered, steps=[step for step in joined if step is not None])


def _can_write(step: Step) -> bool:
    """Whether it can write a part of wider pixels; kernels of depthwise convolutions cannot."""
    if step.kernel == "conv":
        return not 1 < step.input("image").dims[-1] == step.integer("group", 1)
    return step.kernel == "separable_conv"


def _first_channel(copy: Step, source: View, written: View) -> int | None:
    """Where the channels of a source that lies in the order of its target begin there."""
    target = copy.y
    if source.dims != written.dims or len(source.dims) != 4 or source.dtype != target.dtype:
        return None
    if len(target.dims) != 4 or target.dims[:-1] != source.dims[:-1]:
        return None
    offset = copy.integer("y_offset")
    if offset + source.dims[-1] > target.dims[-1] or copy.attrs["x_offset"] != 0:
        return None
    shape, strides = collapse(source.dims, strides_of(source.dims), strides_of(target.dims))
    same = [copy.attrs["shape"], [copy.attrs["x_strides"], copy.attrs["y_strides"]]]
    return offset if [shape, strides] == same else None


def _writing(first: Step, copy: Step, offset: int) -> Step:
    return replace(
        first,
        node=joined_name(first, copy),
        outputs={"y": copy.y},
        attrs={**first.attrs, "y_offset": offset},
        in_place=None,
    )
