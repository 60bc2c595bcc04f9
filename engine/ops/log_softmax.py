"""The op log_softmax."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import op
from palmkit.engine.ops.dtypes import FLOATS, wide
from palmkit.engine.ops.rules import need_dtype, positive_axis
from palmkit.engine.ops.softmax import CASES
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type, *, axis: int) -> Type:
    need_dtype("log_softmax", x, among=FLOATS)
    positive_axis("log_softmax", axis, x)
    return Type(x.dtype, x.shape)


@op(_infer, *CASES, traits=Traits(family=Family.ACTIVATION))
def log_softmax(x: Array, *, axis: int = -1) -> Array:
    """y = x - log(sum(exp(x))) along the axis."""
    values = wide(x)
    centred = values - values.max(axis, keepdims=True, initial=-np.inf)
    y = centred - np.log(np.exp(centred).sum(axis, keepdims=True))
    return np.asarray(y).astype(x.dtype, copy=False)
