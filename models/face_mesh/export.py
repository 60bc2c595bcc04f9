"""Turn a checkpoint into the model that ships: ONNX first, then our own format.

`python -m palmkit.models.face_mesh.export CHECKPOINT OUT` writes OUT/face_mesh.onnx and
OUT/face_mesh.palm, whose weights are float16. The averaged weights are used; batch normalisation
and the division by 255 are folded into the convolutions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from palmkit.models.face_mesh.network import ExportedNetwork, trained
from palmkit.models.kinds import without_pictures
from palmkit.models.training.export import export_onnx

VERSION = "1.0"
LICENCE = "Apache-2.0"
THRESHOLD = 0.5
OUTPUTS = ("points", "visibility", "presence")


@dataclass(frozen=True)
class MeshFile:
    """How a mesh network ships: the model's name, and the column of evaluate.py's results."""

    name: str = "face_mesh"
    column: str = "palmkit"

    def describe(self, side: int, metrics: Mapping[str, object]) -> dict[str, str]:
        """Return the model file's metadata; side: of the crop."""
        return {
            "kit": "face",
            "name": self.name,
            "version": VERSION,
            "licence": LICENCE,
            "input": f"image: float32[1, {side}, {side}, 3], RGB 0..255, see "
            "palmkit.kits.face.crop",
            "outputs": "points float32[1, 478, 3] in 0..1 of the crop, z in the same unit, less "
            "is nearer; visibility float32[1, 478]; presence float32[1, 1]",
            "threshold": f"{THRESHOLD:g}",
            "data": f"see models/{self.name}/card.md for the pictures and their terms",
            "metrics": json.dumps(metrics, sort_keys=True),
        }

    def export(self, checkpoint: Path, out: Path, metrics: Mapping[str, object]) -> None:
        """Write both files; the .palm holds no plan, which would double its size."""
        from palmkit.engine import convert, save

        state = torch.load(checkpoint, map_location="cpu", weights_only=True)
        side = int(state["recipe"]["size"])
        onnx = out / f"{self.name}.onnx"
        image = torch.zeros(1, side, side, 3)
        export_onnx(ExportedNetwork(trained(state)), image, OUTPUTS, onnx)
        graph = replace(convert(onnx), metadata=self.describe(side, metrics))
        save(graph, onnx.with_suffix(".palm"), weights="float16", shapes=[])

    def main(self, arguments: Iterable[str] | None = None) -> None:
        """Run the command line."""
        parser = argparse.ArgumentParser(description=f"export the {self.name.replace('_', ' ')}")
        parser.add_argument("checkpoint", type=Path)
        parser.add_argument("out", type=Path, help="folder that takes the files")
        parser.add_argument("--metrics", type=Path, help="metrics.json of evaluate.py")
        options = parser.parse_args(None if arguments is None else list(arguments))
        options.out.mkdir(parents=True, exist_ok=True)
        measured = json.loads(options.metrics.read_text()) if options.metrics else {}
        measured = without_pictures(measured)
        numbers = {
            part: rows[self.column] for part, rows in measured.items() if self.column in rows
        }
        self.export(options.checkpoint, options.out, numbers)


main = MeshFile().main

if __name__ == "__main__":
    main()
