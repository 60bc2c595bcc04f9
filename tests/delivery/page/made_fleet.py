"""A server with a made fleet: four models in every state that the page has to show.

    python -m tests.delivery.page.made_fleet FOLDER [DEVICES] && palmkit serve FOLDER

Every number comes from the server's own code: releases that are published, and reports that are
taken in day by day.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from palmkit.delivery.reports.schema import BUCKETS, Histogram, Report, Row, bucket
from palmkit.delivery.repository import Options, Repository
from palmkit.delivery.server.counting import Vocabulary, store
from palmkit.delivery.server.database import writing
from palmkit.delivery.server.rollouts import observe, watch
from palmkit.delivery.server.start import Place, prepare
from palmkit.engine import save
from palmkit.engine.ir import Graph, Node, Type

DAY_S = 86400.0
PLATFORMS = (
    (("0.1.0", "linux", "x86_64", "16-32", "avx2"), 45),
    (("0.1.0", "linux", "arm64", "4-8", "neon"), 30),
    (("0.1.0", "windows", "x86_64", "8-16", "avx512"), 20),
    (("0.0.9", "macos", "arm64", "8-16", "neon"), 5),
)
SPEED = {"avx2": 1.0, "neon": 2.6, "avx512": 0.55}
# Days ago, release, percent: what was done.
PROMOTIONS = {
    "face_detector": [(99, "1.0.0", 100), (9, "1.1.0", 1), (7, "1.1.0", 5), (4, "1.1.0", 20)],
    "hair": [(99, "1.0.0", 100), (5, "2.0.0", 5), (2, "2.0.0", 20)],
    "hand_landmarks": [(99, "1.2.0", 100)],
    "portrait": [],
}
RELEASES = {
    "face_detector": {"1.0.0": "first release", "1.1.0": "small faces, twice as many found"},
    "hair": {"1.0.0": "first release", "2.0.0": "finer strands; half the size"},
    "hand_landmarks": {"1.2.0": "first release"},
    "portrait": {"0.9.0": "for a try on the canary channel"},
}
FAILING = {("hair", "2.0.0"): 0.09}
INFER_MS = {"1.0.0": 3.1, "1.1.0": 2.3, "2.0.0": 9.0, "1.2.0": 5.5}


def write_model(path: Path, factor: float) -> Path:
    """A small model that passes every check."""
    type = Type("float32", (1, 4096))
    weights = np.random.default_rng(0).normal(factor, 0.01, 4096).astype(np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    nodes = (Node("mul", ("x", "w"), ("y",)),)
    save(Graph({"x": type}, {"y": type}, nodes, {"w": weights}), path)
    return path


def publish(repository: Repository, folder: Path) -> None:
    """Publish all releases, and promote portrait's only."""
    for model, releases in RELEASES.items():
        for number, (release, notes) in enumerate(releases.items()):
            file = write_model(folder / "files" / release / f"{model}.palm", 2.0 + number)
            repository.publish(model, release, [file], Options(golden=1, notes=notes))
    repository.promote("portrait", "0.9.0", "canary", 50)


def spread(draw: random.Random, middle: float, n: int) -> tuple[int, ...]:
    """Return n values around a middle, in buckets."""
    counts = [0] * BUCKETS
    for _ in range(n):
        counts[bucket(middle * math.exp(draw.gauss(0, 0.35)))] += 1
    return tuple(counts)


def report(
    draw: random.Random, day: str, device: float, percents: dict[str, dict[str, float]]
) -> Report:
    """Return a device's report of a day; device: 0..1, its place in every rollout."""
    platform = draw.choices([p for p, _ in PLATFORMS], [weight for _, weight in PLATFORMS])[0]
    rows: list[Row] = []
    histograms: list[Histogram] = []
    for model in ("face_detector", "hair", "hand_landmarks"):
        release, arm, previous = group(model, device, percents[model])
        failed = draw.random() < FAILING.get((model, release), 0.003)
        codes = Counter(load_ok=0 if failed else draw.randint(1, 3), check_ok=1)
        if failed:
            codes[draw.choice(["load_fail", "nan", "golden_fail"])] += 1
            if arm == "candidate":
                codes["rollback"] += 1
        if previous and draw.random() < 0.15:
            codes[draw.choice(["download_ok", "delta_ok", "download_resume"])] += 1
        rows += [Row(model, release, previous, arm, code, n) for code, n in codes.items() if n]
        middle = INFER_MS[release] * SPEED[platform[4]]
        histograms.append(Histogram(model, release, arm, "infer_ms", spread(draw, middle, 20)))
        histograms.append(Histogram(model, release, arm, "load_ms", spread(draw, middle * 7, 1)))
    since = draw.choices(["1", "2-6", "7-27", "28+", "first", "0"], [70, 15, 5, 1, 4, 5])[0]
    dropped = {"space": draw.randint(1, 9)} if draw.random() < 0.002 else {}
    return Report(
        f"{draw.getrandbits(128):032x}",
        day,
        *platform,
        since,
        tuple(rows),
        tuple(histograms),
        dropped,
    )


def group(model: str, device: float, percents: dict[str, float]) -> tuple[str, str, str]:
    """Return the release that a device runs, its arm, and the release before."""
    base, *newer = percents
    share = percents[newer[-1]] / 100 if newer else 0.0
    if device < share:
        return newer[-1], "candidate", base
    return base, "control" if device < 2 * share else "stable", ""


def make(folder: Path, devices: int = 3000, days: int = 14, seed: int = 1) -> None:
    """Make the server's folder; devices: about so many report each day."""
    draw = random.Random(seed)
    place = Place(folder)
    _, engine, repository = prepare(place)
    assert repository is not None
    publish(repository, folder)
    known = {model: frozenset(releases) for model, releases in RELEASES.items()}
    vocabulary = Vocabulary(lambda: known)
    now = time.time()
    percents: dict[str, dict[str, float]] = {model: {} for model in RELEASES}
    for ago in range(days - 1, -1, -1):
        at = now - ago * DAY_S
        for model, promotions in PROMOTIONS.items():
            for when, release, percent in promotions:
                due = when == ago or (when > ago and ago == days - 1)
                stopped = any(
                    candidate.release == release and candidate.halt
                    for candidate in repository.policy(model).channels["stable"]
                )
                if due and not stopped and percents[model].get(release) != percent:
                    repository.promote(model, release, "stable", percent)
                    percents[model][release] = percent
            with writing(engine) as connection:
                observe(connection, repository.policy(model), at - DAY_S / 2)
        day = datetime.fromtimestamp(at, timezone.utc).date().isoformat()
        weekend = 0.8 if ago % 7 in (1, 2) else 1.0
        today = int(devices * weekend * (1 + 0.02 * (days - ago)) * (0.4 if ago == 0 else 1))
        reports = [report(draw, day, (i + 0.5) / today, percents) for i in range(today)]
        draw.shuffle(reports)
        for first in range(0, today, 500):
            with writing(engine) as connection:
                store(connection, reports[first : first + 500], vocabulary, at)
        watch(engine, repository, at)
    engine.dispose()


if __name__ == "__main__":
    make(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
