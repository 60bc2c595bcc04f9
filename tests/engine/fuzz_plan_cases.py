"""Steps by themselves, as the fuzzer of plans takes them apart and damages them."""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

ARRAY_LIMIT_BYTES = 1 << 22
CONSTANT_LIMIT_BYTES = 1 << 20
EDGES = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257),
    *(-1, -2, -3, 1 << 10, 1 << 20, (1 << 31) - 1, 1 << 31, -(1 << 31), 1 << 37, 1 << 39),
    *((1 << 62), (1 << 63) - 1, -(1 << 63)),
)
DIMS = tuple(x for x in EDGES if x >= 0)


@dataclass(frozen=True)
class Operand:
    """A tensor of a step: what it is and, if it is known for good, its value.

    strides, offset: in elements, of what is a part. whole: the elements of the array that it is a
    part of; 0 if it is all of it.
    """

    dtype: str
    dims: tuple[int, ...]
    value: NDArray[Any] | None = None
    strides: tuple[int, ...] = ()
    offset: int = 0
    whole: int = 0


@dataclass(frozen=True)
class Case:
    """One step; None is an input left out."""

    kernel: str
    inputs: tuple[Operand | None, ...]
    outputs: tuple[Operand, ...]
    attrs: dict[str, Any]


def size_of(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


def bytes_of(operand: Operand) -> int:
    """Return the bytes of the operand's array, or of the array that it is a part of."""
    return size_of(operand.dtype) * (operand.whole or prod(operand.dims))
