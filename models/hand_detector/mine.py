"""Learn from the first weights: mark what they take for a hand wrongly, and name more gestures.

`python -m palmkit.models.hand_detector.mine PACK` goes through the pictures of a pack with the
shipped networks. What the detector proposes where no hand and nothing doubtful is, in sets where
every hand is known, becomes a `wrong` crop (x, y, side, angle) of its picture, and the picture
`hard`. In pictures whose hands the teachers may have missed, a hand that the landmark network
is sure of becomes doubtful instead. A hand without a gesture gets `guess`, the gesture that the
landmark network is sure of in both mirror images.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from palmkit.kits.crop import Crop
from palmkit.kits.hands.crop import crop_from_landmarks
from palmkit.models.hand_detector.dataset import Entry, landmark_rows
from palmkit.models.hand_detector.labels import HAND_SETS, PEOPLE
from palmkit.models.hand_detector.teachers import Picture
from palmkit.models.hand_landmarks.pipelines import MAX_HANDS, Reader, our_detector, our_reader
from palmkit.models.training.pack import read_pack

MODELS = Path(__file__).parents[1]
SIZES = (192, 256, 448)
MIN_SCORE, SURE, LIKELY = 0.25, 0.9, 0.7
# Sets whose pictures may show hands that the teachers missed.
WITH_HANDS = PEOPLE | {"interfaces", "obb"}


def boxes_of(entry: Entry) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return float32[n, 4]: corners round hands and doubtful places."""
    flat = landmark_rows(entry)[..., :2]
    hands = np.concatenate([flat.min(axis=1), flat.max(axis=1)], axis=1)
    return np.concatenate([hands, np.asarray(entry["ignored"], np.float32).reshape(-1, 4)])


def is_clear(crop: Crop, boxes: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> bool:
    """Return whether the middle part of a crop keeps away from all boxes."""
    reach = crop.side / 3
    low = boxes[:, :2] < (crop.x + reach, crop.y + reach)
    high = boxes[:, 2:] > (crop.x - reach, crop.y - reach)
    return not (low & high).all(axis=1).any()


def guess(read: Reader, picture: Picture, entry: Entry) -> None:
    """Name the gestures of unlabelled hands."""
    mirrored = np.ascontiguousarray(picture[:, ::-1])
    for hand, points in zip(entry["hands"], landmark_rows(entry), strict=True):
        if hand["gesture"] is None:
            crop = crop_from_landmarks(points)
            flipped = Crop(picture.shape[1] - crop.x, crop.y, crop.side, -crop.angle)
            seen = read(picture, crop), read(mirrored, flipped)
            alike = seen[0].gesture == seen[1].gesture
            if alike and min(each.gesture_score for each in seen) > SURE:
                hand["guess"] = seen[0].gesture


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="learn from the first weights of the hand models")
    parser.add_argument("pack", type=Path, help="folder written by dataset.py")
    parser.add_argument(
        "--detector", type=Path, default=MODELS / "hand_detector/hand_detector.palm"
    )
    parser.add_argument(
        "--landmarks", type=Path, default=MODELS / "hand_landmarks/hand_landmarks.palm"
    )
    options = parser.parse_args(None if arguments is None else list(arguments))
    detectors = [our_detector(options.detector, size, MIN_SCORE) for size in SIZES]
    read = our_reader(options.landmarks)
    for folder in sorted(options.pack.iterdir()):
        packed = read_pack(folder)
        for picture, entry in zip(*packed, strict=True):
            boxes = boxes_of(entry)
            found = [crop for find in detectors for _, crop in find(picture)[:MAX_HANDS]]
            wrong = [crop for crop in found if is_clear(crop, boxes)]
            missed = entry["set"] in HAND_SETS and not entry["hands"]
            if entry["set"] in WITH_HANDS or missed:
                hands = [hand for crop in wrong if (hand := read(picture, crop)).presence > LIKELY]
                entry["ignored"] += [hand.box.round(1).tolist() for hand in hands]
                wrong = []
            entry["wrong"] = [
                [round(c.x, 1), round(c.y, 1), round(c.side, 1), round(c.angle, 2)] for c in wrong
            ]
            entry["hard"] = len(wrong) > 0
            guess(read, picture, entry)
        (folder / "labels.json").write_text(json.dumps(packed.entries))


if __name__ == "__main__":
    main()
