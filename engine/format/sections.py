"""The parts of a model file, checked as a whole before anything in them is read."""

from __future__ import annotations

import mmap
import os
import sys
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from palmkit.engine.errors import ModelError, PalmError
from palmkit.engine.format import (
    CHECKSUM_SIZE,
    IDENTIFIER,
    LOCK_FOOTER,
    LOCK_MARK,
    MOST_INFLATED,
    TRAILER,
    VERSION,
    align,
)

try:
    from palmkit.engine import _native
except ImportError:
    _native = None  # type: ignore[assignment]


def opened(path: Path, key: bytes | None = None) -> Sections:
    """Return a file's parts, decrypted if it is encrypted.

    Raises ModelError if the key is missing or wrong, or the file is damaged.
    """
    sections = Sections(mapped(path))
    if bytes(sections.data[-LOCK_FOOTER.size :][: len(LOCK_MARK)]) != LOCK_MARK:
        return sections
    from palmkit.engine.format.encryption import decrypted

    return Sections(pages_of(decrypted(sections.data, key)), is_file=False)


def mapped(path: Path) -> mmap.mmap:
    """Map the file into memory, read-only."""
    if not path.is_file():
        raise ModelError("no such file" if not path.exists() else "not a file")
    with path.open("rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ModelError("not a model file: it is empty")
        if sys.platform == "linux":
            # The checksum reads the whole file: one call for all pages saves many faults.
            flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
            return mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ)
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def pages_of(content: bytes) -> mmap.mmap:
    """Return a copy of a file's content as if it were mapped; raise ModelError if it is empty."""
    if not content:
        raise ModelError("not a model file: it is empty")
    pages = mmap.mmap(-1, len(content))
    pages.write(content)
    return pages


@contextmanager
def reading(path: Path) -> Generator[None, None, None]:
    """Turn errors into a PalmError that names the file."""
    try:
        yield
    except PalmError as error:
        raise type(error)(f"{path}: {error}") from error.__cause__
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error


class Sections:
    """The flatbuffer and the data section, as views of the file."""

    def __init__(self, pages: mmap.mmap, is_file: bool = True) -> None:
        """Check the file as a whole.

        is_file: whether the pages come from a file, which gives them again once they are released.
        Raises ModelError if the file is damaged, or of a newer format.
        """
        self.pages = pages
        self.is_file = is_file
        self.file = file = memoryview(pages).toreadonly()
        if bytes(file[4:8]) != IDENTIFIER:
            raise ModelError("not a model file: the identifier PALM is missing")
        if len(file) < TRAILER.size + 8:
            raise ModelError(f"damaged: {len(file)} bytes are too few")
        trailer = len(file) - TRAILER.size
        graph_size, size, version, checksum = TRAILER.unpack_from(file, trailer)
        if size != len(file) or checksum != _crc32(file[:-CHECKSUM_SIZE]):
            raise ModelError("damaged or cut short: the checksum does not fit")
        if version > VERSION:
            raise ModelError(
                f"the file is of a newer format: upgrade palmkit, which knows version {VERSION}; "
                f"the file's version: {version}"
            )
        if version < 1 or align(graph_size) > trailer:
            raise ModelError("damaged: the trailer does not fit")
        self.data_begin, self.data_end = align(graph_size), trailer
        self.content = file[:graph_size]
        self.data = file[self.data_begin : self.data_end]


def inflated(packed: memoryview, size: int) -> bytes:
    """Inflate what zlib packed; raise ModelError if it is not of `size` or over the limit."""
    if size > min(MOST_INFLATED, 1100 * len(packed)):
        raise ModelError(f"damaged: {len(packed)} bytes do not hold {size}")
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(packed, size + 1)
    except zlib.error as error:
        raise ModelError(f"damaged: {error}") from None
    if len(content) != size or not inflater.eof or inflater.unused_data:
        raise ModelError(f"damaged: expected {size} bytes packed, got {len(content)}")
    return content


def _crc32(content: memoryview) -> int:
    fast = None if _native is None else _native.crc32(content)
    return zlib.crc32(content) if fast is None else fast
