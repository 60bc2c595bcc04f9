"""The op quantize_linear."""

import numpy as np

from palmkit.engine.ir import Array, Type, numpy_dtype
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.quantization import (
    LEVELS,
    NARROW_FLOATS,
    narrowed,
    need_parameters,
    spread,
)
from palmkit.engine.ops.rules import need_dtype
from palmkit.engine.ops.traits import Family, Traits

_REALS = (*FLOATS, "bfloat16", "int32")


def _infer(
    x: Type,
    y_scale: Type,
    y_zero_point: Type | None = None,
    *,
    axis: int,
    block_size: int,
    output_dtype: str,
    precision: str,
    saturate: int,
) -> Type:
    need_dtype("quantize_linear", x, among=_REALS)
    need_dtype("quantize_linear", y_scale, among=(*_REALS, "float8_e8m0fnu"))
    need_parameters("quantize_linear", x, y_scale, y_zero_point, axis, block_size)
    dtype = output_dtype or (y_zero_point.dtype if y_zero_point is not None else "uint8")
    zero = Type(dtype, ()) if y_zero_point is None else y_zero_point
    need_dtype("quantize_linear", Type(dtype, ()), zero, among=LEVELS)
    return Type(dtype, x.shape)


_SCALES = np.array([0.1, 0.02, 0.5], np.float32)


@op(
    _infer,
    case((2, 3, 5), np.array(0.05, np.float32), np.array(128, np.uint8)),
    case((2, 3, 5), np.array(0.02, np.float32), np.array(-3, np.int8)),
    case((2, 3, 5), np.array(0.05, np.float32)),
    case((2, 3, 5), np.array([0.05], np.float32), np.array([7], np.int8)),
    case((2, 3, 5), _SCALES, np.array([1, 0, -9], np.int8)),
    case((4, 3), _SCALES, np.array([100, 0, 200], np.uint8), axis=-1),
    case((3, 4, 5), _SCALES, axis=0),
    case((2, 3, 5), np.array(1e-4, np.float32), np.array(5, np.int16)),
    case((2, 3, 5), np.array(1e-4, np.float32), np.array(30000, np.uint16)),
    case(np.arange(-7, 8, dtype=np.float32), np.array(2, np.float32), np.array(0, np.int8)),
    case(
        np.array([1e9, -1e9, np.inf, -np.inf, np.nan], np.float32),
        np.array(0.5, np.float32),
        np.array(1, np.int8),
    ),
    case((2, 3, 5), np.array(0.05, np.float16), np.array(128, np.uint8), dtype="float16"),
    case((4, 6), np.full((2, 6), 0.1, np.float32), block_size=2, axis=0),
    case((4, 7), np.full((4, 3), 0.02, np.float32), np.full((4, 3), 3, np.int8), block_size=3),
    traits=Traits(family=Family.QUANTIZATION),
)
def quantize_linear(
    x: Array,
    y_scale: Array,
    y_zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: str = "",
    precision: str = "",
    saturate: int = 1,
) -> Array:
    """x / scale to the nearest integer, ties to even, + zero point, saturated.

    Scale and zero point are one number each, or one a slice of x along `axis`, or with a block_size
    one for that many elements along it.
    output_dtype, precision: names of dtypes; if empty, those of zero point and scale.
    """
    dtype = output_dtype or ("uint8" if y_zero_point is None else y_zero_point.dtype.name)
    kind = numpy_dtype(precision) if precision else np.result_type(y_scale.dtype)
    if kind.name == "float8_e8m0fnu":
        kind = x.dtype
    if x.dtype == np.int32:
        kind = np.dtype(np.float32)
    y = x.astype(kind) / spread(y_scale, x, axis, block_size).astype(kind)
    if y_zero_point is None:
        return narrowed(y, dtype, saturate)
    zero = spread(y_zero_point, x, axis, block_size)
    if dtype not in NARROW_FLOATS:
        y = np.rint(y).astype(np.float64)
    return narrowed(y + zero.astype(y.dtype), dtype, saturate)
