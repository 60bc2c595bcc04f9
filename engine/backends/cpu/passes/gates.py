"""A 1x1 convolution takes in the gates of its channels: it multiplies its weights by them.

The weights are fewer than the picture's numbers, which squeeze and excitation would multiply.
"""

from __future__ import annotations

from palmkit.engine.backends.cpu.costs import pays
from palmkit.engine.backends.cpu.passes.convolutions import (
    is_float_conv,
    is_pointwise,
    reading,
)
from palmkit.engine.steps.rewriting import Lowered, join_pairs
from palmkit.engine.steps.step import Step


def join_gates(lowered: Lowered) -> Lowered:
    """Make each product by gates and the float32 convolution that alone reads it one step.

    Where the cost model says that it pays: the weights are fewer than the picture's numbers.
    """

    def join(first: Step, second: Step, name: str) -> Step | None:
        if name != "image" or not _is_gating(first):
            return None
        if not is_float_conv(second) or not is_pointwise(second):
            return None
        both = reading(lowered, first, second, first.input("a"), "gate", first.input("b"))
        return both if pays(lowered, both, [first, second]) else None

    return join_pairs(lowered, join)


def _is_gating(step: Step) -> bool:
    """Whether it multiplies each channel of a picture by a number of its own."""
    if step.kernel != "binary" or step.attrs["op"] != "mul" or "activation" in step.attrs:
        return False
    image, gate = step.input("a"), step.input("b")
    channels = image.dims[-1]
    return (
        step.attrs["a_strides"] == [channels, 1]
        and step.attrs["b_strides"] == [0, 1]
        and gate.elements == channels
        and image.dims == step.y.dims
    )
