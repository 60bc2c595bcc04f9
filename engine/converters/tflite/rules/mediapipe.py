"""MediaPipe's custom operators; the ops' files have the definitions."""

from __future__ import annotations

from palmkit.engine.converters.tflite.builder import Builder, rule
from palmkit.engine.converters.tflite.custom_options import flexbuffer_map, structure
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.converters.tflite.rules.convolution import transposed_with_bias
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Attr

_SAME, _VALID = 1, 2


@rule("Convolution2DTransposeBias")
def _transpose_conv(b: Builder, o: Operator) -> None:
    """Read TfLiteTransposeConvParams: padding, stride width, stride height."""
    padding, stride_w, stride_h = structure(b, o, "<3i")
    transposed_with_bias(b, o, padding == _SAME, (stride_h, stride_w))


def _pool(b: Builder, o: Operator) -> dict[str, Attr]:
    """Read TfLitePoolParams: padding, strides and filter size (width, height), activation."""
    padding, stride_w, stride_h, filter_w, filter_h, activation = structure(b, o, "<6i")
    if padding not in (_SAME, _VALID):
        raise ModelError(f"node {b.current}: {o.op}: padding of number {padding}")
    if activation:
        raise UnsupportedError(f"node {b.current}: {o.op}: fused activation {activation}")
    return {
        "kernel_shape": (filter_h, filter_w),
        "strides": (stride_h, stride_w),
        "auto_pad": "SAME_UPPER" if padding == _SAME else "VALID",
    }


@rule("MaxPoolingWithArgmax2D")
def _max_pooling_with_argmax(b: Builder, o: Operator) -> None:
    results = b.emit_many("max_pooling_with_argmax_2d", 2, b.as_nchw(o.inputs[0]), **_pool(b, o))
    for place, value in enumerate(results):
        b.finish(o, b.emit("transpose", value, perm=(0, 2, 3, 1)), output=place)


@rule("MaxUnpooling2D")
def _max_unpooling(b: Builder, o: Operator) -> None:
    x, indices = (b.as_nchw(index) for index in o.inputs)
    b.finish_nchw(o, b.emit("max_unpooling_2d", x, indices, **_pool(b, o)))


def _version(b: Builder, o: Operator) -> int:
    if o.version not in (1, 2):
        raise UnsupportedError(f"node {b.current}: {o.op} of version {o.version}")
    return o.version


@rule("Landmarks2TransformMatrix")
def _landmarks_to_transform_matrix(b: Builder, o: Operator) -> None:
    options = flexbuffer_map(b, o)
    attrs: dict[str, Attr] = {
        name: int(options.number(name)) for name in ("left_rotation_idx", "right_rotation_idx")
    }
    attrs["version"] = _version(b, o)
    if o.version == 2:
        attrs["subset_idxs"] = options.numbers("subset_idxs")
        attrs["output_height"] = int(options.number("output_height"))
        attrs["output_width"] = int(options.number("output_width"))
        for name in ("scale_x", "scale_y", "target_rotation_radians"):
            attrs[name] = float(options.number(name))
    else:
        attrs["subset_idxs"] = options.numbers("subset")
        attrs["output_height"], attrs["output_width"] = _pair(options.numbers("output_hw"), b, o)
        attrs["input_hw"] = _pair(options.numbers("input_hw"), b, o)
        attrs["landmarks_range"] = int(options.number("landmarks_range"))
        attrs["scale_x"] = attrs["scale_y"] = float(options.number("bbox_size_multiplier"))
    b.finish(o, b.emit("landmarks2_transform_matrix", b.value(o.inputs[0]), **attrs))


def _pair(numbers: tuple[int, ...], b: Builder, o: Operator) -> tuple[int, int]:
    if len(numbers) != 2:
        raise ModelError(f"node {b.current}: {o.op}: expected a height and a width")
    return numbers[0], numbers[1]


@rule("TransformTensorBilinear")
def _transform_tensor_bilinear(b: Builder, o: Operator) -> None:
    options, version = flexbuffer_map(b, o), _version(b, o)
    if version == 2:
        size = int(options.number("output_height")), int(options.number("output_width"))
    else:
        size = _pair(options.numbers("output_size"), b, o)
    y = b.emit(
        "transform_tensor_bilinear",
        b.as_nchw(o.inputs[0]),
        b.value(o.inputs[1]),
        output_height=size[0],
        output_width=size[1],
        version=version,
    )
    b.finish_nchw(o, y)


@rule("TransformLandmarks")
def _transform_landmarks(b: Builder, o: Operator) -> None:
    """Write the op; version 2 has no options and takes the dimensions from the last axis."""
    attrs: dict[str, Attr] = {"version": _version(b, o)}
    if o.version == 1:
        options = flexbuffer_map(b, o)
        attrs["dimensions"] = int(options.number("dimensions", 3))
        attrs["scale"] = float(options.number("scale", 1.0))
    b.finish(
        o,
        b.emit("transform_landmarks", b.value(o.inputs[0]), b.value(o.inputs[1]), **attrs),
    )
