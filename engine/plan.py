"""The plan: steps over tensors in memory order, with a place for every byte. Plain data.

A backend lowers a graph to steps over buffers; `allocate` finds lifetimes and arena offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from palmkit.engine.ir import Array, numpy_dtype
from palmkit.engine.placing import Life, aligned, most_bytes, place

# Between the names of the nodes that one step does.
JOINED = " + "
# The attribute of steps one after the other that two threads share out: 1 or 2. What those of one
# touch no step of the other writes.
BRANCH = "branch"

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


def _lifetimes(steps: Sequence[Step]) -> dict[int, Life]:
    """First and last step of every arena buffer, buffers written in place merged into one."""
    last_read: dict[int, int] = {}
    for i, step in enumerate(steps):
        for view in (*step.inputs, *step.outputs):
            if view is not None:
                last_read[id(view.buffer)] = i
    lives: dict[int, Life] = {}
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
            lives[id(buffer)] = Life(size, i, last_read[id(buffer)])
    return lives


def _keep_apart(lives: Sequence[Life], steps: Sequence[Step], allowed_bytes: int) -> bool:
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
    if most_bytes(lives, len(steps)) <= allowed_bytes:
        return True
    for life, ends in zip(lives, before, strict=True):
        life.first, life.last = ends
    return False


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
    steps: Sequence[Step],
    constants: Sequence[Array],
    borders: Sequence[View] = (),
    shared: bool = False,
) -> Plan:
    """Find lifetimes and offsets for the steps' buffers; steps run in the given order.

    borders: inputs and outputs; they become tensors even where no step touches them. shared: two
    threads will share out the steps, so that it is worth some time to look where tensors lie best.
    """
    lives = _lifetimes(steps)
    unique = list({id(life): life for life in lives.values()}.values())
    lower_bound_bytes = most_bytes(unique, len(steps))
    branches = _keep_apart(unique, steps, lower_bound_bytes)
    arena_bytes = place(unique, lower_bound_bytes, shared)
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
