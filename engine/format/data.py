"""The data section of a .palm file while it is being written."""

# The generated code has no types.
# pyright: reportUnknownMemberType=false

import hashlib
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from palmkit.engine.format import ALIGNMENT, align
from palmkit.engine.format.generated.Bytes import BytesT
from palmkit.engine.format.generated.Codebook import CodebookT
from palmkit.engine.format.generated.Encoding import Encoding
from palmkit.engine.format.generated.Half import HalfT
from palmkit.engine.format.generated.Quantized import QuantizedT
from palmkit.engine.format.generated.Raw import RawT
from palmkit.engine.format.generated.Sparse import SparseT
from palmkit.engine.format.generated.Storage import StorageT
from palmkit.engine.format.plans import Stored
from palmkit.engine.format.storage import (
    Half,
    Quantized,
    Raw,
    Run,
    Sparse,
    Storage,
    half_of,
    plain,
    smallest,
)
from palmkit.engine.ir import Array

# Up to this size, copying a constant when the file is loaded is better than the padding that would
# align it, up to 63 bytes.
_WORTH_PADDING = 4096
WEIGHTS = ("float32", "float16", "auto", "smallest")


class Data:
    """Runs of bytes, and the places of the plans' constants among them.

    ordered, coded: whether there are constants that need the feature of that name.
    decoded_bytes: size of the coded constants after decoding.
    """

    def __init__(self, weights: str, wanted: Sequence[Array]) -> None:
        """Start an empty section.

        weights: as for `save`; wanted: the constants of plans.
        """
        self.content = bytearray()
        self.ordered = False
        self.coded = False
        self.decoded_bytes = 0
        self._weights = weights
        self._wanted = {_digest(value) for value in wanted}
        self._places: dict[bytes, Stored] = {}

    def constant(self, value: Array) -> tuple[Any, int]:
        """Add a graph's constant, and return the table of its storage and the bytes it took."""
        begin = len(self.content)
        order: tuple[int, ...] = ()
        computed = value.astype(np.float32) if value.dtype == np.float16 else value
        digest = _digest(computed) if self._wanted else b""
        if self._wanted and digest not in self._wanted and 3 <= value.ndim <= 5:
            for lying in _orders(value.ndim):
                transposed = _digest(computed.transpose(lying))
                if transposed in self._wanted:
                    order, digest, value = lying, transposed, value.transpose(lying)
                    self.ordered = True
                    break
        storage = self._storage(value)
        table, recipe = self._table(storage, self._in_place(value))
        table.encoding.order = list(order)
        stored = _stored(storage, recipe, value.dtype == np.float16)
        if stored.recipe:
            self.coded = True
            self.decoded_bytes += computed.nbytes
        if digest in self._wanted:
            self._places.setdefault(digest, stored)
        return table, len(self.content) - begin

    def place(self, value: Array) -> Stored:
        """Return where a plan's constant lies, adding it if no constant of the graph equals it."""
        digest = _digest(value)
        if digest not in self._places:
            storage = smallest(value) if self._weights == "smallest" else Raw(plain(value))
            _, recipe = self._table(storage, self._in_place(value))
            self._places[digest] = stored = _stored(storage, recipe, is_float16=False)
            self.decoded_bytes += value.nbytes if stored.recipe else 0
        return self._places[digest]

    def _in_place(self, value: Array) -> bool:
        large = value.nbytes >= _WORTH_PADDING or value.dtype == np.bool_
        return large or self._weights != "smallest"

    def _storage(self, value: Array) -> Storage:
        if self._weights == "smallest":
            # Plans read float16 constants as float32, which only the storage Half stands for.
            return smallest(value, only_raw=value.dtype == np.float16)
        if self._weights != "float32":
            half = rounded_half(value) if self._weights == "float16" else half_of(value)
            if half is not None:
                return Half(plain(half))
        return Raw(plain(value))

    def _table(self, storage: Storage, in_place: bool) -> tuple[Any, bytes]:
        """Return the storage's table and its recipe; native/entropy/stored.h has the layout."""
        table: Any = StorageT()
        encoding: Any
        if isinstance(storage, Raw):
            is_half = isinstance(storage, Half)
            table.encodingType = Encoding.Half if is_half else Encoding.Raw
            table.encoding = encoding = HalfT() if is_half else RawT()
            encoding.bytes, run = self._append(storage.run, in_place)
            return table, struct.pack("<B", is_half) + run
        if isinstance(storage, Quantized):
            table.encodingType, table.encoding = Encoding.Quantized, QuantizedT()
            encoding = table.encoding
            encoding.scales, scales = self._table(storage.scales, False)
            encoding.bytes, run = self._append(storage.run)
            encoding.axis, encoding.scaleCount = storage.axis, storage.scale_count
            return table, struct.pack("<BQI", 2, storage.inner, storage.scale_count) + scales + run
        if isinstance(storage, Sparse):
            table.encodingType, table.encoding = Encoding.Sparse, SparseT()
            encoding = table.encoding
            encoding.positions, run = self._append(storage.positions)
            encoding.values, values = self._table(storage.values, False)
            encoding.positionsKind, encoding.count = storage.kind, storage.count
            return table, struct.pack("<BBQ", 3, storage.kind, storage.count) + run + values
        table.encodingType, table.encoding = Encoding.Codebook, CodebookT()
        encoding = table.encoding
        encoding.entries, entries = self._append(storage.entries)
        encoding.indices, run = self._append(storage.indices)
        encoding.bits, encoding.entryCount = storage.bits, storage.entry_count
        return table, struct.pack("<BBI", 4, storage.bits, storage.entry_count) + entries + run

    def _append(self, run: Run, in_place: bool = False) -> tuple[Any, bytes]:
        """Return a run's table and recipe; data used in place begins at a multiple of 64."""
        if in_place and not run.coding:
            self.content += bytes(align(len(self.content)) - len(self.content))
        table: Any = BytesT()
        table.offset, table.size = len(self.content), len(run.content)
        table.coding = run.coding
        table.decodedSize = run.decoded_bytes if run.coding else 0
        self.content += run.content
        return table, struct.pack("<QQB", table.offset, table.size, run.coding)


def _orders(rank: int) -> list[tuple[int, ...]]:
    """Return the axis orders in which plans want weights: inputs last, or outputs last."""
    window = tuple(range(2, rank))
    return [(0, *window, 1), (*range(1, rank), 0), (*window, 1, 0)]


def rounded_half(value: Array) -> Array | None:
    """Return the constant as float16: exact, or rounded if it is a matrix or kernel in range."""
    if value.dtype != np.float32 or value.ndim < 2:
        return half_of(value)
    with np.errstate(over="ignore", invalid="ignore"):
        half = value.astype(np.float16)
    return half if np.array_equal(np.isfinite(half), np.isfinite(value)) else None


def _stored(storage: Storage, recipe: bytes, is_float16: bool) -> Stored:
    """Return where a plan finds a constant; float16 is widened when it is read."""
    half = is_float16 or isinstance(storage, Half)
    if isinstance(storage, Raw) and not storage.run.coding:
        offset = struct.unpack_from("<Q", recipe, 1)[0]
        if offset % ALIGNMENT == 0:
            return Stored(offset, half)
    return Stored(0, half, b"\1" + recipe[1:] if is_float16 else recipe)


def _digest(value: Array) -> bytes:
    """Return a digest of the constant's numbers in running order, and of their type."""
    return hashlib.sha256(value.dtype.name.encode() + value.tobytes()).digest()
