"""The checksum in native code is that of zlib."""

import zlib

import numpy as np
import pytest

from palmkit.engine import _native


def test_of_every_length_and_alignment() -> None:
    content = np.random.default_rng(7).integers(0, 256, 2000, np.uint8)
    if _native.crc32(content) is None:
        pytest.skip("no fast CRC-32 on this host")
    for size in range(1100):
        for begin in (0, 1, 63, size % 67):
            part = content[begin : begin + size]
            assert _native.crc32(part) == zlib.crc32(part.tobytes()), (begin, size)


def test_of_millions_of_bytes() -> None:
    content = np.random.default_rng(8).bytes((3 << 20) + 5)
    assert _native.crc32(memoryview(content)) in (None, zlib.crc32(content))
