"""Tables of a flatbuffer that generated readers read fast."""

from __future__ import annotations

import struct
from typing import Any

from flatbuffers.table import Table

_SIGNED, _UNSIGNED, _SHORT = struct.Struct("<i"), struct.Struct("<I"), struct.Struct("<H")
_COUNT_BYTES = _UNSIGNED.size
# No table of a schema has as many fields; a damaged file may claim more.
_MOST_OFFSETS_BYTES = 128


class IndexedTable(Table):  # type: ignore[misc]
    """A table that reads where its fields lie once, where Table reads it for each field.

    struct.error for what lies outside of the file.
    """

    __slots__ = ("offsets",)
    Bytes: bytes | memoryview
    Pos: int

    def __init__(self, buffer: bytes | memoryview, position: int) -> None:
        """Read the offsets of the table at a position."""
        super().__init__(buffer, position)
        start = position - _SIGNED.unpack_from(buffer, position)[0]
        size = min(_SHORT.unpack_from(buffer, start)[0], _MOST_OFFSETS_BYTES)
        self.offsets = struct.unpack_from(f"<{size // 2}H", buffer, start)

    def Offset(self, vtableOffset: int) -> int:
        """Return a field's offset from the table's position; 0 if it is left out."""
        place = vtableOffset // 2
        return self.offsets[place] if place < len(self.offsets) else 0

    def Get(self, flags: Any, off: int) -> Any:
        """Return a number of a type that is at a place of the file."""
        return flags.packer_type.unpack_from(self.Bytes, off)[0]

    def Indirect(self, off: int) -> int:
        """Return where what is named at a place of the file lies."""
        return off + int(_UNSIGNED.unpack_from(self.Bytes, off)[0])

    def Vector(self, off: int) -> int:
        """Return where the elements of a field lie."""
        return self.Indirect(off + self.Pos) + _COUNT_BYTES

    def VectorLen(self, off: int) -> int:
        """Return how many elements a field has."""
        return int(_UNSIGNED.unpack_from(self.Bytes, self.Indirect(off + self.Pos))[0])

    def String(self, off: int) -> bytes:
        """Return the text that is named at a place of the file."""
        begin = self.Indirect(off)
        size = int(_UNSIGNED.unpack_from(self.Bytes, begin)[0])
        return bytes(self.Bytes[begin + _COUNT_BYTES : begin + _COUNT_BYTES + size])


def indexed(reader: Any) -> Any:
    """Return a generated reader, which now finds the fields of its table faster."""
    reader._tab = IndexedTable(reader._tab.Bytes, reader._tab.Pos)
    return reader
