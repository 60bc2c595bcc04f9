"""Convolutions, pools, normalisations and matrix products."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.tensorflow.rules.layouts import (
    as_before,
    channel_vector,
    channels_first,
    is_channels_last,
    padding,
    spatial,
)
from palmkit.engine.converters.tensorflow.site import Site, rule
from palmkit.engine.converters.tensorflow.values import Fact
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Attr

_MOST_PATCH = 1024


@rule("Conv2D", "Conv3D")
def _conv(n: Site) -> None:
    n.finish(convolution(n))


@rule("DepthwiseConv2dNative")
def _depthwise(n: Site) -> None:
    n.finish(depthwise(n))


def convolution(n: Site) -> str:
    """Write Conv2D or Conv3D; fewer input channels in the filter than in x mean groups."""
    rank = 5 if n.op.endswith("3D") else 4
    weight = n.transposed(n.value(1), (rank - 1, rank - 2, *range(rank - 2)))
    shape, weight_shape = n.shape(0), n.shape(1)
    group = 1
    if shape is not None and weight_shape is not None and len(shape) == len(weight_shape) == rank:
        channels, taken = shape[-1 if is_channels_last(n) else 1], weight_shape[-2]
        if channels and taken:
            group = max(1, channels // taken)
    attrs: dict[str, Attr] = {
        "strides": spatial(n, n.list("strides"), "strides", rank),
        "dilations": n.dilation or spatial(n, n.list("dilations"), "dilations", rank),
        "group": group,
    }
    x = channels_first(n, n.value(0), rank)
    return as_before(n, n.emit("conv", x, weight, **attrs, **padding(n, rank)), rank)


def depthwise(n: Site) -> str:
    """Write DepthwiseConv2dNative, whose filter is [h, w, channels, multiplier]."""
    shape = n.shape(1)
    if shape is None or None in shape or len(shape) != 4:
        raise n.unsupported("a filter of unknown shape")
    height, width, channels, multiplier = (dim or 0 for dim in shape)
    weight = n.transposed(n.value(1), (2, 3, 0, 1))
    dims = (channels * multiplier, 1, height, width)
    array = n.known_value(weight)
    if array is not None:
        weight = n.building.constant(array.reshape(dims), f"{weight}/reshaped")
    else:
        weight = n.emit("reshape", weight, n.int64(*dims))
    y = n.emit(
        "conv",
        channels_first(n, n.value(0)),
        weight,
        strides=spatial(n, n.list("strides"), "strides"),
        dilations=n.dilation or spatial(n, n.list("dilations"), "dilations"),
        group=channels,
        **padding(n),
    )
    return as_before(n, y)


@rule("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def _conv_transpose(n: Site) -> None:
    """Write the gradient of a convolution: input_sizes, filter [h, w, out, in], x."""
    rank = 5 if n.op.startswith("Conv3D") else 4
    strides = spatial(n, n.list("strides"), "strides", rank)
    dilations = spatial(n, n.list("dilations"), "dilations", rank)
    shape = n.shape(1)
    if shape is None or len(shape) != rank or None in shape:
        raise n.unsupported("a filter of unknown shape")
    kernel = shape[: rank - 2]
    extents = [((k or 0) - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    weight = n.transposed(n.value(1), (rank - 1, rank - 2, *range(rank - 2)))
    x = channels_first(n, n.value(2), rank)
    attrs = _transposed_windows(n, strides, extents, rank)
    options = {} if attrs is None else attrs
    y = n.emit("conv_transpose", x, weight, strides=strides, dilations=dilations, **options)
    if attrs is None:
        y = _cropped(n, y, x, strides, extents, rank)
    n.finish(as_before(n, y, rank))


def _transposed_windows(
    n: Site, strides: tuple[int, ...], extents: list[int], rank: int
) -> dict[str, Attr] | None:
    """Return the crop and padding that give the result the sizes that the node asks for.

    Returns None if they are not known, or depend on the size of the picture.
    """
    sizes, x = n.fact(0), n.fact(2)
    if x is None or sizes is None or len(x.shape) != rank or n.text("padding") == "EXPLICIT":
        return None
    first = 1 if is_channels_last(n) else 2
    outcomes: set[tuple[tuple[int, ...], ...]] = set()
    same = n.text("padding") == "SAME"
    for which in (0, 1):
        value = _numbers(sizes, which)
        if value is None or len(value) not in (rank, rank - 2):
            return None
        value = value[first : first + rank - 2] if len(value) == rank else value
        begins, ends, extra = list[int](), list[int](), list[int]()
        for axis, (size, stride, extent) in enumerate(zip(value, strides, extents, strict=True)):
            whole = (x.types[which].dims[first + axis] - 1) * stride + extent
            total = max(0, whole - size)
            begins.append(total // 2 if same else 0)
            ends.append(total - begins[-1])
            extra.append(max(0, size - whole))
        outcomes.add((tuple(begins), tuple(ends), tuple(extra)))
    if len(outcomes) != 1:
        return None
    ((found_begins, found_ends, found_extra),) = outcomes
    return {"pads": (*found_begins, *found_ends), "output_padding": found_extra}


def _cropped(
    n: Site, y: str, x: str, strides: tuple[int, ...], extents: list[int], rank: int
) -> str:
    """Crop a whole transposed convolution to sizes that are known when it runs."""
    count, first = rank - 2, 1 if is_channels_last(n) else 2
    zero, axes = n.constant(0, "int64"), n.int64(*range(2, rank))
    size = n.as_vector(n.value(0))
    fact = n.building.facts.get(size)
    if fact is None or fact.shape != (count,):
        size = n.emit("slice", size, n.int64(first), n.int64(first + count), n.int64(0))
    dims = n.emit("gather", n.emit("shape", x), axes, axis=0)
    whole = n.emit("mul", n.emit("sub", dims, n.int64(1)), n.int64(*strides))
    whole = n.emit("add", whole, n.int64(*extents))
    missing = n.emit("max", n.emit("sub", size, whole), zero)
    none = n.int64(*[0] * (rank + 2))
    y = n.emit("pad", y, n.emit("concat", none, missing, axis=0))
    begins = n.int64(*[0] * count)
    if n.text("padding") == "SAME":
        over = n.emit("max", n.emit("sub", whole, size), zero)
        begins = n.emit("div", over, n.int64(2))
    elif n.text("padding") == "EXPLICIT":
        begins = n.int64(*n.list("explicit_paddings")[2 * first : 2 * (first + count) : 2])
    return n.emit("slice", y, begins, n.emit("add", begins, size), axes)


def _numbers(fact: Fact, which: int) -> tuple[int, ...] | None:
    value = getattr(fact.types[which], "value", None)
    return None if value is None else tuple(map(int, np.asarray(value).reshape(-1)))


@rule("MaxPool", "MaxPoolV2", "AvgPool", "MaxPool3D", "AvgPool3D")
def _pool(n: Site) -> None:
    rank = 5 if n.op.endswith("3D") else 4
    ksize = n.integers(1) if n.op == "MaxPoolV2" else n.list("ksize")
    strides = n.integers(2) if n.op == "MaxPoolV2" else n.list("strides")
    y = n.emit(
        "max_pool" if n.op.startswith("Max") else "average_pool",
        channels_first(n, n.value(0), rank),
        kernel_shape=spatial(n, ksize, "ksize", rank),
        strides=spatial(n, strides, "strides", rank),
        **padding(n, rank),
    )
    n.finish(as_before(n, y, rank))


@rule("MaxPoolWithArgmax")
def _max_pool_with_argmax(n: Site) -> None:
    """Convert the indices, which are counted in NHWC; max_pool counts them in NCHW."""
    x = channels_first(n, n.value(0))
    y, places = n.emit_many(
        "max_pool",
        2,
        x,
        kernel_shape=spatial(n, n.list("ksize"), "ksize"),
        strides=spatial(n, n.list("strides"), "strides"),
        **padding(n),
    )
    shape = n.emit("shape", x)
    channels, height, width = (
        n.emit("gather", shape, n.constant(axis, "int64"), axis=0) for axis in (1, 2, 3)
    )
    area = n.emit("mul", height, width)
    planes = n.emit("div", places, area)
    pixel = n.emit("sub", places, n.emit("mul", planes, area))
    batch = n.emit("div", planes, channels)
    channel = n.emit("sub", planes, n.emit("mul", batch, channels))
    places = n.emit("add", n.emit("mul", pixel, channels), channel)
    if n.flag("include_batch_in_index"):
        size = n.emit("mul", area, channels)
        places = n.emit("add", places, n.emit("mul", batch, size))
    places = as_before(n, places)
    if n.dtype("Targmax", "int64") != "int64":
        places = n.emit("cast", places, to=n.dtype("Targmax"))
    n.finish(as_before(n, y), places)


@rule("BiasAdd", "BiasAddV1")
def _bias_add(n: Site) -> None:
    n.finish(bias_add(n, n.value(0), n.value(1)))


def bias_add(n: Site, value: str, bias: str) -> str:
    """Add a number a channel."""
    rank = 0 if is_channels_last(n) else n.rank_of(value)
    return n.emit("add", value, channel_vector(n, bias, rank))


@rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "_FusedBatchNormEx")
def _batch_norm(n: Site) -> None:
    fact = n.fact(0)
    rank = 4 if fact is None else len(fact.shape)
    y = batch_norm(n, n.value(0), n.values(1, 5), rank)
    if n.op.startswith("_"):
        if n.count > 5:
            y = n.emit("add", y, n.value(5))
        y = activate(n, y, n.text("activation_mode", "Identity"))
    n.finish(y)


def batch_norm(n: Site, value: str, parameters: list[str], rank: int = 4) -> str:
    """Normalise by scale, offset, mean and variance; in training by the batch's own."""
    epsilon = n.real("epsilon", 1e-4)
    if not n.flag("is_training", True):
        x = channels_first(n, value, rank)
        return as_before(n, n.emit("batch_normalization", x, *parameters, epsilon=epsilon), rank)
    channel = rank - 1 if is_channels_last(n) else 1
    axes = n.int64(*(axis for axis in range(rank) if axis != channel))
    centred = n.emit("sub", value, n.emit("reduce_mean", value, axes))
    variance = n.emit("reduce_mean", n.emit("mul", centred, centred), axes)
    variance = n.emit("add", variance, n.constant(epsilon, n.dtype()))
    y = n.emit("div", centred, n.emit("sqrt", variance))
    y = n.emit("mul", y, channel_vector(n, parameters[0], rank))
    return n.emit("add", y, channel_vector(n, parameters[1], rank))


