"""Turn a checkpoint into the model that ships: ONNX first, then our own format.

`python -m palmkit.models.face_detector.export CHECKPOINT OUT` writes OUT/face_detector.onnx
and OUT/face_detector.palm. The averaged weights are used, batch normalisation and the division
by 255 are folded into the convolutions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from palmkit.models.detection.network import STRIDES, DetectorNetwork, ExportedNetwork
from palmkit.models.face_detector.train import POINTS
from palmkit.models.training import export as training

VERSION = "1.0"
LICENCE = "Apache-2.0"


def export_onnx(checkpoint: Path, out: Path) -> None:
    """Write the averaged network of a checkpoint as ONNX, opset 17."""
    network = DetectorNetwork(POINTS)
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    network.load_state_dict(state["averaged"])
    names = [f"{kind}_{stride}" for stride in STRIDES for kind in ("score", "box", "points")]
    axes = {"image": {1: "height", 2: "width"}}
    for name in names:
        axes[name] = {1: f"{name}_height", 2: f"{name}_width"}
    image = torch.zeros(1, 320, 320, 3)
    training.export_onnx(ExportedNetwork(network), image, names, out, axes)


def describe(threshold: float, metrics: Mapping[str, object]) -> dict[str, str]:
    """The model file's metadata."""
    return {
        "kit": "face",
        "name": "face_detector",
        "version": VERSION,
        "licence": LICENCE,
        "input": "image: float32[1, height, width, 3], RGB 0..255, sides multiples of 32",
        "outputs": "score_s, box_s, points_s for s = 8, 16, 32: see palmkit.kits.face.decode",
        "keypoints": "left_eye right_eye nose mouth_left mouth_right (the subject's own left)",
        "threshold": f"{threshold:g}",
        "data": "see models/face_detector/card.md for the pictures and their terms",
        "metrics": json.dumps(metrics, sort_keys=True),
    }


def main(arguments: Iterable[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="export the face detector")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path, help="folder that takes the files")
    parser.add_argument("--threshold", type=float, default=0.6, help="default of min_score")
    parser.add_argument("--metrics", type=Path, help="metrics.json of evaluate.py")
    options = parser.parse_args(None if arguments is None else list(arguments))
    options.out.mkdir(parents=True, exist_ok=True)
    onnx = options.out / "face_detector.onnx"
    export_onnx(options.checkpoint, onnx)
    measured = json.loads(options.metrics.read_text()) if options.metrics else {}
    metrics = {size: rows["palmkit"] for size, rows in measured.items() if "size" in size}
    training.export_palm(onnx, onnx.with_suffix(".palm"), describe(options.threshold, metrics))


if __name__ == "__main__":
    main()
