"""Turn a checkpoint into the model that ships.

`python -m palmkit.models.face_detector.export CHECKPOINT OUT` writes OUT/face_detector.onnx
and OUT/face_detector.palm; see palmkit.models.detection.export.
"""

from __future__ import annotations

from palmkit.kits.results import KEYPOINTS
from palmkit.models.detection.export import Detector

FACE_DETECTOR = Detector(
    kit="face",
    name="face_detector",
    keypoints=KEYPOINTS,
    about_keypoints=" (the subject's own left)",
    side=320,
    threshold=0.6,
    weights="auto",
    shapes=None,
    measured=lambda found: {size: row["palmkit"] for size, row in found.items() if "size" in size},
)
main = FACE_DETECTOR.main

if __name__ == "__main__":
    main()
