"""Making a model small or fast by all steps in turn; a stopped compression can be resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from palmkit.engine.compress.agreement import Agreement
from palmkit.engine.compress.layers import check_weights
from palmkit.engine.compress.observe import checked_samples
from palmkit.engine.compress.pipeline import (
    Evaluate,
    LayerChoice,
    Pipeline,
    Progress,
    Stage,
    State,
    Step,
    Target,
    loss,
)
from palmkit.engine.compress.speed import CLEARLY, in_turns_ms
from palmkit.engine.compress.steps import default_steps
from palmkit.engine.errors import CompressionError, ModelError
from palmkit.engine.format import encodings, reader, writer
from palmkit.engine.ir import Array, Graph
from palmkit.engine.model import Model
from palmkit.engine.replacing import replacing

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_STAGES, _GRAPH = "stages.json", "model.palm"


@dataclass(frozen=True)
class Compressed:
    """The result of a compression.

    stages: the float model, then one for each step. baseline, metric: the metric of the float model
    and of this one; more is better. run_ms: milliseconds of a run on one thread by the float model
    and by this one, timed in turns; None without samples.
    """

    graph: Graph
    stages: Sequence[Stage]
    baseline: float
    metric: float
    run_ms: tuple[float, float] | None = None

    @property
    def loss(self) -> float:
        """The share of the baseline that is lost; negative if the metric improved."""
        return loss(self.baseline, self.metric)

    @property
    def size_bytes(self) -> int:
        """Size of a file with the smallest weights, without plans."""
        return self.stages[-1].size_bytes


def compress(
    graph: Graph,
    samples: Iterable[Mapping[str, Array]],
    evaluate: Evaluate | None = None,
    *,
    max_loss: float = 0.01,
    max_bytes: int | None = None,
    target: Target = "size",
    steps: Sequence[Step] | None = None,
    folder: Path | None = None,
    seed: int = 0,
    progress: Callable[[str, float, str], None] | None = None,
) -> Compressed:
    """Make a model small (or fast) and lose no more than is allowed.

    samples: inputs of runs, name to array; 20 to 500 of what the model will see.
    evaluate: the task's metric of a graph, more is better; left out, how well the outputs agree
    with the float model's, 1 at best, on every second sample, which is then used for nothing else.
    max_loss: how much of the float model's metric may be lost, 0.01 for one per cent.
    max_bytes: the file must not be larger.
    target: what to make small where the two are at odds: the file, or the time of a run.
    steps: the steps to take; left out, all five of `default_steps`.
    folder: keeps what is needed to resume after being stopped; with the same graph and options
    finished steps are not repeated.
    progress: called with a step's name, its finished share 0..1, and a few words.
    Raises CompressionError if weights are not finite, if the samples cannot calibrate, if the float
    model's metric is no finite number, and with the best that was reached if `max_bytes` is not.
    Write the graph by `engine.save(graph, path, weights="smallest")`.
    """
    check_weights(graph)
    found = checked_samples(graph, samples)
    if not 0 <= max_loss < 1:
        raise ValueError(f"max_loss: expected 0 to 1, got {max_loss}")
    if evaluate is None:
        found, held = split(found)
        evaluate = Agreement(graph, held)
    chosen = default_steps(target) if steps is None else steps
    kept = None if folder is None else _Folder(folder, _key(graph, found, max_loss, target, chosen))
    resumed = None if kept is None else kept.read()
    evaluate = _Remembering(evaluate)
    baseline = resumed[2] if resumed else evaluate(graph)
    if not np.isfinite(baseline) or baseline <= 0:
        raise CompressionError(f"metric of the float model: expected above 0, got {baseline:g}")
    state = State(
        graph=resumed[0] if resumed else graph,
        source=graph,
        samples=found,
        evaluate=evaluate,
        baseline=baseline,
        metric=resumed[1][-1].metric if resumed else baseline,
        target=target,
        seed=seed,
        folder=folder,
    )
    model_of = _Remembering(Model, most=3)

    def timed(*graphs: Graph) -> list[float]:
        return in_turns_ms(graphs, found[0], make=model_of)

    def slower(now: Graph, before: Graph) -> bool:
        now_ms, before_ms = timed(now, before)
        return before_ms < CLEARLY * now_ms

    pipeline = Pipeline(
        steps=[_Told(step, progress) for step in chosen],
        size=stored_sizes,
        run_ms=lambda each: timed(each)[0],
        slower=slower,
        finished=kept.write if kept else (lambda state, stages: None),
    )
    state, stages = pipeline.run(state, max_loss, resumed[1] if resumed else ())
    before, now = timed(graph, state.graph)
    result = Compressed(state.graph, stages, state.baseline, state.metric, (before, now))
    for step, stage in zip(chosen, stages[1:], strict=True):
        if not stage.kept and getattr(step, "required", False):
            reached = stage.error or f"it reaches {loss(baseline, stage.got):.2%}"
            raise CompressionError(
                f"{step.name}: cannot be had at a loss of {max_loss:.2%}: {reached}"
            )
    if max_bytes is not None and result.size_bytes > max_bytes:
        raise CompressionError(
            f"budget of {max_bytes:,} bytes at a loss of {max_loss:.2%}: cannot be kept; the best "
            f"reached is {result.size_bytes:,} bytes at {result.loss:.2%}"
        )
    return result


def split(samples: Sequence[_Item]) -> tuple[Sequence[_Item], Sequence[_Item]]:
    """Return the samples to work with and those to measure on; fewer than 4 serve for both."""
    return (samples, samples) if len(samples) < 4 else (samples[::2], samples[1::2])


def without_data(graph: Graph, steps: Sequence[Step]) -> Compressed:
    """Return the graph after steps that need no samples; no metric limits their loss.

    Raises CompressionError if weights are not finite, or a step fails.
    """
    check_weights(graph)

    def unmeasured(graph: Graph) -> float:
        return 1.0

    state = State(graph, graph, (), unmeasured, baseline=1.0, metric=1.0)
    state, stages = Pipeline(steps, stored_sizes).run(state, max_loss=0.0)
    failed = [stage.error for stage in stages if stage.error]
    if failed:
        raise CompressionError(failed[0])
    return Compressed(state.graph, stages, 1.0, 1.0)


def stored_sizes(graph: Graph) -> tuple[int, Mapping[str, int]]:
    """Return the bytes of a graph's smallest file, without plans, and of each constant in it."""
    content = writer.dumps(graph, "smallest")
    sizes: dict[str, int] = {}
    for constant in encodings.constants_of(content):
        sizes[constant.name] = sizes.get(constant.name, 0) + constant.size_bytes
    return len(content), sizes


