"""Pipelines that find hands and gestures: our networks, and the teachers with a finger rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from palmkit.kits.boxes import iou
from palmkit.kits.crop import Crop, sample
from palmkit.kits.hands.crop import crop_from_keypoints, palm_size
from palmkit.models.hand_detector import teachers
from palmkit.models.hand_detector.teachers import Array, Picture
from palmkit.models.hand_landmarks.network import GESTURES

MAX_ENLARGED = 3.0
MAX_HANDS = 4


class Recognised(NamedTuple):
    """One hand: float32[21, 3] pixels; probabilities, gesture one of GESTURES."""

    landmarks: Array
    score: float
    presence: float
    right: float
    gesture: str
    gesture_score: float

    @property
    def box(self) -> Array:
        """The corners of the box round the landmarks, float32[4]."""
        flat = self.landmarks[:, :2]
        return np.concatenate([flat.min(axis=0), flat.max(axis=0)])


Pipeline = Callable[[Picture], list[Recognised]]
Reader = Callable[[Picture, Crop], Recognised]


def our_detector(
    path: Path, size: int, min_score: float
) -> Callable[[Picture], list[tuple[float, Crop]]]:
    """Return scores and crops of the hands that our detector finds, best first."""
    from palmkit.engine import load
    from palmkit.kits.detection import decode, merge
    from palmkit.kits.image import letterbox
    from palmkit.kits.kit import pixels

    model = load(path)

    def find(picture: Picture) -> list[tuple[float, Crop]]:
        canvas, placement = letterbox(picture, size, size, max_scale=MAX_ENLARGED)
        found = merge(decode(model.run({"image": pixels(model, canvas)}), min_score, keypoints=2))
        boxes = placement.to_picture(found.boxes.reshape(-1, 2, 2)).reshape(-1, 4)
        points = placement.to_picture(found.keypoints)
        boxes[:, 2:] -= boxes[:, :2]
        return [
            (float(score), crop_from_keypoints(point, box))
            for score, point, box in zip(found.scores, points, boxes, strict=True)
        ][:MAX_HANDS]

    return find


def our_reader(path: Path) -> Reader:
    """Return our landmark network on one crop."""
    from palmkit.engine import load

    model = load(path)
    size = model.inputs["image"].dims[1]

    def read(picture: Picture, crop: Crop) -> Recognised:
        image = sample(picture, crop, size)[None].astype(np.float32)
        outputs = model.run({"image": image, "up": np.asarray([crop.up], np.float32)})
        gesture = outputs["gesture"][0]
        best = int(gesture.argmax())
        return Recognised(
            crop.to_picture(outputs["landmarks"][0]),
            1.0,
            float(outputs["presence"][0, 0]),
            float(outputs["handedness"][0, 0]),
            GESTURES[best],
            float(gesture[best]),
        )

    return read


def ours(
    detector: Path,
    landmarks: Path,
    size: int | None,
    min_score: float | None = None,
    presence: float | None = None,
) -> Pipeline:
    """Return the gesture kit with these networks; None: their own thresholds."""
    from palmkit.kits import GestureRecognizer

    recognizer = GestureRecognizer(
        model=landmarks,
        detector_model=detector,
        size=size,
        min_score=min_score,
        min_presence=presence,
    )

    def recognise(picture: Picture) -> list[Recognised]:
        return [
            Recognised(
                hand.landmarks,
                1.0,
                hand.score,
                float(hand.handedness == "right"),
                hand.gesture,
                hand.gesture_score,
            )
            for hand in recognizer.recognize(picture)
        ]

    return recognise


def mediapipe(folder: Path) -> Pipeline:
    """Return the teachers as MediaPipe runs them, with a rule that counts straight fingers."""
    find, read = teachers.palm_detector(folder, 0.5), teachers.hand_reader(folder)

    def recognise(picture: Picture) -> list[Recognised]:
        hands: list[Recognised] = []
        for box, score, points in zip(*find(picture), strict=True):
            crop = teachers.palm_crop(box, points)
            hand = read(picture, crop)
            gesture = finger_rule(hand.landmarks)
            hands.append(
                Recognised(
                    hand.landmarks, float(score), hand.presence, hand.right, gesture, hand.presence
                )
            )
        return distinct([hand for hand in hands if hand.presence >= 0.5])

    return recognise


def distinct(hands: list[Recognised]) -> list[Recognised]:
    """Return each hand once, best first."""
    kept: list[Recognised] = []
    for hand in sorted(hands, key=lambda each: -each.presence * each.score):
        boxes = np.asarray([other.box for other in kept], np.float32).reshape(-1, 4)
        if not (iou(hand.box[None], boxes) > 0.5).any():
            kept.append(hand)
    return kept


def finger_rule(landmarks: Array) -> str:
    """Return the gesture of the straight fingers, judged by distances from the wrist."""
    flat = landmarks[:, :2]
    palm = palm_size(landmarks)

    def apart(a: int, b: int) -> float:
        return float(np.hypot(*(flat[a] - flat[b]))) / palm

    straight = [apart(tip, 0) > 1.1 * apart(tip - 2, 0) for tip in (8, 12, 16, 20)]
    thumb = apart(4, 17) > 1.15 * apart(2, 17)
    if apart(4, 8) < 0.3 and all(straight[1:]):
        return "ok"
    if not any(straight):
        if not thumb:
            return "fist"
        along = flat[4] - flat[2]
        up = -along[1] / max(float(np.hypot(*along)), 1e-6)
        return "thumb_up" if up > 0.5 else "thumb_down" if up < -0.5 else "other"
    names = {
        (True, False, False, False, False): "one",
        (True, True, False, False, False): "two",
        (True, True, True, False, False): "three",
        (True, True, False, False, True): "three",
        (True, True, True, True, False): "four",
        (True, True, True, True, True): "open_palm",
    }
    return names.get((straight[0], straight[1], straight[2], straight[3], thumb), "other")
