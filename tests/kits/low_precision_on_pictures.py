"""What precision="low" costs kits on photographs: their results beside labels made by hand.

    python tests/kits/low_precision_on_pictures.py [--pictures 100] [--backend gpu]

The pictures, of which none was trained on, lie in ../shared/data, which is no part of the project.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from palmkit.kits import FaceDetector, GestureRecognizer, PortraitSegmenter
from palmkit.kits.image import Image
from palmkit.kits.options import Precision

DATA = Path(__file__).parents[2].parent / "shared" / "data"
# All pictures are of this size, so that networks are made ready once.
SIDE = 320
SAME = 0.5

Row = dict[str, Any]


def rows_of(folder: str, sets: Sequence[str], key: str, count: int) -> list[Row]:
    """Return rows of pictures that have a label of that kind and were not trained on."""
    lines = (DATA / folder / "index.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["split"] == "dev" and row["set"] in sets]
    rows = [row for row in rows if row.get(key)]
    return rows[:: max(1, len(rows) // count)][:count]


def placed(path: Path) -> tuple[Image, float]:
    """Return the picture in RGB in a square of SIDE, and its scale."""
    image = cv2.imread(str(path))
    assert image is not None, path
    scale = SIDE / max(image.shape[:2])
    size = round(image.shape[1] * scale), round(image.shape[0] * scale)
    canvas = np.zeros((SIDE, SIDE, 3), np.uint8)
    canvas[: size[1], : size[0]] = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return canvas[..., ::-1].copy(), scale


def overlap(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the intersection over the union of boxes (x, y, width, height)."""
    sides = [
        max(0.0, min(one[i] + one[i + 2], other[i] + other[i + 2]) - max(one[i], other[i]))
        for i in (0, 1)
    ]
    both = sides[0] * sides[1]
    return both / (one[2] * one[3] + other[2] * other[3] - both)


def faces(backend: str, precision: Precision, count: int) -> float:
    """Return the F1 score of faces found at the default threshold."""
    right = found = there = 0
    with FaceDetector(backend=backend, precision=precision, size=SIDE) as kit:
        for row in rows_of("faces", ("aaf", "eden", "maskon"), "boxes", count):
            image, scale = placed(DATA / "faces" / row["file"])
            wanted = [[scale * each for each in box] for box in row["boxes"]]
            boxes = kit.detect(image).boxes.tolist()
            found, there = found + len(boxes), there + len(wanted)
            for box in boxes:
                near = [each for each in wanted if overlap(each, box) >= SAME]
                right += bool(near)
                if near:
                    wanted.remove(near[0])
    return 2 * right / (found + there)


def gestures(backend: str, precision: Precision, count: int) -> float:
    """Return the part of pictures of one hand whose gesture is right."""
    right = 0
    with GestureRecognizer(backend=backend, precision=precision) as kit:
        rows = rows_of("hands", ("subhi", "leb", "hagrid"), "label", count)
        for row in rows:
            image, _ = placed(DATA / "hands" / row["file"])
            right += any(hand.gesture == row["label"] for hand in kit.recognize(image))
    return right / len(rows)


def portraits(backend: str, precision: Precision, count: int) -> float:
    """Return the mean intersection over union of people's masks."""
    scores: list[float] = []
    with PortraitSegmenter(backend=backend, precision=precision) as kit:
        for row in rows_of("portraits", ("ccp", "hs290", "voc_person"), "mask", count):
            image, _ = placed(DATA / "portraits" / row["file"])
            wanted = placed(DATA / "portraits" / row["mask"])[0][..., 0] > 127
            got = kit.segment(image).mask > 0.5
            scores.append(float((got & wanted).sum() / max(1, (got | wanted).sum())))
    return float(np.mean(scores))


METRICS: dict[str, Callable[[str, Precision, int], float]] = {
    "faces, F1": faces,
    "gestures, right": gestures,
    "portraits, IoU": portraits,
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="what precision='low' costs kits")
    parser.add_argument("--pictures", type=int, default=100)
    parser.add_argument("--backend", default="cpu", help="of precision low; float32 is by cpu")
    options = parser.parse_args()
    print("| | float32 | low | |\n|---|---|---|---|")
    for name, metric in METRICS.items():
        high = metric("cpu", "high", options.pictures)
        low = metric(options.backend, "low", options.pictures)
        print(f"| {name} | {high:.4f} | {low:.4f} | {100 * (low - high):+.2f} % |", flush=True)


if __name__ == "__main__":
    main()
