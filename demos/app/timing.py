"""Times the shipped models and the kits, in a process of its own.

    python -m palmkit.demos.app.timing [--seconds 1] [--threads 1] [--only face_mesh ...]

Each line printed is a JSON object: first {"jobs": [...]}, then for each job {"started": name} and
{"name", "kind", "runs", "min_ms", "median_ms", "p95_ms"} or {"name", "kind", "error"}.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any

from palmkit import engine
from palmkit.delivery.embedded import shipped
from palmkit.demos.app.sample import sample_frames
from palmkit.engine.bench.inputs import open_dims, random_inputs
from palmkit.engine.bench.measurement import Times
from palmkit.kits.image import Image
from palmkit.kits.table import KITS, Entry

WARM_UP, LEAST_RUNS, MOST_RUNS = 3, 5, 1000
# The number of frames of a clip that the kits run on in a loop.
FRAMES = 30

Run = Callable[[], object]


def model_jobs(threads: int) -> dict[str, Callable[[], Run]]:
    """Return for every shipped model a function that prepares one run."""

    def ready(path: str) -> Run:
        model = engine.load(path, threads=threads)
        inputs = random_inputs(model.inputs, open_dims(model.inputs))
        return lambda: model.run(inputs)

    return {name: partial(ready, str(each.path)) for name, each in shipped().items()}


def kit_jobs(threads: int) -> dict[str, Callable[[], Run]]:
    """Return for every kit a function that prepares one frame of 640x480, or one page."""

    def ready(entry: Entry) -> Run:
        look = getattr(entry.load_kit()("video", threads=threads, **entry.timed), entry.method)
        frames: list[Image] = [frame for frame, _ in islice(sample_frames("portrait"), FRAMES)]
        passed = 0

        def run() -> object:
            nonlocal passed
            passed += 1
            return look(frames[passed % FRAMES], passed * 33.0)

        return run

    def ready_for_pages(entry: Entry) -> Run:
        from palmkit.demos.app.pages.feed_goods import SCHEMA, make_goods

        rows = [good.row() for good in make_goods(60, 0)]
        kit = entry.load_kit()(schema=SCHEMA, threads=threads, **entry.timed)
        session = kit.session()
        session.observe([{**row, "event": "click", "time": 1.0} for row in rows[:10]])
        return lambda: getattr(session, entry.method)(rows)

    return {
        entry.title: partial(ready_for_pages if entry.takes == "page" else ready, entry)
        for entry in KITS.values()
    }


def timed(run: Run, seconds: float) -> Times:
    """Run for about `seconds`, at least LEAST_RUNS times."""
    for _ in range(WARM_UP):
        run()
    passed: list[float] = []
    until = perf_counter() + seconds
    while len(passed) < LEAST_RUNS or (perf_counter() < until and len(passed) < MOST_RUNS):
        start = perf_counter()
        run()
        passed.append(perf_counter() - start)
    return Times.of(passed)


def tell(**facts: Any) -> None:
    """Print a line and flush it."""
    print(json.dumps(facts), flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Time the selected jobs."""
    parser = argparse.ArgumentParser(prog="python -m palmkit.demos.app.timing")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", metavar="NAME")
    options = parser.parse_args(arguments)
    kinds: Mapping[str, Mapping[str, Callable[[], Run]]] = {
        "model": model_jobs(options.threads),
        "kit": kit_jobs(options.threads),
    }
    jobs = [
        (kind, name, ready)
        for kind, some in kinds.items()
        for name, ready in some.items()
        if options.only is None or name in options.only
    ]
    tell(jobs=[{"name": name, "kind": kind} for kind, name, _ in jobs])
    for kind, name, ready in jobs:
        tell(started=name)
        try:
            tell(name=name, kind=kind, **asdict(timed(ready(), options.seconds)))
        except Exception as error:  # A job that cannot run must not end the others.
            tell(name=name, kind=kind, error=f"{error}" or type(error).__name__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
