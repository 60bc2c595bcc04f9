"""Normalization layers, and the scales and biases that follow them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from palmkit.engine.converters.caffe.graph import Draft
from palmkit.engine.converters.caffe.network import Layer
from palmkit.engine.converters.caffe.rules import rule


@rule("BatchNorm", blobs=lambda layer: 0 if _counts_now(layer) else 3)
def _batch_norm(draft: Draft, x: str) -> str:
    """Write (x - mean) / sqrt(variance + eps), from learned sums divided by their weight.

    NVIDIA's fork keeps scale and bias in the same layer, as the fourth and fifth blob.
    """
    options = draft.layer.message.batch_norm_param
    if _counts_now(draft.layer):
        axes = (0, *range(2, draft.rank(x)))
        return _standardized(draft, x, axes, options.eps)
    channels = draft.channels(x)
    factor = float(draft.blob(2, 1)[0])
    factor = 1 / factor if factor else 0.0
    mean, variance = (draft.blob(i, channels) * np.float32(factor) for i in (0, 1))
    scale, bias = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    if len(draft.layer.blobs or ()) > 3:
        scale, bias = draft.blob(3, channels), draft.blob(4, channels)
    elif options.scale_bias:
        raise draft.bad("expected 5 learned blobs with scale_bias")
    constants = [draft.constant(each) for each in (scale, bias, mean, variance)]
    return draft.emit("batch_normalization", x, *constants, epsilon=options.eps)


def _counts_now(layer: Layer) -> bool:
    """Return whether mean and variance are those of the current batch, not the learned ones."""
    options = layer.message.batch_norm_param
    return bool(options.HasField("use_global_stats") and not options.use_global_stats)


@rule("BN", blobs=2)
def _bn(draft: Draft, x: str) -> str:
    """Convert the BN layer of forks.

    SegNet's in mode INFERENCE is scale and bias, the others keep statistics.
    """
    options = draft.layer.message.bn_param
    channels = draft.channels(x)
    scale, bias = draft.blob(0, channels), draft.blob(1, channels)
    if options.axis != 1 or not options.moving_average:
        raise draft.unsupported("another axis than 1, or statistics of the batch at hand")
    if len(draft.layer.blobs or ()) == 2:
        if options.bn_mode != 1:
            raise draft.unsupported("statistics of the batch at hand (bn_mode: LEARN)")
        return _scaled_and_shifted(draft, x, scale, bias)
    epsilon = options.var_eps if options.HasField("var_eps") else options.eps
    constants = [
        draft.constant(each)
        for each in (scale, bias, draft.blob(2, channels), draft.blob(3, channels))
    ]
    return draft.emit("batch_normalization", x, *constants, epsilon=epsilon)


def _scaled_and_shifted(draft: Draft, x: str, scale: Any, bias: Any, axis: int = 1) -> str:
    y = draft.emit("mul", x, draft.by_channel(x, scale, axis))
    return y if bias is None else draft.emit("add", y, draft.by_channel(x, bias, axis))


def _learned_shape(draft: Draft, x: str, options: Any) -> tuple[int, tuple[int, ...]]:
    """Return the first axis that a learned blob covers, and its shape."""
    axis = draft.axis(x, options.axis)
    end = draft.rank(x) if options.num_axes == -1 else axis + options.num_axes
    if not axis <= end <= draft.rank(x):
        raise draft.bad(f"axis and num_axes are outside of {draft.type(x)}")
    return axis, draft.dims(x)[axis:end]


def _aligned(draft: Draft, x: str, other: str, axis: int) -> str:
    """Add trailing axes of 1 to the second bottom, so that it broadcasts to x from `axis` on."""
    axis = draft.axis(x, axis)
    rank = draft.rank(other)
    if rank and draft.dims(other) != draft.dims(x)[axis : axis + rank]:
        raise draft.bad(f"axis {axis} of {draft.type(x)} does not take {draft.type(other)}")
    behind = range(rank, draft.rank(x) - axis)
    if not rank or not behind:
        return other
    return draft.emit("unsqueeze", other, draft.int64(*behind))


@rule("Scale", bottoms=(1, 2), blobs=lambda layer: _scale_blobs(layer))
def _scale(draft: Draft, x: str, other: str = "") -> str:
    options = draft.layer.message.scale_param
    if other:
        y = draft.emit("mul", x, _aligned(draft, x, other, options.axis))
        if not options.bias_term:
            return y
        axis = draft.axis(x, options.axis)
        bias = draft.blob(0, *draft.dims(other))
        return draft.emit("add", y, draft.by_channel(x, bias, axis))
    axis, shape = _learned_shape(draft, x, options)
    shift = draft.blob(1, *shape) if options.bias_term else None
    return _scaled_and_shifted(draft, x, draft.blob(0, *shape), shift, axis)


def _scale_blobs(layer: Layer) -> int:
    return (len(layer.bottoms) < 2) + bool(layer.message.scale_param.bias_term)


@rule("Bias", bottoms=(1, 2), blobs=lambda layer: len(layer.bottoms) < 2)
def _bias(draft: Draft, x: str, other: str = "") -> str:
    options = draft.layer.message.bias_param
    if other:
        return draft.emit("add", x, _aligned(draft, x, other, options.axis))
    axis, shape = _learned_shape(draft, x, options)
    return draft.emit("add", x, draft.by_channel(x, draft.blob(0, *shape), axis))


@rule("LRN")
def _lrn(draft: Draft, x: str) -> str:
    """Write x * (k + alpha * mean of squares) ** -beta, over adjacent channels or pixels.

    WITHIN_CHANNEL takes k as 1, whatever the file says, as Caffe does.
    """
    options = draft.layer.message.lrn_param
    size = int(options.local_size)
    if size % 2 != 1:
        raise draft.bad(f"expected an odd local_size, got {size}")
    if options.norm_region == 0:
        return draft.emit(
            "lrn", x, size=size, alpha=options.alpha, beta=options.beta, bias=options.k
        )
    if draft.rank(x) != 4:
        raise draft.bad(f"expected a bottom of 4 axes, got {draft.type(x)}")
    mean = draft.emit(
        "average_pool",
        draft.emit("mul", x, x),
        kernel_shape=(size, size),
        pads=((size - 1) // 2,) * 4,
        count_include_pad=1,
    )
    scale = draft.scaled(mean, options.alpha, 1.0)
    return draft.emit("mul", x, draft.emit("pow", scale, draft.constant(-options.beta)))


@rule("MVN")
def _mvn(draft: Draft, x: str) -> str:
    """Write (x - mean) / (sqrt(variance) + eps) of each plane, or of all planes of a picture."""
    options = draft.layer.message.mvn_param
    axes = range(1 if options.across_channels else 2, draft.rank(x))
    if not options.normalize_variance:
        mean = draft.emit("reduce_mean", x, draft.int64(*axes)) if axes else x
        return draft.emit("sub", x, mean)
    return _standardized(draft, x, axes, options.eps, outside=True)


def _standardized(
    draft: Draft, x: str, axes: Sequence[int], epsilon: float, outside: bool = False
) -> str:
    """Write (x - mean) / deviation; epsilon is added before or after the square root."""
    if not axes:
        raise draft.bad(f"expected a bottom of more axes, got {draft.type(x)}")
    over = draft.int64(*axes)
    centred = draft.emit("sub", x, draft.emit("reduce_mean", x, over))
    variance = draft.emit("reduce_mean", draft.emit("mul", centred, centred), over)
    if outside:
        deviation = draft.scaled(draft.emit("sqrt", variance), shift=epsilon)
    else:
        deviation = draft.emit("sqrt", draft.scaled(variance, shift=epsilon))
    return draft.emit("div", centred, deviation)


@rule("Normalize", "NormalizeBBox", blobs=1)
def _normalize(draft: Draft, x: str) -> str:
    """Write scale * x / sqrt(sum of squares + eps), over the channels or the whole picture."""
    layer = draft.layer.message
    options = layer.norm_param if layer.HasField("norm_param") else layer.normalize_bbox_param
    if not 2 <= draft.rank(x) <= 4:
        raise draft.bad(f"expected a bottom of 2 to 4 axes, got {draft.type(x)}")
    axes = range(1, draft.rank(x) if options.across_spatial else 2)
    squares = draft.emit("reduce_sum", draft.emit("mul", x, x), draft.int64(*axes))
    y = draft.emit("div", x, draft.emit("sqrt", draft.scaled(squares, shift=options.eps)))
    scale = draft.blob(0, 1 if options.channel_shared else draft.channels(x))
    return draft.emit("mul", y, draft.by_channel(x, scale))


@rule("Softmax")
def _softmax(draft: Draft, x: str) -> str:
    axis = draft.axis(x, draft.layer.message.softmax_param.axis)
    return draft.emit("softmax", x, axis=axis)
