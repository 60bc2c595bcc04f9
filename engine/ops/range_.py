"""range."""

from math import ceil

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, known_value, op
from palmkit.engine.ops.dtypes import NUMBERS
from palmkit.engine.ops.rules import need_dtype, need_rank


def _infer(start: Type, limit: Type, delta: Type) -> Type:
    dtype = need_dtype("range", start, limit, delta, among=NUMBERS)
    ends: list[float] = []
    for each in (start, limit, delta):
        need_rank("range", each, 0, 1)
        ends.append(known_value(each, "range: start, limit, delta").item())
    if not ends[2]:
        raise ShapeError(f"range: expected a delta that is not 0, got {delta}")
    return Type(dtype, (max(0, ceil((ends[1] - ends[0]) / ends[2])),))


@op(
    _infer,
    case(np.array(0), np.array(7), np.array(2)),
    case(np.array(5), np.array(-4), np.array(-3)),
    case(np.array(5), np.array(2), np.array(1)),
    case(np.array(0.5, np.float32), np.array(3, np.float32), np.array(0.5, np.float32)),
)
def range_(start: Array, limit: Array, delta: Array) -> Array:
    """start, start + delta, ... up to, but without, the limit."""
    count = max(0, ceil((limit.item() - start.item()) / delta.item()))
    return np.asarray(start + np.arange(count, dtype=start.dtype) * delta)
