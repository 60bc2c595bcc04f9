"""A 1x1 convolution takes in the gates of its channels: it multiplies its weights by them.

Those are fewer than the picture's numbers, which squeeze and excitation would multiply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from palmkit.engine.backends.cpu.joining import join_pairs
from palmkit.engine.plan import JOINED, Step, View

_IMAGE, _WEIGHTS, _RESIDUAL, _GATE = 0, 1, 4, 5
# Each part of the picture that a thread takes multiplies all of them.
_MOST_WEIGHTS = 16 << 10


def join_gates(steps: Sequence[Step]) -> list[Step]:
    """The steps, each such product and the float32 convolution that alone reads it as one."""
    return join_pairs(steps, _gated)


def _gated(first: Step, second: Step, index: int) -> Step | None:
    if index != _IMAGE or first.kernel != "binary" or not _is_pointwise(second):
        return None
    attrs, image = first.attrs, first.inputs[_IMAGE]
    gate = first.inputs[1]
    assert image and gate
    channels = image.dims[-1]
    by_channel = attrs["a_strides"] == [channels, 1] and attrs["b_strides"] == [0, 1]
    if attrs["op"] != "mul" or "activation" in attrs or not by_channel:
        return None
    if prod(gate.dims) != channels or image.dims != first.outputs[0].dims:
        return None
    inputs: list[View | None] = [image, *second.inputs[_WEIGHTS:]]
    inputs += [None] * (_GATE - len(inputs))
    residual = inputs[_RESIDUAL]
    # What is added may be written over, unless it is still read as the image.
    read = residual is not None and residual.buffer is image.buffer
    return replace(
        second,
        node=f"{first.node}{JOINED}{second.node}",
        inputs=(*inputs, gate),
        in_place=None if read else second.in_place,
    )


def _is_pointwise(step: Step) -> bool:
    """Of one picture, whose pixels are more than the outputs of each."""
    views = (*step.inputs, *step.outputs)
    if step.kernel != "conv" or any(v is not None and v.dtype != "float32" for v in views):
        return False
    attrs, image, weights = step.attrs, step.inputs[_IMAGE], step.inputs[_WEIGHTS]
    assert image and weights
    pixels = prod(image.dims[:-1])
    return (
        attrs["group"] == 1
        and weights.dims[1:3] == (1, 1)
        and attrs["strides"] == [1, 1]
        and attrs["pads"] == [0] * 4
        and attrs.get("precision", "high") in ("high", "normal")
        and image.dims[0] == 1
        and pixels >= weights.dims[0]
        and prod(weights.dims) <= _MOST_WEIGHTS
    )
