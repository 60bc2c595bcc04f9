"""Deltas: what turns one file into another, where that is much smaller than the other.

zstd     zstandard, the old file as its dictionary (--patch-from): parts that stayed as they were
bsdiff4  Percival, "Naive differences of executable code" (2003): many small changes in int8 weights
int      differences of numbers, bytes of equal weight together, then zstandard: fine-tuned floats
"""

from __future__ import annotations

import importlib.util
import struct
from typing import Any

CODECS = ("zstd", "bsdiff4", "int")
# A delta must save this much of the file to be worth a second way for things to go wrong.
LEAST_SAVED_SHARE = 0.4
LEAST_SAVED_BYTES = 256 << 10
# Above this size, sorting takes bsdiff4 20 s and 17 bytes of memory a byte.
MOST_BSDIFF4_BYTES = 32 << 20
_INT_HEADER = struct.Struct("<4sB3xQ")
_INT_MAGIC = b"PKD1"
_LEVEL = 19


def can_apply(codec: str) -> bool:
    """Return whether this codec is known and, for bsdiff4, its package is installed."""
    return codec in ("zstd", "int") or (
        codec == "bsdiff4" and importlib.util.find_spec("bsdiff4") is not None
    )


def worthwhile(base: bytes, target: bytes) -> list[tuple[str, bytes]]:
    """Return the deltas from base to target to publish, each with its codec.

    A delta must save 40 % of target and 256 KiB. Of those that every device can apply the smallest
    is taken, and bsdiff4's too where that is smaller by a fifth.
    """
    most = min(len(target) * (1 - LEAST_SAVED_SHARE), len(target) - LEAST_SAVED_BYTES)
    if most <= 0:
        return []
    found = [min(((c, make(c, base, target)) for c in ("zstd", "int")), key=_size)]
    if can_apply("bsdiff4") and len(base) + len(target) <= MOST_BSDIFF4_BYTES:
        patch = make("bsdiff4", base, target)
        if len(patch) < _size(found[0]) * 0.8:
            found.append(("bsdiff4", patch))
    return [entry for entry in found if _size(entry) <= most]


def _size(entry: tuple[str, bytes]) -> int:
    return len(entry[1])


def make(codec: str, base: bytes, target: bytes) -> bytes:
    """Return the delta by one codec; raise ValueError for an unknown one."""
    if codec == "zstd":
        return _zstd_make(base, target)
    if codec == "bsdiff4":
        made: bytes = _bsdiff4().diff(base, target)
        return made
    if codec == "int":
        return min((_int_make(base, target, width) for width in (1, 2, 4)), key=len)
    raise ValueError(f"codec: expected one of {', '.join(CODECS)}, got {codec}")


def apply(codec: str, base: bytes, patch: bytes, size_bytes: int) -> bytes:
    """Return the file that the delta makes of base.

    size_bytes: the size of the result. Raises ValueError where the delta does not fit.
    """
    try:
        if codec == "zstd":
            made = _zstd_apply(base, patch, size_bytes)
        elif codec == "bsdiff4":
            made = _bsdiff4_apply(base, patch, size_bytes)
        elif codec == "int":
            made = _int_apply(base, patch, size_bytes)
        else:
            raise ValueError(f"codec: expected one of {', '.join(CODECS)}, got {codec}")
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{codec} delta: {error}") from error
    if len(made) != size_bytes:
        raise ValueError(f"{codec} delta: expected {size_bytes} bytes, got {len(made)}")
    return made


def _zstd_make(base: bytes, target: bytes) -> bytes:
    import zstandard

    parameters_of: Any = zstandard.ZstdCompressionParameters
    parameters = parameters_of.from_level(
        _LEVEL,
        window_log=min(27, max(10, (len(base) + len(target)).bit_length())),
        enable_ldm=True,
        write_checksum=False,
    )
    return zstandard.ZstdCompressor(
        dict_data=_dictionary(base), compression_params=parameters
    ).compress(target)


def _zstd_apply(base: bytes, patch: bytes, size_bytes: int) -> bytes:
    import zstandard

    if zstandard.frame_content_size(patch) != size_bytes:
        raise ValueError(f"zstd delta: it is not of {size_bytes} bytes")
    decompressor = zstandard.ZstdDecompressor(dict_data=_dictionary(base), max_window_size=1 << 27)
    return bytes(decompressor.decompress(patch, max_output_size=size_bytes))


def _dictionary(base: bytes) -> Any:
    import zstandard

    return zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def _bsdiff4_apply(base: bytes, patch: bytes, size_bytes: int) -> bytes:
    if patch[:8] != b"BSDIFF40" or int.from_bytes(patch[24:32], "little") != size_bytes:
        raise ValueError(f"bsdiff4 delta: it is not of {size_bytes} bytes")
    made: bytes = _bsdiff4().patch(base, patch)
    return made


def _bsdiff4() -> Any:
    import bsdiff4

    return bsdiff4


def _int_make(base: bytes, target: bytes, width: int) -> bytes:
    """Return the head of the target, then its numbers minus those of the base, ends aligned."""
    import numpy as np
    import zstandard

    count = min(len(base), len(target)) // width
    old, new = _tail(base, count, width), _tail(target, count, width)
    signed = (new - old).view(f"<i{width}")
    # Zig-zag: small differences of either sign have zeros above.
    folded = ((signed << 1) ^ (signed >> (8 * width - 1))).view(np.uint8)
    planes = folded.reshape(count, width).T.tobytes()
    head = target[: len(target) - count * width]
    body = zstandard.ZstdCompressor(level=_LEVEL).compress(head + planes)
    return _INT_HEADER.pack(_INT_MAGIC, width, len(head)) + body


def _int_apply(base: bytes, patch: bytes, size_bytes: int) -> bytes:
    import numpy as np
    import zstandard

    magic, width, head_size = _INT_HEADER.unpack_from(patch)
    if magic != _INT_MAGIC or width not in (1, 2, 4) or head_size > size_bytes:
        raise ValueError("int delta: its header is damaged")
    body_bytes = patch[_INT_HEADER.size :]
    if zstandard.frame_content_size(body_bytes) != size_bytes:
        raise ValueError(f"int delta: it is not of {size_bytes} bytes")
    body = zstandard.ZstdDecompressor().decompress(body_bytes, max_output_size=size_bytes)
    count, left = divmod(size_bytes - head_size, width)
    if left or count * width > len(base):
        raise ValueError("int delta: it is of another base")
    planes = np.frombuffer(body, np.uint8, offset=head_size).reshape(width, count)
    folded = np.ascontiguousarray(planes.T).reshape(-1).view(f"<u{width}")
    difference = (folded >> 1) ^ (~(folded & 1) + 1).astype(folded.dtype)
    numbers: bytes = (_tail(base, count, width) + difference).tobytes()
    return bytes(body[:head_size]) + numbers


def _tail(content: bytes, count: int, width: int) -> Any:
    import numpy as np

    return np.frombuffer(content, f"<u{width}", count, len(content) - count * width)
