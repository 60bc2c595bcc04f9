"""Small steps that do not need one another are shared out between two threads.

To split each of them costs more than it gains: a fork and join, and lines that the other core has
written. So where a network goes on in two branches of small steps, each thread takes one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from palmkit.engine.steps.rewriting import Lowered
from palmkit.engine.steps.step import BRANCH, Step, View, is_apart

# Multiply-adds, or floats touched times eight, of a step that is small.
_MOST_WORK = 1_000_000
_WORK_OF_TOUCHING = 8
# What a window has to have so that it is worth it: work, and the smaller branch's share of it.
_LEAST_WORK, _LEAST_SHARE = 200_000, 0.3
# Steps of one piece at the head of a window, beyond which it is given up.
_MOST_ALONE = 8


def share_out(lowered: Lowered) -> Lowered:
    """Say of the steps of the best window whose they are, where two threads will run the plan.

    They run in any order that keeps each branch's own; all else runs as before.
    """
    if lowered.purpose.threads < 2:
        return lowered
    steps = lowered.steps
    work = [_work(step) for step in steps]
    # Of the small steps that follow one another from each on.
    ahead = [0] * (len(steps) + 1)
    for i in reversed(range(len(steps))):
        ahead[i] = ahead[i + 1] + work[i] if work[i] <= _MOST_WORK else 0
    best, saved = range(0), _LEAST_WORK * _LEAST_SHARE
    for first in _forks(steps):
        if ahead[first] / 2 > saved:
            last, saves = _window(steps, work, first)
            if saves > saved:
                best, saved = range(first, last + 1), saves
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
        self.work: dict[int, int] = {}  # of each piece, by its root
        self._above: dict[int, int] = {}
        self._writers: dict[int, list[tuple[View, int]]] = {}

    def root(self, i: int) -> int:
        while self._above[i] != i:
            i = self._above[i]
        return i

    def add(self, i: int, step: Step, work: int) -> None:
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


def _work(step: Step) -> int:
    rows = prod(step.y.dims[:-1])
    weights = sum(view.elements for view in step.reads if view.buffer.place == "constant")
    return rows * weights + _WORK_OF_TOUCHING * step.y.elements


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


def _window(steps: Sequence[Step], work: Sequence[int], first: int) -> tuple[int, int]:
    """The last step of the best window that begins here, and the work that it saves."""
    pieces = _Pieces()
    best, saved, total = first, 0, 0
    for last in range(first, len(steps)):
        if work[last] > _MOST_WORK:
            break
        pieces.add(last, steps[last], work[last])
        total += work[last]
        if len(pieces.work) == 1 and last - first >= _MOST_ALONE:
            break
        # The smaller side has no more than all that is not in the largest piece.
        if total - max(pieces.work.values()) > max(saved, _LEAST_SHARE * total):
            least = min(_sides(pieces.work)[0])
            if least > saved and least >= _LEAST_SHARE * total:
                best, saved = last, least
    return best, saved


def _sides(work: Mapping[int, int]) -> tuple[tuple[int, int], dict[int, int]]:
    """The work of two even sides, and of each piece which side it is on, 1 or 2."""
    totals, owners = [0, 0], dict[int, int]()
    for each in sorted(work, key=lambda i: -work[i]):
        side = int(totals[1] < totals[0])
        totals[side] += work[each]
        owners[each] = side + 1
    return (totals[0], totals[1]), owners
