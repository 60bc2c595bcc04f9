"""Export of a detector's checkpoint as the model that ships, by way of ONNX.

The averaged weights are used; batch normalisation and the division by 255 are folded into the
convolutions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from palmkit.models.detection.network import SIZES, STRIDES, DetectorNetwork, ExportedNetwork
from palmkit.models.kinds import without_pictures
from palmkit.models.training import export as training

VERSION = "1.0"
LICENCE = "Apache-2.0"


@dataclass(frozen=True)
class Detector:
    """The contents of a detector's model file, and how it is written.

    kit, name: names of the kit and of the model. keypoints: their names, in order; about_keypoints:
    more about them. side: side of the example picture. threshold: default of min_score. weights,
    shapes: as in palmkit.engine.save. measured: the results of evaluate.py that go into the file.
    network: of models.detection.network.SIZES.
    """

    kit: str
    name: str
    keypoints: tuple[str, ...]
    about_keypoints: str
    side: int
    threshold: float
    weights: Literal["auto", "float16", "float32"]
    shapes: Sequence[Mapping[str, Sequence[int]]] | None
    measured: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    network: str = "fast"

    def export_onnx(self, checkpoint: Path, out: Path) -> None:
        """Write the averaged network of a checkpoint as ONNX, opset 17."""
        network = DetectorNetwork(len(self.keypoints), SIZES[self.network])
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)
        network.load_state_dict(state["averaged"])
        names = [f"{kind}_{stride}" for stride in STRIDES for kind in ("score", "box", "points")]
        axes = {"image": {1: "height", 2: "width"}}
        for name in names:
            axes[name] = {1: f"{name}_height", 2: f"{name}_width"}
        image = torch.zeros(1, self.side, self.side, 3)
        training.export_onnx(ExportedNetwork(network), image, names, out, axes)

    def describe(self, threshold: float, metrics: Mapping[str, object]) -> dict[str, str]:
        """Return the model file's metadata."""
        return {
            "kit": self.kit,
            "name": self.name,
            "version": VERSION,
            "licence": LICENCE,
            "input": "image: float32[1, height, width, 3], RGB 0..255, sides multiples of 32",
            "outputs": "score_s, box_s, points_s for s = 8, 16, 32: see palmkit.kits.detection",
            "keypoints": f"{' '.join(self.keypoints)}{self.about_keypoints}",
            "threshold": f"{threshold:g}",
            "data": f"see models/{self.name}/card.md for the pictures and their terms",
            "metrics": json.dumps(metrics, sort_keys=True),
        }

    def main(self, arguments: Iterable[str] | None = None) -> None:
        """Run the command line: write OUT/<name>.onnx and OUT/<name>.palm of a checkpoint."""
        parser = argparse.ArgumentParser(description=f"export the {self.name.replace('_', ' ')}")
        parser.add_argument("checkpoint", type=Path)
        parser.add_argument("out", type=Path, help="folder that takes the files")
        parser.add_argument(
            "--threshold", type=float, default=self.threshold, help="default of min_score"
        )
        parser.add_argument("--metrics", type=Path, help="metrics.json of evaluate.py")
        options = parser.parse_args(None if arguments is None else list(arguments))
        options.out.mkdir(parents=True, exist_ok=True)
        onnx = options.out / f"{self.name}.onnx"
        self.export_onnx(options.checkpoint, onnx)
        metrics = json.loads(options.metrics.read_text()) if options.metrics else {}
        told = self.describe(options.threshold, self.measured(without_pictures(metrics)))
        training.export_palm(onnx, onnx.with_suffix(".palm"), told, self.weights, self.shapes)
