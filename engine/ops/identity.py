"""The op identity."""

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.traits import Elementwise, Family, Traits


def _infer(x: Type) -> Type:
    return Type(x.dtype, x.shape)


@op(
    _infer,
    case((2, 3)),
    case(()),
    case((2, 3), dtype="bool"),
    traits=Traits(elementwise=Elementwise.UNARY, keeps_sign=True, family=Family.MOVEMENT),
)
def identity(x: Array) -> Array:
    """y = x."""
    return x
