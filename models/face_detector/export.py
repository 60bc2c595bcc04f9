"""Turn a checkpoint into the model that ships.

`python -m palmkit.models.face_detector.export CHECKPOINT OUT` writes OUT/face_detector.onnx
and OUT/face_detector.palm; see palmkit.models.detection.export.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from palmkit.kits.results import KEYPOINTS
from palmkit.models.detection.export import Detector


def column(name: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Return what takes the results at each input size of one detector of evaluate.py."""
    return lambda found: {size: row[name] for size, row in found.items() if "size" in size}


FACE_DETECTOR = Detector(
    kit="face",
    name="face_detector",
    keypoints=KEYPOINTS,
    about_keypoints=" (the subject's own left)",
    side=320,
    threshold=0.65,
    weights="auto",
    shapes=None,
    measured=column("palmkit"),
)
main = FACE_DETECTOR.main

if __name__ == "__main__":
    main()
