"""Measure the hand detector beside MediaPipe's palm detector.

`python -m palmkit.models.hand_detector.evaluate DATA LABELS TEACHERS OUT` prints the tables and
writes OUT/metrics.json. Protocol, the same for both: the whole picture, upright and turned by
quarters; greedy matching, best score first, at IoU 0.5 with the boxes round the labelled landmarks
(made by the teachers, see labels.py, so this measures agreement with them); a detection that lies
by half in a doubtful region counts neither way. The palm detector's box is that of the landmarks
that hand_landmark_lite sees in its crop. manual_recall: of the boxes that people drew (subhi, leb,
obb), how many a detection overlaps by IoU 0.3. clean: pictures without any hand in which nothing is
found at the threshold.
Of each upright picture with hands F1 at the threshold also counts for the mean, the worst tenth and
the share of failures, by set, number and size of the hands, and light on them
(palmkit.models.kinds).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from palmkit.kits.boxes import corners, iou
from palmkit.kits.quarter_turns import turned as turned_picture
from palmkit.kits.quarter_turns import turned_corners
from palmkit.models import kinds
from palmkit.models.face_detector.evaluate import table
from palmkit.models.face_detector.judging import (
    Sample,
    average_precision,
    f1,
    judge,
    recall_at_one_false,
)
from palmkit.models.face_detector.labels import read_picture
from palmkit.models.face_detector.teachers import Detections
from palmkit.models.hand_detector import teachers
from palmkit.models.hand_detector.dataset import Entry, landmark_rows, read_labels
from palmkit.models.hand_detector.labels import HAND_SETS, read_rows
from palmkit.models.hand_detector.teachers import Array, Picture

MODEL = Path(__file__).with_name("hand_detector.palm")
SIZE = 224
MAX_ENLARGED = 3.0
LOWEST_SCORE = 0.05
# Steps in numbers of hands in a picture.
NUMBERS = (1, 2, 3)
# What numbers were chosen on, as cards and metrics.json say.
CHOSEN_ON = (
    "the threshold: the validation part of the training pictures; dev was looked at between the two"
    " trainings"
)
MANUAL = frozenset({"subhi", "leb", "obb"})


class Contender(NamedTuple):
    """A detector of boxes, and the score from which it reports a hand by default."""

    detect: Callable[[Picture], Detections]
    threshold: float


def ours(path: Path, size: int) -> Contender:
    """Return our network on the picture letterboxed to a square of `size`."""
    from palmkit.engine import load
    from palmkit.kits.detection import decode, merge
    from palmkit.kits.image import letterbox
    from palmkit.kits.kit import pixels

    model = load(path)

    def detect(picture: Picture) -> Detections:
        canvas, placement = letterbox(picture, size, size, max_scale=MAX_ENLARGED)
        found = merge(
            decode(model.run({"image": pixels(model, canvas)}), LOWEST_SCORE, keypoints=2)
        )
        boxes = placement.to_picture(found.boxes.reshape(-1, 2, 2)).reshape(-1, 4)
        limits = np.asarray([picture.shape[1], picture.shape[0]] * 2, np.float32)
        boxes = np.clip(boxes, 0, limits)
        return Detections(boxes, found.scores, placement.to_picture(found.keypoints))

    return Contender(detect, float(model.metadata.get("threshold", "0.5")))


def mediapipe(folder: Path) -> Contender:
    """Return the palm detector, with boxes by the landmark network."""
    find, read = teachers.palm_detector(folder, LOWEST_SCORE), teachers.hand_reader(folder)

    def detect(picture: Picture) -> Detections:
        palms = find(picture)
        limits = np.asarray([picture.shape[1], picture.shape[0]], np.float32)
        boxes = np.zeros((len(palms.scores), 4), np.float32)
        for row, (box, points) in enumerate(zip(palms.boxes, palms.points, strict=True)):
            flat = np.clip(
                read(picture, teachers.palm_crop(box, points)).landmarks[:, :2], 0, limits
            )
            boxes[row] = *flat.min(axis=0), *flat.max(axis=0)
        return Detections(boxes, palms.scores, palms.points[:, [0, 2]])

    return Contender(detect, 0.5)


def turned(picture: Picture, entry: Entry, quarters: int) -> tuple[Picture, Array, Array]:
    """Return the rotated picture, with the boxes of its hands and its doubtful regions."""
    height, width = picture.shape[:2]
    truth = landmark_rows(entry)[..., :2]
    limits = np.asarray([width, height], np.float32)
    corners = np.clip(truth, 0, limits)
    hands = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    ignored = np.asarray(entry["ignored"], np.float32).reshape(-1, 4)
    hands, ignored = (
        turned_corners(each, quarters, (0, 0, width, height)) for each in (hands, ignored)
    )
    return turned_picture(picture, quarters), hands, ignored


def kinds_of(name: str, picture: Picture, hands: Array) -> list[str]:
    """Return the kinds of a picture of a set with hands, float32[n, 4]: number, distance, light."""
    return [
        name,
        kinds.between(len(hands), NUMBERS, "hands"),
        kinds.distance((hands[:, 2:] - hands[:, :2]).max(axis=1), picture),
        kinds.light_on(picture, hands.reshape(-1, 2)),
    ]


def measure(
    data: Path, entries: Sequence[Entry], contender: Contender, manual: dict[str, Array]
) -> tuple[dict[str, float], dict[str, kinds.Spread]]:
    """Return all numbers of one detector, and how pictures came out by kind."""
    tally = kinds.Tally()
    samples: list[list[Sample]] = [[], [], [], []]
    clean: list[bool] = []
    met: list[bool] = []
    for entry in tqdm(entries, mininterval=5, leave=False):
        picture = read_picture(data, entry["file"])
        if entry["set"] not in HAND_SETS:
            if not entry["hands"] and not entry["ignored"]:
                found = contender.detect(picture)
                clean.append(float(found.scores.max(initial=0)) < contender.threshold)
            continue
        for quarters in range(4):
            seen, hands, ignored = turned(picture, entry, quarters)
            found = contender.detect(seen)
            sample = Sample(hands, ignored, found)
            samples[quarters].append(sample)
            if quarters == 0 and len(hands):
                reported = sample._replace(found=found.above(contender.threshold))
                tally.add(kinds_of(entry["set"], seen, hands), f1(reported))
            if quarters == 0 and entry["file"] in manual:
                sure = found.boxes[found.scores >= contender.threshold]
                overlaps = iou(manual[entry["file"]], sure)
                met += [bool((overlap > 0.3).any()) for overlap in overlaps]
    numbers: dict[str, float] = {}
    for name, some in (
        ("upright", samples[0]),
        ("turned_90", samples[1] + samples[3]),
        ("turned_180", samples[2]),
    ):
        verdicts = judge(some)
        at = judge([each._replace(found=each.found.above(contender.threshold)) for each in some])
        numbers[f"ap_{name}"] = average_precision(verdicts)
        numbers[f"recall_{name}"] = float(at.right.sum() / max(len(at.faces), 1))
        numbers[f"precision_{name}"] = float(at.right.mean()) if len(at.right) else float("nan")
        numbers[f"recall_at_1_false_a_picture_{name}"] = recall_at_one_false(verdicts, len(some))
    numbers["manual_recall"] = float(np.mean(met)) if met else float("nan")
    numbers["clean"] = float(np.mean(clean)) if clean else float("nan")
    numbers["threshold"] = contender.threshold
    return {name: round(value, 4) for name, value in numbers.items()}, tally.spreads()


def manual_boxes(data: Path) -> dict[str, Array]:
    """Return the boxes that people drew: float32[n, 4] corners by file."""
    boxes: dict[str, Array] = {}
    for row in read_rows(data):
        if row["set"] in MANUAL and row.get("boxes"):
            boxes[row["file"]] = corners(np.asarray(row["boxes"], np.float32))
    return boxes


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="measure the hand detector")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="folder of labels*.jsonl")
    parser.add_argument("teachers", type=Path, help="folder of the published networks")
    parser.add_argument("out", type=Path, help="folder that takes metrics.json")
    parser.add_argument("--part", choices=("dev", "validation"), default="dev")
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--size", type=int, default=SIZE)
    options = parser.parse_args(None if arguments is None else list(arguments))
    entries = [each for each in read_labels(options.labels) if each["part"] == options.part]
    manual = manual_boxes(options.data)
    contenders = {
        "palmkit": ours(options.model, options.size),
        "palm_detection_full": mediapipe(options.teachers),
    }
    measured = {
        name: measure(options.data, entries, contender, manual)
        for name, contender in contenders.items()
    }
    results = {name: each[0] for name, each in measured.items()}
    pictures = {name: each[1] for name, each in measured.items()}
    print(table(results), "", *kinds.lines(pictures, "F1"), sep="\n")
    print(f"chosen on: {CHOSEN_ON}")
    told: dict[str, Any] = {
        name: {**results[name], "pictures": kinds.rounded(pictures[name])} for name in measured
    }
    told["chosen_on"] = CHOSEN_ON
    (options.out / "metrics.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
