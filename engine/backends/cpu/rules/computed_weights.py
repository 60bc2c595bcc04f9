"""Convolutions whose weights or biases are computed: products of matrices, and what follows them.

The kernels of `convolution` pack their weights before a model runs. Here the patches of the image
are copied side by side and multiplied by weights that each run gives (im2col; Chellapilla, Puri
and Simard, High Performance Convolutional Neural Networks for Document Processing, 2006).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from operator import mul

from palmkit.engine.backends.cpu.registry import functions
from palmkit.engine.backends.cpu.rules.reduction import combine, multiply
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Node
from palmkit.engine.ops import traits_of
from palmkit.engine.ops.conv_transpose import Placement
from palmkit.engine.ops.fused_conv import parameters_of
from palmkit.engine.steps.lowering import Lowering, Order
from palmkit.engine.steps.step import StepAttr, View, strides_of


@dataclass(frozen=True)
class Window:
    """How a window moves over an image, each with a number for every spatial dim."""

    strides: Sequence[int]
    dilations: Sequence[int]
    begins: Sequence[int]
    ends: Sequence[int]
    group: int


def convolve(
    lowering: Lowering, image: View, weights: View, bias: View | None, y: View, window: Window
) -> None:
    """y[n, spatial..., m] = image[n, spatial..., c] convolved with weights[m, spatial..., c/group].

    bias: a constant, if any; only for one group.
    """
    image = padded(lowering, image, window.begins, window.ends)
    kernel, channels, group = weights.dims[1:-1], weights.dims[-1], window.group
    out, steps = y.dims[1:-1], strides_of(image.dims)
    walk = [stride * step for stride, step in zip(window.strides, steps[1:-1], strict=True)]
    taps = [dilation * step for dilation, step in zip(window.dilations, steps[1:-1], strict=True)]
    pixels, depth = image.dims[0] * prod(out), prod(kernel) * channels
    patches = lowering.scratch(image.dtype, (group, pixels, depth))
    if patches.elements:
        shape = [group, image.dims[0], *out, *kernel, channels]
        strides = [channels, steps[0], *walk, *taps, 1]
        lowering.copy(image, patches, shape, strides, strides_of(shape))
    if group == 1:
        columns = View(weights.buffer, weights.dtype, (y.dims[-1], depth))
        rows = View(patches.buffer, patches.dtype, (pixels, depth))
        product = View(y.buffer, y.dtype, (pixels, y.dims[-1]))
        multiply(lowering, rows, columns, bias, product, trans_b=True)
        return
    each = y.dims[-1] // group
    columns = View(weights.buffer, weights.dtype, (group, each, depth))
    product = lowering.scratch(y.dtype, (group, pixels, each))
    multiply(lowering, patches, columns, None, product, trans_b=True)
    if y.elements:
        strides = [each, group * each, 1]
        lowering.copy(product, y, product.dims, strides_of(product.dims), strides)


def convolve_transposed(
    lowering: Lowering, image: View, weights: View, y: View, placed: Placement, group: int
) -> None:
    """y[n, spatial..., m] = image[n, spatial..., c] transposed convolved with weights.

    The pixels of the image are put as far apart as they land, among zeros, and convolved with the
    weights turned round. weights: [c, m / group, spatial...].
    """
    kernel, spatial = weights.dims[2:], image.dims[1:-1]
    outputs, channels = weights.dims[1], weights.dims[0] // group
    reach = [(size - 1) * dilation for size, dilation in zip(kernel, placed.dilations, strict=True)]
    sizes = [size + more for size, more in zip(y.dims[1:-1], reach, strict=True)]
    wide = lowering.scratch(image.dtype, (image.dims[0], *sizes, image.dims[-1]))
    lowering.step("fill", {}, {"y": wide}, {"value": 0.0})
    # Where the first pixel lands, the first and the number of those that land inside.
    lands = [more - cut for more, cut in zip(reach, placed.begins, strict=True)]
    firsts = [max(0, -(at // stride)) for at, stride in zip(lands, placed.strides, strict=True)]
    counts = [
        min(count, (size - 1 - at) // stride + 1) - first
        for count, size, at, stride, first in zip(
            spatial, sizes, lands, placed.strides, firsts, strict=True
        )
    ]
    source, target = strides_of(image.dims), strides_of(wide.dims)
    apart = [step * stride for step, stride in zip(target[1:-1], placed.strides, strict=True)]
    if min((image.dims[0], *counts)) > 0:
        lowering.copy(
            image,
            wide,
            [image.dims[0], *counts, image.dims[-1]],
            source,
            [target[0], *apart, 1],
            source_offset=sum(map(mul, firsts, source[1:-1])),
            target_offset=sum(map(mul, lands, target[1:-1])) + sum(map(mul, firsts, apart)),
        )
    turned = lowering.scratch(weights.dtype, (group * outputs, *kernel, channels))
    steps = strides_of(weights.dims)
    lowering.copy(
        weights,
        turned,
        [group, outputs, *kernel, channels],
        [channels * steps[0], steps[1], *(-step for step in steps[2:]), steps[0]],
        strides_of([group, outputs, *kernel, channels]),
        source_offset=sum((size - 1) * step for size, step in zip(kernel, steps[2:], strict=True)),
    )
    nothing = [0] * len(kernel)
    window = Window([1] * len(kernel), placed.dilations, nothing, nothing, group)
    convolve(lowering, wide, turned, None, y, window)


def padded(lowering: Lowering, image: View, begins: Sequence[int], ends: Sequence[int]) -> View:
    """The image with zeros around it; itself where there are none."""
    if not any((*begins, *ends)):
        return image
    spatial = image.dims[1:-1]
    sizes = [sum(each) for each in zip(begins, spatial, ends, strict=True)]
    wide = lowering.scratch(image.dtype, (image.dims[0], *sizes, image.dims[-1]))
    strides = strides_of(wide.dims)
    offset = sum(step * begin for step, begin in zip(strides[1:-1], begins, strict=True))
    lowering.step("fill", {}, {"y": wide}, {"value": 0.0})
    if image.elements:
        lowering.copy(
            image, wide, image.dims, strides_of(image.dims), strides, target_offset=offset
        )
    return wide


def activation_of(node: Node) -> tuple[str, tuple[float, ...]]:
    """The activation behind a layer's sums, "" for none, and its numbers."""
    if not traits_of(node.op).is_fused:
        return "", ()
    return node.text("activation"), node.numbers("activation_params")


