"""The op non_zero."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Undetermined, case, op
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type) -> Type:
    raise Undetermined("non_zero: the number of results is known at run time only")


@op(
    _infer,
    case(np.array([[1, 0], [1, 1]], bool)),
    case((2, 3, 4), dtype="int32"),
    case((5,)),
    case(np.zeros((2, 3), np.float32)),
    traits=Traits(family=Family.REDUCTION),
)
def non_zero(x: Array) -> Array:
    """The indices of elements that are not 0: a column an element, a row an axis."""
    return np.array(np.nonzero(np.atleast_1d(x)), np.int64)
