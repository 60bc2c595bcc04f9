"""The smallest lossless storage of a constant.

A float32 constant may turn out to be float16, or int8 times a scale for each channel; one of any
type may be mostly zeros, or have few different values (the codebook of S. Han et al.: Deep
Compression, 2016). The bytes of each form are then entropy-coded or left plain, whichever is
smaller; all sizes are measured, none is estimated.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from palmkit.engine.format import align
from palmkit.engine.format.generated.Coding import Coding
from palmkit.engine.format.generated.Positions import Positions
from palmkit.engine.ir import Array

# Size of the description of a run in the tables and in the plans.
_RUN_BYTES = 24
_CODERS = {"huffman": Coding.Huffman, "rans": Coding.Rans, "planes": Coding.Planes}
_MOST_ENTRIES = 2**16
_FEWEST_ZEROS = 0.1


@dataclass(frozen=True)
class Run:
    """Bytes as they will lie in the file; decoded_bytes: their size after decoding."""

    content: bytes
    coding: int
    decoded_bytes: int

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes in a file."""
        return _RUN_BYTES + len(self.content)


@dataclass(frozen=True)
class Raw:
    """The elements as they are, little-endian."""

    run: Run

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes in a file; data used in place begins at a multiple of 64."""
        return self.run.size_bytes if self.run.coding else align(self.run.size_bytes)


@dataclass(frozen=True)
class Half(Raw):
    """A float32 constant stored as float16."""


@dataclass(frozen=True)
class Quantized:
    """A float32 constant as int8 times the scale of its index on `axis`.

    inner: number of elements for each index on `axis`.
    """

    run: Run
    scales: Storage
    scale_count: int
    axis: int
    inner: int

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes in a file."""
        return self.run.size_bytes + self.scales.size_bytes


@dataclass(frozen=True)
class Sparse:
    """The nonzero elements, `count` of them, with their positions."""

    kind: int
    count: int
    positions: Run
    values: Storage

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes in a file."""
        return self.positions.size_bytes + self.values.size_bytes


@dataclass(frozen=True)
class Codebook:
    """Indices of `bits` bits into a table of `entry_count` entries."""

    bits: int
    entry_count: int
    entries: Run
    indices: Run

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes in a file."""
        return self.entries.size_bytes + self.indices.size_bytes


Storage: TypeAlias = Raw | Half | Quantized | Sparse | Codebook


def smallest(value: Array, only_raw: bool = False) -> Storage:
    """Return the storage that takes the fewest bytes, with the elements in running order.

    only_raw: consider coded and plain bytes only. bool is always stored plainly.
    """
    if value.dtype == np.bool_ or not value.size:
        return Raw(plain(value))
    value = np.ascontiguousarray(value)
    if only_raw:
        return min(Raw(plain(value)), Raw(coded(value)), key=lambda each: each.size_bytes)
    found = _dense(value)
    zeros = value.size - np.count_nonzero(_bits(value))
    if zeros > value.size * _FEWEST_ZEROS:
        found += [_sparse(value)]
    return min(found, key=lambda each: each.size_bytes)


def plain(value: Array) -> Run:
    """Return the bytes of an array as they are."""
    content = value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
    return Run(content, Coding.Plain, len(content))


def coded(value: Array) -> Run:
    """Return the bytes of an array, coded in the smallest way."""
    from palmkit.engine import _native

    as_is = plain(value)
    if not as_is.content:
        return as_is
    data: Any = np.frombuffer(as_is.content, np.uint8)
    best = as_is
    for name, coding in _CODERS.items():
        if coding == Coding.Planes and not 2 <= value.itemsize <= 8:
            continue
        if coding != Coding.Planes and value.itemsize > 1:
            continue
        content = _native.encode(name, data, value.itemsize)
        if content and len(content) < len(best.content):
            best = Run(content, coding, len(data))
    return best


def half_of(value: Array) -> Array | None:
    """Return the constant as float16 if that is exact, else None."""
    if value.dtype != np.float32:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        half = value.astype(np.float16)
    return half if half.astype(np.float32).tobytes() == value.tobytes() else None


def _dense(value: Array) -> list[Storage]:
    found: list[Storage] = [Raw(plain(value)), Raw(coded(value))]
    half = half_of(value)
    if half is not None:
        found += [Half(plain(half)), Half(coded(half))]
    if value.dtype == np.float32 and value.ndim > 1:
        found += [q for axis in range(value.ndim) if (q := _quantized(value, axis)) is not None]
    book = _codebook(value)
    return found if book is None else [*found, book]


def _bits(value: Array) -> Array:
    """Return the elements' bits as integers, so that -0.0 is no zero and NaN equals itself."""
    return value.view(f"u{value.itemsize}")


