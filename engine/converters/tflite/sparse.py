"""Sparse constants of TFLite, after TACO's level formats."""

from __future__ import annotations

import importlib
from math import prod
from typing import Any

import numpy as np

from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Array

# Limit far above real files: elements of the dense array for each stored one.
_MOST_SPREAD = 1024
_ALWAYS_ALLOWED = 1 << 16


def dense(sparsity: Any, stored: Array, shape: tuple[int, ...], where: str) -> Array:
    """Return the dense array of a sparse constant.

    Levels are the dims in traversal order, then the blocks' dims; each is dense, or compressed with
    segments and indices. Coordinates are extended one level at a time, all elements at once.

    where: what to call the constant in a ModelError.
    """
    try:
        return _dense(sparsity, stored, shape)
    except ModelError as error:
        raise ModelError(f"{where}: sparse constant: {error}") from None


def _dense(sparsity: Any, stored: Array, shape: tuple[int, ...]) -> Array:
    order = _numbers(sparsity.TraversalOrderAsNumpy())
    blocks = () if sparsity.BlockMapIsNone() else _numbers(sparsity.BlockMapAsNumpy())
    levels = sparsity.DimMetadataLength()
    most = max(_ALWAYS_ALLOWED, _MOST_SPREAD * stored.size)
    if levels != len(shape) + len(blocks) or sorted(order) != list(range(levels)):
        raise ModelError(f"{levels} levels do not fit the shape: {list(shape)}")
    if any(not 0 <= dim < len(shape) for dim in blocks):
        raise ModelError(f"blocks {list(blocks)} do not fit the shape: {list(shape)}")
    if sorted(order[: len(shape)]) != list(range(len(shape))):
        raise ModelError(f"traversal order {list(order)} goes through blocks first")
    if min(shape, default=1) < 1 or prod(shape) > most:
        raise ModelError(f"{stored.size} stored elements are too few for {list(shape)}")
    coordinates: list[Array] = []
    position = np.zeros(1, np.int64)
    block_sizes: list[int] = []
    for level in range(levels):
        metadata = sparsity.DimMetadata(level)
        if metadata.Format() == 0:
            size = int(metadata.DenseSize())
            if not 0 < size * len(position) <= most:
                raise ModelError(f"level {level} is of size {size}")
            coordinate: Array = np.tile(np.arange(size), len(position))
            coordinates = [np.repeat(each, size) for each in coordinates]
            position = np.repeat(position, size) * size + coordinate
            if level >= len(shape):
                block_sizes.append(size)
        else:
            if level >= len(shape):
                raise ModelError("a compressed block")
            segments = _index_vector(metadata.ArraySegmentsType(), metadata.ArraySegments())
            indices = _index_vector(metadata.ArrayIndicesType(), metadata.ArrayIndices())
            starts, counts = segments[position], segments[position + 1] - segments[position]
            total = int(counts.sum())
            if counts.min(initial=0) < 0 or starts.min(initial=0) < 0 or total > most:
                raise ModelError(f"the segments of level {level} do not grow")
            coordinates = [np.repeat(each, counts) for each in coordinates]
            within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
            position = np.repeat(starts, counts) + within
            coordinate = indices[position]
        coordinates.append(coordinate)
    place = [np.zeros(0, np.int64)] * len(shape)
    for level, dim in enumerate(order[: len(shape)]):
        place[dim] = coordinates[level]
    for level in range(len(shape), levels):
        dim = blocks[order[level] - len(shape)]
        place[dim] = place[dim] * block_sizes[level - len(shape)] + coordinates[level]
    if len(position) > stored.size:
        raise ModelError(f"{len(position)} places for {stored.size} stored elements")
    if any(each.min(initial=0) < 0 for each in place):
        raise ModelError("a negative index")
    array = np.zeros(shape, stored.dtype)
    array[tuple(place)] = stored[: len(position)]
    return array


def _index_vector(kind: int, table: Any) -> Array:
    """Return a SparseIndexVector, whose reader is chosen by `kind`."""
    names = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}
    if table is None or kind not in names:
        raise ModelError("a level has no segments or indices")
    tflite: Any = importlib.import_module("tflite")
    vector = getattr(tflite, names[kind])()
    vector.Init(table.Bytes, table.Pos)
    return np.asarray(_numbers(vector.ValuesAsNumpy()), np.int64)


def _numbers(vector: Any) -> tuple[int, ...]:
    return () if isinstance(vector, int) else tuple(map(int, vector))
