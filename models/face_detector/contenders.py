"""The detectors that are measured: the kit in all its ways, YuNet and both BlazeFaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from palmkit.kits.boxes import corners
from palmkit.kits.face.options import DETECTORS
from palmkit.kits.kit import shipped_model
from palmkit.kits.quality import Quality
from palmkit.models.face_detector import teachers
from palmkit.models.face_detector.teachers import Array, Detections, Detector, Picture, resize

MODEL, BEST = shipped_model(DETECTORS.fast), shipped_model(DETECTORS.best)
LOWEST_SCORE = 0.02


class Contender(NamedTuple):
    """A detector, and the score from which it reports a face by default.

    by_default: what it reports by default, if that is not what `detect` finds from this score on.
    """

    detect: Detector
    threshold: float
    by_default: Detector | None = None

    def reported(self, picture: Picture) -> Detections:
        """Return what it reports by default."""
        if self.by_default is not None:
            return self.by_default(picture)
        return self.detect(picture).above(self.threshold)


class Counted:
    """A model that counts what it sees.

    pixels: of all inputs so far.
    """

    def __init__(self, path: Path) -> None:
        """Open a model file."""
        from palmkit.engine import load

        self._model = load(path)
        self.metadata = self._model.metadata
        self.pixels = 0

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run the model."""
        self.pixels += prod(inputs["image"].shape[1:3])
        return self._model.run(inputs)


def kit_detector(path: Path, size: int | None) -> Contender:
    """Return our network as the kit runs it."""
    from palmkit.engine import load

    threshold = float(load(path).metadata["threshold"])
    quality: Quality = "best" if path == BEST else "fast"
    every, reported = (kit_of(path, size, least, quality) for least in (LOWEST_SCORE, None))
    return Contender(every, threshold, reported)


def auto_detector(size: int | None) -> Contender:
    """Return both networks as the kit runs them: what counts by default is each one's own score."""
    from palmkit.engine import load

    threshold = float(load(MODEL).metadata["threshold"])
    every, reported = (kit_of(MODEL, size, least, best=BEST) for least in (LOWEST_SCORE, None))
    return Contender(every, threshold, reported)


def kit_of(
    model: Path | Counted,
    size: int | None,
    min_score: float | None,
    quality: Quality = "auto",
    best: Path | Counted | None = None,
) -> Detector:
    """Return the kit with these options as a detector.

    model: that of the quality. best: the network that looks again; None: none does.
    """
    from palmkit.kits import FaceDetector

    detector = FaceDetector(
        model=model,
        best_detector_model=best,
        quality=quality,
        size=size,
        min_score=min_score,
    )

    def detect(picture: Picture) -> Detections:
        faces = detector.detect(picture)
        return Detections(corners(faces.boxes), faces.scores, faces.keypoints)

    return detect


def at_size(detect: Detector, size: int) -> Detector:
    """Return the detector on pictures resized as by the kit."""

    def resized(picture: Picture) -> Detections:
        height, width = picture.shape[:2]
        scale = min(size / max(height, width), 2.0)
        found = detect(resize(picture, round(width * scale), round(height * scale)))
        factor = np.float32(1 / scale)
        return Detections(found.boxes * factor, found.scores, found.points * factor)

    return resized


def contenders(folder: Path, size: int) -> dict[str, Contender]:
    """Return all detectors at one input size, which the BlazeFaces ignore."""
    yunet = teachers.yunet(folder / "yunet_n_dynamic.onnx", 1.0, LOWEST_SCORE)
    short = teachers.blazeface(folder / "face_detection_short_range.tflite", LOWEST_SCORE)
    full = teachers.blazeface(folder / "face_detection_full_range_sparse.tflite", LOWEST_SCORE)
    return {
        "palmkit": kit_detector(MODEL, size),
        "palmkit best": kit_detector(BEST, size),
        "yunet_n": Contender(at_size(yunet, size), 0.6),
        "blazeface short": Contender(short, 0.5),
        "blazeface full": Contender(full, 0.6),
    }


def as_they_come(folder: Path, closer: Iterable[int] = ()) -> dict[str, Contender]:
    """Return the kit of each quality, and YuNet at the picture's full size.

    closer: further values of the kit's option `size`.
    """
    yunet = teachers.yunet(folder / "yunet_n_dynamic.onnx", 1.0, LOWEST_SCORE)
    found: dict[str, Contender] = {}
    for size in (None, *closer):
        told = "" if size is None else f", {size}"
        found |= {
            f"palmkit auto{told}": auto_detector(size),
            f"palmkit fast{told}": kit_detector(MODEL, size),
            f"palmkit best{told}": kit_detector(BEST, size),
        }
    return {**found, "yunet_n": Contender(yunet, 0.6)}
