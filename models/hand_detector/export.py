"""Turn a checkpoint into the model that ships: ONNX first, then our own format.

`python -m palmkit.models.hand_detector.export CHECKPOINT OUT` writes OUT/hand_detector.onnx and
OUT/hand_detector.palm: averaged weights as float16, batch normalisation and the division by 255
folded into the convolutions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from palmkit.models.detection.network import STRIDES, DetectorNetwork, ExportedNetwork
from palmkit.models.hand_detector.train import KEYPOINTS
from palmkit.models.training import export as training

VERSION = "1.0"
LICENCE = "Apache-2.0"


def export_onnx(checkpoint: Path, out: Path) -> None:
    """Write the averaged network of a checkpoint as ONNX."""
    network = DetectorNetwork(len(KEYPOINTS))
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    network.load_state_dict(state["averaged"])
    names = [f"{kind}_{stride}" for stride in STRIDES for kind in ("score", "box", "points")]
    axes = {"image": {1: "height", 2: "width"}}
    for name in names:
        axes[name] = {1: f"{name}_height", 2: f"{name}_width"}
    image = torch.zeros(1, 192, 192, 3)
    training.export_onnx(ExportedNetwork(network), image, names, out, axes)


def describe(threshold: float, metrics: Mapping[str, object]) -> dict[str, str]:
    """The model file's metadata."""
    return {
        "kit": "gesture",
        "name": "hand_detector",
        "version": VERSION,
        "licence": LICENCE,
        "input": "image: float32[1, height, width, 3], RGB 0..255, sides multiples of 32",
        "outputs": "score_s, box_s, points_s for s = 8, 16, 32, laid out as the face detector's",
        "keypoints": "wrist middle_finger_base",
        "threshold": f"{threshold:g}",
        "data": "see models/hand_detector/card.md for the pictures and their terms",
        "metrics": json.dumps(metrics, sort_keys=True),
    }


def main(arguments: Iterable[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="export the hand detector")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path, help="folder that takes the files")
    parser.add_argument("--threshold", type=float, default=0.35, help="default of min_score")
    parser.add_argument("--metrics", type=Path, help="metrics.json of evaluate.py")
    options = parser.parse_args(None if arguments is None else list(arguments))
    options.out.mkdir(parents=True, exist_ok=True)
    onnx = options.out / "hand_detector.onnx"
    export_onnx(options.checkpoint, onnx)
    metrics = json.loads(options.metrics.read_text()) if options.metrics else {}
    told = describe(options.threshold, metrics)
    training.export_palm(onnx, onnx.with_suffix(".palm"), told, "float16", shapes=[])


if __name__ == "__main__":
    main()
