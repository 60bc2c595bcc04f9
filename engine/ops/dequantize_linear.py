"""The op dequantize_linear."""

import numpy as np

from palmkit.engine.ir import Array, Type, numpy_dtype
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.quantization import LEVELS, NARROW_FLOATS, need_parameters, spread
from palmkit.engine.ops.rules import need_dtype
from palmkit.engine.ops.traits import Family, Traits

_REALS = (*FLOATS, "bfloat16")


def _infer(
    x: Type,
    x_scale: Type,
    x_zero_point: Type | None = None,
    *,
    axis: int,
    block_size: int,
    output_dtype: str,
) -> Type:
    zero = [] if x_zero_point is None else [x_zero_point]
    need_dtype("dequantize_linear", x, *zero, among=(*LEVELS, "int32"))
    need_dtype("dequantize_linear", x_scale, among=(*_REALS, "float8_e8m0fnu"))
    need_parameters("dequantize_linear", x, x_scale, x_zero_point, axis, block_size)
    dtype = output_dtype or x_scale.dtype
    need_dtype("dequantize_linear", Type(dtype, ()), among=_REALS)
    return Type(dtype, x.shape)


_SCALES = np.array([0.1, 0.02, 0.5], np.float32)


@op(
    _infer,
    case((2, 3, 5), np.array(0.05, np.float32), np.array(128, np.uint8), dtype="uint8"),
    case((2, 3, 5), np.array(0.02, np.float32), np.array(-3, np.int8), dtype="int8"),
    case((2, 3, 5), np.array(0.05, np.float32), dtype="uint8"),
    case((2, 3, 5), np.array([0.05], np.float32), np.array([7], np.int8), dtype="int8"),
    case((2, 3, 5), _SCALES, np.array([1, 0, -9], np.int8), dtype="int8"),
    case((4, 3), _SCALES, np.array([100, 0, 200], np.uint8), axis=-1, dtype="uint8"),
    case((3, 4, 5), _SCALES, axis=0, dtype="int32"),
    case((2, 3, 5), np.array(1e-4, np.float32), np.array(5, np.int16), dtype="int16"),
    case((2, 3, 5), np.array(1e-4, np.float32), np.array(30000, np.uint16), dtype="uint16"),
    case((2, 3, 5), np.array(0.05, np.float16), np.array(128, np.uint8), dtype="uint8"),
    case((4, 6), np.full((2, 6), 0.1, np.float32), block_size=2, axis=0, dtype="int8"),
    case(
        (4, 7),
        np.full((4, 3), 0.02, np.float32),
        np.full((4, 3), 3, np.int8),
        block_size=3,
        dtype="int8",
    ),
    traits=Traits(family=Family.QUANTIZATION),
)
def dequantize_linear(
    x: Array,
    x_scale: Array,
    x_zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: str = "",
) -> Array:
    """(x - zero point) * scale.

    Scale and zero point are one number each, or one a slice of x along `axis`, or with a block_size
    one for that many elements along it.
    output_dtype: a dtype's name; if empty, the dtype of the scale.
    """
    result = numpy_dtype(output_dtype or x_scale.dtype.name)
    wide = np.float64 if result == np.float64 else np.float32
    whole = wide if x.dtype.name in NARROW_FLOATS else np.int32
    levels = x.astype(whole)
    if x_zero_point is not None:
        levels = levels - spread(x_zero_point, x, axis, block_size).astype(whole)
    scale = spread(x_scale, x, axis, block_size)
    return np.asarray((levels.astype(wide) * scale.astype(wide)).astype(result))