class _Remembering(Generic[_Result]):
    """A function of graphs that keeps its last results, as steps ask again for the same ones."""

    def __init__(self, function: Callable[[Graph], _Result], most: int = 8) -> None:
        self._function, self._most = function, most
        self._known: list[tuple[Graph, _Result]] = []

    def __call__(self, graph: Graph) -> _Result:
        for known, result in self._known:
            if known is graph:
                return result
        result = self._function(graph)
        self._known = [(graph, result), *self._known[: self._most - 1]]
        return result


class _Told:
    """A step that reports its progress."""

    def __init__(self, step: Step, progress: Callable[[str, float, str], None] | None) -> None:
        self.name, self.share = step.name, step.share
        self.step, self.progress = step, progress

    def apply(self, state: State) -> State:
        if self.progress is None:
            return self.step.apply(state)
        tell = self.progress

        def told(share: float, text: str) -> None:
            tell(self.step.name, share, text)

        each: Progress = told
        told(0.0, "")
        after = replace(self.step.apply(replace(state, progress=each)), progress=state.progress)
        told(1.0, "")
        return after


def _key(
    graph: Graph,
    samples: Sequence[Mapping[str, Array]],
    max_loss: float,
    target: str,
    steps: Sequence[Step],
) -> str:
    """Return a digest of all that the stages depend on, except `evaluate`."""
    digest = hashlib.sha256(writer.dumps(graph))
    for sample in samples:
        for name, value in sample.items():
            digest.update(name.encode() + np.ascontiguousarray(value).tobytes())
    digest.update(repr((max_loss, target, [repr(step) for step in steps])).encode())
    return digest.hexdigest()


def _stage(said: Mapping[str, Any]) -> Stage:
    layers = tuple(LayerChoice(**each) for each in said["layers"])
    return replace(Stage(**said), notes=tuple(said["notes"]), layers=layers)


@dataclass(frozen=True)
class _Folder:
    """The folder from which a stopped compression is resumed."""

    path: Path
    key: str

    def read(self) -> tuple[Graph, list[Stage], float] | None:
        """Return graph, stages and baseline; None if the folder has none of this compression."""
        try:
            said = json.loads((self.path / _STAGES).read_text(encoding="utf-8"))
            if said["key"] != self.key:
                return None
            kept: list[dict[str, Any]] = said["stages"]
            stages = [_stage(each) for each in kept]
            return reader.load(self.path / said["graph"]), stages, float(said["baseline"])
        except (OSError, ValueError, KeyError, TypeError, ModelError):
            return None

    def write(self, state: State, stages: Sequence[Stage]) -> None:
        """Save the state, whole or not at all."""
        self.path.mkdir(parents=True, exist_ok=True)
        name = f"{len(stages) - 1}-{_GRAPH}"
        writer.save(state.graph, self.path / name, "smallest")
        said = {
            "key": self.key,
            "graph": name,
            "baseline": state.baseline,
            "stages": [asdict(stage) for stage in stages],
        }
        with replacing(self.path / _STAGES) as part:
            part.write_text(json.dumps(said), encoding="utf-8")
