"""How far precision="low" is from float32 on photographs: a table of the published networks.

    python tests/engine/low_precision_on_pictures.py [--pictures 24] [--backend gpu]

The networks lie in ../shared/teachers and the pictures in ../shared/data, which are not part of
the project. Errors are those of the output that is off most, in percent of its range over all the
pictures.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from palmkit import engine
from palmkit.engine.ir import Array

SHARED = Path(__file__).parents[2].parent / "shared"
TEACHERS = SHARED / "teachers"
# Of the 49 points of a face in aaf, those of its left eye.
LEFT_EYE = slice(25, 31)


@dataclass(frozen=True)
class Subject:
    """What a network sees: pictures of a folder, all of each or a square round what `part` names.

    reach: the side of the square, in sizes of the part.
    """

    folder: str
    sets: tuple[str, ...]
    low: float = 0.0
    high: float = 1.0
    part: str = ""
    reach: float = 1.5


_FACES = Subject("faces", ("eden", "aaf"), -1.0)
_FACE = Subject("faces", ("aaf",), part="box")
_PALMS = Subject("hands", ("obb", "hagrid"))
_PEOPLE = Subject("portraits", ("ccp", "hs290"))
SUBJECTS = {
    "face_detection_short_range": Subject("faces", ("aaf",), -1.0),
    "face_detection_full_range": _FACES,
    "face_landmark": _FACE,
    "face_landmark_with_attention": _FACE,
    "iris_landmark": Subject("faces", ("aaf",), part="eye", reach=2.3),
    "palm_detection_lite": _PALMS,
    "palm_detection_full": _PALMS,
    "hand_landmark_lite": Subject("hands", ("obb", "hagrid"), part="box"),
    "selfie_segmentation": _PEOPLE,
    "selfie_segmentation_landscape": _PEOPLE,
    "hair_segmentation": _PEOPLE,
    "yunet_n_320_320": Subject("faces", ("eden", "aaf"), 0.0, 255.0),
}


def square_of(row: dict[str, Any], subject: Subject) -> tuple[float, float, float] | None:
    """Return centre and side of the square round the part; None without such a part."""
    if subject.part == "box" and row.get("boxes"):
        x, y, width, height = row["boxes"][0]
        return x + width / 2, y + height / 2, subject.reach * max(width, height)
    if subject.part == "eye" and row.get("points"):
        eye = np.asarray(row["points"][0])[LEFT_EYE]
        x, y = eye.mean(0)
        return float(x), float(y), subject.reach * float(np.ptp(eye[:, 0]))
    return None


def pictures(subject: Subject, size: tuple[int, int], count: int) -> Iterator[Array]:
    """Yield pictures in RGB of the size (height, width), whole ones padded with black."""
    folder = SHARED / "data" / subject.folder
    rows = [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["set"] in subject.sets]
    if subject.part:
        rows = [row for row in rows if square_of(row, subject)]
    height, width = size
    for row in rows[:: max(1, len(rows) // count)][:count]:
        image = cv2.imread(str(folder / row["file"]))
        assert image is not None, row["file"]
        part = square_of(row, subject) if subject.part else None
        if part is None:
            scale = min(height / image.shape[0], width / image.shape[1])
            x, y = image.shape[1] / 2, image.shape[0] / 2
        else:
            x, y, side = part
            scale = width / side
        move = np.array([[scale, 0, width / 2 - scale * x], [0, scale, height / 2 - scale * y]])
        placed = cv2.warpAffine(image, move, (width, height), flags=cv2.INTER_LINEAR)
        yield np.asarray(cv2.cvtColor(placed, cv2.COLOR_BGR2RGB))


def errors(path: Path, subject: Subject, count: int, backend: str) -> tuple[float, float]:
    """Return the largest error and the root mean square, over the output's range."""
    exact, low = engine.load(path), engine.load(path, backend, precision="low")
    ((name, type),) = exact.inputs.items()
    shape = [d if isinstance(d, int) else 320 for d in type.shape]
    size = (shape[1], shape[2]) if path.suffix == ".tflite" else (shape[2], shape[3])
    outputs: dict[str, list[tuple[Array, Array]]] = {}
    for picture in pictures(subject, size, count):
        x = picture.astype(np.float32) / 255 * (subject.high - subject.low) + subject.low
        if path.suffix == ".onnx":
            x = x.transpose(2, 0, 1)[::-1]
        elif shape[3] > 3:
            x = np.concatenate([x, np.zeros((*size, shape[3] - 3), np.float32)], 2)
        feed = {name: np.ascontiguousarray(x[None])}
        expected, got = exact.run(feed), low.run(feed)
        for key, value in expected.items():
            outputs.setdefault(key, []).append((value, got[key]))
    largest, square = 0.0, 0.0
    for pairs in outputs.values():
        expected_all, got_all = (np.stack(values) for values in zip(*pairs, strict=True))
        off = np.abs(got_all - expected_all) / (float(np.ptp(expected_all)) or 1.0)
        largest = max(largest, float(off.max()))
        square = max(square, float(np.sqrt(np.mean(np.square(off)))))
    return largest, square


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="errors of precision='low' on photographs")
    parser.add_argument("--pictures", type=int, default=24)
    parser.add_argument("--backend", default="cpu", help="of precision low; float32 is by cpu")
    options = parser.parse_args()
    print("| network | largest error, % of range | rms, % of range |\n|---|---|---|")
    for stem, subject in SUBJECTS.items():
        path = next(TEACHERS.glob(f"{stem}.*"))
        largest, square = errors(path, subject, options.pictures, options.backend)
        print(f"| {stem} | {100 * largest:.2f} | {100 * square:.3f} |", flush=True)


if __name__ == "__main__":
    main()
