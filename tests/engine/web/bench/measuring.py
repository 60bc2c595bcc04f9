"""One network in all engines, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median

from palmkit import engine
from palmkit.engine import _native
from palmkit.engine.bench.comparison import ABSOLUTE, INT8, TOLERANCES, Comparison, Result, Subject
from palmkit.engine.bench.inputs import largest_difference
from palmkit.engine.bench.measurement import Times
from palmkit.engine.ir import Array
from palmkit.engine.model import Model
from tests.engine.web.bench.contenders import CONTENDERS, SIMD128, Contender
from tests.engine.web.bench.pages import Failed, Pages

WARM_MS = 400.0
NATIVE_ISA = "avx2"


@dataclass(frozen=True)
class Schedule:
    """How long to measure.

    turns: of each engine; turn_ms: the milliseconds of one. firsts: pages for first results.
    """

    turns: int = 12
    turn_ms: float = 60.0
    firsts: int = 3


@dataclass(frozen=True)
class Found:
    """A comparison, and our native code and our build for SIMD128, timed in the same turns."""

    comparison: Comparison
    native: Times
    simd128: Times | None

    @property
    def share(self) -> float | None:
        """The part of native speed that a browser with relaxed SIMD has."""
        ours = self.comparison.ours
        return self.native.min_ms / ours.times.min_ms if ours else None

    @property
    def simd128_share(self) -> float | None:
        """The same of a browser without."""
        return self.native.min_ms / self.simd128.min_ms if self.simd128 else None


def measured(
    pages: Pages, subject: Subject, threads: int, schedule: Schedule, is_shipped: bool
) -> Found:
    """Open a network in every engine that takes it, and time them in turns.

    is_shipped: whether the runtime of the package has its kernels, else it is a larger one.
    """
    folder = pages.put(subject)
    native = _native_model(subject, threads)
    expected = native.run(subject.inputs)
    refusals: dict[str, str] = {}
    differences: dict[str, float | None] = {}
    times: dict[str, list[float]] = {}
    native_times: list[float] = []
    pages.renew()
    inside = [each for each in CONTENDERS if not _refused(each, subject, threads, refusals)]
    modules = "/palmkit/engine/web" if is_shipped else "/modules"
    jobs = {each.name: each.job(subject, folder, threads, modules) for each in inside}
    firsts: dict[str, list[float]] = {}

    def every(act: Callable[[Contender], None]) -> None:
        """Have each engine do something; one that fails is out."""
        for each in list(inside):
            try:
                act(each)
            except Failed as failed:
                refusals[each.name] = str(failed)
                inside.remove(each)

    def begin(each: Contender) -> None:
        outputs = pages.open(each, jobs[each.name])
        differences[each.name] = _judged(subject, expected, outputs)
        pages.times(each, WARM_MS)
        times[each.name] = []

    def turn(each: Contender) -> None:
        times[each.name] += pages.times(each, schedule.turn_ms)

    def first(each: Contender) -> None:
        found = [pages.first(each, jobs[each.name]) for _ in range(schedule.firsts)]
        firsts[each.name] = found

    every(begin)
    for _ in range(schedule.turns):
        every(turn)
        native_times += _timed(native, subject.inputs, schedule.turn_ms)
        # Every engine comes behind every other.
        inside[:] = inside[1:] + inside[:1]
    every(first)
    results = [
        Result(
            engine=each.name,
            title=each.title,
            version="",
            form=next(form for form in each.forms if form in subject.files),
            times=Times.of(times[each.name]),
            load_ms=min(firsts[each.name]),
            load_median_ms=median(firsts[each.name]),
            memory_bytes=None,
            peak_memory_bytes=None,
            difference=differences[each.name],
        )
        for each in inside
    ]
    alone = next((each.times for each in results if each.engine == SIMD128), None)
    refusals.pop(SIMD128, None)
    comparison = Comparison(
        subject.name,
        threads,
        INT8 if subject.is_quantized else "high",
        subject.macs,
        tuple(each for each in results if each.engine != SIMD128),
        refusals,
    )
    return Found(comparison, Times.of(native_times), alone)


def _refused(
    contender: Contender, subject: Subject, threads: int, refusals: dict[str, str]
) -> bool:
    if reason := contender.refuses(subject, threads):
        refusals[contender.name] = reason
    return bool(reason)


def _judged(
    subject: Subject, expected: Mapping[str, Array], outputs: list[tuple[str, Array]] | None
) -> float | None:
    """Return how far outputs are from native ones; Failed if they are others."""
    if outputs is None:
        return None
    precision = INT8 if subject.is_quantized else "high"
    found = largest_difference(expected, outputs, ABSOLUTE[precision], subject.spans)
    if found is None:
        raise Failed("its outputs do not correspond to the model's")
    if found > TOLERANCES[precision]:
        raise Failed(f"wrong outputs: they differ by {found:.2g} of an output's range")
    return found


def _native_model(subject: Subject, threads: int) -> Model:
    program = _native.Program
    _native.Program = partial(program, isa=NATIVE_ISA)  # type: ignore[misc,assignment]
    try:
        model = engine.load(subject.files["palm"], threads=threads)
        model.run(subject.inputs)
    finally:
        _native.Program = program  # type: ignore[misc]
    return model


def _timed(model: Model, inputs: Mapping[str, Array], ms: float) -> list[float]:
    """Return the seconds of each run."""
    times = list[float]()
    end = time.perf_counter() + ms * 1e-3
    while not times or time.perf_counter() < end:
        begin = time.perf_counter()
        model.run(inputs)
        times.append(time.perf_counter() - begin)
    return times
