"""The op matmul_integer."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.matmul import matmul
from palmkit.engine.ops.products import macs_of_matrix
from palmkit.engine.ops.rules import need_broadcast_to, need_dtype
from palmkit.engine.ops.traits import Family, Traits

_LEVELS = ("int8", "uint8")


def _infer(
    a: Type, b: Type, a_zero_point: Type | None = None, b_zero_point: Type | None = None
) -> Type:
    need_dtype("matmul_integer", a, *_given(a_zero_point), among=_LEVELS)
    need_dtype("matmul_integer", b, *_given(b_zero_point), among=_LEVELS)
    if a_zero_point is not None:
        need_broadcast_to("matmul_integer", _rows(a_zero_point), a)
    if b_zero_point is not None:
        need_broadcast_to("matmul_integer", b_zero_point, b)
    result = matmul.infer(Type("float64", a.dims), Type("float64", b.dims))
    assert isinstance(result, Type)
    return Type("int32", result.shape)


def _given(zero_point: Type | None) -> list[Type]:
    return [] if zero_point is None else [zero_point]


def _rows(zero_point: Type) -> Type:
    if len(zero_point.dims) == 1:
        return Type(zero_point.dtype, (*zero_point.dims, 1))
    return zero_point


@op(
    _infer,
    case((3, 7), (7, 5), dtype="uint8"),
    case((3, 7), (7, 5), np.array(12, np.uint8), np.array(3, np.uint8), dtype="uint8"),
    case((2, 3, 7), (2, 7, 5), np.array([12], np.uint8), dtype="uint8"),
    case((3, 7), np.arange(-17, 18, dtype=np.int8).reshape(7, 5), dtype="uint8"),
    case(
        (3, 7),
        np.arange(-17, 18, dtype=np.int8).reshape(7, 5),
        np.array(9, np.uint8),
        np.array([1, -2, 3, 0, 5], np.int8),
        dtype="uint8",
    ),
    traits=Traits(family=Family.MATRICES),
    macs=macs_of_matrix,
)
def matmul_integer(
    a: Array, b: Array, a_zero_point: Array | None = None, b_zero_point: Array | None = None
) -> Array:
    """(a - its zero point) (b - its zero point) as int32, exactly.

    Zero points: one number; or one for each row of a, [m], and for each column of b, [n].
    """
    # Products of bytes and their sums are integers far below 2^53, exact in float64.
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    if a_zero_point is not None:
        wide_a -= a_zero_point.reshape(-1, 1) if a_zero_point.ndim == 1 else a_zero_point
    if b_zero_point is not None:
        wide_b -= b_zero_point
    return np.asarray(np.matmul(wide_a, wide_b)).astype(np.int64).astype(np.int32)
