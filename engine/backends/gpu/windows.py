"""Parts of an arena that is over what one binding may be: those that a dispatch binds."""

from __future__ import annotations

from collections.abc import Sequence

from palmkit.engine.backends.gpu.dispatches import Window
from palmkit.engine.errors import UnsupportedError

# What WebGPU allows offsets of bindings to be multiples of, at least.
_ALIGNMENT = 256


def windows(
    spans: Sequence[tuple[int, int]], arena_bytes: int, most_bytes: int
) -> tuple[tuple[Window, ...], list[int]]:
    """Share out spans of an arena, (begin, end) in bytes, to windows that are apart.

    Returns them and, for each span, which one it is in: all of the arena if it can be bound. What
    is written may be bound once only, so that spans whose windows would overlap share one.
    Raises UnsupportedError for a window of more than most_bytes.
    """
    if arena_bytes <= most_bytes:
        return ((0, arena_bytes),), [0] * len(spans)
    found: list[list[int]] = []
    places = [0] * len(spans)
    for i in sorted(range(len(spans)), key=lambda i: spans[i]):
        begin = spans[i][0] // _ALIGNMENT * _ALIGNMENT
        end = min(arena_bytes, -(-spans[i][1] // _ALIGNMENT) * _ALIGNMENT)
        if found and begin < found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([begin, end])
        places[i] = len(found) - 1
    largest = max((end - begin for begin, end in found), default=0)
    if largest > most_bytes:
        raise UnsupportedError(
            f"operands of {largest} bytes, over the device's limit of {most_bytes} for one binding"
        )
    return tuple((begin, end - begin) for begin, end in found), places
