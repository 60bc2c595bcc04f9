"""Pairs of steps of which the second alone reads what the first writes become one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from palmkit.engine.plan import Step

# What the first step reads is kept until the second one would have run.
_MOST_STEPS_APART = 3


def join_pairs(steps: Sequence[Step], one: Callable[[Step, Step, int], Step | None]) -> list[Step]:
    """The steps, with such pairs as one; it runs where the second one did.

    one: makes it of the first step, the second, and which input of that the first writes; None: the
    two stay.
    """
    reads = Counter(id(view.buffer) for step in steps for view in step.inputs if view)
    writers: dict[int, list[int]] = {}
    for i, step in enumerate(steps):
        for written in step.outputs:
            writers.setdefault(id(written.buffer), []).append(i)
    joined: list[Step | None] = list(steps)
    for i, second in enumerate(steps):
        for index, view in enumerate(second.inputs):
            if view is None or view.buffer.place != "arena" or reads[id(view.buffer)] != 1:
                continue
            place, *others = writers[id(view.buffer)]
            first = joined[place]
            if others or first is None or not i - _MOST_STEPS_APART <= place < i:
                continue
            if len(first.outputs) == 1 and first.outputs[0].dims == view.dims:
                both = one(first, second, index)
                if both is not None:
                    joined[place], joined[i] = None, both
                    break
    return [step for step in joined if step is not None]
