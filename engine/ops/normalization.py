"""Helpers shared by the ops that normalise mean and variance."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type, numpy_dtype
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.reduction import mean
from palmkit.engine.ops.rules import need_dtype, need_rank

REALS = (*FLOATS, "bfloat16")


def need_channels(op: str, x: Type, *parameters: Type) -> None:
    """Raise unless x is [n, c, ...] and each parameter is [c]."""
    need_rank(op, x, 2)
    need_dtype(op, x, *parameters, among=REALS)
    for each in parameters:
        if each.dims != x.dims[1:2]:
            raise ShapeError(f"{op}: expected [{x.dims[1]}] for {x}, got {each}")


def by_channel(parameter: Array, x: Array) -> Array:
    """Return a parameter [c] as it broadcasts with x[n, c, ...]."""
    return parameter.reshape(-1, *[1] * (x.ndim - 2))


def standardised(
    x: Array, axes: tuple[int, ...], epsilon: float, stash_type: str = "float32"
) -> tuple[Array, Array, Array]:
    """Return (x - mean) / sqrt(variance + epsilon) over the axes, the mean and the factor.

    stash_type: the dtype of the computation; float64 stays float64.
    """
    wide = x.astype(np.promote_types(numpy_dtype(stash_type), np.float32))
    if x.dtype == np.float64:
        wide = x
    middle = mean(wide, axes, True)
    centred = wide - middle
    variance = mean(np.square(centred), axes, True)
    factor = 1 / np.sqrt(variance + wide.dtype.type(epsilon))
    return centred * factor, middle, factor
