"""Our engine beside others, in turns.

Each engine has processes of its own. First a few fresh ones, one after the other, open the model:
that gives load time and memory. The last of them stay, and take turns A B C A B C with many runs
each; who has no turn is stopped, threads and all, so that a noisy machine is noisy for all and
nobody's waiting threads take time from the others.

An engine whose outputs are not ours is no peer: it computes something else, however fast.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from palmkit.engine.bench.engines import OURS, Engine, Job, Refusal, find, place_of
from palmkit.engine.bench.inputs import largest_difference
from palmkit.engine.bench.measurement import Opened, Times
from palmkit.engine.bench.process import OPEN_LIMIT_S, SLICE_LIMIT_S, EngineProcess
from palmkit.engine.ir import Array
from palmkit.engine.machine import cache_folder

Report = Callable[[str], None]

# Tolerances as shares of an output's range. Engines that compute the network in float32 are far
# below the first, even with Winograd; bf16 has 8 bits, and its errors add up over the layers.
# The precision of a quantized model, whatever is asked for: engines sometimes round a step apart,
# and the steps add up through the layers.
INT8 = "int8"
TOLERANCES = {"high": 0.01, "low": 0.25, INT8: 0.15}
ABSOLUTE = {"high": 1e-6, "low": 1e-3, INT8: 1e-3}


@dataclass(frozen=True)
class Schedule:
    """How long to measure.

    seconds: time of timed runs for each engine; turns: number of slices; loads: number of fresh
    processes.
    """

    seconds: float = 2.0
    turns: int = 20
    loads: int = 3
    open_limit_s: float = OPEN_LIMIT_S
    slice_limit_s: float = SLICE_LIMIT_S

    def __post_init__(self) -> None:
        """Raise ValueError for values out of range."""
        for name in ("turns", "loads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if not self.seconds > 0:
            raise ValueError(f"seconds: expected more than 0, got {self.seconds}")


@dataclass(frozen=True)
class Subject:
    """A model to compare on.

    files: the model in each available form: "palm", and "onnx" or "tflite", and "pt2".
    missing: for an unavailable form, the reason.
    inputs: by name; outputs: names, in the model's order.
    macs: multiply-accumulates of a run; None where they are not known.
    is_quantized: whether its values are rounded to bytes. spans: for quantized outputs, the largest
    possible distance between two of their numbers.
    """

    name: str
    files: Mapping[str, Path]
    inputs: Mapping[str, Array]
    outputs: tuple[str, ...]
    macs: int | None = None
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    is_quantized: bool = False
    spans: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Result:
    """One engine on one model.

    form: the form of the file that it read. load_ms: from opening the file to the first results, in
    a fresh process that has the library. memory_bytes: what loading and four more runs added to the
    process; peak_memory_bytes: the most in between.
    difference: the largest difference from our outputs in float32, over an output's range; None if
    we have no outputs.
    """

    engine: str
    title: str
    version: str
    form: str
    times: Times
    load_ms: float
    load_median_ms: float
    memory_bytes: int | None
    peak_memory_bytes: int | None
    difference: float | None


@dataclass(frozen=True)
class Comparison:
    """Engines on one model, with one number of threads.

    precision: "high", "low", or INT8 for a quantized model. refusals: reasons by the engine's name.
    backend: ours.
    """

    model: str
    threads: int
    precision: str
    macs: int | None
    results: tuple[Result, ...]
    refusals: Mapping[str, str]
    backend: str = "cpu"

    @property
    def ours(self) -> Result | None:
        """PalmKit's result, if it has one."""
        return next((each for each in self.results if each.engine == OURS), None)

    @property
    def peers(self) -> tuple[Result, ...]:
        """The results of all other engines."""
        return tuple(each for each in self.results if each.engine != OURS)

    @property
    def best_peer(self) -> Result | None:
        """The result of the fastest other engine."""
        return min(self.peers, key=lambda each: each.times.min_ms, default=None)

    @property
    def ratio(self) -> float | None:
        """The best peer's time over ours."""
        ours, best = self.ours, self.best_peer
        return best.times.min_ms / ours.times.min_ms if ours and best else None

    @property
    def load_ratio(self) -> float | None:
        """The load time of the peer that loads fastest over ours."""
        best = min((each.load_ms for each in self.peers), default=None)
        return best / self.ours.load_ms if self.ours and best is not None else None

    @property
    def memory_ratio(self) -> float | None:
        """The added memory of the peer with the least over ours."""
        peers = [each.memory_bytes for each in self.peers if each.memory_bytes is not None]
        ours = self.ours.memory_bytes if self.ours else None
        return min(peers) / ours if peers and ours else None


