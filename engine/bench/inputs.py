"""Inputs to time a model on, and the comparison of two engines' outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from palmkit.engine.ir import Array, Type

# The size of a named dim.
BATCH_NAMES = ("batch", "n", "N", "batch_size")
SIDE = 320


def open_dims(types: Mapping[str, Type]) -> dict[str, int]:
    """Return a size for every named dim: 1 for a batch, else 320.

    A dim is a batch if it is called so, or stands first of several dims and nowhere else.
    """
    batches: set[str] = set()
    others: set[str] = set()
    for type in types.values():
        for axis, dim in enumerate(type.shape):
            if isinstance(dim, str):
                (batches if axis == 0 and len(type.shape) > 1 else others).add(dim)
    is_batch = (batches - others) | set(BATCH_NAMES)
    return {name: 1 if name in is_batch else SIDE for name in sorted(batches | others)}


def random_inputs(types: Mapping[str, Type], sizes: Mapping[str, int]) -> dict[str, Array]:
    """Return seeded noise, 0..1, for every input.

    sizes: the sizes of named dims.
    """
    random = np.random.default_rng(0)
    return {
        name: random.random(
            [dim if isinstance(dim, int) else sizes[dim] for dim in type.shape]
        ).astype(type.dtype)
        for name, type in types.items()
    }


def largest_difference(
    expected: Mapping[str, Array],
    found: Sequence[tuple[str, Array]],
    absolute: float = 0.0,
    spans: Mapping[str, float] | None = None,
) -> float | None:
    """Return the largest difference of any output over its range; None if outputs do not match.

    absolute: differences up to this count as none: a sigmoid may be almost zero everywhere.
    spans: ranges of outputs to use instead of the observed ones, by name.
    Engines name outputs as they like and leave out dims of 1: one without the right name is matched
    with the most similar output of as many elements.
    """
    left = list(found)
    worst = 0.0
    names = {name for name, _ in left}
    for name in sorted(expected, key=lambda each: each not in names):
        wanted = expected[name]
        fitting = [
            (_difference(wanted, value, absolute, (spans or {}).get(name)), index)
            for index, (its_name, value) in enumerate(left)
            if _plain(value) == _plain(wanted) and (its_name == name or name not in names)
        ]
        if not fitting:
            return None
        error, index = min(fitting)
        worst = max(worst, error)
        del left[index]
    return worst


def _plain(value: Array) -> tuple[int, ...]:
    return tuple(size for size in value.shape if size != 1)


def _difference(expected: Array, found: Array, absolute: float, span: float | None = None) -> float:
    """Return the difference; infinite where one is a number and the other is not."""
    a = expected.astype(np.float64).ravel()
    b = found.astype(np.float64).ravel()
    if not a.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (abs(a - b) <= absolute)
    if same.all():
        return 0.0
    numbers = a[np.isfinite(a)]
    if not numbers.size or not (np.isfinite(a[~same]).all() and np.isfinite(b[~same]).all()):
        return np.inf
    if span is None:
        span = float(numbers.max() - numbers.min()) or max(1e-6, float(abs(numbers).max()))
    return float(abs(a - b)[~same].max()) / span
