"""The plan: steps over tensors in memory order, with a place for every byte. Plain data.

A backend lowers a graph to steps over buffers; `allocate` finds lifetimes and arena offsets.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import TypeAlias

import numpy as np

from palmkit.engine.ir import Array, numpy_dtype

ALIGNMENT = 64
# Between the names of the nodes that one step does.
JOINED = " + "
# The attribute of steps one after the other that two threads share out: 1 or 2. What those of one
# touch no step of the other writes.
BRANCH = "branch"
_TRIES = 40

StepAttr: TypeAlias = int | float | str | list[int] | list[float]


@dataclass(eq=False)
class Buffer:
    """A run of bytes while lowering: in the arena, or a constant, an input or an output.

    index: which constant, input or output; unused in the arena.
    """

    place: str
    size_bytes: int
    index: int = 0


@dataclass(frozen=True)
class View:
    """A buffer seen as a C-contiguous array: dims in memory order."""

    buffer: Buffer
    dtype: str
    dims: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One call of a kernel.

    node: name of the node it came from, or of all with JOINED between; for messages and profiles.
    outputs: steps that each write a part of a buffer name it by the same view.
    in_place: index of the input that the output may overwrite when nobody reads it later.
    """

    kernel: str
    node: str
    inputs: tuple[View | None, ...]
    outputs: tuple[View, ...]
    attrs: Mapping[str, StepAttr] = field(default_factory=dict[str, StepAttr])
    in_place: int | None = None


@dataclass(frozen=True)
class Plan:
    """What a runtime needs and nothing else.

    tensors: (place, slot, dtype, dims); slot is a byte offset in the arena, or an index.
    steps: (kernel, input tensors, output tensors, attributes); -1 = an input left out.
    nodes: for each step the node it came from, or all with JOINED between.
    lower_bound_bytes: the most bytes that are live at once; no arena can be smaller.
    buffers: (byte offset, bytes, first step, last step) of what lies in the arena; a buffer that is
    written over another's is part of that one.
    """

    tensors: list[tuple[str, int, str, list[int]]]
    steps: list[tuple[str, list[int], list[int], dict[str, StepAttr]]]
    constants: list[Array]
    arena_bytes: int
    lower_bound_bytes: int
    nodes: list[str]
    buffers: list[tuple[int, int, int, int]] = field(
        default_factory=list[tuple[int, int, int, int]]
    )


@dataclass(frozen=True)
class StepTime:
    """How long one step of a program took.

    node: name of the node in the model, or of all that ran as one with JOINED between; op: what ran
    it; seconds: one run.
    """

    node: str
    op: str
    seconds: float


def aligned(size_bytes: int) -> int:
    """The size rounded up to a whole number of cache lines."""
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


@dataclass
class _Life:
    size_bytes: int
    first: int
    last: int
    offset: int = 0


def _lifetimes(steps: Sequence[Step]) -> dict[int, _Life]:
    """First and last step of every arena buffer, buffers written in place merged into one."""
    last_read: dict[int, int] = {}
    for i, step in enumerate(steps):
        for view in (*step.inputs, *step.outputs):
            if view is not None:
                last_read[id(view.buffer)] = i
    lives: dict[int, _Life] = {}
    for i, step in enumerate(steps):
        for view in step.outputs:
            buffer = view.buffer
            if buffer.place != "arena" or id(buffer) in lives:
                continue
            size = aligned(buffer.size_bytes)
            source = step.inputs[step.in_place] if step.in_place is not None else None
            if source is not None and source.buffer.place == "arena":
                life = lives[id(source.buffer)]
                if life.last == i and life.size_bytes == size:
                    life.last = last_read[id(buffer)]
                    lives[id(buffer)] = life
                    continue
            lives[id(buffer)] = _Life(size, i, last_read[id(buffer)])
    return lives


def _most_bytes(lives: Iterable[_Life], steps: int) -> int:
    """The most that are live at once."""
    live_bytes = [0] * (steps + 1)
    for life in lives:
        live_bytes[life.first] += life.size_bytes
        live_bytes[life.last + 1] -= life.size_bytes
    most: int = max(np.cumsum(live_bytes).tolist(), default=0)
    return most


def _keep_apart(lives: Sequence[_Life], steps: Sequence[Step], most_bytes: int) -> bool:
    """Whether branches may run at a time: what they touch then lives as long as all of them do.

    Not if more than so many bytes were live at once; lives are as they were then.
    """
    window = [i for i, step in enumerate(steps) if BRANCH in step.attrs]
    if not window:
        return False
    first, last = window[0], window[-1]
    before = [(life.first, life.last) for life in lives]
    for life in lives:
        if first <= life.first <= last:
            life.first = first
        if first <= life.last <= last:
            life.last = last
    if _most_bytes(lives, len(steps)) <= most_bytes:
        return True
    for life, ends in zip(lives, before, strict=True):
        life.first, life.last = ends
    return False


