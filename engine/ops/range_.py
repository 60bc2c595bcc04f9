"""The op range."""

from math import ceil

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, known_value, op
from palmkit.engine.ops.dtypes import NUMBERS, is_float, wide
from palmkit.engine.ops.rules import need_dtype, need_one, need_rank


def _count(start: Array, limit: Array, delta: Array) -> int:
    if is_float(start):
        return max(0, ceil((float(limit.item()) - float(start.item())) / float(delta.item())))
    return max(0, -((int(start.item()) - int(limit.item())) // int(delta.item())))


def _infer(start: Type, limit: Type, delta: Type) -> Type:
    dtype = need_dtype("range", start, limit, delta, among=NUMBERS)
    for each in (start, limit, delta):
        need_rank("range", each, 0, 1)
        need_one("range", each)
    ends = [known_value(each, "range: start, limit, delta") for each in (start, limit, delta)]
    if not ends[2].item():
        raise ShapeError(f"range: expected a delta that is not 0, got {delta}")
    return Type(dtype, (_count(*ends),))


@op(
    _infer,
    case(np.array(0), np.array(7), np.array(2)),
    case(np.array(5), np.array(-4), np.array(-3)),
    case(np.array(5), np.array(2), np.array(1)),
    case(np.array(0.5, np.float32), np.array(3, np.float32), np.array(0.5, np.float32)),
)
def range_(start: Array, limit: Array, delta: Array) -> Array:
    """start, start + delta, ... up to, but without, the limit."""
    first, step = wide(start).reshape(()), wide(delta).reshape(())
    steps = np.arange(_count(start, limit, delta), dtype=first.dtype)
    return np.asarray(first + steps * step).astype(start.dtype, copy=False)
