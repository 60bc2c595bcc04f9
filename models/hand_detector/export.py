"""Turn a checkpoint into the model that ships, its weights as float16.

`python -m palmkit.models.hand_detector.export CHECKPOINT OUT` writes OUT/hand_detector.onnx and
OUT/hand_detector.palm; see palmkit.models.detection.export.
"""

from __future__ import annotations

from palmkit.models.detection.export import Detector

HAND_DETECTOR = Detector(
    kit="gesture",
    name="hand_detector",
    keypoints=("wrist", "middle_finger_base"),
    about_keypoints="",
    side=192,
    threshold=0.35,
    weights="float16",
    shapes=[],
    measured=lambda found: found,
)
main = HAND_DETECTOR.main

if __name__ == "__main__":
    main()
