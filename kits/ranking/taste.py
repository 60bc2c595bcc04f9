"""Features of an item itself, whatever the user did: inputs of the layer of one user's taste."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.ranking.page import Page
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.table import Floats

# Values of categories that a user has a taste of, the first that were shown; 0 is any other.
WORDS = 256
# Longer embeddings are folded into so many columns.
LONGEST = 64
_FAR = 3.0


@dataclass(frozen=True, eq=False)
class Own:
    """The features of n items themselves.

    codes: int16[n, categories], below WORDS; measures: float32[n, width].
    """

    codes: NDArray[np.int16]
    measures: Floats

    @property
    def wide(self) -> Floats:
        """Return float32[n, WORDS + width]: a column for each code, and the measures."""
        count = len(self.codes)
        found = np.zeros((count, WORDS + self.measures.shape[1]), np.float32)
        for column in self.codes.T:
            found[np.arange(count), column] = 1
        found[:, 0] = 0
        found[:, WORDS:] = self.measures
        return found

    def taken(self, rows: NDArray[np.int64]) -> Own:
        """Return the features of some items."""
        return Own(self.codes[rows], self.measures[rows])


def taste_width(schema: Schema) -> int:
    """Return the number of columns of Own.wide."""
    return WORDS + _measures(schema)


def _measures(schema: Schema) -> int:
    return min(sum(schema.embeddings.values()), LONGEST) + 2 * len(schema.measures)


def own_of(page: Page, schema: Schema, words: dict[int, int]) -> Own:
    """Return embeddings, measures in spreads of the page, and their squares.

    They are the same in every process. words: the hash of a value and its code; new values are
    added while there is room.
    """
    count = len(page)
    codes = np.zeros((count, len(schema.categories)), np.int16)
    for column, name in enumerate(schema.categories):
        for row, text in enumerate(page.columns.texts(name)):
            if text is not None:
                key = _hash(name, text)
                if key not in words and len(words) < WORDS - 1:
                    words[key] = 1 + len(words)
                codes[row, column] = words.get(key, 0)
    found = np.zeros((count, _measures(schema)), np.float32)
    length = page.vectors.shape[1]
    for start in range(0, length, LONGEST):
        part = page.vectors[:, start : start + LONGEST]
        found[:, : part.shape[1]] += part if start // LONGEST % 2 == 0 else -part
    first, measures = min(length, LONGEST), len(schema.measures)
    if measures and count:
        valid = ~np.isnan(page.measures)
        filled = np.where(valid, page.measures, 0)
        number = np.maximum(valid.sum(axis=0), 1)
        off = np.where(valid, page.measures - filled.sum(axis=0) / number, 0)
        spread = np.sqrt((off * off).sum(axis=0) / number) + np.float32(1e-6)
        scaled = np.clip(off / spread, -_FAR, _FAR) / _FAR
        found[:, first : first + measures] = scaled
        found[:, first + measures : first + 2 * measures] = scaled * scaled
    return Own(codes, found)


@lru_cache(maxsize=10_000)
def _hash(name: str, text: str) -> int:
    return zlib.crc32(f"{name}\0{text}".encode("utf-8", "surrogatepass"))
