"""How elements lie in a binding: each in a word of 32 bits, or floats of half precision by twos.

What a shader computes with is 32 bits wide in either case.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from palmkit.engine.backends.gpu.dispatches import ELEMENT_BYTES
from palmkit.engine.backends.gpu.wgsl import VECTOR
from palmkit.engine.ir import Array

HALF_BYTES = 2
# The dtype of what lies in the arena so; what a graph has of that dtype may lie otherwise.
HALF = "float16"
# Smaller constants gain nothing by it.
_LEAST_HALVES = 1024
# The normal numbers of half precision. What is smaller than the least of them is off by 2^-25 at
# most, which is no more than what the largest of an array is off by if that is a normal number.
_LEAST_NORMAL, _MOST_NORMAL = 2.0**-14, 65504.0
FUNCTIONS = """fn from_halves(words: vec2<u32>) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}
fn to_halves(values: vec4<f32>) -> vec2<u32> {
  return vec2<u32>(pack2x16float(values.xy), pack2x16float(values.zw));
}"""


def element_bytes(half: bool) -> int:
    """The bytes that an element takes."""
    return HALF_BYTES if half else ELEMENT_BYTES


def is_fit_for_halves(array: Array) -> bool:
    """Whether a constant is worth storing in half precision, and keeps 11 bits of its range."""
    if array.dtype.kind != "f" or array.size < _LEAST_HALVES:
        return False
    return bool(_LEAST_NORMAL <= np.abs(array).max() <= _MOST_NORMAL)


@dataclass(frozen=True)
class Storage:
    """A binding, as a shader declares it: an array of vectors of so many words, of u32 for 1.

    Indices count elements or vectors of four, from the beginning of the binding on.
    """

    name: str
    words: int

    @property
    def declared(self) -> str:
        """The type of the binding."""
        return "array<u32>" if self.words == 1 else f"array<vec{self.words}<u32>>"

    def _word(self, at: str) -> str:
        if self.words == 1:
            return f"{self.name}[{at}]"
        return f"{self.name}[{at} >> {self.words // 2}u][{at} & {self.words - 1}u]"

    def _several(self, at: str, words: int) -> str:
        """A vector of so many words, the one at an index that counts these."""
        if self.words == words:
            return f"{self.name}[{at}]"
        count = words // self.words
        parts = (f"{self.name}[{at} * {count}u + {i}u]" for i in range(count))
        return f"vec{words}<u32>({', '.join(parts)})"

    def read(self, at: str, of: str, width: int, half: bool) -> str:
        """The element or vector at an index, of a WGSL type of 32 bits."""
        if half:
            if width == VECTOR:
                return f"from_halves({self._several(at, 2)})"
            return f"unpack2x16float({self._word(f'({at} >> 1u)')})[{at} & 1u]"
        words = self._word(at) if width == 1 else self._several(at, VECTOR)
        return f"bitcast<{of}>({words})"

    def write(self, at: str, value: str, width: int, half: bool) -> str:
        """The statement that stores an element or a vector.

        Single elements need a binding of words: else another thread's neighbour is lost.
        """
        if half:
            assert width == VECTOR and self.words == 2
            return f"{self.name}[{at}] = to_halves({value});"
        if width == 1:
            assert self.words == 1
            return f"{self.name}[{at}] = bitcast<u32>({value});"
        whole = f"bitcast<vec4<u32>>({value})"
        if self.words == VECTOR:
            return f"{self.name}[{at}] = {whole};"
        lanes = ("xy", "zw")
        parts = (f"{self.name}[{at} * 2u + {i}u] = words.{each};" for i, each in enumerate(lanes))
        return f"{{ let words = {whole}; {' '.join(parts)} }}"
