"""What step passes ask about the convolutions that they join with others."""

from __future__ import annotations

from collections.abc import Iterable

from palmkit.engine.steps.rewriting import Lowered, joined_name
from palmkit.engine.steps.step import Step, View

_FLOAT_PRECISION = "high", "normal"


def is_float_conv(step: Step) -> bool:
    """Whether it is a convolution of float32 numbers by float32 products."""
    return (
        step.kernel == "conv"
        and all(view.dtype == "float32" for view in (*step.reads, *step.writes))
        and step.attrs.get("precision", "high") in _FLOAT_PRECISION
    )


def is_pointwise(step: Step) -> bool:
    """Whether a convolution is a product of matrices: each pixel, all channels."""
    return (
        step.kernel == "conv"
        and step.input("weights").dims[1:3] == (1, 1)
        and step.integer("group", 1) == 1
        and step.integers("strides", (1, 1)) == [1, 1]
        and step.integers("pads", [0] * 4) == [0] * 4
    )


def over_residual(step: Step, read: Iterable[View]) -> str | None:
    """Whether it may still write over its residual where it reads these views as well."""
    if not step.has("residual"):
        return None
    residual = step.input("residual")
    return None if any(view.buffer is residual.buffer for view in read) else step.in_place


def reading(
    lowered: Lowered, first: Step, second: Step, image: View, name: str, other: View
) -> Step:
    """The second step, a convolution, of an image and one more input in place of the first one."""
    return lowered.kernels.step(
        second.kernel,
        joined_name(first, second),
        {**second.inputs, "image": image, name: other},
        second.outputs,
        second.attrs,
        over_residual(second, [image, other]),
    )
