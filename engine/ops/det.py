"""The op det."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS, wide
from palmkit.engine.ops.rules import need_dtype, need_rank


def _infer(x: Type) -> Type:
    need_dtype("det", x, among=FLOATS)
    need_rank("det", x, 2)
    if x.dims[-1] != x.dims[-2]:
        raise ShapeError(f"det: expected square matrices, got {x}")
    return Type(x.dtype, x.dims[:-2])


@op(_infer, case((2, 2)), case((3, 4, 4)), case((2, 3, 3, 3)), case((1, 1)))
def det(x: Array) -> Array:
    """The determinant of each matrix."""
    return np.asarray(np.linalg.det(wide(x)), x.dtype)
