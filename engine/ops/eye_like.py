"""The op eye_like."""

import numpy as np

from palmkit.engine.ir import Array, Type, numpy_dtype
from palmkit.engine.ops import Case, case, op
from palmkit.engine.ops.rules import need_rank


def _infer(x: Type, *, dtype: str, k: int) -> Type:
    need_rank("eye_like", x, 2, 2)
    return Type(numpy_dtype(dtype or x.dtype).name, x.shape)


@op(
    _infer,
    case((4, 4)),
    case((3, 4), k=1),
    Case((Type("float32", (4, 3)),), {"k": -1, "dtype": "float64"}),
    case((2, 3), k=9),
)
def eye_like(x: Array, *, dtype: str = "", k: int = 0) -> Array:
    """1 on the k-th diagonal of a matrix of the shape of x, else 0; dtype "" is that of x."""
    return np.eye(x.shape[0], x.shape[1], k).astype(numpy_dtype(dtype or x.dtype.name))
