"""identity."""

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op


def _infer(x: Type) -> Type:
    return Type(x.dtype, x.shape)


@op(_infer, case((2, 3)), case(()), case((2, 3), dtype="bool"))
def identity(x: Array) -> Array:
    """y = x."""
    return x
