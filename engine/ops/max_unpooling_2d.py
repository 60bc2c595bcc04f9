"""max_unpooling_2d: MediaPipe's custom operator MaxUnpooling2D.

Source: mediapipe/util/tflite/operations/max_unpooling.cc.
"""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import need_dtype, need_rank

_PLACES = np.array([[[[0.1, 3.1], [2.1, 1.1]], [[3.1, 9.1], [-5.0, 0.1]]]], np.float32)


def _infer(
    x: Type,
    indices: Type,
    *,
    kernel_shape: tuple[int, ...],
    strides: tuple[int, ...],
    auto_pad: str,
) -> Type:
    need_dtype("max_unpooling_2d", x, indices, among=("float32",))
    need_rank("max_unpooling_2d", x, 4, 4)
    if indices.dims != x.dims:
        raise ShapeError(f"max_unpooling_2d: expected indices for {x}, got {indices}")
    if len(kernel_shape) != 2 or len(strides) != 2 or min(*kernel_shape, *strides) < 1:
        raise ValueError("kernel_shape or strides is out of range")
    height, width = x.dims[2] * kernel_shape[0], x.dims[3] * kernel_shape[1]
    return Type(x.dtype, (*x.dims[:2], height, width))


@op(
    _infer,
    case((1, 2, 2, 2), _PLACES, kernel_shape=(2, 2), strides=(2, 2)),
    case((1, 2, 2, 2), _PLACES, kernel_shape=(3, 2), strides=(1, 2)),
    case((1, 2, 2, 2), _PLACES, kernel_shape=(2, 3), strides=(2, 2), auto_pad="SAME_UPPER"),
)
def max_unpooling_2d(
    x: Array,
    indices: Array,
    *,
    kernel_shape: tuple[int, ...],
    strides: tuple[int, ...],
    auto_pad: str = "VALID",
) -> Array:
    """Zeros, with each element of x[n, c, h, w] in its window at the place of its index.

    The result is kernel_shape times as large; places outside of it are dropped, and of several
    elements at one place the last one stays. An index is row * width of the window + column,
    truncated to an integer. The windows begin half of what they overhang outside, however the
    pooling was padded: auto_pad changes nothing.
    """
    result = _infer(
        Type.of(x), Type.of(indices), kernel_shape=kernel_shape, strides=strides, auto_pad=auto_pad
    )
    y = np.zeros(result.dims, x.dtype)
    overhangs = [
        max(0, (small - 1) * stride + kernel - big) // 2
        for small, big, stride, kernel in zip(
            x.shape[2:], result.dims[2:], strides, kernel_shape, strict=True
        )
    ]
    picked = np.trunc(np.nan_to_num(indices)).astype(np.int64)
    row = np.sign(picked) * (np.abs(picked) // kernel_shape[1])
    places = np.indices(x.shape)
    down = places[2] * strides[0] - overhangs[0] + row
    right = places[3] * strides[1] - overhangs[1] + picked - row * kernel_shape[1]
    inside = (down >= 0) & (down < y.shape[2]) & (right >= 0) & (right < y.shape[3])
    y[places[0][inside], places[1][inside], down[inside], right[inside]] = x[inside]
    return y
