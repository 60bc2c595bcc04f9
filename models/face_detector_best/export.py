"""Turn a checkpoint of the larger network into the model that ships.

`python -m palmkit.models.face_detector_best.export CHECKPOINT OUT` writes
OUT/face_detector_best.onnx and OUT/face_detector_best.palm; see palmkit.models.detection.export.
"""

from __future__ import annotations

from dataclasses import replace

from palmkit.models.face_detector.export import FACE_DETECTOR, column

FACE_DETECTOR_BEST = replace(
    FACE_DETECTOR,
    name="face_detector_best",
    network="best",
    measured=column("palmkit best"),
)
main = FACE_DETECTOR_BEST.main

if __name__ == "__main__":
    main()
