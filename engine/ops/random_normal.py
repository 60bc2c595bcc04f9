"""The op random_normal."""

from palmkit.engine.ir import Array, Type, numpy_dtype
from palmkit.engine.ops import Case, case, op
from palmkit.engine.ops.randomness import float_type, generator


def _infer(
    *,
    shape: tuple[int, ...],
    dtype: str,
    mean: float,
    scale: float,
    seed: float | None,
) -> Type:
    return float_type("random_normal", dtype, shape)


@op(
    _infer,
    case(shape=(3, 4)),
    Case((), {"shape": (2,), "dtype": "float64", "seed": 3.0}),
    pure=False,
)
def random_normal(
    *,
    shape: tuple[int, ...],
    dtype: str = "float32",
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Array:
    """Numbers of a normal distribution."""
    return generator(seed).normal(mean, scale, shape).astype(numpy_dtype(dtype))
