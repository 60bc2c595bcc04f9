"""resize_bicubic: TensorFlow's ResizeBicubic, on [batch, height, width, channels].

Source: tensorflow/core/kernels/image/resize_bicubic_op.cc; Keys, Cubic convolution interpolation,
1981.
"""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, known_value, op
from palmkit.engine.ops.rules import need_dtype, need_rank

_MOST_WEIGHTS = 1 << 24


def _infer(images: Type, size: Type, *, align_corners: int, half_pixel_centers: int) -> Type:
    need_dtype("resize_bicubic", images, among=("float32",))
    need_rank("resize_bicubic", images, 4, 4)
    if align_corners and half_pixel_centers:
        raise ValueError("both align_corners and half_pixel_centers")
    height, width = known_value(size, "resize_bicubic: size").tolist()
    for length, wanted in zip(images.dims[1:3], (height, width), strict=True):
        if min(length, wanted) < 1 or length * wanted > _MOST_WEIGHTS:
            raise ShapeError(f"resize_bicubic: cannot make {[height, width]} of {images}")
    return Type("float32", (images.dims[0], height, width, images.dims[3]))


_SIZES = np.array([9, 7]), np.array([3, 4]), np.array([10, 1])


@op(
    _infer,
    *(case((2, 5, 6, 3), size) for size in _SIZES),
    *(case((2, 5, 6, 3), size, align_corners=1) for size in _SIZES),
    *(case((2, 5, 6, 3), size, half_pixel_centers=1) for size in _SIZES),
)
def resize_bicubic(
    images: Array, size: Array, *, align_corners: int = 0, half_pixel_centers: int = 0
) -> Array:
    """The pictures resized to size: (height, width), with the weights of TensorFlow's table."""
    height, width = (int(each) for each in size)
    options = bool(align_corners), bool(half_pixel_centers)
    down = cubic_weights(images.shape[1], height, *options)
    across = cubic_weights(images.shape[2], width, *options)
    y = np.einsum("oh,nhwc->nowc", down, images, optimize=True)
    return np.asarray(np.einsum("pw,nowc->nopc", across, y, optimize=True), np.float32)


def cubic_weights(length: int, size: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """Return the weights of `length` pixels in each of `size` results, float32[size, length].

    Keys' cubic with a = -1/2 where pixels have centres, else -3/4, at steps of 1/1024.
    """
    one, half = np.float32(1), np.float32(0.5)
    scale = np.float32(length) / np.float32(size)
    if align_corners and size > 1:
        scale = (np.float32(length) - one) / (np.float32(size) - one)
    places = np.arange(size, dtype=np.float32)
    places = (places + half) * scale - half if half_pixel_centers else places * scale
    first = np.floor(places)
    step = np.rint((places - first) * np.float32(1024)) / 1024
    distances = np.stack([1 + step, step, 1 - step, 2 - step], 1)
    a = -0.5 if half_pixel_centers else -0.75
    near = ((a + 2) * distances - (a + 3)) * distances**2 + 1
    far = ((a * distances - 5 * a) * distances + 8 * a) * distances - 4 * a
    weights = np.where(distances <= 1, near, far)
    taps = first[:, None].astype(np.int64) + np.arange(-1, 3)
    if half_pixel_centers:
        weights = np.where((taps >= 0) & (taps < length), weights, 0)
        weights /= weights.sum(1, keepdims=True)
    matrix = np.zeros((size, length))
    np.add.at(matrix, (np.arange(size)[:, None], np.clip(taps, 0, length - 1)), weights)
    return np.asarray(matrix, np.float32)
