"""The op bit_cast."""

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
    old, new = _bits(x.dtype), _bits(to)
    if old == new:
        return Type(to, x.shape)
    if min(old, new) < 8:
        raise ShapeError(f"bit_cast: {to} is not as wide as {x}")
    if new < old:
        return Type(to, (*x.dims, old // new))
    if x.dims[-1:] != (new // old,):
        raise ShapeError(f"bit_cast: expected a last axis of {new // old} for {to}, got {x}")
    return Type(to, x.dims[:-1])


@op(
    _infer,
    case((2, 19), to="int32"),
    case((2, 19), to="float32"),
    case((2, 3), dtype="uint16", to="float16"),
    case(np.array([1, -1, 127], np.int8), to="uint8"),
    case((), to="uint32"),
    case((2, 3), to="uint8"),
    case((2, 3, 4), dtype="uint8", to="int32"),
    case((), to="int16"),
)
def bit_cast(x: Array, *, to: str) -> Array:
    """The same bytes, little endian, as another dtype.

    As in TFLite's BITCAST a narrower dtype adds a last axis for the parts of each element, and a
    wider one takes it away; ONNX's BitCast allows only dtypes of one width.
    """
    target = _infer(Type.of(x), to=to)
    return np.ascontiguousarray(x).reshape(-1).view(numpy_dtype(to)).reshape(target.dims)
