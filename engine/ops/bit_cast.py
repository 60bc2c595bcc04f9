"""bit_cast."""

import re

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import DTYPES, Array, Type, numpy_dtype
from palmkit.engine.ops import case, op


def _bits(dtype: str) -> int:
    found = re.search(r"\d+", dtype)
    return int(found[0]) if found else 8


def _infer(x: Type, *, to: str) -> Type:
    if to not in DTYPES:
        raise ValueError(f"unknown dtype: {to}")
    if _bits(x.dtype) != _bits(to):
        raise ShapeError(f"bit_cast: {to} is not as wide as {x}")
    return Type(to, x.shape)


@op(
    _infer,
    case((2, 19), to="int32"),
    case((2, 19), to="float32"),
    case((2, 3), dtype="uint16", to="float16"),
    case(np.array([1, -1, 127], np.int8), to="uint8"),
    case((), to="uint32"),
)
def bit_cast(x: Array, *, to: str) -> Array:
    """The bits of each element taken as another dtype of the same width."""
    return x.view(numpy_dtype(to))
