"""The op where."""

import numpy as np

from palmkit.engine.ir import DTYPES, Array, Type
from palmkit.engine.ops import Case, case, op
from palmkit.engine.ops.rules import broadcast, need_dtype
from palmkit.engine.ops.traits import Elementwise, Traits


def _infer(condition: Type, x: Type, y: Type) -> Type:
    need_dtype("where", condition, among=("bool",))
    return Type(need_dtype("where", x, y, among=DTYPES), broadcast("where", condition, x, y))


def _computed(condition: tuple[int, ...], x: tuple[int, ...], y: tuple[int, ...]) -> Case:
    return Case((Type("bool", condition), Type("float32", x), Type("float32", y)))


@op(
    _infer,
    _computed((3, 70), (3, 70), (3, 70)),
    _computed((3, 1), (4,), (2, 1, 1)),
    _computed((), (2, 3), ()),
    case(np.array([True, False, True]), (2, 3), (1,)),
    case(np.array([True, False, True]), (2, 3), (2, 1), dtype="int64"),
    traits=Traits(elementwise=Elementwise.BROADCAST),
)
def where(condition: Array, x: Array, y: Array) -> Array:
    """x where the condition is true, else y; all three broadcast."""
    return np.where(condition, x, y)
