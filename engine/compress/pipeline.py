"""Compression as a list of steps, each with its share of the loss that is allowed.

A step makes a graph that stores in fewer bytes, or runs faster, and says nothing of files: zeros,
numbers that are few, float16 and int8 behind dequantize_linear are found again by the writer, which
takes the smallest storage that loses nothing (`engine.save(graph, path, weights="smallest")`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from palmkit.engine.errors import PalmError
from palmkit.engine.ir import Array, Graph

Evaluate: TypeAlias = Callable[[Graph], float]
Progress: TypeAlias = Callable[[float, str], None]
Target: TypeAlias = Literal["size", "speed"]


def _silent(share: float, text: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class State:
    """A model on its way, and what a step may use.

    graph: as the step before left it.
    source: the float model that all began with; its outputs can teach.
    samples: inputs of runs, name to array, to calibrate and to fine-tune with.
    evaluate: the task's metric of a graph; more is better.
    baseline: the source's metric; metric: that of `graph`.
    floor: what the metric must not fall below in this step.
    target: what to make small where the two are at odds.
    folder: a step may keep there what lets it go on after it was stopped; its own alone.
    progress: to be called with what is done of the step, from 0 to 1, and a few words.
    notes: lines that a step adds for the report.
    """

    graph: Graph
    source: Graph
    samples: Sequence[Mapping[str, Array]]
    evaluate: Evaluate
    baseline: float
    metric: float
    floor: float = -math.inf
    target: Target = "size"
    seed: int = 0
    folder: Path | None = None
    progress: Progress = _silent
    notes: tuple[str, ...] = ()

    def allows(self, graph: Graph) -> bool:
        """Whether a graph's metric is not below the floor."""
        return self.evaluate(graph) >= self.floor

    def noted(self, *lines: str) -> State:
        """With more lines for the report."""
        return replace(self, notes=(*self.notes, *lines))


class Step(Protocol):
    """One way to make a model smaller or faster.

    name: as in the report: "synapse pruning".
    share: how much of the allowed loss it is given, relative to the other steps; what the steps
    before have left over is added. 0 for a step that computes the same numbers.
    """

    @property
    def name(self) -> str:
        """As above."""
        ...

    @property
    def share(self) -> float:
        """As above."""
        ...

    def apply(self, state: State) -> State:
        """A state with another graph, or the same where nothing is gained.

        The metric of the new graph is measured afterwards; a step whose result is below
        `state.floor` is taken back whole, so it should look for the most that is allowed.
        """
        ...


@dataclass(frozen=True)
class Stage:
    """The model after a step, for the report.

    metric, size_bytes: of what was kept; got: the metric that the step's own result had.
    kept: the result was no worse than allowed, and smaller or (target speed) different at all.
    why: it was not kept, in a few words; error: the step's own, where it failed.
    constants: stored bytes by constant.
    """

    name: str
    kept: bool
    metric: float
    got: float
    size_bytes: int
    seconds: float
    run_ms: float | None = None
    error: str = ""
    why: str = ""
    notes: tuple[str, ...] = ()
    constants: Mapping[str, int] = field(default_factory=dict[str, int])


def loss(baseline: float, metric: float) -> float:
    """How much of the baseline is lost: 0.01 is one per cent of it; below 0: better than it."""
    return (baseline - metric) / max(abs(baseline), 1e-12)


def floor_of(baseline: float, max_loss: float) -> float:
    """The least metric with no more than this loss."""
    return baseline - max_loss * abs(baseline)


@dataclass(frozen=True)
class Pipeline:
    """Steps in order.

    size: bytes of a graph's file, and of each constant in it.
    run_ms: milliseconds of one run, or None where nobody asks.
    finished: called after every step with the state and all stages so far, to resume from.
    """

    steps: Sequence[Step]
    size: Callable[[Graph], tuple[int, Mapping[str, int]]]
    run_ms: Callable[[Graph], float | None] = lambda graph: None
    finished: Callable[[State, Sequence[Stage]], None] = lambda state, stages: None

    def run(
        self, state: State, max_loss: float, stages: Sequence[Stage] = ()
    ) -> tuple[State, list[Stage]]:
        """Apply the steps that `stages` does not have yet.

        max_loss: of the baseline metric, 0.01 for one per cent, for all steps together.
        """
        done = list(stages)
        if not done:
            done.append(self._stage("float model", state, state.metric, 0.0))
            self.finished(state, done)
        total = sum(step.share for step in self.steps) or 1.0
        shared = 0.0
        for number, step in enumerate(self.steps, 1):
            shared += step.share
            if number < len(done):
                continue
            floor = floor_of(state.baseline, max_loss * shared / total)
            state, stage = self._apply(step, replace(state, floor=floor), done[-1])
            done.append(stage)
            self.finished(state, done)
        return state, done

    def _apply(self, step: Step, state: State, before: Stage) -> tuple[State, Stage]:
        begin = time.perf_counter()
        try:
            after = step.apply(replace(state, notes=()))
            changed = after.graph is not state.graph
            got = state.evaluate(after.graph) if changed else state.metric
        except PalmError as error:
            spent = time.perf_counter() - begin
            failed = replace(before, name=step.name, kept=False, seconds=spent, notes=())
            return state, replace(failed, error=str(error), why=str(error), got=math.nan)
        spent = time.perf_counter() - begin
        after = replace(after, metric=got)
        if not changed:
            why = "nothing gained"
        elif got < state.floor:
            why = f"metric {got:.4f}, at least {state.floor:.4f} is allowed here"
        else:
            stage = self._stage(step.name, after, got, spent)
            if state.target == "speed" or stage.size_bytes <= before.size_bytes:
                return after, stage
            why = f"larger: {stage.size_bytes:,} bytes"
        kept = replace(before, name=step.name, kept=False, got=got, seconds=spent, error="")
        return state, replace(kept, why=why, notes=after.notes)

    def _stage(self, name: str, state: State, got: float, seconds: float) -> Stage:
        size_bytes, constants = self.size(state.graph)
        run_ms = self.run_ms(state.graph)
        return Stage(
            name=name,
            kept=True,
            metric=state.metric,
            got=got,
            size_bytes=size_bytes,
            seconds=seconds,
            run_ms=run_ms,
            notes=state.notes,
            constants=constants,
        )
