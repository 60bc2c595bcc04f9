"""The op random_uniform."""

from palmkit.engine.ir import Array, Type, numpy_dtype
from palmkit.engine.ops import Case, case, op
from palmkit.engine.ops.randomness import float_type, generator


def _infer(
    *,
    shape: tuple[int, ...],
    dtype: str,
    low: float,
    high: float,
    seed: float | None,
) -> Type:
    return float_type("random_uniform", dtype, shape)


@op(
    _infer,
    case(shape=(3, 4)),
    Case((), {"shape": (2,), "dtype": "float64", "seed": 3.0}),
    pure=False,
)
def random_uniform(
    *,
    shape: tuple[int, ...],
    dtype: str = "float32",
    low: float = 0.0,
    high: float = 1.0,
    seed: float | None = None,
) -> Array:
    """Numbers evenly distributed in low..high."""
    return generator(seed).uniform(low, high, shape).astype(numpy_dtype(dtype))
