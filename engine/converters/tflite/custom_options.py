"""The options of custom operators: a flexbuffer, or a C structure as it was in memory."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from palmkit.engine.converters.tflite.builder import Builder
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.errors import ModelError

_MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class Options:
    """The options by name.

    where: what to call them in a ModelError.
    """

    values: Mapping[str, Any]
    where: str

    def number(self, name: str, default: float | None = None) -> float:
        """Return an option that is a number; without a default it must exist."""
        value = self.values.get(name, default)
        if not isinstance(value, int | float):
            raise ModelError(f"{self.where}: option {name}: expected a number, got {value!r:.60}")
        return value

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return an option that is a list of integers."""
        value = self.values.get(name)
        if not isinstance(value, list):
            raise ModelError(f"{self.where}: option {name}: expected a list, got {value!r:.60}")
        items = cast("list[object]", value)
        if not all(isinstance(item, int) for item in items):
            raise ModelError(f"{self.where}: option {name}: expected whole numbers")
        return cast("tuple[int, ...]", tuple(items))


def flexbuffer_map(b: Builder, o: Operator) -> Options:
    """Return the operator's flexbuffer, which must be a map; no bytes are an empty map."""
    where = f"node {b.current}: {o.op}"
    if not o.custom_options:
        return Options({}, where)
    flexbuffers: Any = importlib.import_module("flatbuffers.flexbuffers")
    if len(o.custom_options) > _MOST_BYTES:
        raise ModelError(f"{where}: {len(o.custom_options)} bytes of options")
    try:
        root = flexbuffers.GetRoot(bytearray(o.custom_options))
        values = {str(key): _plain(value) for key, value in _items(root)}
    except Exception as error:
        raise ModelError(f"{where}: options are no flexbuffer: {error}") from error
    return Options(values, where)


def _items(root: Any) -> list[tuple[Any, Any]]:
    """Return the entries of a map, which cannot be more than it has bytes."""
    table = root.AsMap
    if len(table) > _MOST_BYTES:
        raise ValueError(f"{len(table)} entries")
    return [(table.Keys[i].AsKey, table.Values[i]) for i in range(len(table))]


def _plain(value: Any) -> object:
    """Return a number, a text, or a list of numbers; options are never nested deeper."""
    if value.IsInt or value.IsBool:
        return int(value.AsInt)
    if value.IsFloat:
        return float(value.AsFloat)
    if value.IsString or value.IsKey:
        return str(value.AsString if value.IsString else value.AsKey)
    if value.IsAnyVector or value.IsVector:
        vector = value.AsTypedVector if value.IsTypedVector else value.AsVector
        if len(vector) > _MOST_BYTES:
            raise ValueError(f"a list of {len(vector)}")
        return [each.Value for each in vector]
    return None


def structure(b: Builder, o: Operator, format: str) -> tuple[int, ...]:
    """Return the first fields of a C structure, little-endian."""
    size = struct.calcsize(format)
    if len(o.custom_options) < size:
        raise ModelError(
            f"node {b.current}: {o.op}: expected {size} bytes of options, "
            f"got {len(o.custom_options)}"
        )
    return struct.unpack_from(format, o.custom_options)
