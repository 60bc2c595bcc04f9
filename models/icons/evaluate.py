"""What each network is worth, measured on the files that ship: size, accuracy, and a report.

`python -m palmkit.models.icons.evaluate FILES OUT` runs every .palm file in a folder of export.py
with the engine on pictures that were drawn for nothing else, and writes OUT/metrics.json and
OUT/report.html.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from palmkit.engine import load
from palmkit.engine.bench.charts import Bar, bars
from palmkit.engine.replacing import replacing
from palmkit.models.icons.draw import LOOKS, draw_set

TEST_SEED = 3
FLOAT = "float"


@dataclass(frozen=True)
class Measured:
    """A file: its bytes, and the share of the test pictures that it names, in percent."""

    name: str
    size_bytes: int
    accuracy: float

    def times_smaller(self, than: Measured) -> float:
        """How often the file goes into another's."""
        return than.size_bytes / self.size_bytes

    def points_lost(self, than: Measured) -> float:
        """Percentage points of accuracy."""
        return than.accuracy - self.accuracy


def measure(path: Path, pictures: NDArray[np.uint8], kinds: NDArray[np.int64]) -> Measured:
    """Run a model file on pictures uint8[n, h, w, 3] of classes int64[n]."""
    model = load(path)
    right = 0
    for picture, kind in zip(pictures, kinds.tolist(), strict=True):
        image = picture.transpose(2, 0, 1)[None].astype(np.float32)
        right += int(model.run({"image": image})["logits"].argmax()) == kind
    return Measured(path.stem, path.stat().st_size, 100 * right / len(kinds))


def best(measured: Sequence[Measured], most_lost: float) -> Measured | None:
    """The smallest compressed file that loses no more points than that against the float one."""
    whole = next(each for each in measured if each.name == FLOAT)
    fit = [each for each in measured if each is not whole and each.points_lost(whole) <= most_lost]
    return min(fit, key=lambda each: each.size_bytes, default=None)


def page(measured: Sequence[Measured], told: str) -> str:
    """The report: a table and two plots. told: how the networks were trained."""
    whole = next(each for each in measured if each.name == FLOAT)
    head = ("network", "bytes", "times smaller", "accuracy, %", "points lost")
    rows = [
        (
            each.name,
            f"{each.size_bytes:,}",
            f"{each.times_smaller(whole):.1f}",
            f"{each.accuracy:.2f}",
            f"{each.points_lost(whole):.2f}",
        )
        for each in measured
    ]
    table = "".join(
        "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"
        for tag, row in (("th", head), *(("td", row) for row in rows))
    )
    small = [each for each in measured if each is not whole]
    kinds = {each.name: "step" if each.name.startswith("ours") else "other" for each in small}
    sizes = [
        Bar(each.name, each.size_bytes, f"{each.size_bytes:,}", kinds[each.name]) for each in small
    ]
    shares = [
        Bar(each.name, each.accuracy, f"{each.accuracy:.2f}", kinds[each.name]) for each in small
    ]
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>icons, compressed</title>"
        "<style>body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem}"
        "td,th{padding:.2rem .8rem;text-align:right}td:first-child,th:first-child{text-align:left}"
        "svg text{font-size:12px}.step rect{fill:#2f7bd9}.other rect{fill:#b6c2cf}</style>"
        f"<h1>SqueezeNet on drawn icons, compressed</h1><p>{escape(told)}</p>"
        f"<table>{table}</table><h2>Bytes</h2>{bars(sizes, 'bytes of each file')}"
        f"<h2>Accuracy, %</h2>{bars(shares, 'accuracy of each file')}</html>\n"
    )


def evaluate(files: Path, out: Path, count: int, look: str, told: str) -> list[Measured]:
    """Measure every file and write what came of it."""
    paths = sorted(files.glob("*.palm"), key=lambda path: -path.stat().st_size)
    pictures, kinds = draw_set(TEST_SEED, count, LOOKS[look])
    measured = [measure(path, pictures, kinds) for path in paths]
    out.mkdir(parents=True, exist_ok=True)
    listed = {"pictures": count, "look": look, "networks": [asdict(each) for each in measured]}
    for name, text in (
        ("metrics.json", json.dumps(listed, indent=1) + "\n"),
        ("report.html", page(measured, told)),
    ):
        with replacing(out / name) as part:
            part.write_text(text, encoding="utf-8")
    return measured


def main(arguments: Iterable[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="measure the networks of icons")
    parser.add_argument("files", type=Path, help="folder of .palm files")
    parser.add_argument("out", type=Path, help="folder that takes metrics.json and report.html")
    parser.add_argument("--pictures", type=int, default=10_000)
    parser.add_argument("--look", choices=tuple(LOOKS), default="hard")
    parser.add_argument("--told", default="", help="how they were trained, for the report")
    options = parser.parse_args(None if arguments is None else list(arguments))
    measured = evaluate(options.files, options.out, options.pictures, options.look, options.told)
    for each in measured:
        print(f"{each.name}: {each.size_bytes} bytes, {each.accuracy:.2f} %")


if __name__ == "__main__":
    main()
