"""crop_and_resize: TensorFlow's CropAndResize.

Source: tensorflow/core/kernels/image/crop_and_resize_op.cc.
"""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, known_value, op
from palmkit.engine.ops.rules import need_dtype

METHODS = ("bilinear", "nearest")


def _infer(
    image: Type,
    boxes: Type,
    box_ind: Type,
    crop_size: Type,
    *,
    method: str,
    extrapolation_value: float,
) -> Type:
    need_dtype("crop_and_resize", image, boxes, among=("float32",))
    if method not in METHODS:
        raise ValueError(f"unknown method: {method}")
    if len(image.dims) != 4 or boxes.dims[1:] != (4,) or box_ind.dims != boxes.dims[:1]:
        raise ShapeError(
            "crop_and_resize: expected image [batch, height, width, channels], boxes [n, 4], "
            f"box_ind [n], got {image}, {boxes}, {box_ind}"
        )
    height, width = known_value(crop_size, "crop_and_resize: crop_size").tolist()
    if min(height, width) < 1 or 0 in image.dims[1:3]:
        raise ShapeError(f"crop_and_resize: cannot make {[height, width]} of {image}")
    return Type("float32", (boxes.dims[0], height, width, image.dims[3]))


_BOXES = np.array(
    [[0, 0, 1, 1], [0.2, 0.3, 0.7, 0.8], [-0.2, 0.1, 1.3, 0.9], [0.8, 0.9, 0.1, 0.2]], np.float32
)
_WHICH = np.array([0, 1, 1, 0], np.int32)


@op(
    _infer,
    case((2, 7, 8, 3), _BOXES, _WHICH, np.array([5, 4])),
    case((2, 7, 8, 3), _BOXES, _WHICH, np.array([3, 3]), method="nearest", extrapolation_value=9.0),
    case((2, 7, 8, 3), _BOXES, _WHICH, np.array([1, 2])),
    case((2, 7, 8, 3), _BOXES[:0], _WHICH[:0], np.array([2, 2])),
)
def crop_and_resize(
    image: Array,
    boxes: Array,
    box_ind: Array,
    crop_size: Array,
    *,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Array:
    """A part of a picture for each box, resized: float32[n, crop height, crop width, channels].

    image: [batch, height, width, channels]; boxes: (y1, x1, y2, x2), 0..1 from the centre of the
    first pixel to that of the last; box_ind: the index of the picture. Outside of it the value is
    extrapolation_value. Raises IndexError for an index without a picture.
    """
    height, width = (int(size) for size in crop_size)
    if box_ind.size and not 0 <= box_ind.min() <= box_ind.max() < len(image):
        raise IndexError(f"box_ind is outside of 0..{len(image) - 1}")
    rows = _places(boxes[:, 0], boxes[:, 2], image.shape[1], height)
    columns = _places(boxes[:, 1], boxes[:, 3], image.shape[2], width)
    inside = _inside(rows, image.shape[1])[:, :, None] & _inside(columns, image.shape[2])[:, None]
    which = box_ind[:, None, None]

    def pixels(y: Array, x: Array) -> Array:
        down = np.clip(y, 0, image.shape[1] - 1).astype(np.int64)[:, :, None]
        across = np.clip(x, 0, image.shape[2] - 1).astype(np.int64)[:, None]
        return image[which, down, across]

    if method == "nearest":
        found = pixels(_half_up(rows), _half_up(columns))
    else:
        top, left = np.floor(rows), np.floor(columns)
        bottom, right = np.ceil(rows), np.ceil(columns)
        along = (columns - left)[:, None, :, None]
        upper = pixels(top, left) + (pixels(top, right) - pixels(top, left)) * along
        lower = pixels(bottom, left) + (pixels(bottom, right) - pixels(bottom, left)) * along
        found = upper + (lower - upper) * (rows - top)[:, :, None, None]
    return np.where(inside[..., None], found, np.float32(extrapolation_value)).astype(np.float32)


def _places(first: Array, last: Array, length: int, size: int) -> Array:
    """Return the positions of each crop's pixels along an axis, float32[n, size]."""
    if size == 1:
        return (np.float32(0.5) * (first + last) * np.float32(length - 1))[:, None]
    step = (last - first) * np.float32(length - 1) / np.float32(size - 1)
    start = first * np.float32(length - 1)
    return start[:, None] + np.arange(size, dtype=np.float32) * step[:, None]


def _inside(places: Array, length: int) -> Array:
    return (places >= 0) & (places <= length - 1)


def _half_up(places: Array) -> Array:
    """Round, halves away from zero."""
    return np.asarray(np.trunc(places + np.copysign(np.float32(0.5), places)))
