"""The op global_average_pool."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.reduction import mean
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.traits import Traits


def _infer(x: Type) -> Type:
    need_dtype("global_average_pool", x, among=FLOATS)
    rank = need_rank("global_average_pool", x, 3)
    return Type(x.dtype, (*x.dims[:2], *[1] * (rank - 2)))


@op(
    _infer,
    case((1, 19, 7, 5)),
    case((2, 3, 1, 1)),
    case((1, 4, 9)),
    case((1, 2, 3, 4, 5)),
    traits=Traits(keeps_sign=True, homogeneous=True, pools=True, worth_integers=True),
)
def global_average_pool(x: Array) -> Array:
    """The mean over all spatial axes of x[n, c, *spatial]."""
    return np.asarray(mean(x, tuple(range(2, x.ndim)), True))
