"""A 1x1 convolution takes in the gates of its channels: it multiplies its weights by them.

Those are fewer than the picture's numbers, which squeeze and excitation would multiply.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from palmkit.engine.backends.cpu.joining import (
    GATE,
    IMAGE,
    is_pointwise,
    join_pairs,
    reading,
)
from palmkit.engine.plan import Step

# Each part of the picture that a thread takes multiplies all of them.
_MOST_WEIGHTS = 16 << 10


def join_gates(steps: Sequence[Step]) -> list[Step]:
    """The steps, each such product and the float32 convolution that alone reads it as one."""
    return join_pairs(steps, _gated)


def _gated(first: Step, second: Step, index: int) -> Step | None:
    if index != IMAGE or first.kernel != "binary" or not is_pointwise(second):
        return None
    attrs, (image, gate) = first.attrs, first.inputs[:2]
    assert image and gate
    channels = image.dims[-1]
    by_channel = attrs["a_strides"] == [channels, 1] and attrs["b_strides"] == [0, 1]
    if attrs["op"] != "mul" or "activation" in attrs or not by_channel:
        return None
    if prod(gate.dims) != channels or image.dims != first.outputs[0].dims or not _pays(second):
        return None
    return reading(first, second, image, GATE, gate)


def _pays(step: Step) -> bool:
    """One picture, whose pixels are more than the outputs of each."""
    image, weights = step.inputs[:2]
    assert image and weights
    return (
        image.dims[0] == 1
        and prod(image.dims[:-1]) >= weights.dims[0]
        and prod(weights.dims) <= _MOST_WEIGHTS
    )
