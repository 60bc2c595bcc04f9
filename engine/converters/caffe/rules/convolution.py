"""Convolution, pooling and inner products."""

from collections.abc import Sequence

import numpy as np

from palmkit.engine.converters.caffe.graph import Copy, Draft
from palmkit.engine.converters.caffe.network import Layer
from palmkit.engine.converters.caffe.rules import rule
from palmkit.engine.ir import Attr

_DEPTHWISE = ("ConvolutionDepthwise", "DepthwiseConv", "DepthwiseConvolution")
# The field names of a number for height and width; DeepLab's forks call the dilation "hole".
_SIDES = {"kernel_size": "kernel", "pad": "pad", "stride": "stride", "hole": "hole"}
_LOWEST = -3.4028234663852886e38


def _blobs(layer: Layer) -> int:
    return 1 + bool(layer.message.convolution_param.bias_term)


def _by_axis(draft: Draft, name: str, rank: int, default: int) -> tuple[int, ...]:
    """Return a number for each spatial axis from one for all, one for each, or height and width."""
    options = draft.layer.message.convolution_param
    repeated = getattr(options, name)
    sides = [f"{_SIDES[name]}_{side}" for side in "hw"] if name in _SIDES else []
    if any(map(options.HasField, sides)):
        if rank != 2 or repeated:
            raise draft.bad(f"{name}: expected numbers for {rank} axes, given one way")
        return tuple(getattr(options, side) for side in sides)
    numbers = tuple(repeated) or (default,)
    if len(numbers) not in (1, rank):
        raise draft.bad(f"{name}: expected 1 or {rank} numbers, got {len(numbers)}")
    return numbers * rank if len(numbers) == 1 else numbers


def _geometry(draft: Draft, x: str) -> tuple[tuple[int, ...], dict[str, Attr]]:
    """Return the kernel, and the attributes of the op."""
    options = draft.layer.message.convolution_param
    if draft.axis(x, options.axis) != 1:
        raise draft.unsupported("a channel axis other than 1")
    rank = draft.rank(x) - 2
    if rank < 1:
        raise draft.bad(f"expected a bottom of 3 or more axes, got {draft.type(x)}")
    kernel = _by_axis(draft, "kernel_size", rank, 0)
    pads = _by_axis(draft, "pad", rank, 0)
    strides = _by_axis(draft, "stride", rank, 1)
    name = "hole" if options.hole or options.HasField("hole_h") else "dilation"
    dilations = _by_axis(draft, name, rank, 1)
    if not all(kernel) or not all(strides) or not all(dilations):
        raise draft.bad("expected a kernel, strides and dilations above 0")
    return kernel, {"dilations": dilations, "pads": pads * 2, "strides": strides}


def _group(draft: Draft, channels: int) -> int:
    options = draft.layer.message.convolution_param
    group = channels if draft.layer.type in _DEPTHWISE else options.group
    if not group or not options.num_output or channels % group or options.num_output % group:
        raise draft.bad(
            f"{group} groups do not divide {channels} channels and {options.num_output} outputs"
        )
    return int(group)


