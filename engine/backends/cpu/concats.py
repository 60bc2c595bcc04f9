"""A convolution that only a concat reads writes its channels where the concat has them.

The copy is saved, and the memory of what was copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from palmkit.engine.backends.cpu.joining import Uses
from palmkit.engine.backends.cpu.lowering import collapse, strides_of
from palmkit.engine.plan import JOINED, Step, StepAttr, View

# All of the concat is kept from the first of its writers on.
_MOST_STEPS_APART = 12


def join_concats(steps: Sequence[Step]) -> list[Step]:
    """The steps, without copies of channels that a convolution may write in place itself."""
    uses = Uses.of(steps)
    joined: list[Step | None] = list(steps)
    for i, copy in enumerate(steps):
        # What else may write there, as zeros around an image, comes before all parts.
        parts = [steps[part] for part in uses.writers[id(copy.outputs[0].buffer)]]
        if any((part.kernel, part.node) != ("copy", copy.node) for part in parts):
            continue
        source = copy.inputs[0]
        place = uses.only_writer(source)
        if source is None or place is None or i - place > _MOST_STEPS_APART:
            continue
        first = joined[place]
        if first is None or not _can_write(first):
            continue
        offset = _first_channel(copy, source, first.outputs[0])
        if offset is not None:
            joined[place], joined[i] = _writing(first, copy, offset), None
    return [step for step in joined if step is not None]


def _can_write(step: Step) -> bool:
    """The kernels of depthwise convolutions alone write whole pixels only."""
    if step.kernel == "conv":
        image = step.inputs[0]
        return image is not None and not 1 < image.dims[-1] == step.attrs["group"]
    return step.kernel == "separable_conv"


def _first_channel(copy: Step, source: View, written: View) -> int | None:
    """Where the channels of a source that lies in the order of its target begin there."""
    target = copy.outputs[0]
    if source.dims != written.dims or len(source.dims) != 4 or source.dtype != target.dtype:
        return None
    if len(target.dims) != 4 or target.dims[:-1] != source.dims[:-1]:
        return None
    offset = copy.attrs["y_offset"]
    assert isinstance(offset, int)
    if offset + source.dims[-1] > target.dims[-1] or copy.attrs["x_offset"] != 0:
        return None
    shape, strides = collapse(source.dims, strides_of(source.dims), strides_of(target.dims))
    same = [copy.attrs["shape"], [copy.attrs["x_strides"], copy.attrs["y_strides"]]]
    return offset if [shape, strides] == same else None


def _writing(first: Step, copy: Step, offset: int) -> Step:
    attrs: dict[str, StepAttr] = {**first.attrs, "y_offset": offset}
    node = f"{first.node}{JOINED}{copy.node}"
    return replace(first, node=node, outputs=copy.outputs, attrs=attrs, in_place=None)
