"""A depthwise convolution and the 1x1 convolution that alone reads it become one step.

What lies between the two is then no buffer of the arena: native/kernels/separable_conv makes it
block by block, each in the cache of the core that reads it at once. Threads wait for each other
once, not twice.
"""

from __future__ import annotations

import numpy as np

from palmkit.engine.backends.cpu.passes.convolutions import (
    is_float_conv,
    is_pointwise,
    over_residual,
)
from palmkit.engine.steps.rewriting import Lowered, join_pairs, joined_name
from palmkit.engine.steps.step import Step, StepAttr

# Threads share rows only.
_LEAST_ROWS = 6
# A block, which is of that many rows at least, and the weights that each block reads have to stay
# in an L2 cache.
_BLOCK_ROWS = 4
_MOST_BLOCK_BYTES = 256 << 10
_MOST_WEIGHT_BYTES = 400 << 10


def join_separable(lowered: Lowered) -> Lowered:
    """Make each such pair of float32 convolutions one step where that is faster.

    It computes the same numbers, bit for bit, and runs where the second one did.
    """

    def join(first: Step, second: Step, name: str) -> Step | None:
        pair = name == "image" and _is_depthwise(first) and is_pointwise(second)
        pays = pair and _pays(first, second) and _is_dense(lowered, second)
        return _one(lowered, first, second) if pays else None

    return join_pairs(lowered, join)


def _is_depthwise(step: Step) -> bool:
    if not is_float_conv(step) or step.has("residual"):
        return False
    channels = step.input("image").dims[3]
    return step.integer("group", 1) == channels == step.input("weights").dims[0] > 1


def _is_dense(lowered: Lowered, step: Step) -> bool:
    """Whether most weights are not zero: zeros are skipped by a kernel of their own."""
    values = lowered.value(step.input("weights"))
    return 2 * int(np.count_nonzero(values)) > values.size


def _pays(first: Step, second: Step) -> bool:
    images, height, width, channels = first.y.dims
    return (
        images * height >= _LEAST_ROWS
        and 4 * _BLOCK_ROWS * width * channels <= _MOST_BLOCK_BYTES
        and second.input("weights").buffer.size_bytes <= _MOST_WEIGHT_BYTES
    )


def _one(lowered: Lowered, first: Step, second: Step) -> Step:
    own = ("strides", "dilations", "pads")
    ends = ("activation", "activation_params")
    attrs: dict[str, StepAttr] = {name: first.attrs[name] for name in own}
    attrs |= {f"depthwise_{name}": first.attrs[name] for name in ends}
    attrs |= {name: second.attrs[name] for name in ends}
    first_own = ("weights", "bias", "slope")
    inputs = {
        **{f"depthwise_{name}": first.inputs.get(name) for name in first_own},
        **second.inputs,
        "image": first.input("image"),
    }
    return lowered.kernels.step(
        "separable_conv",
        joined_name(first, second),
        inputs,
        second.outputs,
        attrs,
        over_residual(second, [first.input("image")]),
    )
