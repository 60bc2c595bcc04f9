"""The op size."""

import numpy as np

from palmkit.engine.ir import Array, Known, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type) -> Type:
    return Known.of(np.array(x.elements, np.int64))


@op(_infer, case((2, 3, 4)), case(()), case((0, 3)), traits=Traits(family=Family.MOVEMENT))
def size(x: Array) -> Array:
    """The number of elements."""
    return np.array(x.size, np.int64)
