"""The op batch_normalization."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Results, case, op
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.traits import Family, Traits


def _infer(
    x: Type,
    scale: Type,
    bias: Type,
    mean: Type,
    variance: Type,
    *,
    epsilon: float,
    momentum: float,
    training_mode: int,
) -> Type | tuple[Type, ...]:
    need_dtype("batch_normalization", x, among=FLOATS)
    need_rank("batch_normalization", x, 2)
    for each in (scale, bias, mean, variance):
        need_dtype("batch_normalization", each, among=FLOATS)
        if each.dims != x.dims[1:2]:
            raise ShapeError(f"batch_normalization: expected [{x.dims[1]}] for {x}, got {each}")
    y = Type(x.dtype, x.shape)
    if not training_mode:
        return y
    return y, Type(mean.dtype, mean.shape), Type(variance.dtype, variance.shape)


def _constants(channels: int) -> list[Array]:
    values = np.random.default_rng(channels).uniform(0.5, 2, (4, channels))
    return list(values.astype(np.float32))


@op(
    _infer,
    case((1, 19, 5, 7), *_constants(19)),
    case((2, 3, 4, 5), *_constants(3), epsilon=1e-3, momentum=0.5),
    case((4, 6), *_constants(6)),
    case((2, 6, 11), *_constants(6)),
    case((1, 6, 5, 7), (6,), (6,), (6,), np.linspace(0.1, 2, 6, dtype=np.float32)),
    case((2, 3, 4, 5), *_constants(3), momentum=0.8, training_mode=1, outputs=3),
    traits=Traits(family=Family.NORMALISATION),
)
def batch_normalization(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    variance: Array,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Array | Results:
    """y = (x - mean) / sqrt(variance + epsilon) * scale + bias, each [c] for x[n, c, ...].

    training_mode: mean and variance are those of x, and what was given is updated by them:
    given * momentum + found * (1 - momentum) are the second and third output.
    """
    updated: Results = ()
    if training_mode:
        axes = (0, *range(2, x.ndim))
        # Without elements they are NaN, of which numpy would warn.
        nothing = np.full(x.shape[1:2], np.nan)
        found = (
            (nothing.astype(mean.dtype), nothing.astype(variance.dtype))
            if not x.size
            else (x.mean(axes, mean.dtype), x.var(axes, variance.dtype))
        )
        updated = tuple(
            np.asarray(old * momentum + new * (1 - momentum), old.dtype)
            for old, new in zip((mean, variance), found, strict=True)
        )
        mean, variance = found
    shape = (-1, *[1] * (x.ndim - 2))
    factor = scale / np.sqrt(variance + variance.dtype.type(epsilon))
    y = (x - mean.reshape(shape)) * factor.reshape(shape) + bias.reshape(shape)
    y = np.asarray(y, x.dtype)
    return (y, *updated) if training_mode else y
