"""Small steps that do not need one another are shared out between two threads.

To split each of them costs more than it gains: a fork and join, and lines that the other core has
written. So where a network goes on in two branches of small steps, each thread takes one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from palmkit.engine import _native
from palmkit.engine.backends.cpu.costs import seconds_alone
from palmkit.engine.steps.rewriting import Lowered
from palmkit.engine.steps.step import BRANCH, Step, View, is_apart

# Steps that win nothing, one after the other, beyond which the search for a window's end is given
# up: one that two threads share well, or several of one piece.
_PATIENCE = 8


def share_out(lowered: Lowered) -> Lowered:
    """Say of the steps of the best window whose they are, where two threads will run the plan.

    They run in any order that keeps each branch's own; all else runs as before.
    """
    if lowered.purpose.threads < 2:
        return lowered
    steps, search = lowered.steps, _Search(lowered)
    best, saved = range(0), 0.0
    for first in _forks(steps):
        last, saves = search.window(first)
        if saves > saved:
            best, saved = range(first, last + 1), saves
    work = search.alone
    pieces = _Pieces()
    for i in best:
        pieces.add(i, steps[i], work[i])
    shared, owners = list(steps), _sides(pieces.work)[1]
    branches = {i: owners[pieces.root(i)] for i in best}
    reads = {(branches[i], id(buffer)) for i in best for buffer in _read(steps[i])}
    for i in best:
        in_place = steps[i].in_place
        source = None if in_place is None else steps[i].input(in_place)
        # The other branch may read it later than this one writes over it.
        if source and (3 - branches[i], id(source.buffer)) in reads:
            in_place = None
        attrs = {**steps[i].attrs, BRANCH: branches[i]}
        shared[i] = replace(steps[i], attrs=attrs, in_place=in_place)
    return replace(lowered, steps=shared)


class _Pieces:
    """Steps one after the other, in pieces that do not need one another."""

    def __init__(self) -> None:
        self.work: dict[int, float] = {}  # of each piece, by its root
        self._above: dict[int, int] = {}
        self._writers: dict[int, list[tuple[View, int]]] = {}

    def root(self, i: int) -> int:
        while self._above[i] != i:
            i = self._above[i]
        return i

    def add(self, i: int, step: Step, work: float) -> None:
        self._above[i] = i
        for view in (*step.reads, *step.writes):
            for written, writer in self._writers.get(id(view.buffer), ()):
                other = self.root(writer)
                if other != i and not is_apart(view, written):
                    self._above[other] = i
                    work += self.work.pop(other)
        for view in step.writes:
            self._writers.setdefault(id(view.buffer), []).append((view, i))
        self.work[i] = work


def _read(step: Step) -> list[object]:
    return [view.buffer for view in step.reads if view.buffer.place != "constant"]


def _forks(steps: Sequence[Step]) -> list[int]:
    """The first of the steps that read the same."""
    reads = Counter(id(buffer) for step in steps for buffer in _read(step))
    seen: set[int] = set()
    found: list[int] = []
    for i, step in enumerate(steps):
        shared = {id(buffer) for buffer in _read(step) if reads[id(buffer)] > 1} - seen
        if shared:
            seen |= shared
            found.append(i)
    return found


class _Search:
    """Looks for windows of steps that two threads had better share out than share, by seconds."""

    def __init__(self, lowered: Lowered) -> None:
        self._steps = lowered.steps
        self.alone = seconds_alone(lowered)
        self._fork = fork = _native.sharing_seconds()
        # With two threads, which share what is worth it.
        self._shared = [min(each, each / 2 + fork) for each in self.alone]

    def window(self, first: int) -> tuple[int, float]:
        """The last step of the best window that begins here, and what it saves."""
        pieces = _Pieces()
        best, saved, shared = first, 0.0, 0.0
        for last in range(first, len(self._steps)):
            pieces.add(last, self._steps[last], self.alone[last])
            shared += self._shared[last]
            # The larger side has at least the largest piece.
            saves = shared - max(pieces.work.values()) - self._fork
            if saves > saved:
                saves = shared - max(_sides(pieces.work)[0]) - self._fork
                if saves > saved:
                    best, saved = last, saves
            alone = len(pieces.work) == 1 and last - first >= _PATIENCE
            if alone or saves < -_PATIENCE * self._fork:
                break
        return best, saved


def _sides(work: Mapping[int, float]) -> tuple[tuple[float, float], dict[int, int]]:
    """The work of two even sides, and of each piece which side it is on, 1 or 2."""
    totals, owners = [0.0, 0.0], dict[int, int]()
    for each in sorted(work, key=lambda i: -work[i]):
        side = int(totals[1] < totals[0])
        totals[side] += work[each]
        owners[each] = side + 1
    return (totals[0], totals[1]), owners
