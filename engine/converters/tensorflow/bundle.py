"""Reader of TensorFlow's tensor bundles: NAME.index, a table of names, and NAME.data-*-of-*.

The table's format is LevelDB's (leveldb/doc/table_format.md), as tensorflow/core/lib/io/table*.cc
write it; what the entries mean says tensorflow/core/protobuf/tensor_bundle.proto. No library reads
it without TensorFlow.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from palmkit.engine.converters.protobuf import parse, read_bytes
from palmkit.engine.converters.tensorflow.schema import DTYPES, dtype_name, messages
from palmkit.engine.converters.tensorflow.tensors import dims
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array, numpy_dtype

_MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5
_MASK_DELTA = 0xA282EAD8
_MOST_BLOCK_BYTES = 1 << 28
_MOST_EXPANSION = 64


class Bundle:
    """The tensors of a checkpoint, read one by one when they are asked for."""

    def __init__(self, prefix: Path) -> None:
        """Open a checkpoint.

        prefix: the path without .index; ModelError if that cannot be read.
        """
        self._prefix = prefix
        index = prefix.with_name(prefix.name + ".index")
        self._entries = dict(_table(read_bytes(index), index))
        header = parse(messages()["BundleHeaderProto"], self._entries.pop(b"", b""), str(index))
        if header.endianness != 0:
            raise UnsupportedError(f"{index}: a big-endian checkpoint is not supported")
        self._shards = max(1, int(header.num_shards))

    def __contains__(self, name: str) -> bool:
        """Return whether there is a tensor of this name."""
        return name.encode() in self._entries

    def tensor(self, name: str) -> Array:
        """Return a tensor of numbers; raise ModelError if its bytes are missing or damaged."""
        entry = self._entry(name)
        dtype = dtype_name(entry.dtype)
        if dtype not in DTYPES.values():
            raise UnsupportedError(f"variable {name}: dtype {dtype} is not supported")
        shape, stored = dims(entry.shape, f"variable {name}"), numpy_dtype(dtype)
        if entry.size != prod(shape) * stored.itemsize:
            raise ModelError(
                f"variable {name}: {entry.size} bytes do not fill {dtype}{list(shape)}"
            )
        data = self._bytes(name, entry)
        return np.frombuffer(data, stored.newbyteorder("<")).astype(stored).reshape(shape)

    def text(self, name: str) -> bytes:
        """Return a tensor that is one string: its length, a checksum of that, its bytes."""
        data = self._bytes(name, self._entry(name), has_crc=False)
        size, place = _varint(data, 0, f"variable {name}")
        if place + 4 + size != len(data):
            raise ModelError(f"variable {name}: not a string of {size} bytes")
        return data[place + 4 :]

    def _entry(self, name: str) -> Any:
        if name not in self:
            raise ModelError(f"the checkpoint has no tensor called {name}")
        what = f"variable {name}"
        entry = parse(messages()["BundleEntryProto"], self._entries[name.encode()], what)
        if entry.slices:
            raise UnsupportedError(f"{what}: a variable in several parts is not supported")
        if not 0 <= entry.shard_id < self._shards or entry.offset < 0 or entry.size < 0:
            raise ModelError(f"{what}: its place in the checkpoint is broken")
        return entry

    def _bytes(self, name: str, entry: Any, has_crc: bool = True) -> bytes:
        shard = f"{self._prefix.name}.data-{entry.shard_id:05d}-of-{self._shards:05d}"
        path = self._prefix.with_name(shard)
        try:
            with path.open("rb") as file:
                if entry.offset + entry.size > path.stat().st_size:
                    raise ModelError(f"variable {name}: {path} ends before its bytes do")
                file.seek(entry.offset)
                data = file.read(entry.size)
        except OSError as error:
            raise ModelError(f"cannot read {path}: {error.strerror or error}") from None
        if len(data) != entry.size:
            raise ModelError(f"variable {name}: {path} ends before its bytes do")
        if has_crc and entry.crc32c:
            _check_crc(data, entry.crc32c, f"variable {name} in {path}")
        return data


def _check_crc(data: bytes, masked: int, what: str) -> None:
    """Raise ModelError for another CRC-32C; without the package google-crc32c nothing is checked.

    The checksum is stored rotated by 15 bits with a number added.
    """
    try:
        library: Any = import_module("google_crc32c")
    except ImportError:
        return
    crc = int(library.value(data))
    if ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF != masked:
        raise ModelError(f"{what}: damaged, its checksum is another")


def _table(data: bytes, path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a table file."""
    what = str(path)
    if len(data) < _FOOTER_BYTES or struct.unpack("<Q", data[-8:])[0] != _MAGIC:
        raise ModelError(f"not the index of a checkpoint: {what}")
    footer = data[-_FOOTER_BYTES:-8]
    place = 0
    for _ in range(2):
        _, place = _varint(footer, place, what)
    handle = footer[place:]
    seen = 0
    for _, block in _entries(_block(data, handle, what), what):
        inner = _block(data, block, what)
        seen += len(inner)
        if seen > max(_MOST_BLOCK_BYTES, len(data)) or seen > len(data) * _MOST_EXPANSION:
            raise ModelError(f"{what}: its blocks are larger than the file")
        yield from _entries(inner, what)


