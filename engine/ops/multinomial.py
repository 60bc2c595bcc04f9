"""The op multinomial."""

import numpy as np

from palmkit.engine.ir import Array, Type, numpy_dtype
from palmkit.engine.ops import Case, case, op
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.randomness import generator
from palmkit.engine.ops.rules import need_dtype, need_rank


def _infer(x: Type, *, dtype: str, sample_size: int, seed: float | None) -> Type:
    need_dtype("multinomial", x, among=FLOATS)
    need_rank("multinomial", x, 2, 2)
    if dtype not in ("int32", "int64"):
        raise ValueError(f"expected int32 or int64, got {dtype}")
    return Type(dtype, (x.dims[0], sample_size))


@op(
    _infer,
    case((3, 4)),
    Case((Type("float32", (2, 5)),), {"sample_size": 7, "dtype": "int64", "seed": 3.0}),
    pure=False,
)
def multinomial(
    x: Array, *, dtype: str = "int32", sample_size: int = 1, seed: float | None = None
) -> Array:
    """For each row `sample_size` classes, drawn by their log-probabilities x."""
    noise = generator(seed).gumbel(size=(x.shape[0], sample_size, x.shape[1]))
    scores = x[:, None, :].astype(np.float64) + noise
    return np.asarray(scores.argmax(-1), numpy_dtype(dtype))
