"""The op trilu."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import need_dtype, need_one, need_rank


def _infer(x: Type, k: Type | None = None, *, upper: int) -> Type:
    need_rank("trilu", x, 2)
    if k is not None:
        need_dtype("trilu", k, among=("int64",))
        need_one("trilu: k", k)
    return Type(x.dtype, x.shape)


@op(
    _infer,
    case((4, 5)),
    case((4, 5), upper=0),
    case((4, 5), np.array(1)),
    case((2, 4, 3), np.array([-2]), upper=0),
    case((4, 5), np.array(9), upper=0),
    case((3, 0)),
    case((4, 4), dtype="int64"),
)
def trilu(x: Array, k: Array | None = None, *, upper: int = 1) -> Array:
    """The matrices of x with zeros below the k-th diagonal, or above it if not `upper`."""
    rows, columns = np.ogrid[: x.shape[-2], : x.shape[-1]]
    distance = columns - rows - (0 if k is None else k.item())
    return np.where(distance >= 0 if upper else distance <= 0, x, x.dtype.type(0))
