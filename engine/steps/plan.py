"""The plan: steps over tensors in memory order, with a place for every byte. Plain data.

A backend lowers a graph to steps over buffers; `allocate` finds lifetimes and arena offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from palmkit.engine.ir import Array
from palmkit.engine.steps.placing import Life, aligned, most_bytes, place
from palmkit.engine.steps.step import BRANCH, Step, StepAttr, View, view_bytes

# A plan as runtimes take it: (place, slot, dtype, dims, offset, strides) of each tensor, strides
# only if it is not contiguous, and of each step (kernel, inputs, outputs, attributes), operands as
# numbers of tensors, -1 for one that is left out.
NativeTensor: TypeAlias = tuple[str, int, str, list[int], int, list[int]]
NativeStep: TypeAlias = tuple[str, list[int], list[int], dict[str, StepAttr]]


@dataclass(frozen=True)
class Tensor:
    """An array of a plan.

    place: "arena", "constant", "input" or "output". slot: the byte offset in the arena, or which
    constant, input or output it is. dims: in the order of memory. offset: the element of the slot
    that it begins at. strides: in elements; none for a C-contiguous array. The first tensor of an
    input or output is all of it.
    """

    place: str
    slot: int
    dtype: str
    dims: tuple[int, ...]
    offset: int = 0
    strides: tuple[int, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The bytes of the array."""
        return view_bytes(self.dtype, self.dims)


@dataclass(frozen=True)
class PlannedStep:
    """One call of a kernel.

    node: the name of the node it came from, or of all with JOINED between. inputs, outputs: the
    number of a tensor for each operand, in the kernel's order; -1 for an input that is left out.
    """

    kernel: str
    node: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    attrs: Mapping[str, StepAttr] = field(default_factory=dict[str, StepAttr])

    @property
    def tensors(self) -> list[int]:
        """The numbers of the tensors that it touches."""
        return [i for i in (*self.inputs.values(), *self.outputs.values()) if i >= 0]

    @property
    def branch(self) -> int:
        """The branch, 1 or 2, that it is of where two threads share out steps; else 0."""
        branch = self.attrs.get(BRANCH, 0)
        assert isinstance(branch, int)
        return branch


@dataclass(frozen=True)
class PlacedBuffer:
    """What lies in the arena, from the first to the last step that touches it.

    A buffer that is written over another's is part of that one.
    """

    offset: int
    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Plan:
    """What a runtime needs and nothing else.

    lower_bound_bytes: the most bytes that are live at once; no arena can be smaller.
    buffers: what lies in the arena, by offset.
    """

    tensors: tuple[Tensor, ...]
    steps: tuple[PlannedStep, ...]
    constants: tuple[Array, ...]
    arena_bytes: int
    lower_bound_bytes: int
    buffers: tuple[PlacedBuffer, ...] = ()

    def native(self) -> tuple[list[NativeTensor], list[NativeStep], list[Array], int]:
        """Tensors, steps, constants and the arena's bytes as native programs are made of them."""
        tensors = [
            (each.place, each.slot, each.dtype, [*each.dims], each.offset, [*each.strides])
            for each in self.tensors
        ]
        steps = [
            (step.kernel, [*step.inputs.values()], [*step.outputs.values()], dict(step.attrs))
            for step in self.steps
        ]
        return tensors, steps, list(self.constants), self.arena_bytes


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
        for view in (*step.reads, *step.writes):
            last_read[id(view.buffer)] = i
    lives: dict[int, Life] = {}
    for i, step in enumerate(steps):
        for view in step.writes:
            buffer = view.buffer
            if buffer.place != "arena" or id(buffer) in lives:
                continue
            size = aligned(buffer.size_bytes)
            source = step.input(step.in_place) if step.in_place is not None else None
            if source is not None and _may_write_over(step, source, view):
                life = lives[id(source.buffer)]
                if life.last == i and life.size_bytes == size:
                    life.last = last_read[id(buffer)]
                    lives[id(buffer)] = life
                    continue
            lives[id(buffer)] = Life(size, i, last_read[id(buffer)])
    return lives


def _may_write_over(step: Step, source: View, result: View) -> bool:
    """Whether each element of the one lies where one of the other does, and no more is read there.

    Both are all of their buffers, and the step reads nothing else of the source's.
    """
    return (
        source.buffer.place == "arena"
        and view_bytes(source.dtype, (1,)) == view_bytes(result.dtype, (1,))
        and source.is_whole
        and result.is_whole
        and all(view == source for view in step.reads if view.buffer is source.buffer)
    )


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


def lower_bound_bytes(steps: Sequence[Step]) -> int:
    """The most bytes of the arena that are live at once; no arena can be smaller."""
    lives = {id(life): life for life in _lifetimes(steps).values()}
    return most_bytes(lives.values(), len(steps))


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
    if not branches:
        steps = [replace(step, attrs=_without_branch(step.attrs)) for step in steps]
    tensors, planned = _numbered(steps, borders, {key: life.offset for key, life in lives.items()})
    return Plan(
        tensors=tensors,
        steps=planned,
        constants=tuple(constants),
        arena_bytes=arena_bytes,
        lower_bound_bytes=lower_bound_bytes,
        buffers=tuple(
            PlacedBuffer(each.offset, each.size_bytes, each.first, each.last)
            for each in sorted(unique, key=lambda life: (life.offset, life.size_bytes, life.first))
        ),
    )


def unplaced(steps: Sequence[Step], constants: Sequence[Array]) -> Plan:
    """A plan to ask a runtime about steps; it cannot be run, for nothing has a place yet."""
    tensors, planned = _numbered(steps, (), {})
    return Plan(tensors, planned, tuple(constants), 0, 0)


def _without_branch(attrs: Mapping[str, StepAttr]) -> Mapping[str, StepAttr]:
    return {name: value for name, value in attrs.items() if name != BRANCH}


def _numbered(
    steps: Sequence[Step], borders: Sequence[View], offsets: Mapping[int, int]
) -> tuple[tuple[Tensor, ...], tuple[PlannedStep, ...]]:
    """The tensors of steps, each view once, and the steps by their numbers.

    offsets: in the arena, by the buffer's id.
    """
    tensors: list[Tensor] = []
    numbers: dict[View, int] = {}

    def number(view: View | None) -> int:
        if view is None:
            return -1
        buffer = view.buffer
        if view not in numbers:
            numbers[view] = len(tensors)
            slot = offsets.get(id(buffer), 0) if buffer.place == "arena" else buffer.index
            tensors.append(
                Tensor(buffer.place, slot, view.dtype, view.dims, view.offset, view.strides or ())
            )
        return numbers[view]

    for view in borders:
        number(view)
    planned = tuple(
        PlannedStep(
            step.kernel,
            step.node,
            {name: number(view) for name, view in step.inputs.items()},
            {name: number(view) for name, view in step.outputs.items()},
            step.attrs,
        )
        for step in steps
    )
    return tuple(tensors), planned
