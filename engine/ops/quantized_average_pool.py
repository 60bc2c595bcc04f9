"""The op quantized_average_pool."""

import numpy as np

from palmkit.engine.ir import Array, Attr, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.average_pool import average_pool, counts_of
from palmkit.engine.ops.quantization import need_levels, requantized
from palmkit.engine.ops.rules import need_dtype
from palmkit.engine.ops.windows import windows_of


def _infer(
    x: Type,
    *,
    scale: float,
    x_zero_point: int,
    y_zero_point: int,
    low: int,
    high: int,
    **attrs: Attr,
) -> Type:
    need_dtype("quantized_average_pool", x, among=("uint8",))
    need_levels("quantized_average_pool", (x_zero_point, y_zero_point), low, high)
    y = average_pool.infer(Type("float32", x.shape), **attrs)
    assert isinstance(y, Type)
    return Type("uint8", y.shape)


@op(
    _infer,
    case((1, 19, 8, 8), scale=1.0, x_zero_point=3, y_zero_point=3, kernel_shape=(2, 2),
         strides=(2, 2), dtype="uint8"),
    case((1, 19, 9, 7), scale=1.5, x_zero_point=30, y_zero_point=0, low=2, high=99,
         kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), dtype="uint8"),
    case((2, 3, 9, 7), scale=0.8, x_zero_point=9, y_zero_point=128, kernel_shape=(3, 3),
         pads=(1, 1, 1, 1), count_include_pad=1, dtype="uint8"),
    case((2, 70, 7, 7), scale=2.0, x_zero_point=50, y_zero_point=100, kernel_shape=(7, 7),
         dtype="uint8"),
    case((1, 3, 20), scale=1.0, x_zero_point=50, y_zero_point=100, kernel_shape=(3,),
         strides=(2,), dtype="uint8"),
    like=average_pool.attributes,
)  # fmt: skip
def quantized_average_pool(
    x: Array,
    *,
    scale: float,
    x_zero_point: int,
    y_zero_point: int,
    low: int = 0,
    high: int = 255,
    **attrs: Attr,
) -> Array:
    """The mean of each window of x - x_zero_point, times scale, to uint8.

    The sum is exact; it is multiplied by scale / the number of elements that count, each operation
    rounded to float32; then to the nearest integer, ties to even, plus y_zero_point, within
    low..high. Attributes of average_pool; scale: that of x over that of y.
    """
    windows = windows_of("average_pool", Type.of(x), attrs)
    sums = windows.view(x.astype(np.int32) - x_zero_point, 0).sum(windows.axes)
    counts = counts_of(windows, x.shape[2:], bool(attrs["count_include_pad"]))
    factor = np.float32(scale) / counts.astype(np.float32)
    return requantized(sums.astype(np.float32) * factor, y_zero_point, low, high)
