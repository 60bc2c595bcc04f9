"""Convolutions: plain, depthwise and transposed, in two and three dimensions."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.tflite.builder import Builder, fused_activation, rule
from palmkit.engine.converters.tflite.dilation import SAME_PADDING, geometry
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Array, Attr


def padding(o: Operator) -> dict[str, Attr]:
    """Return the attributes of the operator's padding, which is computed once shapes are known."""
    return {"auto_pad": "SAME_UPPER"} if o.option("Padding", 0) == SAME_PADDING else {}


def bias(
    b: Builder, o: Operator, place: int, x: int, weight: int, factor: Array | None = None
) -> list[str]:
    """Return the bias, if there is one, as real numbers.

    Integers are added to the sums of products: their scale is that of x times that of the weights,
    whatever the file says.
    factor: multiplies the scale of the weights, see `multiplier_factor`.
    """
    if not o.has_input(place):
        return []
    index = o.inputs[place]
    levels = [b.quantization(x), b.quantization(weight)]
    if b.stored_dtype(index) not in ("int32", "int64") or levels[0] is None or levels[1] is None:
        return [b.value(index)]
    scale = levels[0].scale * levels[1].scale
    if factor is not None:
        scale = scale * factor
    return [b.dequantized(index, np.asarray(scale, np.float32))]


def multiplier_factor(
    b: Builder, o: Operator, x: int, weight: int, bias_place: int
) -> Array | None:
    """Return the ratio of LiteRT's multiplier to the exact one for int16 by int8, else None.

    LiteRT rounds the multiplier to 15 bits and a power of two for sums of 64 bits; with a bias of
    32 bits the sums have 32 bits, too.
    Source: tensorflow/lite/kernels/internal/common.cc, MultiplyByQuantizedMultiplier of int64.
    """
    levels = [b.quantization(index) for index in (x, weight, o.outputs[0])]
    if any(each is None for each in levels):
        return None
    if o.has_input(bias_place) and b.stored_dtype(o.inputs[bias_place]) != "int64":
        return None
    own, of_weights, out = (each for each in levels if each is not None)
    if own.zero_point.dtype != np.int16 or out.zero_point.dtype != np.int16:
        return None
    exact = np.float64(own.scale) * of_weights.scale.astype(np.float64) / np.float64(out.scale)
    fraction, power = np.frexp(exact)
    rounded = np.minimum(np.rint(fraction * 2**15), 2**15 - 1) * np.exp2(power - 15.0)
    return np.asarray(np.divide(rounded, exact, out=np.ones_like(exact), where=exact > 0))