def activate(n: Site, value: str, activation: str) -> str:
    """Write an activation that a fused operator names."""
    if activation in ("Identity", ""):
        return value
    if activation in ("Relu", "Elu", "Tanh", "Sigmoid"):
        return n.emit(activation.lower(), value)
    if activation == "Relu6":
        return n.emit("clip", value, n.constant(0, n.dtype()), n.constant(6, n.dtype()))
    if activation == "LeakyRelu":
        return n.emit("leaky_relu", value, alpha=n.real("leakyrelu_alpha", 0.2))
    raise n.unsupported(f"activation {activation}")


@rule("_FusedConv2D", "_FusedDepthwiseConv2dNative", "_FusedMatMul")
def _fused(n: Site) -> None:
    """Convert an operator fused by TensorFlow's optimiser, with the ops that it names."""
    if n.op == "_FusedMatMul":
        y = matrix_product(n, n.flag("transpose_a"), n.flag("transpose_b"), 2)
    else:
        y = convolution(n) if n.op == "_FusedConv2D" else depthwise(n)
    place = 2
    for name in [text.decode("utf-8", "replace") for text in n.attrs["fused_ops"].list.s]:
        if name == "BiasAdd":
            y = bias_add(n, y, n.value(place))
            place += 1
        elif name == "Add":
            y = n.emit("add", y, n.value(place))
            place += 1
        elif name == "FusedBatchNorm":
            if n.flag("is_training"):
                raise n.unsupported("a fused batch norm in training")
            x = channels_first(n, y)
            parameters = n.values(place, place + 4)
            epsilon = n.real("epsilon", 1e-4)
            y = as_before(n, n.emit("batch_normalization", x, *parameters, epsilon=epsilon))
            place += 4
        else:
            y = activate(n, y, name)
    n.finish(y)


