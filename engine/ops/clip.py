"""The op clip."""

from math import inf

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Case, case, op
from palmkit.engine.ops.dtypes import NUMBERS
from palmkit.engine.ops.elementwise import unary_cases
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.traits import Elementwise, Traits


def _infer(x: Type, min: Type | None = None, max: Type | None = None) -> Type:
    bounds = [bound for bound in (min, max) if bound is not None]
    need_dtype("clip", x, *bounds, among=NUMBERS)
    for bound in bounds:
        need_rank("clip", bound, 0, 0)
    return Type(x.dtype, x.shape)


_LOW, _HIGH = np.array(-0.5, np.float32), np.array(0.75, np.float32)


@op(
    _infer,
    *unary_cases(),
    *(Case((*unary.inputs, _LOW, _HIGH)) for unary in unary_cases()),
    case((3, 70), _LOW),
    case((3, 70), None, _HIGH),
    case((3, 70), _HIGH, _LOW),
    case((3, 70), np.array(-1, np.int64), np.array(1, np.int64), dtype="int64"),
    traits=Traits(
        elementwise=Elementwise.UNARY,
        bounds=(-inf, inf),
        activation=("min", "max"),
        worth_integers=True,
    ),
)
def clip(x: Array, min: Array | None = None, max: Array | None = None) -> Array:
    """x where it lies in min..max, else the nearer bound; max everywhere if min > max."""
    y = x if min is None else np.maximum(x, min)
    return np.asarray(y if max is None else np.minimum(y, max))
