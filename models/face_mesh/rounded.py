"""Round the face mesh's weights, so that it ships in fewer bytes.

`python -m palmkit.models.face_mesh.rounded DATA WORK MODEL OUT` writes OUT/face_mesh.palm; DATA and
WORK as `palmkit.models.quantization` has them, MODEL as export.py writes it. Layers are rounded in
turn on training faces; the last one, which makes the points, by the codes of faces as off and as
disturbed as cameras and the kit leave them: where a face lies must not seem to cost nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from palmkit.engine import Graph, Model, load, save
from palmkit.engine.compress.in_turn import rounded_in_turn
from palmkit.engine.compress.layers import Layer, find_layers
from palmkit.engine.compress.rounding import grid_of, nearest_on
from palmkit.engine.ir import UNKNOWN, Array
from palmkit.models.face_detector.dataset import read_labels
from palmkit.models.face_mesh.dataset import is_sure, read_meshes
from palmkit.models.face_mesh.refit import views
from palmkit.models.quantization import TASKS
from palmkit.models.smaller import SAMPLES, TURNED, in_half, quiet, steps_of
from palmkit.models.training.pixels import disturb, disturbances

LAST = "network.points.weight"
# Half of them are disturbed.
AT_ONCE = 128


def codes(graph: Graph, layer: Layer, pictures: Iterable[Array]) -> Array:
    """float64[n, k]: what the last layer sees of pictures, float32[size, size, 3] 0..1."""
    name = layer.node.inputs[0]
    model = Model(replace(graph, outputs={name: UNKNOWN}))
    torch.manual_seed(0)
    found: list[Array] = []

    def look(batch: list[Array]) -> None:
        half = len(batch) // 2
        rest = torch.from_numpy(np.stack(batch[half:])).permute(0, 3, 1, 2).contiguous()
        worse = disturb(rest, disturbances(len(rest), rest.device)).permute(0, 2, 3, 1).numpy()
        for picture in (*batch[:half], *worse):
            image = np.asarray(picture[None] * np.float32(255), np.float32)
            found.append(model.run({"image": image})[name].ravel().astype(np.float64))

    batch: list[Array] = []
    for picture in pictures:
        batch.append(picture)
        if len(batch) == AT_ONCE:
            look(batch)
            batch = []
    if batch:
        look(batch)
    return np.stack(found)


def round_last(graph: Graph, layer: Layer, step: float, seen: Array) -> Graph:
    """The graph with the last layer on its grid, its bias keeping the means; seen: its inputs."""
    weight, bias = (graph.constants[name] for name in layer.node.inputs[1:3])
    groups = layer.as_groups(weight)
    units = grid_of(groups, step)
    if units is None:
        raise ValueError(f"{layer.weight}: steps of {step:g} are too narrow")
    mean = seen.mean(axis=0)
    square = (seen - mean).T @ (seen - mean) / len(seen)
    whole = nearest_on(units, groups, square[None])
    shift = ((whole - groups)[0] @ mean).reshape(bias.shape)
    constants = {
        **graph.constants,
        layer.weight: layer.from_groups(whole, weight.shape).astype(np.float32),
        layer.node.inputs[2]: (bias - shift).astype(np.float32),
    }
    return graph.with_nodes(graph.nodes, constants)


def main(arguments: Iterable[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="round the face mesh's weights")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("work", type=Path, help="folder of labels.jsonl and meshes.npz")
    parser.add_argument("model", type=Path, help="the float model")
    parser.add_argument("out", type=Path, help="folder that takes face_mesh.palm")
    parser.add_argument("--width", type=float, default=1.55, help="of the steps")
    options = parser.parse_args(None if arguments is None else list(arguments))
    task = TASKS["face_mesh"]("face_mesh", options.data, options.work, 1, SAMPLES, "validation")
    graph = load(options.model).graph
    layers = find_layers(graph)
    steps, _ = steps_of(graph, layers, task)
    wide = {name: step * options.width for name, step in steps.items()}
    last = next(layer for layer in layers if layer.weight == LAST)
    others = [layer for layer in layers if layer is not last]
    small = rounded_in_turn(graph, others, wide, task.samples[:TURNED], quiet)
    entries = read_labels(options.work / "labels.jsonl")
    faces = read_meshes(options.work / "meshes.npz", entries)
    faces = faces.select((faces.part == "train") & is_sure(faces) & ~faces.masked)
    pictures = (picture for picture, _ in views(options.data, entries, faces))
    small = round_last(small, last, wide[LAST], codes(small, last, pictures))
    options.out.mkdir(parents=True, exist_ok=True)
    save(in_half(small, without=steps), options.out / "face_mesh.palm", "smallest", shapes=())


if __name__ == "__main__":
    main()
