"""A depthwise convolution and the 1x1 convolution that alone reads it become one step.

What lies between the two is then no buffer of the arena: native/kernels/separable_conv makes it
block by block, each in the cache of the core that reads it at once. Threads wait for each other
once, not twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palmkit.engine.backends.cpu.joining import join_pairs
from palmkit.engine.ir import Array
from palmkit.engine.plan import JOINED, Step, StepAttr, View

# Threads share rows only.
_LEAST_ROWS = 6
# A block, which is of that many rows at least, and the weights that each block reads have to stay
# in an L2 cache.
_BLOCK_ROWS = 4
_MOST_BLOCK_BYTES = 256 << 10
_MOST_WEIGHT_BYTES = 400 << 10

_IMAGE, _RESIDUAL = 0, 4


def join_separable(steps: Sequence[Step], constants: Sequence[Array]) -> list[Step]:
    """The steps, each such pair of float32 convolutions as one where that is faster.

    It computes the same numbers, bit for bit, and runs where the second one did.
    """

    def one(first: Step, second: Step, index: int) -> Step | None:
        pair = index == _IMAGE and _is_depthwise(first) and _is_pointwise(second, constants)
        return _one(first, second) if pair and _pays(first, second) else None

    return join_pairs(steps, one)


def _input(step: Step, index: int) -> View | None:
    return step.inputs[index] if index < len(step.inputs) else None


def _is_float_conv(step: Step) -> bool:
    views = (*step.inputs, *step.outputs)
    return step.kernel == "conv" and all(v is None or v.dtype == "float32" for v in views)


def _is_depthwise(step: Step) -> bool:
    if not _is_float_conv(step) or _input(step, _RESIDUAL) or _is_narrow(step):
        return False
    image, weights = step.inputs[:2]
    assert image and weights
    return step.attrs["group"] == image.dims[3] == weights.dims[0] > 1


def _is_pointwise(step: Step, constants: Sequence[Array]) -> bool:
    """A product of matrices: zeros are skipped by a kernel of their own."""
    if not _is_float_conv(step) or _is_narrow(step) or step.attrs["group"] != 1:
        return False
    weights = step.inputs[1]
    assert weights
    if weights.dims[1:3] != (1, 1) or step.attrs["strides"] != [1, 1]:
        return False
    values = constants[weights.buffer.index]
    return step.attrs["pads"] == [0] * 4 and 2 * int(np.count_nonzero(values)) > values.size


def _is_narrow(step: Step) -> bool:
    return step.attrs.get("precision", "high") not in ("high", "normal")


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
    inputs = (*first.inputs[:_RESIDUAL], *second.inputs[1 : _RESIDUAL + 1])
    # What is added may be written over, unless other threads still read it as the image.
    image, residual = inputs[_IMAGE], inputs[-1]
    in_place = None if second.in_place is None else len(inputs) - 1
    if image and residual and image.buffer is residual.buffer:
        in_place = None
    node = f"{first.node}{JOINED}{second.node}"
    return Step("separable_conv", node, inputs, second.outputs, attrs, in_place)
