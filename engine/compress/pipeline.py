"""Compression as a list of steps, each with its share of the allowed loss.

A step returns a graph that needs fewer bytes, or runs faster, and does not touch files: zeros, few
distinct numbers, float16 and int8 behind dequantize_linear are found again by the writer, which
takes the smallest lossless storage (`engine.save(graph, path, weights="smallest")`).
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
    """Report nothing."""


@dataclass(frozen=True)
class State:
    """A model during compression, and what a step may use.

    graph: as the step before left it.
    source: the float model at the start; its outputs serve as targets.
    samples: inputs of runs, name to array, to calibrate and to fine-tune with.
    evaluate: the task's metric of a graph; more is better.
    baseline: the source's metric; metric: that of `graph`.
    floor: what the metric must not fall below in this step.
    target: what to make small where size and time are at odds.
    folder: a folder of the step's own, where it may keep what lets it resume after being stopped.
    progress: to be called with the finished share of the step, 0..1, and a few words.
    notes: lines that a step adds for the report; layers: what it did to each layer, for the same.
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
    layers: tuple[LayerChoice, ...] = ()

    def allows(self, graph: Graph) -> bool:
        """Return whether a graph's metric is not below the floor."""
        return self.evaluate(graph) >= self.floor

    def noted(self, *lines: str) -> State:
        """Return the state with more lines for the report."""
        return replace(self, notes=(*self.notes, *lines))


class Step(Protocol):
    """One way to make a model smaller or faster.

    name: the name in the report, such as "synapse pruning".
    share: its share of the allowed loss, relative to the other steps; loss that earlier steps left
    over is added. 0 for a step that computes the same numbers.
    """

    @property
    def name(self) -> str:
        """The step's name in the report."""
        ...

    @property
    def share(self) -> float:
        """The step's share of the allowed loss, relative to the other steps."""
        ...

    def apply(self, state: State) -> State:
        """Return a state with another graph, or the same where nothing is gained.

        The metric of the new graph is measured afterwards; a step whose result is below
        `state.floor` is undone as a whole, so it should use up the allowed loss but no more.
        """
        ...


@dataclass(frozen=True)
class LayerChoice:
    """A layer of a model in integers, or of one that might have been.

    noise: the error of the model's outputs with this layer alone in integers, relative to their
    spread. float_ms, integer_ms: of the step that computes it. All three are None where they were
    not needed. together: how many layers that step computes. why: why it stays float, or empty.
    """

    name: str
    integer: bool
    noise: float | None = None
    float_ms: float | None = None
    integer_ms: float | None = None
    together: int = 1
    why: str = ""


@dataclass(frozen=True)
class Stage:
    """The model after a step, for the report.

    metric, size_bytes: of what was kept; got: the metric of the step's own result.
    kept: whether the result was no worse than allowed, and smaller or (target speed) different and
    no slower.
    why: why it was not kept, in a few words; error: the step's own error, where it failed.
    constants: stored bytes by constant. layers: of a step that chooses which become integers.
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
    layers: tuple[LayerChoice, ...] = ()


def loss(baseline: float, metric: float) -> float:
    """Return the lost share of the baseline, 0.01 for one per cent; negative for an improvement."""
    return (baseline - metric) / max(abs(baseline), 1e-12)


def floor_of(baseline: float, max_loss: float) -> float:
    """Return the least metric with no more than this loss."""
    return baseline - max_loss * abs(baseline)


@dataclass(frozen=True)
class Pipeline:
    """Steps in order.

    size: returns the bytes of a graph's file, and of each constant in it.
    run_ms: returns the milliseconds of one run; None if times are not wanted. slower: returns
    whether the first graph takes longer than the second; asked for the target speed.
    finished: called after every step with the state and all stages so far, to resume from.
    """

    steps: Sequence[Step]
    size: Callable[[Graph], tuple[int, Mapping[str, int]]]
    run_ms: Callable[[Graph], float | None] = lambda graph: None
    slower: Callable[[Graph, Graph], bool] = lambda now, before: False
    finished: Callable[[State, Sequence[Stage]], None] = lambda state, stages: None

    def run(
        self, state: State, max_loss: float, stages: Sequence[Stage] = ()
    ) -> tuple[State, list[Stage]]:
        """Apply the steps that `stages` does not have yet.

        max_loss: allowed share of the baseline metric, 0.01 for one per cent, for all steps
        together.
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
            after = step.apply(replace(state, notes=(), layers=()))
            changed = after.graph is not state.graph
            got = state.evaluate(after.graph) if changed else state.metric
        except PalmError as error:
            spent = time.perf_counter() - begin
            failed = replace(before, name=step.name, kept=False, seconds=spent, notes=(), layers=())
            return state, replace(failed, error=str(error), why=str(error), got=math.nan)
        spent = time.perf_counter() - begin
        after = replace(after, metric=got)
        if not changed:
            why = "nothing gained"
        elif got < state.floor:
            why = f"metric {got:.4f}, at least {state.floor:.4f} is allowed here"
        elif state.target == "speed" and self.slower(after.graph, state.graph):
            why = "slower on this machine"
        else:
            stage = self._stage(step.name, after, got, spent)
            if state.target == "speed" or stage.size_bytes <= before.size_bytes:
                return after, stage
            why = f"larger: {stage.size_bytes:,} bytes"
        kept = replace(before, name=step.name, kept=False, got=got, seconds=spent, error="")
        return state, replace(kept, why=why, notes=after.notes, layers=after.layers)

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
            layers=state.layers,
            constants=constants,
        )
