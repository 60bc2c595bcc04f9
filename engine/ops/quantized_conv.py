"""The op quantized_conv."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Attr, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.conv import conv
from palmkit.engine.ops.products import macs_of_kernel
from palmkit.engine.ops.quantization import need_levels, requantized
from palmkit.engine.ops.rules import need_dtype


def _infer(
    x: Type,
    w: Type,
    scale: Type,
    b: Type | None = None,
    z: Type | None = None,
    slope: Type | None = None,
    *,
    x_zero_point: int,
    y_zero_point: int,
    low: int,
    high: int,
    inner_scale: float,
    inner_zero_point: int,
    inner_low: int,
    inner_high: int,
    z_scale: float,
    z_zero_point: int,
    sum_scale: float,
    sum_zero_point: int,
    sum_low: int,
    sum_high: int,
    output_dtype: str,
    **attrs: Attr,
) -> Type:
    need_dtype("quantized_conv", x, among=("uint8",))
    need_dtype("quantized_conv", w, among=("int8",))
    need_dtype("quantized_conv", scale, among=("float32",))
    need_levels("quantized_conv", (x_zero_point, y_zero_point, z_zero_point), low, high)
    need_levels("quantized_conv", (inner_zero_point,), inner_low, inner_high)
    need_levels("quantized_conv", (sum_zero_point,), sum_low, sum_high)
    real = Type("float32", x.shape), Type("float32", w.shape)
    y = conv.infer(*real, None, **attrs)
    assert isinstance(y, Type)
    for each, dtype in ((scale, "float32"), (b, "int32"), (slope, "float32")):
        if each is not None and (each.dtype, each.dims) != (dtype, w.dims[:1]):
            raise ShapeError(f"quantized_conv: expected {dtype}[{w.dims[0]}], got {each}")
    if z is not None and not _can_be_added(z, y):
        raise ShapeError(f"quantized_conv: expected uint8{list(y.dims)} to add, got {z}")
    if output_dtype not in ("uint8", "float32"):
        raise ValueError(f"output_dtype: {output_dtype}")
    scaled_again = slope is not None or inner_scale or sum_scale
    if output_dtype == "float32" and (z is not None or scaled_again):
        raise ValueError("a float32 output goes with neither z, slope nor another scale")
    return Type(output_dtype, y.shape)


def _can_be_added(z: Type, y: Type) -> bool:
    fits = len(z.dims) == len(y.dims) and z.dims[1] <= y.dims[1]
    return z.dtype == "uint8" and fits and (z.dims[0], *z.dims[2:]) == (y.dims[0], *y.dims[2:])


def _levels(*dims: int) -> Array:
    return ((np.arange(int(np.prod(dims))) * 37 + 11) % 255 - 127).astype(np.int8).reshape(dims)


def _scales(count: int, channel: int) -> Array:
    return np.linspace(0.3, 0.6, count, dtype=np.float32) / np.float32(32 * channel)


_B = np.linspace(-4000, 4000, 16).astype(np.int32)
_X = (1, 8, 7, 6)


@op(
    _infer,
    case(_X, _levels(16, 8, 3, 3), _scales(16, 72), _B, x_zero_point=30, y_zero_point=120,
         pads=(1, 1, 1, 1), dtype="uint8"),
    case(_X, _levels(16, 8, 3, 3), _scales(16, 72), _B, x_zero_point=30, y_zero_point=0,
         strides=(2, 2), pads=(0, 0, 1, 1), dtype="uint8"),
    case(_X, _levels(16, 8, 1, 1), _scales(16, 8), None, _X[:1] + (16, 7, 6), x_zero_point=0,
         y_zero_point=128, z_scale=0.75, z_zero_point=20, low=128, high=240, dtype="uint8"),
    case((1, 19, 9, 8), _levels(19, 1, 3, 3), _scales(19, 9), x_zero_point=50, y_zero_point=99,
         group=19, pads=(1, 1, 1, 1), dtype="uint8"),
    case((1, 19, 9, 8), _levels(19, 1, 5, 5), _scales(19, 25), None, (1, 19, 5, 4), group=19,
         x_zero_point=255, y_zero_point=99, z_scale=1.5, z_zero_point=3, strides=(2, 2),
         pads=(2, 2, 2, 2), dtype="uint8"),
    case((1, 3, 11, 10), _levels(16, 3, 3, 3), _scales(16, 27), _B, x_zero_point=7,
         y_zero_point=9, strides=(2, 2), auto_pad="SAME_UPPER", dtype="uint8"),
    case((2, 6, 8, 8), _levels(4, 3, 3, 3), _scales(4, 27), x_zero_point=40, y_zero_point=130,
         group=2, dilations=(2, 1), pads=(2, 1, 2, 1), dtype="uint8"),
    case((5, 33, 1, 1), _levels(16, 33, 1, 1), _scales(16, 33), _B, x_zero_point=99,
         y_zero_point=100, dtype="uint8"),
    case((1, 4, 20), _levels(16, 4, 5), _scales(16, 20), _B, x_zero_point=50, y_zero_point=100,
         strides=(2,), pads=(2, 2), dtype="uint8"),
    case(_X, _levels(16, 8, 3, 3), _scales(16, 72), _B, _X[:1] + (16, 7, 6), x_zero_point=30,
         y_zero_point=90, inner_scale=0.8, inner_zero_point=40, inner_low=40, inner_high=130,
         z_scale=0.4, z_zero_point=99, pads=(1, 1, 1, 1), dtype="uint8"),
    case(_X, _levels(21, 8, 1, 1), _scales(21, 8), None, _X[:1] + (13, 7, 6),
         np.linspace(-0.5, 0.5, 21, dtype=np.float32), x_zero_point=30, y_zero_point=90,
         inner_scale=0.8, inner_zero_point=40, z_scale=0.4, z_zero_point=99, sum_scale=1.2,
         sum_zero_point=110, sum_low=20, sum_high=200, dtype="uint8"),
    case((1, 19, 9, 8), _levels(19, 1, 3, 3), _scales(19, 9), None, None,
         np.linspace(-0.5, 0.5, 19, dtype=np.float32), group=19, x_zero_point=50,
         y_zero_point=90, sum_scale=0.7, sum_zero_point=110, dtype="uint8"),
    case(_X, _levels(16, 8, 1, 1), _scales(16, 8), _B, None,
         np.linspace(-0.5, 0.5, 16, dtype=np.float32), x_zero_point=30, y_zero_point=90,
         dtype="uint8"),
    case(_X, _levels(16, 8, 3, 3), _scales(16, 72), _B, x_zero_point=30, output_dtype="float32",
         dtype="uint8"),
    case((1, 19, 9, 8), _levels(19, 1, 3, 3), _scales(19, 9), x_zero_point=50,
         output_dtype="float32", group=19, dtype="uint8"),
    like=conv.attributes,
    macs=macs_of_kernel,
)  # fmt: skip
def quantized_conv(
    x: Array,
    w: Array,
    scale: Array,
    b: Array | None = None,
    z: Array | None = None,
    slope: Array | None = None,
    *,
    x_zero_point: int,
    y_zero_point: int = 0,
    low: int = 0,
    high: int = 255,
    inner_scale: float = 0.0,
    inner_zero_point: int = 0,
    inner_low: int = 0,
    inner_high: int = 255,
    z_scale: float = 0.0,
    z_zero_point: int = 0,
    sum_scale: float = 0.0,
    sum_zero_point: int = 0,
    sum_low: int = 0,
    sum_high: int = 255,
    output_dtype: str = "uint8",
    **attrs: Attr,
) -> Array:
    """A convolution of uint8[n, c, *spatial] by int8[m, c / group, *kernel], to uint8.

    Sums (x - x_zero_point) * w + b in int32, where padding counts as x_zero_point; times scale[m],
    the scales of x and w over that of y, plus (z - z_zero_point) * z_scale, each operation rounded
    to float32; negative results are multiplied by slope[m]; then to the nearest integer, ties to
    even, plus y_zero_point, within low..high. z may have fewer channels than y: those it lacks add
    nothing. Attributes of conv. After ONNX's QLinearConv.
    inner_scale: unless 0, the convolution is rounded by itself before z is added. Its own integers
    have inner_zero_point, inner_low and inner_high; scale[m] is then over their scale, and
    inner_scale is their scale over that of y.
    sum_scale: unless 0, the sum with z is rounded by itself before the slope. Its integers have
    sum_zero_point, sum_low and sum_high; the scales before are over their scale, and sum_scale is
    their scale over that of y.
    output_dtype: "float32" for the sums times scale[m], the scales of x and w, and nothing more.
    """
    sums = _sums(x, w, x_zero_point, attrs)
    rank = x.ndim - 2
    if b is not None:
        sums = sums + b.astype(np.int64).reshape(-1, *[1] * rank)
    y = sums.astype(np.int32).astype(np.float32) * scale.reshape(-1, *[1] * rank)
    if output_dtype == "float32":
        return np.asarray(y)
    if inner_scale:
        y = _rounded(y, inner_scale, inner_low - inner_zero_point, inner_high - inner_zero_point)
    if z is not None:
        more = (z.astype(np.int32) - z_zero_point).astype(np.float32) * np.float32(z_scale)
        y[:, : z.shape[1]] += more
    if sum_scale:
        y = _rounded(y, sum_scale, sum_low - sum_zero_point, sum_high - sum_zero_point)
    if slope is not None:
        y = np.where(y > 0, y, y * slope.reshape(-1, *[1] * rank))
    return requantized(y, y_zero_point, low, high)


def _rounded(y: Array, scale: float, least: int, most: int) -> Array:
    """Return y rounded to integers in least..most, times the scale."""
    steps = np.rint(np.clip(y, np.float32(least), np.float32(most)))
    return np.asarray(steps * np.float32(scale))


def _sums(x: Array, w: Array, zero: int, attrs: dict[str, Attr]) -> Array:
    """Return the integer sums as int64; they are far below 2^53, so float64 holds them exactly."""
    y = conv.reference(x.astype(np.float64) - zero, w.astype(np.float64), None, **attrs)
    return np.asarray(y).astype(np.int64)
