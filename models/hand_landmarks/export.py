"""Turn a checkpoint into the model that ships: ONNX first, then our own format.

`python -m palmkit.models.hand_landmarks.export CHECKPOINT OUT` writes OUT/hand_landmarks.onnx and
OUT/hand_landmarks.palm: averaged weights as float16, batch normalisation and the division by 255
folded into the convolutions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from palmkit.models.hand_landmarks.network import GESTURES, SIZE, ExportedNetwork, HandNetwork
from palmkit.models.kinds import without_pictures
from palmkit.models.training import export as training

VERSION = "1.0"
LICENCE = "Apache-2.0"
OUTPUTS = ("landmarks", "handedness", "presence", "gesture")
# Share of the classifier that sees only landmarks; chosen on the validation part.
LANDMARK_SHARE = 0.8


def export_onnx(checkpoint: Path, out: Path, share: float = LANDMARK_SHARE) -> None:
    """Write the averaged network of a checkpoint as ONNX."""
    network = HandNetwork()
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    network.load_state_dict(state["averaged"])
    image, up = torch.zeros(1, SIZE, SIZE, 3), torch.tensor([[0.0, -1.0]])
    exported = ExportedNetwork(network, share)
    training.export_onnx(exported, image, OUTPUTS, out, beside={"up": up})


def describe(threshold: float, metrics: Mapping[str, object]) -> dict[str, str]:
    """Return the model file's metadata."""
    return {
        "kit": "gesture",
        "name": "hand_landmarks",
        "version": VERSION,
        "licence": LICENCE,
        "input": (
            f"image: float32[1, {SIZE}, {SIZE}, 3], RGB 0..255, a crop of palmkit.kits.hands.crop; "
            "up: float32[1, 2], the picture's upward direction in the crop (Crop.up)"
        ),
        "outputs": (
            "landmarks: float32[1, 21, 3], 0..1 of the crop, z from the wrist; handedness: "
            "float32[1, 1], that it is a right hand; presence: float32[1, 1]; gesture: "
            f"float32[1, {len(GESTURES)}], probabilities"
        ),
        "gestures": " ".join(GESTURES),
        "threshold": f"{threshold:g}",
        "data": "see models/hand_landmarks/card.md for the pictures and their terms",
        "metrics": json.dumps(metrics, sort_keys=True),
    }


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="export the hand landmarks")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path, help="folder that takes the files")
    parser.add_argument("--threshold", type=float, default=0.9, help="least presence of a hand")
    parser.add_argument("--share", type=float, default=LANDMARK_SHARE)
    parser.add_argument("--metrics", type=Path, help="metrics.json of evaluate.py")
    options = parser.parse_args(None if arguments is None else list(arguments))
    options.out.mkdir(parents=True, exist_ok=True)
    onnx = options.out / "hand_landmarks.onnx"
    export_onnx(options.checkpoint, onnx, options.share)
    metrics = json.loads(options.metrics.read_text()) if options.metrics else {}
    told = describe(options.threshold, without_pictures(metrics))
    training.export_palm(onnx, onnx.with_suffix(".palm"), told, "float16", shapes=[])


if __name__ == "__main__":
    main()
