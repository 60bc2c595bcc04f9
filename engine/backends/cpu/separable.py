"""A depthwise convolution and the 1x1 convolution that alone reads it become one step.

What lies between the two is then no buffer of the arena: native/kernels/separable_conv makes it
block by block, each in the cache of the core that reads it at once. Threads wait for each other
once, not twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palmkit.engine.backends.cpu.joining import (
    IMAGE,
    RESIDUAL,
    input_of,
    is_float_conv,
    is_pointwise,
    join_pairs,
    over_residual,
)
from palmkit.engine.ir import Array
from palmkit.engine.plan import JOINED, Step, StepAttr

# Threads share rows only.
_LEAST_ROWS = 6
# A block, which is of that many rows at least, and the weights that each block reads have to stay
# in an L2 cache.
_BLOCK_ROWS = 4
_MOST_BLOCK_BYTES = 256 << 10
_MOST_WEIGHT_BYTES = 400 << 10


def join_separable(steps: Sequence[Step], constants: Sequence[Array]) -> list[Step]:
    """The steps, each such pair of float32 convolutions as one where that is faster.

    It computes the same numbers, bit for bit, and runs where the second one did.
    """

    def one(first: Step, second: Step, index: int) -> Step | None:
        pair = index == IMAGE and _is_depthwise(first) and is_pointwise(second)
        pays = pair and _pays(first, second) and _is_dense(second, constants)
        return _one(first, second) if pays else None

    return join_pairs(steps, one)


def _is_depthwise(step: Step) -> bool:
    if not is_float_conv(step) or input_of(step, RESIDUAL):
        return False
    image, weights = step.inputs[:2]
    assert image and weights
    return step.attrs["group"] == image.dims[3] == weights.dims[0] > 1


def _is_dense(step: Step, constants: Sequence[Array]) -> bool:
    """Zeros are skipped by a kernel of their own."""
    weights = step.inputs[1]
    assert weights
    values = constants[weights.buffer.index]
    return 2 * int(np.count_nonzero(values)) > values.size


def _pays(first: Step, second: Step) -> bool:
    between, weights = first.outputs[0], second.inputs[1]
    assert weights
    images, height, width, channels = between.dims
    block_bytes = 4 * _BLOCK_ROWS * width * channels
    return (
        images * height >= _LEAST_ROWS
        and block_bytes <= _MOST_BLOCK_BYTES
        and weights.buffer.size_bytes <= _MOST_WEIGHT_BYTES
    )


def _one(first: Step, second: Step) -> Step:
    own = ("strides", "dilations", "pads")
    ends = ("activation", "activation_params")
    attrs: dict[str, StepAttr] = {name: first.attrs[name] for name in own}
    attrs |= {f"depthwise_{name}": first.attrs[name] for name in ends}
    attrs |= {name: second.attrs[name] for name in ends}
    inputs = (*first.inputs[:RESIDUAL], *second.inputs[1 : RESIDUAL + 1])
    # What is added comes last, and may be written over.
    over = over_residual(second, [first.inputs[IMAGE]])
    node = f"{first.node}{JOINED}{second.node}"
    in_place = None if over is None else len(inputs) - 1
    return Step("separable_conv", node, inputs, second.outputs, attrs, in_place)
