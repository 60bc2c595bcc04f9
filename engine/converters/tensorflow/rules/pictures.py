"""Resizing and cropping pictures, and choosing boxes."""

from __future__ import annotations

from palmkit.engine.converters.tensorflow.site import Site, rule
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Attr
from palmkit.engine.ops.resize_bicubic import cubic_weights

_NHWC_TO_NCHW = (0, 3, 1, 2)
_NCHW_TO_NHWC = (0, 2, 3, 1)
_MOST_WEIGHTS = 1 << 18


@rule("ResizeBilinear", "ResizeNearestNeighbor")
def _resize(n: Site) -> None:
    """Write a resize; nearest rounds a half up, or truncates."""
    align_corners, half_pixel = n.flag("align_corners"), n.flag("half_pixel_centers")
    if align_corners and half_pixel:
        raise ModelError(f"node {n.name}: both align_corners and half_pixel_centers")
    coordinates = "align_corners" if align_corners else "half_pixel" if half_pixel else "asymmetric"
    attrs: dict[str, Attr] = {"mode": "linear", "coordinate_transformation_mode": coordinates}
    x = n.value(0)
    if n.op == "ResizeNearestNeighbor":
        attrs["mode"] = "nearest"
        attrs["nearest_mode"] = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
    elif n.dtype() != "float32":
        x = n.emit("cast", x, to="float32")
    x = n.emit("transpose", x, perm=_NHWC_TO_NCHW)
    y = n.emit("resize", x, "", "", n.as_int64(n.value(1)), axes=(2, 3), **attrs)
    n.finish(n.emit("transpose", y, perm=_NCHW_TO_NHWC))


@rule("ResizeBicubic")
def _resize_bicubic(n: Site) -> None:
    """Write a bicubic resize; for static sizes it is a product with constant weights an axis."""
    corners, centres = n.flag("align_corners"), n.flag("half_pixel_centers")
    x, shape, sizes = n.value(0), n.shape(0), n.known(1)
    if n.dtype() != "float32":
        x = n.emit("cast", x, to="float32")
    lengths = () if shape is None or len(shape) != 4 or sizes is None else shape[1:3]
    pairs = list(zip(lengths, () if sizes is None else n.integers(1), strict=False))
    if len(pairs) != 2 or not all(
        length and 0 < length * size <= _MOST_WEIGHTS for length, size in pairs
    ):
        attrs: dict[str, Attr] = {
            "align_corners": int(corners),
            "half_pixel_centers": int(centres),
        }
        n.finish(n.emit("resize_bicubic", x, n.as_int64(n.value(1)), **attrs))
        return
    factors = [
        n.constant(cubic_weights(length or 1, size, corners, centres), "float32")
        for length, size in pairs
    ]
    x = n.emit("transpose", x, perm=_NHWC_TO_NCHW)
    y = n.emit("matmul", factors[0], x)
    y = n.emit("matmul", y, n.transposed(factors[1], (1, 0)))
    n.finish(n.emit("transpose", y, perm=_NCHW_TO_NHWC))


@rule("CropAndResize")
def _crop_and_resize(n: Site) -> None:
    image, boxes, which, size = n.values()
    if n.dtype() != "float32":
        image = n.emit("cast", image, to="float32")
    n.finish(
        n.emit(
            "crop_and_resize",
            image,
            boxes,
            which,
            n.as_int64(size),
            method=n.text("method", "bilinear"),
            extrapolation_value=n.real("extrapolation_value"),
        )
    )


@rule(
    "NonMaxSuppression",
    "NonMaxSuppressionV2",
    "NonMaxSuppressionV3",
    "NonMaxSuppressionV4",
    "NonMaxSuppressionV5",
)
def _non_max_suppression(n: Site) -> None:
    """Choose boxes of one picture and one class; V4 and V5 may pad the indices with zeros."""
    version = int(n.op[-1]) if n.op[-1].isdecimal() else 1
    iou = n.constant(n.real("iou_threshold", 0.5), "float32") if version == 1 else n.value(3)
    most = n.emit("reshape", n.as_int64(n.value(2)), n.int64(1))
    boxes = n.emit("unsqueeze", n.value(0), n.int64(0))
    scores = n.emit("unsqueeze", n.value(1), n.int64(0, 1))
    inputs = [boxes, scores, most, n.emit("reshape", iou, n.int64(1))]
    if version > 2:
        inputs.append(n.emit("reshape", n.value(4), n.int64(1)))
    if version == 5:
        sigma = n.known(5)
        if sigma is None or float(sigma.reshape(())) != 0:
            _soft_suppression(n)
            return
    chosen = n.emit("non_max_suppression", *inputs)
    chosen = n.emit("gather", chosen, n.constant(2, "int64"), axis=1)
    count = n.emit("cast", n.emit("size", chosen), to="int32")
    results = [n.emit("cast", chosen, to="int32")]
    if version == 5:
        results.append(n.emit("gather", n.value(1), chosen, axis=0))
    if n.flag("pad_to_max_output_size"):
        missing = n.emit("sub", most, n.emit("shape", chosen))
        pads = n.emit("concat", n.int64(0), missing, axis=0)
        results = [n.emit("pad", each, pads) for each in results]
    n.finish(*results, *([count] if version > 3 else []))


def _soft_suppression(n: Site) -> None:
    indices, scores, count = n.emit_many("non_max_suppression_v5", 3, *n.values())
    if not n.flag("pad_to_max_output_size"):
        end = n.emit("reshape", n.as_int64(count), n.int64(1))
        parts = [n.emit("slice", x, n.int64(0), end, n.int64(0)) for x in (indices, scores)]
        indices, scores = parts
    n.finish(indices, scores, count)


@rule("AdjustContrastv2")
def _adjust_contrast(n: Site) -> None:
    """Scale the distance from the mean of each channel."""
    mean = n.emit("reduce_mean", n.value(0), n.int64(-3, -2))
    away = n.emit("mul", n.emit("sub", n.value(0), mean), n.value(1))
    n.finish(n.emit("add", away, mean))


@rule("CombinedNonMaxSuppression")
def _combined_non_max_suppression(n: Site) -> None:
    boxes, scores, most_of_class, most, iou, score = n.values()
    found = n.emit_many(
        "combined_non_max_suppression",
        4,
        boxes,
        scores,
        n.as_int64(most_of_class),
        n.as_int64(most),
        iou,
        score,
        pad_per_class=int(n.flag("pad_per_class")),
        clip_boxes=int(n.flag("clip_boxes", True)),
    )
    n.finish(*found)
