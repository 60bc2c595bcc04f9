"""Reading the constants of a .palm file: in place where they are stored plainly, else decoded."""

# The generated code has no types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import struct
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.flatbuffer_tables import indexed
from palmkit.engine.format import ALIGNMENT, most_decoded
from palmkit.engine.format.consistency import DIM_LIMIT, RANK_LIMIT, STORED_DTYPES
from palmkit.engine.format.generated.Codebook import Codebook
from palmkit.engine.format.generated.Coding import Coding
from palmkit.engine.format.generated.DataType import DataType
from palmkit.engine.format.generated.Encoding import Encoding
from palmkit.engine.format.generated.Half import Half
from palmkit.engine.format.generated.Quantized import Quantized
from palmkit.engine.format.generated.Raw import Raw
from palmkit.engine.format.generated.Sparse import Sparse
from palmkit.engine.ir import Array, numpy_dtype

_TABLES: dict[int, Callable[[], Any]] = {
    Encoding.Raw: Raw,
    Encoding.Half: Half,
    Encoding.Quantized: Quantized,
    Encoding.Sparse: Sparse,
    Encoding.Codebook: Codebook,
}
_MOST_NESTED = 4


class Constants:
    """Reads constants from the data section, and counts the bytes they decode to.

    A hostile file may point at one run of data many times, or claim that a few bytes decode to
    many.
    """

    def __init__(self, data: memoryview) -> None:
        """Read from `data`, the data section."""
        self._data = data
        self._left = len(data)
        self._decoded_left = most_decoded(len(data))

    def read(self, name: str, table: Any) -> Array:
        """Return the constant of a table.

        Raises ModelError if it is damaged, UnsupportedError if it needs a newer reader.
        """
        dtype = stored_dtype(table.Type())
        rank = table.ShapeLength()
        if rank > RANK_LIMIT:
            raise ModelError(f"constant {name}: expected at most {RANK_LIMIT} dims, got {rank}")
        shape = tuple(int(table.Shape(axis)) for axis in range(rank))
        if any(dim > DIM_LIMIT for dim in shape):
            raise ModelError(f"constant {name}: dims are over {DIM_LIMIT}: {list(shape)}")
        storage = table.Storage()
        kind, encoding = encoding_of(name, dtype, storage)
        order = tuple(
            map(int, map(encoding.Order, range(min(encoding.OrderLength(), RANK_LIMIT + 1))))
        )
        if order and sorted(order) != list(range(len(shape))):
            raise ModelError(f"constant {name}: not an order of its axes: {list(order)}")
        lying = tuple(shape[axis] for axis in order) if order else shape
        is_plain = kind in (Encoding.Raw, Encoding.Half)
        run = encoding.Bytes() if is_plain else None
        if run and run.Coding() == Coding.Plain and run.Offset() % ALIGNMENT == 0:
            value = self._in_place(name, run, dtype, lying, kind == Encoding.Half)
        else:
            value = self._decoded(name, storage, dtype, lying)
        return value.transpose(np.argsort(order)) if order else value

    def _in_place(
        self, name: str, run: Any, dtype: str, shape: tuple[int, ...], is_half: bool
    ) -> Array:
        in_file = "float16" if is_half else dtype
        stored = numpy_dtype(in_file).newbyteorder("<")
        offset, size = run.Offset(), run.Size()
        if size != prod(shape) * stored.itemsize:
            raise ModelError(f"constant {name}: {size} bytes do not fill {in_file}{list(shape)}")
        self._count(name, offset, size)
        value = np.frombuffer(self._data[offset : offset + size], stored).reshape(shape)
        if is_half:
            value = value.astype(np.float32)
            value.flags.writeable = False
        if dtype == "bool" and value.view(np.uint8).max(initial=0) > 1:
            raise ModelError(f"constant {name}: expected bytes of 0 and 1")
        return value

    def _decoded(self, name: str, storage: Any, dtype: str, shape: tuple[int, ...]) -> Array:
        try:
            from palmkit.engine import _native
        except ImportError as error:
            raise UnsupportedError(
                f"constant {name}: is coded, which needs native code: {error}"
            ) from None
        recipe = self._recipe(name, storage, dtype, shape, 0)
        itemsize = numpy_dtype(dtype).itemsize
        self._decoded_left -= prod(shape) * itemsize
        if self._decoded_left < 0:
            raise ModelError("damaged: more in the constants than the file can hold")
        value = np.empty(shape, dtype)
        # Native code knows no narrow dtypes, and decodes no float32 values for them.
        target = value.view(f"u{itemsize}") if dtype not in _NATIVE_DTYPES else value
        data: Any = np.frombuffer(self._data, np.uint8)
        try:
            _native.decode(recipe, data, target.reshape(-1))
        except ModelError as error:
            raise ModelError(f"constant {name}: {error}") from None
        value.flags.writeable = False
        return value

    def _recipe(
        self, name: str, storage: Any, dtype: str, shape: tuple[int, ...], depth: int
    ) -> bytes:
        """Return how native code decodes a storage; native/entropy/stored.h has the layout."""
        if storage is None or depth > _MOST_NESTED:
            raise ModelError(f"constant {name}: damaged: no storage")
        kind, table = encoding_of(name, dtype, storage)
        count = prod(shape)
        inner = depth + 1
        if kind in (Encoding.Raw, Encoding.Half):
            return struct.pack("<B", kind == Encoding.Half) + self._run(name, table.Bytes())
        if kind == Encoding.Quantized:
            axis, scales = table.Axis(), table.ScaleCount()
            if not 0 <= axis < max(1, len(shape)) or table.Stored() != DataType.Int8:
                raise ModelError(f"constant {name}: damaged: scales along axis {axis}")
            if scales not in (1, shape[axis] if shape else 1):
                raise ModelError(f"constant {name}: damaged: {scales} scales for {list(shape)}")
            each = prod(shape[axis + 1 :]) if scales > 1 else count
            head = struct.pack("<BQI", 2, each, scales)
            held = self._recipe(name, table.Scales(), "float32", (scales,), inner)
            return head + held + self._run(name, table.Bytes())
        if kind == Encoding.Sparse:
            kept = table.Count()
            if kept > count:
                raise ModelError(f"constant {name}: damaged: {kept} of {count} are not zero")
            head = struct.pack("<BBQ", 3, table.PositionsKind(), kept)
            positions = self._run(name, table.Positions())
            return head + positions + self._recipe(name, table.Values(), dtype, (kept,), inner)
        head = struct.pack("<BBI", 4, table.Bits(), table.EntryCount())
        return head + self._run(name, table.Entries()) + self._run(name, table.Indices())

    def _run(self, name: str, run: Any) -> bytes:
        offset, size = run.Offset(), run.Size()
        if run.Coding() > Coding.Planes:
            raise UnsupportedError(f"constant {name}: coding {run.Coding()}; upgrade palmkit")
        self._count(name, offset, size)
        return struct.pack("<QQB", offset, size, run.Coding())

    def _count(self, name: str, offset: int, size: int) -> None:
        if offset + size > len(self._data):
            raise ModelError(f"constant {name}: its bytes lie outside the file")
        self._left -= size
        if self._left < 0:
            raise ModelError("damaged: more in the constants than the file holds")


_NATIVE_DTYPES = STORED_DTYPES[: STORED_DTYPES.index("bool") + 1]


def stored_dtype(number: int) -> str:
    """Return a dtype's name by its number in the schema; raise ModelError if it has none."""
    if number >= len(STORED_DTYPES):
        raise ModelError(f"damaged: unknown data type: {number}")
    return STORED_DTYPES[number]


def encoding_of(name: str, dtype: str, storage: Any) -> tuple[int, Any]:
    """Return the kind of a storage, and its table."""
    kind = storage.EncodingType()
    fits = dtype == "float32" or kind not in (Encoding.Half, Encoding.Quantized)
    if kind not in _TABLES or not fits:
        known = {number: text for text, number in vars(Encoding).items() if text[0] != "_"}
        raise UnsupportedError(
            f"constant {name}: {dtype} constants that are stored as {known.get(kind, kind)} "
            f"cannot be read; upgrade palmkit"
        )
    union, table = storage.Encoding(), _TABLES[kind]()
    table.Init(union.Bytes, union.Pos)
    return kind, indexed(table)
