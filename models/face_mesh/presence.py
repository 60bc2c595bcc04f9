"""Fit anew what tells a face from something else, in the file that ships.

`python -m palmkit.models.face_mesh.presence DATA LABELS MODEL OUT` writes OUT, MODEL with another
last row of the layer that gives `presence`, and prints what passes for a face before and after, of
validation and of dev. The network's own training shows it whole and near faces, and few things that
look like one; here are faces of eight pixels and more as the detector's labels place them, the same
partly hidden, up to half of them, behind what another crop shows, crops of pictures without
anybody, and what the detectors would take for a face there. It is a logistic regression on the
layer's inputs, drawn towards the row that is there; its bias is set so that on the validation part
as many larger faces pass as before. `--shift` moves the bias alone. The rest of the file stays, to
the bit.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from palmkit.engine import convert, load, save
from palmkit.engine.ir import Array, Graph, Type
from palmkit.kits import FaceDetector
from palmkit.kits.crop import Crop, sample
from palmkit.kits.face.crop import crop_from_keypoints
from palmkit.kits.kit import input_side
from palmkit.models.face_detector.dataset import read_labels
from palmkit.models.face_detector.labels import read_picture
from palmkit.models.face_mesh.evaluate import NEGATIVES, crop_without_face, near
from palmkit.models.face_mesh.teacher import Picture

Detectors: TypeAlias = Sequence[FaceDetector]

WEIGHT, BIAS = "network.seen.3.weight", "network.seen.3.bias"
# Where nobody has a face: what evaluate.py counts, animals, and backs of heads; and where no face
# was left unlabelled, so that what a detector finds is none.
EMPTY = (*NEGATIVES, "animals", "figaro")
BARE = ("clothing", "grocery", "backgrounds", "animals", "leb", "ardamavi")
# The score from which on a detector's word counts.
FOUND = 0.12
# The least side of a face, in pixels, and that from which on none is to be lost; the most of a
# training picture.
LEAST, LARGE, MOST = 8.0, 16.0, 3
# The shares of a face that are hidden.
HIDDEN = (0.15, 0.5)
# Crops of a training picture without a face: near ones, as evaluate.py cuts them, and far ones.
NEAR, FAR = 8, 4
# Of the squares of what weights change by, inputs being of spread 1: a fortieth of what crops there
# are. With less, faces that are half hidden are lost, which the network's own training taught it.
RIDGE = 1000.0
# How much what the detectors find counts: no less is lost of smaller faces with more of it.
OF_FOUND = 0.3


class Seen(NamedTuple):
    """Crops as the network sees them.

    inputs: float64[n, m], what the layer reads. logits: float64[n]. kind: "face", "hidden" in part,
    "crop" of a picture without one, or "found" there by a detector, each. side: float64[n], of the
    face or the crop, in pixels. part: "train", "validation" or "dev", each.
    """

    inputs: Array
    logits: Array
    kind: Array
    side: Array
    part: Array


class Place(NamedTuple):
    """A crop of a picture: its kind, as Seen has it, and the side of face or crop, in pixels.

    hidden: the share of the face that is, and from which side, an angle in radians.
    """

    crop: Crop
    kind: str
    side: float
    hidden: tuple[float, float] = (0.0, 0.0)


def places(entry: dict[str, Any], picture: Picture, detectors: Detectors) -> Iterator[Place]:
    """Yield where a labelled picture is looked at."""
    is_train = entry["part"] == "train"
    random = np.random.default_rng(len(entry["file"]) + picture.shape[0])
    if not entry["faces"]:
        if entry["ignored"] or entry["set"] not in EMPTY:
            return
        yield from _elsewhere(picture.shape, random, is_train)
        for detector in detectors if entry["set"] in BARE else ():
            found = detector.detect(picture)
            for box, keypoints in zip(found.boxes, found.keypoints, strict=True):
                yield Place(crop_from_keypoints(keypoints, box), "found", float(box[2:].max()))
        return
    faces = np.asarray(entry["faces"], np.float32)
    sides = (faces[:, 2:4] - faces[:, :2]).max(axis=1)
    rows = np.flatnonzero(np.isfinite(faces).all(axis=1) & (sides >= LEAST))
    if is_train:
        rows = random.permutation(rows)[:MOST]
    for row in rows.tolist():
        left, top, right, bottom = faces[row, :4].tolist()
        keypoints = faces[row, 4:14].reshape(5, 2)
        crop = crop_from_keypoints(keypoints, (left, top, right - left, bottom - top))
        yield Place(crop, "face", float(sides[row]))
        hidden = float(random.uniform(*HIDDEN)), float(random.uniform(0, 2 * np.pi))
        yield Place(crop, "hidden", float(sides[row]), hidden)
        if is_train:
            x, y, growth, turn = random.normal(0, (0.06, 0.06, 0.1, 0.1)).tolist()
            yield Place(crop.moved(x, y, float(np.exp(growth)), turn), "face", float(sides[row]))


def _elsewhere(
    shape: Sequence[int], random: np.random.Generator, is_train: bool
) -> Iterator[Place]:
    """Yield crops of a picture without a face; as evaluate.py has them but in training."""
    for number in range(NEAR + FAR if is_train else 3):
        share, around = near(random)
        if number >= NEAR:
            share, around = np.exp(random.uniform(np.log(0.1), np.log(0.5))), random.random(2)
        crop = crop_without_face(shape, share, around, random)
        yield Place(crop, "crop", crop.side)


def covered(drawn: Array, other: Array, place: Place) -> Array:
    """Return a drawn crop, float32[h, w, 3], with `other` over the hidden side of its face."""
    share, angle = place.hidden
    side = len(drawn)
    y, x = (np.mgrid[:side, :side] + 0.5) / side - 0.5
    along = x * np.cos(angle) + y * np.sin(angle)
    ends = place.side / place.crop.side * (0.5 - share)
    return np.where((along > ends)[..., None], other, drawn)


def look(graph: Graph, data: Path, entries: list[dict[str, Any]], file: Path) -> Seen:
    """Return all crops of the pictures as the network sees them.

    file: where a model that gives the layer's inputs may be written.
    """
    layer = next(node for node in graph.nodes if WEIGHT in node.inputs)
    width = graph.constants[WEIGHT].shape[1]
    outputs = {layer.inputs[0]: Type("float32", (1, width))}
    save(replace(graph, outputs=outputs), file, weights="float32", shapes=[])
    model = load(file, threads=1)
    side = input_side(model)
    detectors = tuple(
        FaceDetector(max_faces=None, quality=quality, min_score=FOUND)
        for quality in ("fast", "best")
    )
    rows: list[Array] = []
    known: list[tuple[str, float, str]] = []
    earlier = latest = np.zeros((side, side, 3), np.float32)
    for entry in entries:
        picture = read_picture(data, entry["file"])
        for place in places(entry, picture, detectors):
            drawn = sample(picture, place.crop, side).astype(np.float32)
            if place.kind == "hidden":
                # The latest shows this face.
                drawn = covered(drawn, earlier, place)
            else:
                earlier, latest = latest, drawn
            rows.append(np.array(model.run({"image": drawn[None]})[layer.inputs[0]][0], np.float64))
            known.append((place.kind, place.side, entry["part"]))
    inputs = np.stack(rows)
    kinds, sides, parts = (np.asarray(each) for each in zip(*known, strict=True))
    logits = inputs @ graph.constants[WEIGHT][-1] + graph.constants[BIAS][-1]
    return Seen(inputs, logits, kinds, sides, parts)


def fitted(
    inputs: Array, is_face: Array, weight: Array, logits: Array, ridge: float = RIDGE
) -> Array:
    """Return what to add to a row, float64[m + 1], the last one the bias, by Newton's method.

    It makes the row a logistic regression. inputs: float64[n, m]. is_face: bool[n]. weight:
    float64[n], how much each counts. logits: float64[n], what the row gives so far. ridge: of the
    squares of the change, in units of each input's spread.
    """
    mean, spread = inputs.mean(axis=0), inputs.std(axis=0) + 1e-6
    full = np.concatenate([(inputs - mean) / spread, np.ones((len(inputs), 1))], axis=1)
    shrink = np.diag(np.append(np.full(inputs.shape[1], ridge), 0.0))
    found = np.zeros(full.shape[1])
    for _ in range(50):
        share = np.exp(-np.logaddexp(0, -full @ found - logits))
        slope = full.T @ (weight * (share - is_face)) + shrink @ found
        curve = (full * (weight * share * (1 - share))[:, None]).T @ full + shrink
        step = np.linalg.solve(curve, slope)
        found -= step
        if np.abs(step).max() < 1e-9:
            break
    return np.append(found[:-1] / spread, found[-1] - (found[:-1] / spread * mean).sum())


def fitted_to(seen: Seen, row: Array) -> Array:
    """Return a row, float64[m + 1], fitted to what is of the train part, beginning with `row`."""
    chosen = seen.part == "train"
    kind = seen.kind[chosen]
    weight = np.where(kind == "found", OF_FOUND, 1.0)
    is_face = np.isin(kind, ("face", "hidden"))
    fresh = fitted(seen.inputs[chosen], is_face, weight, seen.logits[chosen])
    fresh[:-1] += row[:-1]
    kept = (seen.part == "validation") & (seen.kind == "face") & (seen.side >= LARGE)
    lost = float((seen.logits[kept] <= 0).mean())
    fresh[-1] = -np.quantile((seen.inputs @ fresh[:-1])[kept], lost)
    return fresh


def with_presence(graph: Graph, row: Array) -> Graph:
    """Return the graph with this row of weights, and the bias behind them, for `presence`."""
    constants = dict(graph.constants)
    for name, value in ((WEIGHT, row[:-1]), (BIAS, row[-1])):
        changed = np.array(constants[name])
        changed[-1] = value
        constants[name] = changed
    return replace(graph, constants=constants)


def lines(seen: Seen, logits: Array) -> Iterator[str]:
    """Yield how many crops pass for a face, by part."""
    large = seen.side >= LARGE
    faces = seen.kind == "face"
    groups = {
        "crops": seen.kind == "crop",
        "found": seen.kind == "found",
        "smaller faces": faces & ~large,
        "larger faces": faces & large,
        "hidden ones": (seen.kind == "hidden") & large,
    }
    for part in ("validation", "dev"):
        told: list[str] = []
        for name, group in groups.items():
            passed = logits[group & (seen.part == part)] > 0
            told.append(f"{passed.sum()} of {len(passed)} {name}")
        yield f"{part}: {', '.join(told)}"


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="fit the face mesh's presence anew")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="labels.jsonl of the face detector")
    parser.add_argument("model", type=Path, help="face_mesh.palm or face_mesh_best.palm")
    parser.add_argument("out", type=Path, help="the file that is written")
    parser.add_argument("--shift", type=float, help="fit nothing, add this to the row's bias")
    options = parser.parse_args(None if arguments is None else list(arguments))
    graph = convert(options.model)
    seen = look(graph, options.data, read_labels(options.labels), options.out)
    row = np.append(graph.constants[WEIGHT][-1], graph.constants[BIAS][-1]).astype(np.float64)
    if options.shift is None:
        row = fitted_to(seen, row)
    else:
        row[-1] += options.shift
    save(with_presence(graph, row), options.out, weights="smallest", shapes=[])
    for name, logits in (("before", seen.logits), ("after", seen.inputs @ row[:-1] + row[-1])):
        print(name, *lines(seen, logits), sep="\n  ")


if __name__ == "__main__":
    main()
