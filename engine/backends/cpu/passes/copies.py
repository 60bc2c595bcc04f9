"""Copies become views: a part is written, or read, where the whole of it lies.

Of a concat each part is made where the concat has it, of a split or slice each is read where it
comes from, if the kernels on both sides take such views: the copy is saved, and its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.backends.cpu.costs import expected_s
from palmkit.engine.steps.placing import aligned
from palmkit.engine.steps.plan import lower_bound_bytes
from palmkit.engine.steps.rewriting import Lowered
from palmkit.engine.steps.step import Buffer, Step, View, is_apart

_IsSmall: TypeAlias = Callable[[Sequence[Step]], bool]


def view_copies(lowered: Lowered) -> Lowered:
    """Drop each copy that views can stand for, unless more memory were live at once."""
    if not any(step.kernel == "copy" for step in lowered.steps):
        return lowered
    bound = lower_bound_bytes(lowered.steps)
    viewed = _viewed(lowered)
    if lower_bound_bytes(viewed.steps) > bound:
        # What is written in place was counted twice: count anew for each.
        viewed = _viewed(lowered, lambda steps: lower_bound_bytes(steps) <= bound)
    return viewed


def _viewed(lowered: Lowered, is_small: _IsSmall | None = None) -> Lowered:
    parts = _Parts(lowered)
    for i, step in enumerate(lowered.steps):
        if step.kernel == "copy":
            parts.try_to_view(i, is_small)
    return replace(lowered, steps=parts.left())


class _Parts:
    """Steps, with the places of those that touch and write each buffer, by the buffer's id."""

    def __init__(self, lowered: Lowered) -> None:
        self._lowered = lowered
        # At each place the step that is left, and what was moved to before it.
        self._steps: list[Step | None] = list(lowered.steps)
        self._early: dict[int, Step] = {}
        self._touch: dict[int, set[int]] = {}
        self._write: dict[int, set[int]] = {}
        buffers: dict[int, Buffer] = {}
        for i, step in enumerate(lowered.steps):
            for view in step.writes:
                self._write.setdefault(id(view.buffer), set()).add(i)
            for view in (*step.reads, *step.writes):
                self._touch.setdefault(id(view.buffer), set()).add(i)
                buffers[id(view.buffer)] = view.buffer
        self._live = np.zeros(len(self._steps), np.int64)
        for key, buffer in buffers.items():
            self._live += self._bytes(buffer, self._touch[key])
        self._most = self._live.max()

    def left(self) -> list[Step]:
        """The steps that are left, in running order."""
        return [
            step
            for i, own in enumerate(self._steps)
            for step in (self._early.get(i), own)
            if step is not None
        ]

    def try_to_view(self, i: int, is_small: _IsSmall | None) -> None:
        """Drop the copy at place i if views can stand for it.

        is_small: whether little enough memory is live with these steps; None where it will do to
        count what each buffer takes by itself.
        """
        copy = self._at(i)
        x, y = copy.input("x"), copy.y
        if x.buffer is y.buffer or not x.elements:
            return
        if self._can_write(i, x, y):
            self._replace(i, x.buffer, y, is_small)
        elif self._can_read(i, x, y):
            self._replace(i, y.buffer, x, is_small)

    def _at(self, i: int) -> Step:
        step = self._steps[i]
        assert step is not None
        return step

    def _can_write(self, i: int, x: View, y: View) -> bool:
        """Whether all of a buffer is copied to a part of another that is as yet untouched."""
        if x.buffer.place != "arena" or not x.is_whole or y.pixel is None:
            return False
        last = max(self._write.get(id(x.buffer), ()), default=i)
        between = self._between(x.buffer, i, y)
        return last < i and all(self._may_come_early(j, y.buffer) for j in between)

    def _between(self, buffer: Buffer, end: int, part: View) -> list[int]:
        """Where `part` is touched since the buffer was first, before the step at `end`."""
        first = min(self._touch[id(buffer)])
        return [
            j
            for j in self._touch[id(part.buffer)]
            if first <= j < end and not all(is_apart(v, part) for v in _views(self._at(j)))
        ]

    def _may_come_early(self, j: int, buffer: Buffer) -> bool:
        """Whether the step only fills the buffer and is the first to touch it."""
        step = self._at(j)
        return not step.reads and len(step.outputs) == 1 and j == min(self._touch[id(buffer)])

    def _can_read(self, i: int, x: View, y: View) -> bool:
        """Whether a part of a buffer is copied that nothing writes any more."""
        if y.buffer.place != "arena" or not y.is_whole or x.pixel is None:
            return False
        if x.buffer.place == "constant" or self._write[id(y.buffer)] != {i}:
            return False
        return max(self._write.get(id(x.buffer), ()), default=-1) < i

    def _replace(self, i: int, gone: Buffer, part: View, is_small: _IsSmall | None) -> None:
        """All that touches a buffer touches a part of another instead, if kernels take that."""
        changed: dict[int, Step] = {}
        for j in self._touch[id(gone)] - {i}:
            moved = _moved(self._at(j), gone, part)
            if moved is None or not self._lowered.kernels.takes(moved):
                return
            changed[j] = moved
        if not self._pays(changed, self._at(i)):
            return
        early = self._between(gone, i, part) if part is self._at(i).y else []
        first = min(self._touch[id(gone)])
        keys = id(gone), id(part.buffer)
        touch = (self._touch[keys[0]] | self._touch[keys[1]]) - {i, *early}
        live = self._live - self._bytes(gone, self._touch[keys[0]])
        live += self._bytes(part.buffer, touch) - self._bytes(part.buffer, self._touch[keys[1]])
        if live.max() > self._most or (early and first in self._early):
            return
        before = self._steps, self._early
        self._steps, self._early = list(self._steps), dict(self._early)
        for j in early:
            self._early[first] = self._at(j)
            self._steps[j] = None
        for j, step in changed.items():
            self._steps[j] = step
        self._steps[i] = None
        if is_small is not None and not is_small(self.left()):
            self._steps, self._early = before
            return
        self._live = live
        written = self._write.get(keys[0], set()) | self._write.get(keys[1], set())
        self._touch[keys[1]] = touch
        self._write[keys[1]] = (written - {i, *early}) | ({first} if early else set())
        del self._touch[keys[0]]

    def _pays(self, changed: Mapping[int, Step], copy: Step) -> bool:
        """Whether the steps that read views cost no more, by the cost model, than with the copy."""
        pairs = [(self._at(j), step) for j, step in changed.items()]
        read = [(old, new) for old, new in pairs if old.inputs != new.inputs]
        if not read:
            return True
        before, after = zip(*read, strict=True)
        copied, *times = expected_s(self._lowered, [copy, *before, *after])
        gained = copied or 0.0
        for old, new in zip(times[: len(read)], times[len(read) :], strict=True):
            if old is not None:
                if new is None:
                    return False
                gained += old - new
        return gained >= 0

    def _bytes(self, buffer: Buffer, touched: set[int]) -> NDArray[np.int64]:
        """What the buffer takes of the arena at each place."""
        taken = np.zeros(len(self._steps), np.int64)
        if buffer.place == "arena" and touched:
            taken[min(touched) : max(touched) + 1] = aligned(buffer.size_bytes)
        return taken


def _views(step: Step) -> list[View]:
    return [*step.reads, *step.writes]


def _moved(step: Step, gone: Buffer, part: View) -> Step | None:
    """The step with its views of a buffer moved to where `part` is; None if none says where."""
    given = {**step.inputs, **step.outputs}
    moved = {
        name: view.within(part) if view is not None and view.buffer is gone else view
        for name, view in given.items()
    }
    if any(moved[name] is None for name, view in given.items() if view is not None):
        return None
    inputs = {name: moved[name] for name in step.inputs}
    outputs = {name: view for name in step.outputs if (view := moved[name]) is not None}
    return replace(step, inputs=inputs, outputs=outputs)
