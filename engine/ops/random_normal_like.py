"""The op random_normal_like."""

from palmkit.engine.ir import Array, Type, numpy_dtype
from palmkit.engine.ops import Case, case, op
from palmkit.engine.ops.randomness import float_type, generator


def _infer(
    x: Type,
    *,
    dtype: str,
    mean: float,
    scale: float,
    seed: float | None,
) -> Type:
    return float_type("random_normal_like", dtype or x.dtype, x.dims)


@op(
    _infer,
    case((3, 4)),
    Case((Type("int32", (2,)),), {"dtype": "float64", "seed": 3.0}),
    pure=False,
)
def random_normal_like(
    x: Array,
    *,
    dtype: str = "",
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Array:
    """Numbers of a normal distribution, of the shape of x; dtype "" is that of x."""
    return generator(seed).normal(mean, scale, x.shape).astype(numpy_dtype(dtype or x.dtype.name))