def _codebook(value: Array) -> Codebook | None:
    bits = _bits(value).ravel()
    if value.itemsize == 1 or len(np.unique(bits[:4096])) > min(_MOST_ENTRIES, value.size // 2):
        return None
    unique, indices = np.unique(bits, return_inverse=True)
    if len(unique) > min(_MOST_ENTRIES, value.size // 2):
        return None
    entries = unique.astype(f"u{value.itemsize}").view(value.dtype)
    # Sorted by value, neighbours are about equally frequent, which keeps the coder's tables small.
    order = np.argsort(entries, kind="stable")
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    indices = ranks[indices.ravel()]
    width = max(1, (len(unique) - 1).bit_length())
    if width > 8:
        packed = [(16, coded(indices.astype(np.uint16)))]
    else:
        places = (indices[:, None] >> np.arange(width) & 1).astype(np.uint8)
        dense = np.packbits(places.ravel(), bitorder="little")
        packed = [(width, plain(dense)), (8, coded(indices.astype(np.uint8)))]
    bits_each, run = min(packed, key=lambda each: each[1].size_bytes)
    return Codebook(bits_each, len(entries), coded(entries[order]), run)


def _sparse(value: Array) -> Sparse:
    flat = value.ravel()
    places = np.flatnonzero(_bits(flat))
    gaps = np.diff(places, prepend=-1) - 1
    present = np.zeros(flat.size, np.uint8)
    present[places] = 1
    bitmap = coded(np.packbits(present, bitorder="little"))
    candidates = [(Positions.Bitmap, bitmap, places)]
    for kind, dtype in ((Positions.Uint8Gaps, np.uint8), (Positions.Uint16Gaps, np.uint16)):
        widest = int(np.iinfo(dtype).max)
        filled = _with_fillers(places, gaps, widest)
        steps = (np.diff(filled, prepend=-1) - 1).astype(dtype)
        candidates.append((kind, coded(steps), filled))
    candidates.append((Positions.Uint32Indices, coded(places.astype(np.uint32)), places))
    kind, run, filled = min(
        candidates, key=lambda each: each[1].size_bytes + (len(each[2]) - len(places))
    )
    values = min(_dense(np.ascontiguousarray(flat[filled])), key=lambda each: each.size_bytes)
    return Sparse(kind, len(filled), run, values)


def _with_fillers(places: Array, gaps: Array, widest: int) -> Array:
    """Return positions, with zeros' positions added where a gap is over `widest`."""
    extra = gaps // (widest + 1)
    total = int(extra.sum())
    if not total:
        return places
    owner = np.repeat(np.arange(len(places)), extra)
    number = np.arange(total) - np.repeat(np.cumsum(extra) - extra, extra)
    before = places - gaps - 1
    fillers = before[owner] + (number + 1) * (widest + 1)
    return np.sort(np.concatenate([places, fillers]))


def _quantized(value: Array, axis: int) -> Quantized | None:
    """Return int8 numbers and scales whose float32 products are the constant, or None."""
    rows = np.moveaxis(value, axis, 0).reshape(value.shape[axis], -1)
    if rows.shape[1] < 2 or not np.isfinite(rows).all():
        return None
    sure = _steps(rows[:1])
    if sure is None:
        return None
    scales = _steps(rows)
    if scales is None:
        return None
    whole = _whole(rows, scales).astype(np.int8)
    if (whole.astype(np.float32) * scales[:, None]).tobytes() != rows.tobytes():
        return None
    q = np.moveaxis(whole.reshape(_moved(value.shape, axis)), 0, axis)
    inner = prod(value.shape[axis + 1 :])
    held = min(
        (Raw(coded(scales)), *((Half(coded(h)),) if (h := half_of(scales)) is not None else ())),
        key=lambda each: each.size_bytes,
    )
    return Quantized(coded(np.ascontiguousarray(q)), held, len(scales), axis, inner)


def _moved(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (shape[axis], *shape[:axis], *shape[axis + 1 :])


def _whole(rows: Array, scales: Array) -> Array:
    """Return the nearest integer multiples of the scales; 0 where a scale is 0."""
    return np.rint(rows / np.where(scales == 0, np.float32(1), scales)[:, None]) + np.float32(0)


def _steps(rows: Array) -> Array | None:
    """Return for each row a scale whose -127 to 127 multiples are its numbers exactly, or None."""
    sizes = np.sort(np.abs(rows), axis=1)
    largest = sizes[:, -1]
    gaps = np.diff(sizes, axis=1, prepend=np.float32(0))
    gaps[gaps <= largest[:, None] * 1e-4] = np.inf
    gap = gaps.min(axis=1)
    scales = np.zeros(len(rows), np.float32)
    left = np.flatnonzero(largest)
    # The smallest gap may span several steps.
    for divisor in range(1, 17):
        levels = np.rint(largest[left] / gap[left] * divisor)
        tried = left[levels <= 127]
        guess = largest[tried] / levels[levels <= 127]
        zero, infinity = np.float32(0), np.float32(np.inf)
        for nearby in (
            guess.astype(np.float16).astype(np.float32),
            guess,
            np.nextafter(guess, zero),
            np.nextafter(guess, infinity),
        ):
            whole = _whole(rows[tried], nearby)
            products = whole.astype(np.int8).astype(np.float32) * nearby[:, None]
            exact = (_bits(products) == _bits(rows[tried])).all(axis=1)
            scales[tried[exact]] = nearby[exact]
        left = left[scales[left] == 0]
        if not len(left):
            return scales
        if len(tried) == 0:
            return None
    return None
