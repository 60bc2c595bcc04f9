"""Round the face mesh's weights, so that it ships in fewer bytes.

`python -m palmkit.models.face_mesh.rounded DATA WORK MODEL OUT` writes OUT/face_mesh.palm; DATA and
WORK as `palmkit.models.quantization` has them, MODEL as export.py writes it. Layers are rounded in
turn on training faces as off and as disturbed as cameras and the kit leave them: where a face lies
must not seem to cost nothing. The layer that reads the whole maps has 3,000 inputs and takes all
the views there are; errors of what layers give are taken up where the points hardly move by them.
How wide the steps are was decided on the validation part.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import overload

import numpy as np
import torch

from palmkit.engine import load, save
from palmkit.engine.compress.curvature import output_moments, output_steps
from palmkit.engine.compress.in_turn import rounded_in_turn, steps_in_turn
from palmkit.engine.compress.layers import find_layers
from palmkit.engine.compress.rounding import in_half
from palmkit.engine.ir import Array
from palmkit.models.face_detector.dataset import read_labels
from palmkit.models.face_mesh import refit
from palmkit.models.face_mesh.dataset import is_sure, read_meshes
from palmkit.models.quantization import SURE
from palmkit.models.smaller import quiet
from palmkit.models.training.pixels import disturb, disturbances

# Half of them are disturbed.
AT_ONCE = 128
# Views that layers are fitted to while their steps are sought; others for what moves the outputs
# and, of these, what errors do.
SEEN, MOVED, PROBED = 6000, 480, 240
MATTERS = {"visibility": SURE, "presence": SURE}
# Where errors add up and not their squares, they would count too much.
HARDLY = {"visibility": 0.002, "presence": 0.002}
# Steps of the large layers in sizes of their rows; measured alone and extrapolated they are too far
# off, and the other likelihoods matter too little to be measured.
GIVEN = {
    "network.encode.weight": 0.95,
    "network.points.weight": 0.24,
    "network.seen.1.weight": 0.6,
    "network.seen.3.weight": 0.6,
}


class Views(Sequence[Mapping[str, Array]]):
    """Pictures, uint8[n, size, size, 3], as samples of the network."""

    def __init__(self, pictures: Array) -> None:
        """Hold the pictures."""
        self.pictures = pictures

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.pictures)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Array]: ...
    @overload
    def __getitem__(self, index: slice) -> Views: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Array] | Views:
        """Return one view, or some of them."""
        if isinstance(index, slice):
            return Views(self.pictures[index])
        return {"image": self.pictures[index][None].astype(np.float32)}


def read_views(data: Path, work: Path) -> Views:
    """Return all views of the training faces without masks, in a fixed random order."""
    entries = read_labels(work / "labels.jsonl")
    faces = read_meshes(work / "meshes.npz", entries)
    faces = faces.select((faces.part == "train") & is_sure(faces) & ~faces.masked)
    torch.manual_seed(0)
    found: list[Array] = []
    batch: list[Array] = []

    def keep() -> None:
        half = len(batch) // 2
        rest = torch.from_numpy(np.stack(batch[half:])).permute(0, 3, 1, 2).contiguous()
        worse = disturb(rest, disturbances(len(rest), rest.device)).permute(0, 2, 3, 1).numpy()
        pictures = np.stack([*batch[:half], *worse])
        found.append(np.rint(pictures * np.float32(255)).astype(np.uint8))
        batch.clear()

    for picture, _ in refit.views(data, entries, faces):
        batch.append(picture)
        if len(batch) == AT_ONCE:
            keep()
    if batch:
        keep()
    pictures = np.concatenate(found)
    return Views(pictures[np.random.default_rng(0).permutation(len(pictures))])


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="round the face mesh's weights")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("work", type=Path, help="folder of labels.jsonl and meshes.npz")
    parser.add_argument("model", type=Path, help="the float model")
    parser.add_argument("out", type=Path, help="folder that takes face_mesh.palm")
    parser.add_argument("--width", type=float, default=1.2015, help="of the other layers' steps")
    options = parser.parse_args(None if arguments is None else list(arguments))
    graph = load(options.model).graph
    layers = find_layers(graph)
    views = read_views(options.data, options.work)
    probes = views[-PROBED:]
    together = output_moments(graph, layers, views[-MOVED:], quiet, MATTERS)
    # Few gradients say nothing of how that many outputs go together.
    together = {name: each for name, each in together.items() if 16 <= each.shape[1] < MOVED}
    others = [layer for layer in layers if layer.weight not in GIVEN]
    steps = steps_in_turn(graph, others, views[:SEEN], probes, quiet, together, HARDLY)
    wide = {name: step * options.width for name, step in steps.items()}
    for layer in layers:
        if (name := layer.weight) in GIVEN:
            wide[name] = GIVEN[name] * output_steps(
                layer, graph.constants[name], together.get(name)
            )
    small = rounded_in_turn(graph, layers, wide, views, quiet, together)
    options.out.mkdir(parents=True, exist_ok=True)
    save(in_half(small, without=wide), options.out / "face_mesh.palm", "smallest", shapes=())


if __name__ == "__main__":
    main()
