"""The op matmul."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import NUMBERS, wide
from palmkit.engine.ops.products import macs_of_matrix
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.traits import Layer, Traits


def _infer(a: Type, b: Type) -> Type:
    need_dtype("matmul", a, b, among=NUMBERS)
    need_rank("matmul", a, 1)
    need_rank("matmul", b, 1)
    left = a.dims if len(a.dims) > 1 else (1, *a.dims)
    right = b.dims if len(b.dims) > 1 else (*b.dims, 1)
    if left[-1] != right[-2]:
        raise ShapeError(f"matmul: cannot multiply {a} by {b}")
    try:
        batch = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        raise ShapeError(f"matmul: cannot broadcast {a} with {b}") from None
    rows = left[-2:-1] if len(a.dims) > 1 else ()
    columns = right[-1:] if len(b.dims) > 1 else ()
    return Type(a.dtype, (*batch, *rows, *columns))


@op(
    _infer,
    case((3, 70), (70, 5)),
    case((7,), (7,)),
    case((7,), (7, 5)),
    case((3, 7), (7,)),
    case((2, 3, 7), (7, 5)),
    case((2, 3, 7), (2, 7, 5)),
    case((4, 1, 3, 7), (2, 7, 5)),
    case((3, 0), (0, 5)),
    case((3, 7), (7, 5), dtype="int32"),
    case((1, 70), np.linspace(-1, 1, 33 * 70, dtype=np.float32).reshape(70, 33)),
    traits=Traits(layer=Layer.MATRIX),
    macs=macs_of_matrix,
)
def matmul(a: Array, b: Array) -> Array:
    """The matrix product over the last two axes, the others broadcast, as numpy.matmul."""
    return np.asarray(np.matmul(wide(a), wide(b)).astype(a.dtype))