@rule("CONV_2D", "DEPTHWISE_CONV_2D")
def _convolution(b: Builder, o: Operator) -> None:
    stride_h, stride_w, dilation_h, dilation_w = geometry(o)
    block_h, block_w = b.dilated.get(o.inputs[0], (1, 1))
    x, weight = o.inputs[:2]
    if b.rank(weight) != 4 or b.rank(x) != 4:
        raise ModelError(f"node {b.current}: {o.op}: expected pictures and weights of 4 dims")
    factor = multiplier_factor(b, o, x, weight, 2)
    if o.op == "CONV_2D":
        filters = b.as_transposed(weight, (0, 3, 1, 2), factor)
        group = max(1, b.shape(x)[3] // max(1, b.shape(weight)[3]))
    else:
        filters = b.as_transposed(weight, (3, 0, 1, 2), factor)
        group = b.shape(weight)[3] // max(1, o.option("DepthMultiplier", 1))
        if b.shape(x)[3] > 0:
            group = b.shape(x)[3]
    y = b.emit(
        "conv",
        b.as_nchw(x),
        filters,
        *bias(b, o, 2, x, weight, factor),
        strides=(stride_h, stride_w),
        dilations=(dilation_h * block_h, dilation_w * block_w),
        group=group,
        **padding(o),
    )
    b.finish_nchw(o, y, fused_activation(o))


@rule("CONV_3D")
def _convolution_of_volumes(b: Builder, o: Operator) -> None:
    x, weight = o.inputs[:2]
    y = b.emit(
        "conv",
        b.as_nchw(x),
        b.as_transposed(weight, (4, 3, 0, 1, 2)),
        *bias(b, o, 2, x, weight),
        strides=(o.option("StrideD", 1), o.option("StrideH", 1), o.option("StrideW", 1)),
        dilations=(
            o.option("DilationDFactor", 1),
            o.option("DilationHFactor", 1),
            o.option("DilationWFactor", 1),
        ),
        **padding(o),
    )
    b.finish_nchw(o, y, fused_activation(o))


@rule("TRANSPOSE_CONV")
def _transpose_conv(b: Builder, o: Operator) -> None:
    strides = (int(o.option("StrideH", 1)), int(o.option("StrideW", 1)))
    kernel = b.static_shape(o.inputs[1])[1:3]
    factor = multiplier_factor(b, o, o.inputs[2], o.inputs[1], 3)
    filters = b.as_transposed(o.inputs[1], (3, 0, 1, 2), factor)
    _transposed(b, o, filters, strides, kernel, factor)


@rule("CONV_3D_TRANSPOSE")
def _transpose_conv_of_volumes(b: Builder, o: Operator) -> None:
    strides = (
        int(o.option("StrideD", 1)),
        int(o.option("StrideH", 1)),
        int(o.option("StrideW", 1)),
    )
    kernel = b.static_shape(o.inputs[1])[:3]
    filters = b.as_transposed(o.inputs[1], (4, 3, 0, 1, 2))
    _transposed(b, o, filters, strides, kernel)


def _transposed(
    b: Builder,
    o: Operator,
    filters: str,
    strides: tuple[int, ...],
    kernel: tuple[int, ...],
    factor: Array | None = None,
) -> None:
    """Write a transposed convolution of: the output's shape, weights, x, perhaps a bias.

    A shape that depends on x is taken as what the padding gives: that is how exporters compute it.
    """
    x, rank = o.inputs[2], len(strides)
    sizes: tuple[int, ...] = ()
    if b.is_constant(o.inputs[0]):
        sizes = b.numbers(o.inputs[0])[1 : 1 + rank]
    attrs: dict[str, Attr] = {}
    is_same = o.option("Padding", 0) == SAME_PADDING
    if is_same:
        attrs["auto_pad"] = "SAME_UPPER"
        if sizes:
            attrs["output_shape"] = sizes
    else:
        padded = tuple(max(s - k, 0) for s, k in zip(strides, kernel, strict=True))
        attrs["output_padding"] = padded
    y = b.emit(
        "conv_transpose", b.as_nchw(x), filters, *bias(b, o, 3, x, o.inputs[1], factor),
        strides=strides, **attrs,
    )  # fmt: skip
    y = b.emit("transpose", y, perm=(0, *range(2, rank + 2), 1))
    if sizes and not is_same:
        y = _fitted(b, y, sizes)
    b.finish(o, y, fused_activation(o))


def _fitted(b: Builder, y: str, sizes: tuple[int, ...]) -> str:
    """Cut or pad y with zeros to the sizes: without padding any size is allowed."""
    type = b.types.get(y)
    if type is None or not type.is_static or type.dims[1 : 1 + len(sizes)] == sizes:
        return y
    missing = [max(0, n - have) for n, have in zip(sizes, type.dims[1:], strict=False)]
    if any(missing):
        raise ModelError(f"node {b.current}: output {list(sizes)} is larger than {type}")
    axes = b.int64(*range(1, 1 + len(sizes)))
    return b.emit("slice", y, b.int64(*[0] * len(sizes)), b.int64(*sizes), axes)


def transposed_with_bias(b: Builder, o: Operator, is_same: bool, strides: tuple[int, int]) -> None:
    """Write MediaPipe's Convolution2DTransposeBias: inputs x, weights, bias; own padding.

    Source: mediapipe/util/tflite/operations/transpose_conv_bias.cc.
    """
    totals = [0, 0]
    if is_same:
        kernel = b.static_shape(o.inputs[1])[1:3]
        sizes = b.static_shape(o.inputs[0])[1:3]
        totals = [
            max(0, k - (size - 1) % stride - 1)
            for k, size, stride in zip(kernel, sizes, strides, strict=True)
        ]
    begins = [total // 2 for total in totals]
    ends = [total - begin for total, begin in zip(totals, begins, strict=True)]
    y = b.emit(
        "conv_transpose",
        b.as_nchw(o.inputs[0]),
        b.as_transposed(o.inputs[1], (3, 0, 1, 2)),
        b.value(o.inputs[2]),
        strides=strides,
        pads=(*begins, *ends),
    )
    b.finish_nchw(o, y)
