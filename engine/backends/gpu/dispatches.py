"""The list of dispatches that a graph becomes: plain data, for whatever speaks WebGPU.

Each dispatch binds group 0: 0 the arena, storage that may be written, which holds inputs, outputs
and all that is between; 1 a page of weights, storage that is read; 2 the dispatch's numbers, a
uniform buffer of vec4<u32>. Of an arena that is over what one binding may be, 0 is a part and 3, 4
and so on are others, apart from one another. They run in their order, each after the one before it.
Every element takes four bytes: floats are f32, integers and bools i32. Only with precision "low"
are weights, and floats between steps, of half precision, two in four bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.ir import Array

if TYPE_CHECKING:
    from palmkit.engine.backends.gpu.pages import Page

ELEMENT_BYTES = 4
# Floats by the dtype that a graph gives them. Half precision is computed in single precision.
FLOATS = ("float32", "float16")
# What 32 bits hold, and int64, of which indices and sizes are.
INTEGERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "int64")
_INT32 = np.iinfo(np.int32)


# A part of the arena: the byte where it begins, and its bytes.
Window = tuple[int, int]


def window_name(index: int) -> str:
    """What shaders call a window."""
    return f"arena_{index}" if index else "arena"


def window_bindings(count: int) -> list[int]:
    """The bindings of so many windows."""
    return [0, *range(3, 2 + count)]


def workgroups(needed: int, most: int) -> tuple[int, int]:
    """So many workgroups, or a few more, in x and y, of which x is no more than `most`."""
    rows = -(-needed // most)
    return -(-needed // max(rows, 1)), rows


@dataclass(frozen=True)
class Dispatch:
    """One launch of a shader.

    node: the node that it came from, for messages and profiles; kernel: what it does. shader:
    which of the list's. page: the page of weights that it binds. numbers: what the shader's
    uniform array holds, a multiple of four: offsets in elements or vectors, and other numbers'
    bits. windows: the parts of the arena that it binds. workgroups: how many in x and y.
    """

    node: str
    kernel: str
    shader: int
    page: int
    numbers: tuple[int, ...]
    windows: tuple[Window, ...]
    workgroups: tuple[int, int]

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"{self.node} ({self.kernel})"


@dataclass(frozen=True)
class Border:
    """An input or output of the graph: where in the arena it lies, C-contiguous, in elements."""

    offset: int
    dtype: str
    dims: tuple[int, ...]

    @cached_property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.dims)


@dataclass(frozen=True)
class DispatchList:
    """All that a run needs.

    shaders: WGSL with the entry point `main`. pages: the weights, none over what one binding may
    be. arena_elements: the size of the arena.
    """

    shaders: tuple[str, ...]
    dispatches: tuple[Dispatch, ...]
    pages: tuple[Page, ...]
    arena_elements: int
    inputs: Mapping[str, Border]
    outputs: Mapping[str, Border]


def to_device(array: Array) -> NDArray[np.uint32]:
    """Return an array as the device has it, the bits of f32 or i32.

    Raises OverflowError for an integer that 32 bits do not hold.
    """
    if array.dtype.kind == "f":
        found = np.ascontiguousarray(array, np.float32).view(np.uint32)
    else:
        if array.dtype.itemsize > ELEMENT_BYTES and array.size:
            least, most = array.min(), array.max()
            if least < _INT32.min or most > _INT32.max:
                raise OverflowError(f"integers from {least} to {most}, more than 32 bits hold")
        found = np.ascontiguousarray(array, np.int32).view(np.uint32)
    return found.reshape(-1)


def from_device(words: NDArray[np.uint32], border: Border) -> Array:
    """Return what the device's numbers are, as a new array of the graph's dtype and shape."""
    found = words.view(np.float32 if border.dtype in FLOATS else np.int32).reshape(border.dims)
    if found.dtype == border.dtype:
        return found.copy()
    with np.errstate(over="ignore"):
        return found.astype(border.dtype)
