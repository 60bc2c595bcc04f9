"""The op tf_idf_vectorizer."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Attr, Type
from palmkit.engine.ops import Case, op
from palmkit.engine.ops.rules import need_dtype, need_rank

MODES = ("TF", "IDF", "TFIDF")


def _infer(
    x: Type,
    *,
    mode: str,
    min_gram_length: int,
    max_gram_length: int,
    max_skip_count: int,
    ngram_counts: tuple[int, ...],
    ngram_indexes: tuple[int, ...],
    pool_int64s: tuple[int, ...],
    weights: tuple[float, ...],
) -> Type:
    need_dtype("tf_idf_vectorizer", x, among=("int32", "int64"))
    need_rank("tf_idf_vectorizer", x, 0, 2)
    if mode not in MODES:
        raise ValueError(f"unknown mode: {mode}")
    if not 1 <= min_gram_length <= max_gram_length or max_skip_count < 0:
        raise ValueError("expected 1 <= min_gram_length <= max_gram_length, max_skip_count >= 0")
    size = max(ngram_indexes, default=-1) + 1
    if min(ngram_indexes, default=0) < 0 or (mode != "TF" and weights and len(weights) < size):
        raise ShapeError(f"tf_idf_vectorizer: {len(weights)} weights do not fit {size} results")
    # Raises LookupError where they do not fit.
    _pool(ngram_counts, ngram_indexes, pool_int64s)
    return Type("float32", (*x.dims[:-1], size))


def _pool(
    counts: tuple[int, ...], indexes: tuple[int, ...], pool: tuple[int, ...]
) -> dict[tuple[int, ...], int]:
    """Return the output column of each n-gram."""
    found: dict[tuple[int, ...], int] = {}
    which = 0
    for length, (start, end) in enumerate(zip(counts, (*counts[1:], len(pool)), strict=True), 1):
        for place in range(start, end - length + 1, length):
            found[pool[place : place + length]] = indexes[which]
            which += 1
    return found


_WORDS = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int32)


def _case(x: Array, **attrs: Attr) -> Case:
    pool: dict[str, Attr] = {
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 2,
        "ngram_counts": (0, 4),
        "ngram_indexes": (0, 1, 2, 3, 4, 5, 6),
        "pool_int64s": (2, 3, 5, 4, 5, 6, 7, 8, 6, 7),
    }
    return Case((x,), {**pool, **attrs})


@op(
    _infer,
    _case(_WORDS, mode="TF"),
    _case(_WORDS[1], mode="TF"),
    _case(_WORDS, mode="TF", max_skip_count=0, min_gram_length=2),
    _case(_WORDS, mode="IDF", weights=(1.0, 0.5, 2.0, 1.0, 3.0, 4.0, 0.25)),
    _case(_WORDS, mode="TFIDF", weights=(1.0, 0.5, 2.0, 1.0, 3.0, 4.0, 0.25)),
)
def tf_idf_vectorizer(
    x: Array,
    *,
    mode: str,
    min_gram_length: int,
    max_gram_length: int,
    max_skip_count: int,
    ngram_counts: tuple[int, ...],
    ngram_indexes: tuple[int, ...],
    pool_int64s: tuple[int, ...],
    weights: tuple[float, ...] = (),
) -> Array:
    """How often each n-gram of the pool occurs in each row, also with items skipped between.

    pool_int64s: the n-grams, all of length 1, then all of length 2 ...; ngram_counts is where each
    length begins, ngram_indexes the column of each n-gram.
    mode: "TF" gives counts; "IDF" the weight of each n-gram that occurs, "TFIDF" the count times
    it.
    """
    pool = _pool(ngram_counts, ngram_indexes, pool_int64s)
    rows = x.reshape(-1, x.shape[-1] if x.ndim else 1)
    counts = np.zeros((len(rows), max(ngram_indexes, default=-1) + 1), np.float32)
    width = rows.shape[1]
    for length in range(min_gram_length, min(max_gram_length, width) + 1):
        for step in range(1, min(max_skip_count, width) + 2 if length > 1 else 2):
            reach = step * (length - 1)
            for row, items in enumerate(rows.tolist()):
                for start in range(len(items) - reach):
                    column = pool.get(tuple(items[start : start + reach + 1 : step]))
                    if column is not None:
                        counts[row, column] += 1
    if mode == "IDF":
        counts = np.minimum(counts, 1)
    if mode != "TF" and weights:
        counts *= np.array(weights[: counts.shape[1]], np.float32)
    return counts.reshape(*x.shape[:-1], -1)
