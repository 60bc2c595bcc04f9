"""A 1x1 convolution of channels taken by turns from two pictures reads both; none is made of them.

It reads the channels of the one, then those of the other, by weights in that order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from palmkit.engine.backends.cpu.costs import pays
from palmkit.engine.backends.cpu.passes.convolutions import is_pointwise, reading
from palmkit.engine.steps.rewriting import Lowered, Uses, join_pairs
from palmkit.engine.steps.step import Step


def join_interleaves(lowered: Lowered) -> Lowered:
    """Make each interleave of two and the convolution that alone reads it one step if it pays."""
    constants = list(lowered.constants)
    uses = Uses.of(lowered.steps)

    def join(first: Step, second: Step, name: str) -> Step | None:
        if name != "image" or first.kernel != "interleave" or not is_pointwise(second):
            return None
        if len(first.inputs) != 2 or first.attrs["inner"] != 1:
            return None
        one, other = first.reads
        weights = second.input("weights")
        if weights.buffer.place != "constant" or uses.reads[id(weights.buffer)] > 1:
            return None
        both = reading(lowered, first, second, one, "second_image", other)
        if len(one.dims) != 4 or not lowered.kernels.takes(both):
            return None
        if not pays(lowered, both, [first, second]):
            return None
        value = lowered.value(weights)
        by_turns = value.reshape(len(value), -1, 2)
        constants[weights.buffer.index] = np.ascontiguousarray(by_turns.swapaxes(1, 2)).reshape(
            value.shape
        )
        return both

    return replace(join_pairs(lowered, join), constants=constants)