class _Contender:
    """An engine during a comparison: first it opens the model, then it takes turns."""

    def __init__(
        self,
        name: str,
        place: str,
        engine: Engine,
        jobs: Sequence[Job],
        schedule: Schedule,
        judged_as: str,
        spans: Mapping[str, float],
    ) -> None:
        """Try the jobs in this order, until one gives the right outputs.

        place: the engine's name or class, as for find; judged_as: the entry of TOLERANCES to be
        within; spans: as in Subject.
        """
        self.name = name
        self._place = place
        self.title = engine.title
        self.reason = ""
        self._converts = engine.converts
        self._jobs = list(jobs)
        self._schedule = schedule
        self._judged_as = judged_as
        self._spans = spans
        self._process: EngineProcess | None = None
        self._difference: float | None = None
        self._opened: list[Opened] = []
        self._seconds: list[float] = []

    @property
    def job(self) -> Job:
        """The job that it is trying."""
        return self._jobs[0]

    @property
    def outputs(self) -> dict[str, Array] | None:
        """The outputs of the first run, if there was one."""
        return dict(self._opened[0].outputs) if self._opened else None

    def open(self, expected: Mapping[str, Array] | None) -> None:
        """Open the model in a fresh process, which stays, stopped; the one before it ends."""
        self.close()
        while self._jobs:
            self._process = EngineProcess(self._place)
            try:
                if not self._opened and self._converts:
                    file = self._process.prepare(self._jobs[0])
                    self._jobs[0] = replace(self._jobs[0], file=file)
                    # Memory that the converter left in use would not count as added.
                    self.close()
                    self._process = EngineProcess(self._place)
                opened = self._process.open(self._jobs[0], self._schedule.open_limit_s)
                if expected is None and self.name == OURS:
                    expected = dict(opened.outputs)
                if expected is not None:
                    self._difference = _judge(expected, opened, self._judged_as, self._spans)
            except Refusal as refusal:
                self._give_up(str(refusal))
                continue
            self._opened.append(opened)
            self._process.stop()
            return

    def turn(self) -> None:
        """Run one slice; an engine that fails in it is out."""
        if self._process is None:
            return
        self._process.go_on()
        try:
            seconds = self._schedule.seconds / self._schedule.turns
            self._seconds += self._process.times(seconds, self._schedule.slice_limit_s)
            self._process.stop()
        except Refusal as refusal:
            self._give_up(str(refusal))

    def close(self) -> None:
        """End the engine's process."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def result(self) -> Result | None:
        """Return what was measured; None if it gave up, for `reason`."""
        if not self._seconds:
            return None
        loads = [opened.seconds * 1e3 for opened in self._opened]
        memory = [o.memory_bytes for o in self._opened if o.memory_bytes is not None]
        peaks = [o.peak_memory_bytes for o in self._opened if o.peak_memory_bytes is not None]
        return Result(
            engine=self.name,
            title=self.title,
            version=self._opened[0].version,
            form=self._jobs[0].form,
            times=Times.of(self._seconds),
            load_ms=min(loads),
            load_median_ms=median(loads),
            memory_bytes=min(memory, default=None),
            peak_memory_bytes=min(peaks, default=None),
            difference=self._difference,
        )

    def _give_up(self, reason: str) -> None:
        """Give up the form that is being tried."""
        self.close()
        said = f"from .{self._jobs.pop(0).form}: {reason}"
        self.reason = f"{self.reason}; {said}" if self.reason else said
        self._opened.clear()
        self._seconds.clear()


def _judge(
    expected: Mapping[str, Array], opened: Opened, precision: str, spans: Mapping[str, float]
) -> float:
    """Return how far its outputs are from ours; raise Refusal if too far."""
    difference = largest_difference(expected, opened.outputs, ABSOLUTE["high"], spans)
    judged = largest_difference(expected, opened.outputs, ABSOLUTE[precision], spans)
    if difference is None or judged is None:
        raise Refusal("its outputs do not correspond to the model's")
    if judged > TOLERANCES[precision]:
        raise Refusal(f"wrong outputs: they differ by {difference:.2g} of an output's range")
    return difference


def _float32_outputs(job: Job, schedule: Schedule) -> dict[str, Array] | None:
    """Return our outputs at precision high; None if our engine refuses."""
    process = EngineProcess(OURS)
    try:
        opened = process.open(replace(job, precision="high"), schedule.open_limit_s)
    except Refusal:
        return None
    finally:
        process.close()
    return dict(opened.outputs)


def compare(
    subject: Subject,
    engines: Sequence[str] | Mapping[str, str],
    threads: int = 1,
    precision: str = "high",
    schedule: Schedule | None = None,
    cache: Path | None = None,
    report: Report = lambda step: None,
    backend: str = "cpu",
) -> Comparison:
    """Compare engines on a model.

    engines: names of bench.engines, or classes (module:Class) by name; ours, OURS, among them
    and best first: its outputs are the reference.
    cache: for conversions; left out, the user's cache folder.
    report: called with the text of each step.
    backend: ours, of palmkit.engine.load; "gpu" has the others run on the GPU, too.
    """
    schedule = schedule or Schedule()
    cache = cache or cache_folder("bench") or Path(tempfile.gettempdir()) / "palmkit-bench"
    refusals: dict[str, str] = {}
    contenders: list[_Contender] = []
    places = engines if isinstance(engines, Mapping) else {name: name for name in engines}
    for name, place in places.items():
        engine = find(place)
        jobs = [
            Job(
                file=subject.files[form].absolute(),
                form=form,
                inputs=subject.inputs,
                outputs=subject.outputs,
                threads=threads,
                precision=precision,
                cache=cache.absolute(),
                backend=backend,
            )
            for form in engine.forms
            if form in subject.files
        ]
        if place_of(backend) not in engine.places:
            refusals[name] = f"it is compared on a {engine.places[0].upper()} only"
        elif missing := engine.missing():
            refusals[name] = f"not installed: no module {missing}; {engine.installed_by}"
        elif not jobs:
            reasons = [subject.missing[form] for form in engine.forms if form in subject.missing]
            reads = " or ".join(f".{form}" for form in engine.forms)
            refusals[name] = "; ".join([f"reads {reads} only", *reasons])
        else:
            judged = INT8 if subject.is_quantized else precision
            contenders.append(
                _Contender(name, place, engine, jobs, schedule, judged, subject.spans)
            )
    with ExitStack() as stack:
        for each in contenders:
            stack.callback(each.close)
        expected: Mapping[str, Array] | None = None
        if precision != "high" and contenders and contenders[0].name == OURS:
            expected = _float32_outputs(contenders[0].job, schedule)
        for _ in range(schedule.loads):
            for each in contenders:
                report(f"{each.title} loads")
                each.open(expected)
                if each.name == OURS:
                    expected = expected or each.outputs
        for _ in range(schedule.turns):
            for each in contenders:
                report(f"{each.title} runs")
                each.turn()
    results: list[Result] = []
    for each in contenders:
        result = each.result()
        if result is not None:
            results.append(result)
        else:
            refusals[each.name] = each.reason
    computed = INT8 if subject.is_quantized else precision
    return Comparison(
        subject.name, threads, computed, subject.macs, tuple(results), refusals, backend
    )


def steps(engines: int, schedule: Schedule) -> int:
    """Return how many steps `compare` reports at most."""
    return engines * (schedule.loads + schedule.turns)