@rule("Convolution", *_DEPTHWISE, blobs=_blobs)
def _convolution(draft: Draft, x: str) -> str:
    options = draft.layer.message.convolution_param
    kernel, attrs = _geometry(draft, x)
    channels = draft.channels(x)
    group = _group(draft, channels)
    inputs = [x, draft.weight(0, options.num_output, channels // group, *kernel)]
    if options.bias_term:
        inputs.append(draft.weight(1, options.num_output))
    return draft.emit("conv", *inputs, group=group, **attrs)


@rule("Deconvolution", blobs=_blobs)
def _deconvolution(draft: Draft, x: str) -> str:
    options = draft.layer.message.convolution_param
    kernel, attrs = _geometry(draft, x)
    channels = draft.channels(x)
    group = _group(draft, channels)
    inputs = [x, draft.weight(0, channels, options.num_output // group, *kernel)]
    if options.bias_term:
        inputs.append(draft.weight(1, options.num_output))
    return draft.emit("conv_transpose", *inputs, group=group, **attrs)


@rule("InnerProduct", blobs=lambda layer: 1 + layer.message.inner_product_param.bias_term)
def _inner_product(draft: Draft, x: str) -> str:
    options = draft.layer.message.inner_product_param
    axis = draft.axis(x, options.axis)
    outputs, inputs = int(options.num_output), 1
    for dim in draft.dims(x)[axis:]:
        inputs *= dim
    shape = (inputs, outputs) if options.transpose else (outputs, inputs)
    if axis == 1:
        bias = [draft.weight(1, outputs)] if options.bias_term else []
        x = x if draft.rank(x) == 2 else draft.emit("flatten", x, axis=1)
        weight = draft.weight(0, *shape)
        return draft.emit("gemm", x, weight, *bias, transB=int(not options.transpose))
    weights = draft.blob(0, *shape)
    x = draft.reshape(x, [*map(Copy, range(axis)), -1])
    y = draft.emit("matmul", x, draft.constant(weights if options.transpose else weights.T))
    return draft.emit("add", y, draft.weight(1, outputs)) if options.bias_term else y


def _sides(draft: Draft, name: str) -> tuple[int, int]:
    """Return a pooling layer's number for height and width, given for both or for each."""
    options = draft.layer.message.pooling_param
    square = "kernel_size" if name == "kernel" else name
    given = [options.HasField(f"{name}_{side}") for side in "hw"]
    if any(given):
        if not all(given) or options.HasField(square):
            raise draft.bad(f"expected {square}, or {name}_h and {name}_w")
        return getattr(options, f"{name}_h"), getattr(options, f"{name}_w")
    return (getattr(options, square),) * 2


@rule("Pooling")
def _pooling(draft: Draft, x: str) -> Sequence[str]:
    """Write the maximum or mean of windows; the last window may exceed the padded picture.

    Caffe rounds the number of windows up, and drops one that would start in the padding. The mean
    divides by the part of the window that lies in the padded picture.
    """
    options = draft.layer.message.pooling_param
    if options.pool == 2:
        raise draft.unsupported("stochastic pooling")
    if draft.rank(x) != 4:
        raise draft.bad(f"expected a bottom of 4 axes, got {draft.type(x)}")
    tops = len(draft.layer.tops)
    if tops > 1 and options.pool == 1:
        raise draft.bad("only max pooling has a second top")
    if options.global_pooling:
        if tops > 1:
            raise draft.unsupported("a second top of global pooling")
        return [draft.emit("global_average_pool" if options.pool else "global_max_pool", x)]
    kernel, pad, stride = (_sides(draft, name) for name in ("kernel", "pad", "stride"))
    if not all(kernel) or not all(stride) or pad[0] >= kernel[0] or pad[1] >= kernel[1]:
        raise draft.bad("expected a kernel above its pad, and strides above 0")
    attrs: dict[str, Attr] = {"kernel_shape": kernel, "strides": stride}
    if options.round_mode == 0 and options.ceil_mode:
        attrs["ceil_mode"] = 1
        if not any(pad) and (stride[0] > kernel[0] or stride[1] > kernel[1]):
            return [_sparse_pooling(draft, x, attrs)]
    if options.pool == 1:
        return [draft.emit("average_pool", x, count_include_pad=1, pads=pad * 2, **attrs)]
    y, *indices = draft.emit_all("max_pool", min(tops, 2), x, pads=pad * 2, **attrs)
    return [y, *(_mask(draft, x, each) for each in indices)]


def _sparse_pooling(draft: Draft, x: str, attrs: dict[str, Attr]) -> str:
    """Write a pooling whose stride is larger than its kernel.

    Its last window may lie outside of the picture altogether. Caffe keeps it: the maximum of
    nothing is the lowest float32, and the mean of nothing is NaN.
    """
    kernel, stride = (np.array(attrs[name]) for name in ("kernel_shape", "strides"))
    sizes = np.array(draft.dims(x)[2:])
    if draft.layer.message.pooling_param.pool == 0 and len(draft.layer.tops) == 1:
        pads = draft.int64(0, 0, 0, 0, 0, 0, *(stride - 1).tolist())
        x = draft.emit("pad", x, pads, draft.constant(_LOWEST))
        return draft.emit("max_pool", x, **{**attrs, "ceil_mode": 0})
    if (-(-(sizes - kernel) // stride) * stride >= sizes).any() or len(draft.layer.tops) > 1:
        raise draft.unsupported("a window outside of the picture")
    return draft.emit("average_pool", x, **attrs)


def _mask(draft: Draft, x: str, indices: str) -> str:
    """Turn indices into the whole of x into indices into each picture plane."""
    inside = draft.emit("sub", indices, plane_starts(draft, x, draft.shape(x, 2)))
    return draft.emit("cast", inside, to="float32")


def plane_starts(draft: Draft, x: str, sizes: str) -> str:
    """Return the index of each plane's first element, int64[n, c, 1, 1], for planes of `sizes`."""
    axes = draft.int64(0)
    planes, size = (
        draft.emit("reduce_prod", each, axes, keepdims=0) for each in (draft.shape(x, 0, 2), sizes)
    )
    zero, one = draft.constant(0, "int64"), draft.constant(1, "int64")
    starts = draft.emit("mul", draft.emit("range", zero, planes, one), size)
    target = draft.emit("concat", draft.shape(x, 0, 2), draft.int64(1, 1), axis=0)
    return draft.emit("reshape", starts, target)


@rule("Padding")
def _padding(draft: Draft, x: str) -> str:
    """Convert the padding layer of the oldest format, in which other layers could not pad."""
    pad = int(draft.layer.message.convolution_param.pad[0])
    return draft.emit("pad", x, draft.int64(0, 0, pad, pad, 0, 0, pad, pad))
