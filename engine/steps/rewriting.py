"""Rewriting of steps: what passes over them share.

A pass takes what a graph was lowered to and gives the same, with other steps. It runs before
buffers have places, so that it may drop some and make others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from palmkit.engine.ir import Array
from palmkit.engine.steps.plan import Plan, allocate
from palmkit.engine.steps.step import JOINED, Kernels, Step, View

# What the first step of a pair reads is kept until the second one would have run. This bounds
# memory, of which the cost model knows nothing.
_MOST_STEPS_APART = 3


@dataclass(frozen=True)
class Purpose:
    """What a plan is for.

    threads: the most that will run it; a plan for more than one may be run by any number. tune:
    time the candidates for each convolution. weights: how a file will store the plan's constants,
    as for `engine.save`; None if the plan is for no file.
    """

    threads: int = 2
    tune: bool = False
    weights: str | None = None


@dataclass(frozen=True)
class Lowered:
    """Steps in running order, with what they are of.

    constants: the arrays that buffers of place "constant" index. borders: the graph's inputs and
    outputs. kernels: those of the runtime, which make new steps. cost: how long a step takes beside
    others; None where the native library's cost model says it.
    """

    steps: Sequence[Step]
    constants: Sequence[Array]
    borders: Sequence[View]
    kernels: Kernels
    purpose: Purpose = Purpose()
    cost: Callable[[Step], float] | None = None

    def value(self, view: View) -> Array:
        """The array that a constant view is."""
        return self.constants[view.buffer.index].reshape(view.dims)

    def placed(self) -> Plan:
        """The plan, with a place for every buffer."""
        shared = self.purpose.threads > 1
        return allocate(self.steps, self.constants, self.borders, shared)


StepPass: TypeAlias = Callable[[Lowered], Lowered]


@dataclass(frozen=True)
class Uses:
    """How often each buffer is read, and the steps that write it, by the buffer's id."""

    reads: Mapping[int, int]
    writers: Mapping[int, Sequence[int]]

    @staticmethod
    def of(steps: Sequence[Step]) -> Uses:
        """Count the uses by these steps."""
        reads = Counter([id(view.buffer) for step in steps for view in step.reads])
        writers: dict[int, list[int]] = {}
        for i, step in enumerate(steps):
            for written in step.writes:
                writers.setdefault(id(written.buffer), []).append(i)
        return Uses(reads, writers)

    def only_writer(self, view: View | None) -> int | None:
        """The one step that writes an arena buffer that only one step reads; else None."""
        if view is None or view.buffer.place != "arena" or self.reads[id(view.buffer)] != 1:
            return None
        writers = self.writers.get(id(view.buffer), ())
        return writers[0] if len(writers) == 1 else None


def join_pairs(lowered: Lowered, join: Callable[[Step, Step, str], Step | None]) -> Lowered:
    """Each pair of steps of which the second alone reads what the first writes becomes one.

    join: makes that step, to run where the second did, of the first step, the second, and the name
    of the input of the second that the first writes. None: the two stay.
    """
    uses = Uses.of(lowered.steps)
    joined: list[Step | None] = list(lowered.steps)
    for i, second in enumerate(lowered.steps):
        for name, view in second.inputs.items():
            if view is None or view.buffer.place != "arena":
                continue
            place = uses.only_writer(view)
            if place is None or not i - _MOST_STEPS_APART <= place < i:
                continue
            first = joined[place]
            if first and len(first.outputs) == 1 and first.y == view:
                both = join(first, second, name)
                if both is not None:
                    joined[place], joined[i] = None, both
                    break
    return replace(lowered, steps=[step for step in joined if step is not None])


def joined_name(first: Step, second: Step) -> str:
    """The name of the nodes that two steps came from, as one step has it."""
    return first.node if first.node == second.node else f"{first.node}{JOINED}{second.node}"