def _place(lives: Sequence[_Life], lower_bound_bytes: int) -> int:
    """Give every life an offset; returns the arena's size.

    Each life goes into the best gap that those before it leave. In which order they are taken
    decides: orders are tried until one reaches the lower bound, and the best is kept, by middles if
    that takes no more bytes. Greedy by size and by breadth: Pisarchyk and Lee, Efficient Memory
    Management for Deep Neural Net Inference, arXiv 2001.03288.
    """
    best_bytes, best = -1, lives
    for order in _orders(lives):
        size_bytes = _place_in(order)
        if best_bytes < 0 or size_bytes < best_bytes:
            best_bytes, best = size_bytes, order
        if best_bytes <= lower_bound_bytes:
            break
    size_bytes = _place_in(best, by_middles=True)
    return size_bytes if size_bytes <= best_bytes else _place_in(best)


def _orders(lives: Sequence[_Life]) -> Iterator[Sequence[_Life]]:
    """Orders in which lives may be placed, those first that are most often good."""
    yield sorted(lives, key=lambda life: (-life.size_bytes, life.first))
    yield sorted(lives, key=lambda life: (life.size_bytes * (life.first - life.last), life.first))
    steps = range(max((life.last for life in lives), default=-1) + 1)
    live_bytes = [
        sum(life.size_bytes for life in lives if life.first <= step <= life.last) for step in steps
    ]

    def crowd(life: _Life) -> int:
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


def _place_in(order: Sequence[_Life], by_middles: bool = False) -> int:
    """Give every life an offset, one after the other; returns the arena's size.

    by_middles: where a gap has room for it, the middle of a life lies where that of another did.
    Two threads share out a tensor's rows: each then writes where it wrote before.
    """
    placed: list[_Life] = []
    middles: list[int] = []
    end = 0
    for life in order:
        gaps = _gaps(placed, life, end)
        life.offset = _at_middle(middles, life, gaps) if by_middles else gaps[0].start
        insort(placed, life, key=lambda each: each.offset)
        end = max(end, life.offset + life.size_bytes)
    return end


def _gaps(placed: Sequence[_Life], life: _Life, end: int) -> list[range]:
    """Where there is room for a life between those placed, by size; behind them all comes last."""
    start, gaps = 0, list[range]()
    for other in placed:
        if other.last >= life.first and life.last >= other.first:
            if other.offset - start >= life.size_bytes:
                gaps.append(range(start, other.offset))
            start = max(start, other.offset + other.size_bytes)
    return [*sorted(gaps, key=len), range(start, max(end, start + life.size_bytes))]


def _at_middle(middles: list[int], life: _Life, gaps: Sequence[range]) -> int:
    """The life's offset by the first of the middles that suits a gap, or else by one more."""
    half = life.size_bytes // 2
    for gap in gaps:
        for middle in middles:
            offset = aligned(middle - half)
            if gap.start <= offset <= gap.stop - life.size_bytes:
                return offset
    middles.append(gaps[0].start + half)
    return gaps[0].start


def last_uses(steps: Sequence[Iterable[str]], kept: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """For each step, the names that no later one has: what can be freed after it.

    steps: the names that each one reads or writes; kept: those needed to the end.
    """
    needed = set(kept)
    freed: list[tuple[str, ...]] = []
    for names in reversed(steps):
        last = set(names) - needed
        needed |= last
        freed.append(tuple(sorted(last)))
    return tuple(reversed(freed))


def allocate(
    steps: Sequence[Step], constants: Sequence[Array], borders: Sequence[View] = ()
) -> Plan:
    """Find lifetimes and offsets for the steps' buffers; steps run in the given order.

    borders: inputs and outputs; they become tensors even where no step touches them.
    """
    lives = _lifetimes(steps)
    unique = list({id(life): life for life in lives.values()}.values())
    lower_bound_bytes = _most_bytes(unique, len(steps))
    branches = _keep_apart(unique, steps, lower_bound_bytes)
    arena_bytes = _place(unique, lower_bound_bytes)
    tensors: list[tuple[str, int, str, list[int]]] = []
    numbers: dict[tuple[int, str, tuple[int, ...]], int] = {}

    def number(view: View | None) -> int:
        if view is None:
            return -1
        key = (id(view.buffer), view.dtype, view.dims)
        if key not in numbers:
            numbers[key] = len(tensors)
            buffer = view.buffer
            slot = lives[id(buffer)].offset if buffer.place == "arena" else buffer.index
            tensors.append((buffer.place, slot, view.dtype, list(view.dims)))
        return numbers[key]

    for view in borders:
        number(view)
    return Plan(
        tensors=tensors,
        steps=[
            (
                step.kernel,
                [number(view) for view in step.inputs],
                [number(view) for view in step.outputs],
                {name: each for name, each in step.attrs.items() if branches or name != BRANCH},
            )
            for step in steps
        ],
        constants=list(constants),
        arena_bytes=arena_bytes,
        lower_bound_bytes=lower_bound_bytes,
        nodes=[step.node for step in steps],
        buffers=sorted((each.offset, each.size_bytes, each.first, each.last) for each in unique),
    )


def view_bytes(dtype: str, dims: Sequence[int]) -> int:
    """Bytes of a C-contiguous array."""
    # Inside of a plan bfloat16 needs no package that knows it.
    return prod(dims) * (2 if dtype == "bfloat16" else numpy_dtype(dtype).itemsize)
