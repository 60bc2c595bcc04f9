"""Measure hand landmarks and gestures beside MediaPipe's networks.

`python -m palmkit.models.hand_landmarks.evaluate DATA LABELS TEACHERS OUT` prints the table and
writes OUT/metrics.json. Protocol: whole pictures through whole pipelines, 0 hands known
beforehand. A picture counts for gestures if its set says what one of its hands shows; the answer
is the gesture of the found hand that overlaps that hand most, of the largest one where the set
has no box, and "none" if there is none, which is wrong. Macro-F1 is over the classes that occur.
Landmarks are compared with the teacher's mean over views (labels.py), in palm sizes, for hands
that are found (box IoU over 0.3); so the teacher's own number is how far one look of it lies from
its mean. hand_sets are pictures made to show hands, people those where hands hang, hold or rest.
Of the error of each labelled hand there are also the mean, the worst tenth and the share of
failures, by set, turn in the picture, size and light (palmkit.models.kinds). There a hand that is
not found is off by MISSED, which is the most that a hand can be off; a hand failed if its error is
above LIMIT.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from palmkit.kits.boxes import iou
from palmkit.kits.hands.crop import crop_from_landmarks, palm_size
from palmkit.models import kinds
from palmkit.models.face_detector.labels import read_picture
from palmkit.models.hand_detector.dataset import Entry, landmark_rows, read_labels
from palmkit.models.hand_detector.labels import CROPS, HAND_SETS
from palmkit.models.hand_detector.teachers import Array, Picture
from palmkit.models.hand_landmarks.network import GESTURES
from palmkit.models.hand_landmarks.pipelines import Pipeline, Recognised, mediapipe, ours

MODELS = Path(__file__).parents[1]
DETECTOR = MODELS / "hand_detector/hand_detector.palm"
LANDMARKS = MODELS / "hand_landmarks/hand_landmarks.palm"
# In palm sizes: a finger's width, and what stands for a hand that is not found.
LIMIT, MISSED = 0.15, 1.0
# Steps in degrees between a hand's fingers and the picture's upward direction.
TURNS = (0, 45, 90, 135)
# What numbers were chosen on, as cards and metrics.json say.
CHOSEN_ON = (
    "the validation part of the training pictures; that the kit looks twice, and closer, and the"
    " detector's threshold, on dev, too"
)


class Tally:
    """The results of one pipeline."""

    def __init__(self) -> None:
        """Start empty."""
        self.pairs: list[tuple[str, str, str]] = []
        self.errors: dict[str, list[float]] = {"hand_sets": [], "people": []}
        self.groups: dict[str, list[bool]] = {}
        self.sides: list[bool] = []
        self.hands = 0
        self.by_kind = kinds.Tally(LIMIT)
        self.clean: list[bool] = []

    def add(self, entry: Entry, picture: Picture, found: list[Recognised]) -> None:
        """Compare the results for one picture."""
        kind = "hand_sets" if entry["set"] in HAND_SETS else "people"
        if not entry["hands"] and not entry["ignored"] and entry["set"] not in HAND_SETS:
            self.clean.append(not found)
        boxes = np.asarray([hand.box for hand in found], np.float32).reshape(-1, 4)
        truth = landmark_rows(entry)
        flat = truth[..., :2]
        known = np.concatenate([flat.min(axis=1), flat.max(axis=1)], axis=1)
        overlaps = iou(known, boxes)
        for hand, points, overlap in zip(entry["hands"], truth, overlaps, strict=True):
            self.hands += 1
            best = int(overlap.argmax()) if len(found) else -1
            meets = best >= 0 and overlap[best] > 0.3
            error = MISSED
            if meets:
                apart = np.linalg.norm(found[best].landmarks[:, :2] - points[:, :2], axis=1)
                error = float(apart.mean()) / palm_size(points)
                self.errors[kind].append(error)
                if abs(hand["right"] - 0.5) > 0.4:
                    self.sides.append((found[best].right > 0.5) == (hand["right"] > 0.5))
            self.by_kind.add(kinds_of(entry["set"], picture, points), min(error, MISSED))
            if hand["gesture"] is not None:
                answer = found[best].gesture if meets else "none"
                self.pairs.append((entry["set"], hand["gesture"], answer))
                for group in groups_of(picture, points, hand["right"]):
                    self.groups.setdefault(group, []).append(answer == hand["gesture"])
        alone = len(entry["hands"]) <= 1 or entry["set"] in CROPS
        if alone and entry["label"] and not any(hand["gesture"] for hand in entry["hands"]):
            # A hand that the teachers did not find counts, too.
            largest = max(found, key=lambda hand: palm_size(hand.landmarks), default=None)
            answer = largest.gesture if largest else "none"
            self.pairs.append((entry["set"], entry["label"], answer))

    def numbers(self) -> dict[str, float]:
        """Return all numbers."""
        pairs = [(truth, answer) for _, truth, answer in self.pairs]
        errors = [*self.errors["hand_sets"], *self.errors["people"]]
        numbers = {
            "macro_f1": macro_f1(pairs),
            "accuracy": float(np.mean([truth == answer for truth, answer in pairs])),
            "landmark_error": float(np.mean(errors)),
            "landmark_error_median": float(np.median(errors)),
            **{f"landmark_error_{kind}": mean(each) for kind, each in self.errors.items()},
            "found": len(errors) / max(self.hands, 1),
            "handedness": mean(self.sides),
            "clean_negatives": mean(self.clean),
            "gestures": float(len(pairs)),
            "hands": float(self.hands),
        }
        for name in GESTURES:
            if any(truth == name for truth, _ in pairs):
                numbers[f"f1_{name}"] = f1(pairs, name)
        for name in sorted({each for each, _, _ in self.pairs}):
            here = [(truth, answer) for each, truth, answer in self.pairs if each == name]
            right = np.mean([truth == answer for truth, answer in here])
            numbers[f"accuracy_{name}"] = float(right)
        for name in sorted(self.groups):
            numbers[f"accuracy_{name}"] = mean(self.groups[name])
        return {name: round(value, 4) for name, value in numbers.items()}


def mean(values: Sequence[float]) -> float:
    """Return the mean; NaN without values."""
    return float(np.mean(values)) if values else float("nan")


def turn_of(landmarks: Array) -> float:
    """Return the degrees between a hand's fingers and the picture's upward direction."""
    return abs(math.degrees(crop_from_landmarks(landmarks).angle))


def kinds_of(name: str, picture: Picture, landmarks: Array) -> list[str]:
    """Return the kinds of a hand of a set: its turn, distance and light."""
    flat = landmarks[:, :2]
    return [
        name,
        kinds.between(turn_of(landmarks), TURNS, "turn"),
        kinds.distance([float(np.ptp(flat, axis=0).max())], picture),
        kinds.light_on(picture, flat),
    ]


def groups_of(picture: Picture, landmarks: Array, right: float) -> list[str]:
    """Return light, size, rotation and side of a hand, the conditions known from the data."""
    palm, turn = palm_size(landmarks), turn_of(landmarks)
    return [
        kinds.light_on(picture, landmarks[:, :2]).replace(" ", "_"),
        "palm_below_40" if palm < 40 else "palm_40_and_more",
        "turn_below_45" if turn < 45 else "turn_45_and_more",
        "right_hands" if right > 0.5 else "left_hands",
    ]


def f1(pairs: Sequence[tuple[str, str]], name: str) -> float:
    """Return the F1 of one class among pairs of truth and answer."""
    hits = sum(truth == answer == name for truth, answer in pairs)
    said = sum(answer == name for _, answer in pairs)
    true = sum(truth == name for truth, _ in pairs)
    return 2 * hits / max(said + true, 1)


def macro_f1(pairs: Sequence[tuple[str, str]]) -> float:
    """Return the mean F1 of the classes that occur."""
    return float(np.mean([f1(pairs, name) for name in sorted({truth for truth, _ in pairs})]))


def confusion(pairs: Sequence[tuple[str, str, str]]) -> str:
    """Return the commonest errors."""
    wrong = Counter((truth, answer) for _, truth, answer in pairs if truth != answer)
    return ", ".join(f"{truth} as {said} {n}" for (truth, said), n in wrong.most_common(12))


def measure(
    data: Path, entries: Sequence[Entry], pipelines: Mapping[str, Pipeline]
) -> dict[str, Tally]:
    """Run every pipeline on every picture."""
    tallies = {name: Tally() for name in pipelines}
    for entry in tqdm(entries, mininterval=5, leave=False):
        picture = read_picture(data, entry["file"])
        for name, recognise in pipelines.items():
            tallies[name].add(entry, picture, recognise(picture))
    return tallies


def table(results: Mapping[str, Mapping[str, float]]) -> str:
    """Return Markdown with a row a number and a column a pipeline."""
    names = list(results)
    lines = ["| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for key in results[names[0]]:
        values = " | ".join(f"{results[name].get(key, float('nan')):.3f}" for name in names)
        lines.append(f"| {key} | {values} |")
    return "\n".join(lines)


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="measure hand landmarks and gestures")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="folder of labels*.jsonl")
    parser.add_argument("teachers", type=Path, help="folder of the published networks")
    parser.add_argument("out", type=Path, help="folder that takes metrics.json")
    parser.add_argument("--part", choices=("dev", "validation"), default="dev")
    parser.add_argument("--detector", type=Path, default=DETECTOR)
    parser.add_argument("--landmarks", type=Path, default=LANDMARKS)
    parser.add_argument("--size", type=int, help="input of the detector; the kit's own if left out")
    parser.add_argument("--min-score", type=float, help="the detector's own threshold if left out")
    parser.add_argument("--presence", type=float, help="the landmarks' own threshold if left out")
    options = parser.parse_args(None if arguments is None else list(arguments))
    entries = [each for each in read_labels(options.labels) if each["part"] == options.part]
    pipelines = {
        "palmkit": ours(
            *(options.detector, options.landmarks, options.size),
            *(options.min_score, options.presence),
        ),
        "teachers and finger rule": mediapipe(options.teachers),
    }
    tallies = measure(options.data, entries, pipelines)
    results: dict[str, Any] = {name: tally.numbers() for name, tally in tallies.items()}
    pictures = {name: tally.by_kind.spreads() for name, tally in tallies.items()}
    print(table(results), "", sep="\n")
    print(*kinds.lines(pictures, f"error, failed above {LIMIT:g}"), sep="\n")
    print(f"chosen on: {CHOSEN_ON}")
    for name, tally in tallies.items():
        print(f"\n{name}: {confusion(tally.pairs)}")
        results[name]["pictures"] = kinds.rounded(pictures[name])
    results["chosen_on"] = CHOSEN_ON
    (options.out / "metrics.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