def _block(data: bytes, handle: bytes, what: str) -> bytes:
    """Return the block at a handle: offset and size, followed by compression and checksum."""
    offset, place = _varint(handle, 0, what)
    size, _ = _varint(handle, place, what)
    if offset + size + _TRAILER_BYTES > len(data) - _FOOTER_BYTES:
        raise ModelError(f"{what}: a block lies outside of the file")
    block, kind = data[offset : offset + size], data[offset + size]
    (crc,) = struct.unpack_from("<I", data, offset + size + 1)
    _check_crc(data[offset : offset + size + 1], crc, what)
    if kind == 1:
        return unpack_snappy(block, what)
    if kind != 0:
        raise ModelError(f"{what}: unknown compression: {kind}")
    return block


def _entries(block: bytes, what: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of a block; each key states how much of the previous key it shares."""
    if len(block) < 4:
        raise ModelError(f"{what}: a block is too short")
    restarts = int(struct.unpack_from("<I", block, len(block) - 4)[0])
    end = len(block) - 4 - 4 * restarts
    if end < 0:
        raise ModelError(f"{what}: a block is too short")
    place, key = 0, b""
    while place < end:
        shared, place = _varint(block, place, what)
        fresh, place = _varint(block, place, what)
        size, place = _varint(block, place, what)
        if shared > len(key) or place + fresh + size > end:
            raise ModelError(f"{what}: an entry lies outside of its block")
        key = key[:shared] + block[place : place + fresh]
        place += fresh
        yield key, block[place : place + size]
        place += size


def _varint(data: bytes, place: int, what: str) -> tuple[int, int]:
    """Return a number of 7 bits a byte, the lowest first, and the offset after it."""
    number = 0
    for shift in range(0, 64, 7):
        if place >= len(data):
            break
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
    raise ModelError(f"{what}: a number is broken off")


def unpack_snappy(data: bytes, what: str) -> bytes:
    """Decompress snappy (google/snappy/format_description.txt)."""
    size, place = _varint(data, 0, what)
    if size > _MOST_EXPANSION * len(data):
        raise ModelError(f"{what}: a compressed block is unreasonably large")
    out = bytearray()
    while place < len(data):
        tag = data[place]
        place += 1
        kind, length = tag & 3, tag >> 2
        if kind == 0:
            if length >= 60:
                width = length - 59
                length = int.from_bytes(data[place : place + width], "little")
                place += width
            length += 1
            if place + length > len(data):
                break
            out += data[place : place + length]
            place += length
        else:
            width = (1, 2, 4)[kind - 1]
            offset = int.from_bytes(data[place : place + width], "little")
            place += width
            if kind == 1:
                offset, length = offset | tag >> 5 << 8, (length & 7) + 3
            length += 1
            if not 0 < offset <= len(out):
                break
            for _ in range(length):
                out.append(out[-offset])
        if len(out) > size:
            break
    if len(out) != size:
        raise ModelError(f"{what}: a compressed block is damaged")
    return bytes(out)


def checkpoint_keys(bundle: Bundle, objects: Any) -> Mapping[str, str]:
    """Return the checkpoint's name of each variable by its name in the object graph."""
    name = "_CHECKPOINTABLE_OBJECT_GRAPH"
    if name not in bundle:
        return {}
    saved = parse(messages()["TrackableObjectGraph"], bundle.text(name), name).nodes
    return {
        node.variable.name: attribute.checkpoint_key
        for node, kept in zip(objects.nodes, saved, strict=False)
        for attribute in kept.attributes
        if node.variable.name and attribute.name == "VARIABLE_VALUE"
    }
