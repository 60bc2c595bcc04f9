"""The op global_lp_pool."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.traits import Traits


def _infer(x: Type, *, p: int) -> Type:
    need_dtype("global_lp_pool", x, among=FLOATS)
    rank = need_rank("global_lp_pool", x, 3)
    if p < 1:
        raise ValueError(f"p is out of range: {p}")
    return Type(x.dtype, (*x.dims[:2], *[1] * (rank - 2)))


@op(
    _infer,
    case((2, 3, 5, 4)),
    case((1, 19, 7), p=1),
    case((1, 3, 4, 2, 3), p=3),
    traits=Traits(pools=True),
)
def global_lp_pool(x: Array, *, p: int = 2) -> Array:
    """The p-norm of each plane: (sum of |x|^p)^(1/p)."""
    total = (np.abs(x) ** p).sum(tuple(range(2, x.ndim)), keepdims=True)
    return np.asarray(total ** (1 / p), x.dtype)
