"""The weights that shaders read, in buffers of which none is over what one binding may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.backends.gpu.dispatches import ELEMENT_BYTES, to_device
from palmkit.engine.backends.gpu.storage import HALF, element_bytes, is_fit_for_halves
from palmkit.engine.backends.gpu.wgsl import VECTOR
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array

# Words that go to a device at a time, but where one array has more: few enough to stay in a cache.
_AT_ONCE = 1 << 18
# Elements of a cache line.
_COLUMNS = 16


@dataclass(frozen=True)
class Piece:
    """An array on a page, as it is given: of any strides, floats of any width or int32.

    begin: its first word; it has whole vectors of words. half: stored in half precision.
    """

    begin: int
    array: Array
    half: bool

    @property
    def words(self) -> int:
        """How many words it takes."""
        size_bytes = self.array.size * element_bytes(self.half)
        return -(-size_bytes // (VECTOR * ELEMENT_BYTES)) * VECTOR

    def write(self, to: NDArray[np.uint32]) -> None:
        """Write its words, zeros behind the last element."""
        dtype = np.dtype(HALF) if self.half else self.array.dtype
        dtype = np.dtype(np.float32) if dtype.kind == "f" and not self.half else dtype
        found = to.view(dtype)
        found[self.array.size :] = 0
        whole = found[: self.array.size].reshape(self.array.shape)
        with np.errstate(over="ignore"):
            if self.array.ndim < 2 or self.array.flags.c_contiguous:
                whole[...] = self.array
                return
            # By columns of one cache line each: else a transposed array is read again for each.
            for i in range(0, self.array.shape[-1], _COLUMNS):
                whole[..., i : i + _COLUMNS] = self.array[..., i : i + _COLUMNS]


@dataclass(frozen=True)
class Page:
    """Weights that are one binding: pieces one behind another."""

    pieces: tuple[Piece, ...]

    @property
    def words(self) -> int:
        """How many words it takes, a vector at least."""
        return self.pieces[-1].begin + self.pieces[-1].words if self.pieces else VECTOR

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return self.words * ELEMENT_BYTES

    def parts(self) -> Iterator[tuple[int, NDArray[np.uint32]]]:
        """Yield all words, part by part, each with its first; the next overwrites the one before.

        Arrays are copied here alone, from where the model has them.
        """
        if not self.pieces:
            yield 0, np.zeros(VECTOR, np.uint32)
            return
        begins = [0]
        for i, piece in enumerate(self.pieces):
            if piece.begin + piece.words - self.pieces[begins[-1]].begin > _AT_ONCE and i:
                begins.append(i)
        parts = [self.pieces[a:b] for a, b in pairwise([*begins, len(self.pieces)])]
        ends = [part[-1].begin + part[-1].words for part in parts]
        firsts = [part[0].begin for part in parts]
        words = np.empty(max(b - a for a, b in zip(firsts, ends, strict=True)), np.uint32)
        for part, first, end in zip(parts, firsts, ends, strict=True):
            for piece in part:
                piece.write(words[piece.begin - first : piece.begin - first + piece.words])
            yield first, words[: end - first]


class Pages:
    """Pages in the making; arrays are told apart by their ids, and are kept for that."""

    def __init__(self, most_bytes: int, half: bool) -> None:
        """Begin with an empty page.

        most_bytes: of a page. half: whether arrays that are fit for it are stored in half
        precision.
        """
        self._most_bytes, self._half = most_bytes, half
        self._pages: list[list[Piece]] = [[]]
        self._filled = 0
        self._places: dict[tuple[int, int], int] = {}
        self._kept: dict[int, tuple[Array, Piece]] = {}

    def is_half(self, array: Array) -> bool:
        """Whether the array is stored in half precision."""
        return self._piece(array).half

    def _piece(self, array: Array) -> Piece:
        """The array as it will lie on a page, not yet placed."""
        if id(array) not in self._kept:
            half = self._half and is_fit_for_halves(array)
            self._kept[id(array)] = array, Piece(0, _in_words(array), half)
        return self._kept[id(array)][1]

    def put(self, arrays: Iterable[Array]) -> tuple[int, Mapping[int, int]]:
        """Have all that one shader reads on one page.

        Returns which one, and by each array's id the element that it begins at.
        """
        wanted = {id(array): self._piece(array) for array in arrays}
        page = next(
            (i for i in range(len(self._pages)) if all((key, i) in self._places for key in wanted)),
            len(self._pages) - 1,
        )
        new = [key for key in wanted if (key, page) not in self._places]
        most, size = self._most_bytes // ELEMENT_BYTES, sum(wanted[key].words for key in new)
        if new and self._filled + size > most:
            self._pages.append([])
            self._filled, page, new = 0, page + 1, list(wanted)
            size = sum(each.words for each in wanted.values())
        if size > most:
            raise UnsupportedError(
                f"weights of {size * ELEMENT_BYTES} bytes, over the device's limit of "
                f"{self._most_bytes} for one binding"
            )
        for key in new:
            piece = wanted[key]
            self._places[key, page] = self._filled
            self._pages[page].append(Piece(self._filled, piece.array, piece.half))
            self._filled += piece.words
        begins = {
            key: self._places[key, page] * ELEMENT_BYTES // element_bytes(piece.half)
            for key, piece in wanted.items()
        }
        return page, begins

    def result(self) -> tuple[Page, ...]:
        """All pages."""
        return tuple(Page(tuple(pieces)) for pieces in self._pages)


def _in_words(array: Array) -> Array:
    """The array, integers in 32 bits; UnsupportedError for those that have more."""
    if array.dtype.kind == "f":
        return array
    try:
        return to_device(array).view(np.int32)
    except OverflowError as error:
        raise UnsupportedError(f"a constant: {error}") from None
