"""The op bernoulli."""

import numpy as np

from palmkit.engine.ir import Array, Type, numpy_dtype
from palmkit.engine.ops import Case, case, op
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.randomness import generator
from palmkit.engine.ops.rules import need_dtype


def _infer(x: Type, *, dtype: str, seed: float | None) -> Type:
    need_dtype("bernoulli", x, among=FLOATS)
    return Type(numpy_dtype(dtype or x.dtype).name, x.shape)


_PROBABILITIES = np.linspace(0, 1, 12, dtype=np.float32)


@op(
    _infer,
    case(_PROBABILITIES.reshape(3, 4)),
    Case((_PROBABILITIES,), {"dtype": "float64", "seed": 3.0}),
    Case((_PROBABILITIES,), {"dtype": "bool"}),
    pure=False,
)
def bernoulli(x: Array, *, dtype: str = "", seed: float | None = None) -> Array:
    """1 with the probability x, else 0; dtype "" is that of x."""
    found = generator(seed).uniform(0, 1, x.shape) < x.astype(np.float64)
    return np.asarray(found).astype(numpy_dtype(dtype or x.dtype.name))
