"""The weights that shaders read, in buffers of which none is over what one binding may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.backends.gpu.dispatches import ELEMENT_BYTES
from palmkit.engine.backends.gpu.storage import element_bytes, is_fit_for_halves, stored_words
from palmkit.engine.backends.gpu.wgsl import VECTOR
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array


class Pages:
    """Pages in the making; arrays are told apart by their ids, and are kept for that."""

    def __init__(self, most_bytes: int, half: bool) -> None:
        """Begin with an empty page.

        most_bytes: of a page. half: whether arrays that are fit for it are stored in half
        precision.
        """
        self._most_bytes, self._half = most_bytes, half
        self._pages: list[list[NDArray[np.uint32]]] = [[]]
        self._filled = 0
        self._places: dict[tuple[int, int], int] = {}
        self._kept: dict[int, tuple[Array, bool]] = {}

    def is_half(self, array: Array) -> bool:
        """Whether the array is stored in half precision."""
        if id(array) not in self._kept:
            self._kept[id(array)] = array, self._half and is_fit_for_halves(array)
        return self._kept[id(array)][1]

    def put(self, arrays: Iterable[Array]) -> tuple[int, Mapping[int, int]]:
        """Have all that one shader reads on one page.

        Returns which one, and by each array's id the element that it begins at.
        """
        wanted = {id(array): array for array in arrays}
        page = next(
            (i for i in range(len(self._pages)) if all((key, i) in self._places for key in wanted)),
            len(self._pages) - 1,
        )
        new = [each for key, each in wanted.items() if (key, page) not in self._places]
        most, size = self._most_bytes // ELEMENT_BYTES, sum(map(self._words, new))
        if new and self._filled + size > most:
            self._pages.append([])
            self._filled, page, new = 0, page + 1, list(wanted.values())
            size = sum(map(self._words, new))
        if size > most:
            raise UnsupportedError(
                f"weights of {size * ELEMENT_BYTES} bytes, over the device's limit of "
                f"{self._most_bytes} for one binding"
            )
        for array in new:
            self._places[id(array), page] = self._filled
            words = stored_words(array, self.is_half(array))
            self._pages[page].append(words)
            self._filled += words.size
        return page, {key: self._begin(key, page) for key in wanted}

    def _words(self, array: Array) -> int:
        size_bytes = array.size * element_bytes(self.is_half(array))
        return -(-size_bytes // (VECTOR * ELEMENT_BYTES)) * VECTOR

    def _begin(self, key: int, page: int) -> int:
        return self._places[key, page] * ELEMENT_BYTES // element_bytes(self._kept[key][1])

    def result(self) -> tuple[NDArray[np.uint32], ...]:
        """All pages, each of one vector at least."""
        nothing = np.zeros(VECTOR, np.uint32)
        return tuple(np.concatenate(page) if page else nothing for page in self._pages)
