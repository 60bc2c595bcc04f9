"""max_pooling_with_argmax_2d: MediaPipe's custom operator MaxPoolingWithArgmax2D.

Source: mediapipe/util/tflite/operations/max_pool_argmax.cc.
"""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Results, case, op
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.windows import place

_TIES = np.array([[1, 1, 0, -2], [1, 3, -2, -2], [0, 0, 5, 5], [0, 7, 5, 6]], np.float32)


def _infer(
    x: Type,
    *,
    kernel_shape: tuple[int, ...],
    strides: tuple[int, ...],
    auto_pad: str,
) -> tuple[Type, Type]:
    need_dtype("max_pooling_with_argmax_2d", x, among=("float32",))
    need_rank("max_pooling_with_argmax_2d", x, 4, 4)
    windows = place("max_pooling_with_argmax_2d", x, kernel_shape, auto_pad, (), (), strides)
    y = Type(x.dtype, (*x.dims[:2], *windows.sizes))
    return y, y


@op(
    _infer,
    case((1, 3, 8, 6), kernel_shape=(2, 2), strides=(2, 2), auto_pad="SAME_UPPER", outputs=2),
    case((2, 3, 9, 7), kernel_shape=(3, 2), strides=(2, 3), auto_pad="SAME_UPPER", outputs=2),
    case((2, 3, 9, 7), kernel_shape=(3, 2), strides=(1, 2), outputs=2),
    case(_TIES[None, None], kernel_shape=(2, 2), strides=(2, 2), outputs=2),
)
def max_pooling_with_argmax_2d(
    x: Array,
    *,
    kernel_shape: tuple[int, ...],
    strides: tuple[int, ...],
    auto_pad: str = "VALID",
) -> Results:
    """The maximum of each window of x[n, c, h, w], and its place in the window.

    The place is a float: row * width of the window + column + 0.1; of equal maxima the first.
    """
    windows = place(
        "max_pooling_with_argmax_2d", Type.of(x), kernel_shape, auto_pad, (), (), strides
    )
    lowest = np.finfo(np.float32).min
    shape = (*x.shape[:2], *windows.sizes)
    values = windows.view(x, -np.inf).reshape(*shape, -1)
    best = np.where(values > lowest, values, -np.inf).argmax(-1)
    y = np.maximum(np.take_along_axis(values, best[..., None], -1)[..., 0], lowest)
    inside = (values > lowest).any(-1)
    return y, np.where(inside, best, 0).astype(np.float32) + np.float32(0.1)