def finish(
    lowering: Lowering, node: Node, y: View, order: Order, bias: str, z: str, slope: str
) -> None:
    """Add a bias and a residual to y[n, spatial..., m], and do the node's activation, in place."""
    if bias:
        combine(lowering, "add", y, lowering.get(bias, (0,)))
    if z:
        residual = lowering.get(z, order)
        if residual.dims != y.dims:
            raise UnsupportedError("a residual of fewer channels beside computed weights")
        combine(lowering, "add", y, residual)
    activation, params = activation_of(node)
    if activation == "prelu":
        value = lowering.constant_of(slope, "slope")
        if value.size not in (1, y.dims[-1]):
            raise UnsupportedError("a slope that differs within a channel")
        step = int(value.size > 1)
        attrs: dict[str, StepAttr] = {"shape": [y.elements // y.dims[-1], y.dims[-1]]}
        attrs["slope_strides"] = [0, step]
        inputs = {"x": y, "slope": lowering.constant(value.reshape(-1))}
        lowering.step("prelu", inputs, {"y": y}, attrs)
    elif activation:
        if activation not in functions():
            raise UnsupportedError(f"{activation} beside computed weights")
        attrs = {"op": activation}
        names = parameters_of(activation)
        attrs |= zip(names, params, strict=True)
        lowering.step("unary", {"x": y}, {"y": y}, attrs)
