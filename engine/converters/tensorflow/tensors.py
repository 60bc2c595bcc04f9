"""Constants: from TensorProto to array, with memory bounded by the file's size."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from palmkit.engine.converters.tensorflow.schema import DTYPES, QUANTIZED, dtype_name
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import ANY_RANK, Array, Dim, numpy_dtype

_FIELDS = {
    "float32": "float_val",
    "float64": "double_val",
    "int32": "int_val",
    "uint8": "int_val",
    "int16": "int_val",
    "int8": "int_val",
    "uint16": "int_val",
    "int64": "int64_val",
    "bool": "bool_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
}
_MOST_RANK = 32
_MOST_ELEMENTS = 1 << 62
_SMALL_BYTES = 1024
_MOST_GROWTH = 16


@dataclass(frozen=True)
class Constant:
    """A tensor as it is stored: the elements, of which the last stands for all that follow.

    values: flat; as long as the shape wants, or shorter.
    """

    values: Array
    shape: tuple[int, ...]

    @property
    def missing(self) -> int:
        """How many times the last element is to be repeated."""
        return prod(self.shape) - len(self.values)

    @property
    def is_small(self) -> bool:
        """Whether it takes about as much memory written out as in the file."""
        stored = self.values.nbytes
        return prod(self.shape) * self.values.itemsize <= max(_SMALL_BYTES, _MOST_GROWTH * stored)

    def array(self) -> Array:
        """Return the whole tensor, read-only."""
        values = self.values
        if self.missing:
            last = values[-1:] if len(values) else np.zeros(1, values.dtype)
            values = np.concatenate([values, np.repeat(last, self.missing)])
        values = values.reshape(self.shape)
        values.flags.writeable = False
        return values


def dims(shape: Any, what: str) -> tuple[int, ...]:
    """Return the dims of a TensorShapeProto; raise ModelError for open or too large ones."""
    found = tuple(int(dim.size) for dim in shape.dim)
    if shape.unknown_rank or min(found, default=0) < 0 or len(found) > _MOST_RANK:
        raise ModelError(f"{what}: not the shape of a constant: {list(found)}")
    if prod(max(1, dim) for dim in found) > _MOST_ELEMENTS:
        raise ModelError(f"{what}: the shape is too large: {list(found)}")
    return found


def symbolic_dims(shape: Any, name: str) -> tuple[Dim, ...]:
    """Return the dims of a TensorShapeProto; unknown ones are named after value and axis."""
    if shape.unknown_rank:
        return ANY_RANK
    if len(shape.dim) > _MOST_RANK:
        raise ModelError(f"{name}: expected at most {_MOST_RANK} dims, got {len(shape.dim)}")
    return tuple(
        int(dim.size) if dim.size >= 0 else f"{name}.{axis}" for axis, dim in enumerate(shape.dim)
    )


def complex_parts(tensor: Any, what: str) -> tuple[Array, Array]:
    """Return the real and imaginary parts of a TensorProto of complex64.

    Raises ModelError if it is damaged, or not written out.
    """
    shape = dims(tensor.tensor_shape, what)
    if tensor.tensor_content:
        numbers = np.frombuffer(tensor.tensor_content, "<f4")
    else:
        numbers = np.array(tensor.scomplex_val, np.float32)
    pairs = numbers.reshape(-1, 2)
    if len(pairs) == 1 and prod(shape) <= _SMALL_BYTES:
        pairs = pairs.repeat(prod(shape), 0)
    if len(pairs) != prod(shape):
        raise ModelError(f"{what}: {len(pairs)} elements do not fill complex64{list(shape)}")
    return pairs[:, 0].reshape(shape), pairs[:, 1].reshape(shape)


def constant(tensor: Any, what: str) -> Constant:
    """Read a TensorProto of numbers.

    Quantized numbers are read as the integers that they are stored as.
    Raises ModelError if shape, dtype and elements do not fit.
    """
    dtype = dtype_name(tensor.dtype)
    dtype = QUANTIZED.get(dtype, dtype)
    if dtype not in DTYPES.values():
        raise ModelError(f"{what}: expected numbers, got {dtype}")
    shape = dims(tensor.tensor_shape, what)
    stored = numpy_dtype(dtype).newbyteorder("<")
    if tensor.tensor_content:
        if len(tensor.tensor_content) != prod(shape) * stored.itemsize:
            raise ModelError(
                f"{what}: {len(tensor.tensor_content)} bytes do not fill {dtype}{list(shape)}"
            )
        values = np.frombuffer(tensor.tensor_content, stored).astype(numpy_dtype(dtype), copy=False)
    elif dtype in ("float16", "bfloat16"):
        values = np.array(tensor.half_val, np.int64).astype(np.uint16).view(numpy_dtype(dtype))
    elif dtype.startswith("float8"):
        values = np.frombuffer(tensor.float8_val, numpy_dtype(dtype))
    else:
        field = getattr(tensor, _FIELDS[dtype])
        wide = {"int_val": np.int64}.get(_FIELDS[dtype], numpy_dtype(dtype))
        values = np.array(field, wide).astype(numpy_dtype(dtype))
    if len(values) > prod(shape):
        raise ModelError(f"{what}: {len(values)} elements are too many for {dtype}{list(shape)}")
    return Constant(values, shape)
