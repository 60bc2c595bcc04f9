"""The size and accuracy of each network's shipped file, and a report.

`python -m palmkit.models.icons.evaluate FILES OUT` runs every .palm file in a folder of export.py
with the engine on pictures that were drawn for nothing else, and writes OUT/metrics.json and
OUT/report.html, which is the page of `palmkit compress` with Deep Compression's files and ours as
steps. Of the probability that a file gives a picture's class it also tells the mean, the worst
tenth and the share of pictures below a half, by class (palmkit.models.kinds).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palmkit.engine import load
from palmkit.engine.compress import report
from palmkit.engine.compress.pipeline import Stage
from palmkit.engine.compress.speed import fastest_ms
from palmkit.engine.format import encodings
from palmkit.engine.replacing import replacing
from palmkit.models import kinds as by_kind
from palmkit.models.icons.draw import LOOKS, draw_set
from palmkit.models.icons.shapes import CLASSES

TEST_SEED = 3
FLOAT, OURS = "float", "ours"
# What numbers were chosen on, as metrics.json says.
CHOSEN_ON = "held-out pictures of other seeds; those of the test decided nothing"


@dataclass(frozen=True)
class Measured:
    """A file's bytes, and which of the test pictures it classifies correctly, bool[n].

    pictures: how they came out by class, by the probability that it gives theirs.
    """

    name: str
    size_bytes: int
    right: NDArray[np.bool_]
    pictures: dict[str, by_kind.Spread]

    @property
    def accuracy(self) -> float:
        """The accuracy in percent."""
        return 100 * float(self.right.mean())

    def times_smaller(self, than: Measured) -> float:
        """Return how many times smaller the file is than another."""
        return than.size_bytes / self.size_bytes

    def points_lost(self, than: Measured) -> float:
        """Return the lost percentage points of accuracy."""
        return than.accuracy - self.accuracy

    def points_error(self, than: Measured) -> float:
        """Return the standard error of `points_lost`, for the same pictures."""
        differences = than.right.astype(float) - self.right
        return 100 * float(differences.std()) / math.sqrt(len(differences))


def measure(path: Path, pictures: NDArray[np.uint8], kinds: NDArray[np.int64]) -> Measured:
    """Run a model file on pictures uint8[n, h, w, 3] of classes int64[n]."""
    model = load(path)
    named = np.empty_like(kinds)
    tally = by_kind.Tally()
    for at, (picture, kind) in enumerate(zip(pictures, kinds.tolist(), strict=True)):
        image = picture.transpose(2, 0, 1)[None].astype(np.float32)
        logits = model.run({"image": image})["logits"].reshape(-1).astype(np.float64)
        named[at] = logits.argmax()
        shares = np.exp(logits - logits.max())
        tally.add([CLASSES[kind]], float(shares[kind] / shares.sum()))
    return Measured(path.stem, path.stat().st_size, named == kinds, tally.spreads())


def best(measured: Sequence[Measured], most_lost: float) -> Measured | None:
    """Return the smallest of our files that loses no more points than allowed, or None."""
    whole = next(each for each in measured if each.name == FLOAT)
    ours = [each for each in measured if each.name.startswith(OURS)]
    fit = [each for each in ours if each.points_lost(whole) <= most_lost]
    return min(fit, key=lambda each: each.size_bytes, default=None)


def ordered(files: Path) -> list[Path]:
    """Return the float file, Deep Compression's, then ours; each from the largest on."""
    groups = {FLOAT: 0, OURS: 2}

    def place(path: Path) -> tuple[int, int]:
        return groups.get(path.stem.split("-")[0], 1), -path.stat().st_size

    return sorted(files.glob("*.palm"), key=place)


def stage(path: Path, measured: Measured, pictures: NDArray[np.uint8]) -> Stage:
    """Return a file as a step of the report."""
    constants: dict[str, int] = {}
    for constant in encodings.constants_of(path.read_bytes()):
        constants[constant.name] = constants.get(constant.name, 0) + constant.size_bytes
    image = pictures[0].transpose(2, 0, 1)[None].astype(np.float32)
    accuracy = measured.accuracy / 100
    return Stage(
        name=measured.name,
        kept=True,
        metric=accuracy,
        got=accuracy,
        size_bytes=measured.size_bytes,
        seconds=0.0,
        run_ms=fastest_ms(load(path).graph, {"image": image}),
        constants=constants,
    )


def facts(measured: Sequence[Measured], look: str, told: str) -> dict[str, str]:
    """Return the report's first table.

    told: how the networks were trained.
    """
    whole = next(each for each in measured if each.name == FLOAT)
    count = len(whole.right)
    said = {"pictures": f"{count:,}, {look}, drawn for nothing else", "metric": "share named"}
    for each in measured[1:]:
        lost = f"{each.points_lost(whole):.2f} ± {each.points_error(whole):.2f} points lost"
        said[each.name] = f"{each.times_smaller(whole):.1f} times smaller, {lost}"
    found = best(measured, 1.0)
    smallest = "none" if found is None else f"{found.name}, {found.times_smaller(whole):.1f} times"
    return {**said, "smallest within a point": smallest, "trained": told}


def evaluate(files: Path, out: Path, count: int, look: str, told: str) -> list[Measured]:
    """Measure every file and write the results."""
    pictures, kinds = draw_set(TEST_SEED, count, LOOKS[look])
    measured: list[Measured] = []
    stages: list[Stage] = []
    for path in ordered(files):
        measured.append(measure(path, pictures, kinds))
        stages.append(stage(path, measured[-1], pictures))
    whole = measured[0]
    listed = [
        {
            "name": each.name,
            "bytes": each.size_bytes,
            "times_smaller": round(each.times_smaller(whole), 2),
            "accuracy": round(each.accuracy, 3),
            "points_lost": round(each.points_lost(whole), 3),
            "standard_error": round(each.points_error(whole), 3),
            "pictures": by_kind.rounded(each.pictures),
        }
        for each in measured
    ]
    out.mkdir(parents=True, exist_ok=True)
    title = "SqueezeNet on drawn icons, compressed"
    report.write(out / "report.html", title, facts(measured, look, told), stages)
    with replacing(out / "metrics.json") as part:
        said = {"pictures": count, "look": look, "chosen_on": CHOSEN_ON, "networks": listed}
        part.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    return measured


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="measure the networks of icons")
    parser.add_argument("files", type=Path, help="folder of .palm files")
    parser.add_argument("out", type=Path, help="folder that takes metrics.json and report.html")
    parser.add_argument("--pictures", type=int, default=20_000)
    parser.add_argument("--look", choices=tuple(LOOKS), default="plain")
    parser.add_argument("--told", default="", help="how they were trained, for the report")
    options = parser.parse_args(None if arguments is None else list(arguments))
    measured = evaluate(options.files, options.out, options.pictures, options.look, options.told)
    whole = measured[0]
    for each in measured:
        print(
            f"{each.name}: {each.size_bytes} bytes, {each.times_smaller(whole):.1f} times smaller, "
            f"{each.accuracy:.2f} %, {each.points_lost(whole):.2f} ± "
            f"{each.points_error(whole):.2f} points lost"
        )
    spreads = {each.name: each.pictures for each in measured}
    print("", *by_kind.lines(spreads, "probability of the class"), sep="\n")
    print(f"chosen on: {CHOSEN_ON}")


if __name__ == "__main__":
    main()
