"""Where in the arena each buffer lies."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random

import numpy as np

ALIGNMENT = 64
_TRIES = 40
# Two threads: with less to move from one's cache to the other's it is not worth looking further,
# nor are more tries. The arena may then take a little more than it must.
_LEAST_MOVED_BYTES = 1 << 20
_TRIES_OF_TWO = 24
_MOST_ABOVE_BOUND = 1.05
_CELL_BYTES = 1 << 10


def aligned(size_bytes: int) -> int:
    """The size rounded up to a whole number of cache lines."""
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


@dataclass
class Life:
    """A buffer of the arena: the first and the last step that touch it, and where it lies."""

    size_bytes: int
    first: int
    last: int
    offset: int = 0


def most_bytes(lives: Iterable[Life], steps: int) -> int:
    """The most that are live at once."""
    live_bytes = [0] * (steps + 1)
    for life in lives:
        live_bytes[life.first] += life.size_bytes
        live_bytes[life.last + 1] -= life.size_bytes
    most: int = max(np.cumsum(live_bytes).tolist(), default=0)
    return most


def place(lives: Sequence[Life], lower_bound_bytes: int, shared: bool = False) -> int:
    """Give every life an offset; returns the arena's size.

    Each life goes into the best gap that those before it leave. In which order they are taken
    decides: orders are tried until one reaches the lower bound, and the best is kept, by middles if
    that takes no more bytes. Greedy by size and by breadth: Pisarchyk and Lee, Efficient Memory
    Management for Deep Neural Net Inference, arXiv 2001.03288.

    shared: two threads will share out every tensor. Then more orders are tried where one of them
    would often write what lies in the other's cache.
    """
    size_bytes = _place_tightly(lives, lower_bound_bytes)
    if shared and moved_bytes(lives) > _LEAST_MOVED_BYTES:
        return _place_for_two(lives, size_bytes, lower_bound_bytes)
    return size_bytes


def _place_tightly(lives: Sequence[Life], lower_bound_bytes: int) -> int:
    best_bytes, best = -1, lives
    for order in _orders(lives):
        size_bytes = _place_in(order)
        if best_bytes < 0 or size_bytes < best_bytes:
            best_bytes, best = size_bytes, order
        if best_bytes <= lower_bound_bytes:
            break
    size_bytes = _place_in(best, by_middles=True)
    return size_bytes if size_bytes <= best_bytes else _place_in(best)


def _place_for_two(lives: Sequence[Life], size_bytes: int, lower_bound_bytes: int) -> int:
    """Better offsets than those at hand, which take `size_bytes`, by what threads move."""
    allowed_bytes = max(size_bytes, _MOST_ABOVE_BOUND * lower_bound_bytes)
    least, best = moved_bytes(lives), (size_bytes, [life.offset for life in lives])
    for order in islice(_orders(lives), _TRIES_OF_TWO):
        tried_bytes = _place_in(order, by_middles=True)
        if tried_bytes <= allowed_bytes and (moved := moved_bytes(lives)) < least:
            least, best = moved, (tried_bytes, [life.offset for life in lives])
    size_bytes, offsets = best
    for life, offset in zip(lives, offsets, strict=True):
        life.offset = offset
    return size_bytes


def moved_bytes(lives: Iterable[Life]) -> int:
    """What each of two threads writes, in a run, where the other one wrote last.

    They share out tensors at their middles. Counted in whole kilobytes.
    """
    ordered = sorted(lives, key=lambda life: life.first)
    # The cells that each wrote last, as bits; a run begins with what the one before it left.
    owned, moved = [0, 0], 0
    for counts in (0, 1):
        for life in ordered:
            begin, cells = life.offset // _CELL_BYTES, -(-life.size_bytes // _CELL_BYTES)
            first = ((1 << cells // 2) - 1) << begin
            halves = first, ((1 << cells) - 1) << begin ^ first
            for thread, half in enumerate(halves):
                moved += counts * (owned[1 - thread] & half).bit_count()
                owned[thread] |= half
            for thread, half in enumerate(halves):
                owned[1 - thread] &= ~half
    return moved * _CELL_BYTES


def _orders(lives: Sequence[Life]) -> Iterator[Sequence[Life]]:
    """Orders in which lives may be placed, those first that are most often good."""
    yield sorted(lives, key=lambda life: (-life.size_bytes, life.first))
    yield sorted(lives, key=lambda life: (life.size_bytes * (life.first - life.last), life.first))
    steps = range(max((life.last for life in lives), default=-1) + 1)
    live_bytes = [
        sum(life.size_bytes for life in lives if life.first <= step <= life.last) for step in steps
    ]

    def crowd(life: Life) -> int:
        return max(live_bytes[life.first : life.last + 1])

    yield sorted(lives, key=lambda life: (-crowd(life), -life.size_bytes, life.first))
    yield sorted(lives, key=lambda life: (-crowd(life), life.first - life.last, -life.size_bytes))
    yield sorted(lives, key=lambda life: (life.first - life.last, -life.size_bytes))
    # What is left is luck: the same luck for the same model.
    random = Random(0)
    order = sorted(lives, key=lambda life: (-crowd(life), -life.size_bytes, life.first))
    for _ in range(_TRIES):
        spread = 2.0 * random.random()
        ranks = {id(life): rank + random.uniform(0, spread * 8) for rank, life in enumerate(order)}
        yield sorted(lives, key=lambda life: ranks[id(life)])


def _place_in(order: Sequence[Life], by_middles: bool = False) -> int:
    """Give every life an offset, one after the other; returns the arena's size.

    by_middles: where a gap has room for it, the middle of a life lies where that of another did.
    Two threads share out a tensor's rows: each then writes where it wrote before.
    """
    placed: list[Life] = []
    middles: list[int] = []
    end = 0
    for life in order:
        gaps = _gaps(placed, life, end)
        life.offset = _at_middle(middles, life, gaps) if by_middles else gaps[0].start
        insort(placed, life, key=lambda each: each.offset)
        end = max(end, life.offset + life.size_bytes)
    return end


def _gaps(placed: Sequence[Life], life: Life, end: int) -> list[range]:
    """Where there is room for a life between those placed, by size; behind them all comes last."""
    start, gaps = 0, list[range]()
    for other in placed:
        if other.last >= life.first and life.last >= other.first:
            if other.offset - start >= life.size_bytes:
                gaps.append(range(start, other.offset))
            start = max(start, other.offset + other.size_bytes)
    return [*sorted(gaps, key=len), range(start, max(end, start + life.size_bytes))]


def _at_middle(middles: list[int], life: Life, gaps: Sequence[range]) -> int:
    """The life's offset by the first of the middles that suits a gap, or else by one more."""
    half = life.size_bytes // 2
    for gap in gaps:
        for middle in middles:
            offset = aligned(middle - half)
            if gap.start <= offset <= gap.stop - life.size_bytes:
                return offset
    middles.append(gaps[0].start + half)
    return gaps[0].start