@rule("MatMul")
def _matmul(n: Site) -> None:
    n.finish(matrix_product(n, n.flag("transpose_a"), n.flag("transpose_b"), 2))


@rule("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(n: Site) -> None:
    n.finish(matrix_product(n, n.flag("adj_x"), n.flag("adj_y")))


def matrix_product(n: Site, turn_a: bool, turn_b: bool, rank: int = 0) -> str:
    """Write a @ b, either transposed if asked for.

    rank: the rank of both, 0 if it may be any.
    """
    factors: list[str] = []
    for index, turn in enumerate((turn_a, turn_b)):
        value = n.value(index)
        if turn:
            axes = tuple(range(rank or n.rank(index)))
            if len(axes) < 2:
                raise ModelError(f"node {n.name}: {n.op}: expected matrices, got rank {len(axes)}")
            value = n.transposed(value, (*axes[:-2], axes[-1], axes[-2]))
        factors.append(value)
    return n.emit("matmul", *factors)


@rule("ExtractImagePatches")
def _extract_patches(n: Site) -> None:
    """Write the pixels under a window as channels: a convolution with one weight a pixel."""
    shape = n.shape(0)
    channels = shape[3] if shape is not None and len(shape) == 4 else None
    height, width = spatial(n, n.list("ksizes"), "ksizes")
    if channels is None or channels * height * width > _MOST_PATCH:
        raise n.unsupported("an unknown or a large number of channels")
    size = channels * height * width
    weight = np.eye(size, dtype=n.dtype()).reshape(size, height, width, channels)
    y = n.emit(
        "conv",
        channels_first(n, n.value(0)),
        n.constant(weight.transpose(0, 3, 1, 2), n.dtype()),
        strides=spatial(n, n.list("strides"), "strides"),
        dilations=spatial(n, n.list("rates"), "rates"),
        **padding(n),
    )
    n.finish(as_before(n, y))


@rule("LRN")
def _lrn(n: Site) -> None:
    """Convert alpha, which TensorFlow gives for one neighbour and ONNX for all together."""
    size = 2 * n.integer("depth_radius", 5) + 1
    y = n.emit(
        "lrn",
        channels_first(n, n.value(0)),
        size=size,
        alpha=n.real("alpha", 1.0) * size,
        beta=n.real("beta", 0.5),
        bias=n.real("bias", 1.0),
    )
    n.finish(as_before(n, y))


@rule("Einsum")
def _einsum(n: Site) -> None:
    n.finish(n.emit("einsum", *n.values(), equation=n.text("equation")))
