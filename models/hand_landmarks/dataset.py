"""Every hand of the packs, on the device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from palmkit.kits.hands.crop import crop_from_landmarks, palm_size
from palmkit.models.hand_detector.dataset import Entry, landmark_rows
from palmkit.models.hand_landmarks.network import LANDMARKS, SHAPES
from palmkit.models.training.pack import Packed
from palmkit.models.training.pixels import Pixels, cumulative

MOST_HANDS = 6
SMALLEST_PALM = 10
SET_WEIGHTS = {
    "subhi": 0.11,
    "leb": 0.16,
    "obb": 0.12,
    "linto": 0.07,
    "anton": 0.03,
    "ardamavi": 0.16,
    "rps_green": 0.05,
    "fingercount": 0.06,
    "hagrid": 0.24,
}
OTHER_WEIGHT = 0.16
# Hands of street photos and portraits were sorted by nobody; nearly all show no gesture.
UNSORTED_TRUST = 0.25
# Trust in labels of the first weights, see hand_detector.mine.
GUESS_TRUST = 0.5


def shape_of(entry: Entry, hand: Entry) -> tuple[int, float]:
    """Return the index in SHAPES, -1 where unknown, and its trust, 0..1."""
    gesture, trust = hand["gesture"], 1.0
    if gesture is None and "guess" in hand:
        gesture, trust = hand["guess"], GUESS_TRUST
    if gesture is None:
        if entry["file"].startswith("hands"):
            return -1, 0.0
        return SHAPES.index("other"), UNSORTED_TRUST
    return SHAPES.index("thumb" if gesture.startswith("thumb") else gesture), trust


class HandBank(Pixels):
    """Pictures, and the hands in them.

    Per hand: rows int64[n] of its picture; landmarks float32[n, 21, 3] pixels; centre float32[n,
    2], side and angle float32[n] of its crop; right, trust, sure float32[n]; shape int64[n]; green
    bool[n]. Per picture: boxes float32[p, 6, 4] of hands and doubtful places. For crops that were
    mistaken for a hand: wrong int64[m], rows of pictures, wrong_crops float32[m, 4] of x, y, side
    and angle.
    """

    def __init__(self, packs: Sequence[Packed], device: torch.device) -> None:
        """Copy the packs to `device`."""
        pairs = [pair for packed in packs for pair in zip(*packed, strict=True)]
        super().__init__([picture for picture, _ in pairs], device)
        hands: dict[str, list[Any]] = {
            name: []
            for name in (
                *("rows", "landmarks", "centre", "side", "angle", "right"),
                *("sure", "shape", "trust", "green", "set"),
            )
        }
        boxes = np.full((len(pairs), MOST_HANDS, 4), -1e4, np.float32)
        wrong: list[tuple[int, list[float]]] = []
        for row, (_, entry) in enumerate(pairs):
            wrong += [(row, crop) for crop in entry.get("wrong", ())]
            landmarks = landmark_rows(entry)
            flat = landmarks[..., :2]
            known = np.concatenate([flat.min(axis=1), flat.max(axis=1)], axis=1)
            doubtful = np.asarray(entry["ignored"], np.float32).reshape(-1, 4)
            places = np.concatenate([known, doubtful])[:MOST_HANDS]
            boxes[row, : len(places)] = places
            for hand, points in zip(entry["hands"], landmarks, strict=True):
                if palm_size(points) < SMALLEST_PALM:
                    continue
                crop = crop_from_landmarks(points)
                shape, trust = shape_of(entry, hand)
                values = (
                    *(row, points, (crop.x, crop.y), crop.side, crop.angle, hand["right"]),
                    *(min(max(0.03 / (hand["spread"] + 0.01), 0.3), 1.5), shape, trust),
                    *(entry["set"] == "rps_green", entry["set"]),
                )
                for name, value in zip(hands, values, strict=True):
                    hands[name].append(value)

        def table(name: str, dtype: torch.dtype) -> torch.Tensor:
            return torch.from_numpy(np.asarray(hands[name])).to(device, dtype)

        self.rows = table("rows", torch.int64)
        self.landmarks = table("landmarks", torch.float32).reshape(-1, LANDMARKS, 3)
        self.centre = table("centre", torch.float32)
        self.side = table("side", torch.float32)
        self.angle = table("angle", torch.float32)
        self.right = table("right", torch.float32)
        self.sure = table("sure", torch.float32)
        self.shape = table("shape", torch.int64)
        self.trust = table("trust", torch.float32)
        self.green = table("green", torch.bool)
        self.boxes = torch.from_numpy(boxes).to(device)
        crops = np.array([crop for _, crop in wrong], np.float32).reshape(-1, 4)
        self.wrong = torch.tensor([row for row, _ in wrong], dtype=torch.int64, device=device)
        self.wrong_crops = torch.from_numpy(crops).to(device)
        self.weights = cumulative(hand_weights(hands["set"], hands["shape"]), device)
        self.curled = cumulative(
            np.isin(hands["shape"], [SHAPES.index(s) for s in ("fist", "one", "thumb")]).astype(
                np.float64
            ),
            device,
        )
        negatives = [len(e["hands"]) == 0 and not e["file"].startswith("hands") for _, e in pairs]
        self.empty = cumulative(np.asarray(negatives, np.float64), device)


def hand_weights(sets: Sequence[str], shapes: Sequence[int]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return how often each hand is drawn: sets by SET_WEIGHTS, rare gestures more often."""
    by_pair = Counter(zip(sets, shapes, strict=True))
    raw = np.array([by_pair[pair] ** -0.5 for pair in zip(sets, shapes, strict=True)])
    by_shape = Counter(shapes)
    mean = len(shapes) / len(by_shape)
    raw *= np.array([(mean / by_shape[shape]) ** 0.4 for shape in shapes])
    groups = np.array([name if name in SET_WEIGHTS else "" for name in sets])
    weights = np.zeros(len(raw))
    for name in np.unique(groups):
        here = groups == name
        weights[here] = raw[here] / raw[here].sum() * SET_WEIGHTS.get(str(name), OTHER_WEIGHT)
    return weights
