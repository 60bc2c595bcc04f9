"""Make the training labels: what the teacher sees, averaged over several views of each face.

`python -m palmkit.models.face_mesh.labels DATA LABELS TEACHER OUT` reads the pictures in DATA and
the face detector's labels.jsonl, and writes OUT/meshes.npz. A face is levelled and centred by the
teacher itself in three rounds; then eight views, half of them mirrored, each moved, scaled and
turned a little, are labelled and averaged in the crop's own coordinates.

meshes.npz, a row a face: entry, the line of labels.jsonl; crop float32[n, 4], x, y, side, angle in
the picture; first float32[n, 4], the crop that the five points of the detector's labels give;
points float32[n, 478, 3] in 0..1 of the crop; spread float32[n], the views' mean deviation over
the distance of the eyes; presence float32[n], the mean; masked bool[n].
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from palmkit.kits.boxes import iou
from palmkit.kits.crop import Crop, sample
from palmkit.kits.face.crop import (
    LEFT_EYE_CORNERS,
    RIGHT_EYE_CORNERS,
    crop_from_keypoints,
    crop_from_mesh,
)
from palmkit.kits.face.topology import MIRROR
from palmkit.models.face_detector.labels import TERMS, read_picture
from palmkit.models.face_mesh.teacher import SIZE, Array, Mesh, Picture, Teacher
from palmkit.models.training.labels import share_of

SMALLEST_FACE = 36
ROUNDS, VIEWS = 3, 8
# One man or few people, many times: only some of their pictures.
LARGEST_SHARE = {"linto": 0.15, "subhi": 0.35, "anton": 0.3}


class Label(NamedTuple):
    """One face, with the fields of meshes.npz except entry and masked."""

    crop: Crop
    first: Crop
    points: Array
    spread: float
    presence: float


def eye_distance(points: Array) -> Array:
    """Return the distance of the eyes' middles, float32[...] of float32[..., 478, 2 or 3]."""
    middles = [
        points[..., list(eye), :2].mean(axis=-2) for eye in (RIGHT_EYE_CORNERS, LEFT_EYE_CORNERS)
    ]
    return np.asarray(np.linalg.norm(middles[0] - middles[1], axis=-1), np.float32)


def look(teacher: Teacher, picture: Picture, crop: Crop, mirrored: bool) -> Mesh:
    """Return the teacher's mesh of one view, in 0..1 of the crop in the picture."""
    seen = sample(picture, crop, SIZE)
    mesh = teacher(np.ascontiguousarray(seen[:, ::-1]) if mirrored else seen)
    if not mirrored:
        return mesh
    points = mesh.points[MIRROR]
    points[:, 0] = 1 - points[:, 0]
    return Mesh(points, mesh.presence)


def label(
    teacher: Teacher, picture: Picture, keypoints: Array, box: Array, random: np.random.Generator
) -> Label:
    """Centre the face and average the views.

    keypoints: float32[5, 2] and box: float32[4] of x, y, w, h as the detector gives them.
    """
    return label_from(teacher, picture, crop_from_keypoints(keypoints, box), random)


def label_from(
    teacher: Teacher, picture: Picture, first: Crop, random: np.random.Generator
) -> Label:
    """Centre the face that a crop shows and average the views."""
    crop = first
    for _ in range(ROUNDS):
        crop = crop_from_mesh(crop.to_picture(look(teacher, picture, crop, False).points))
    views: list[Array] = []
    presences: list[float] = []
    for view in range(VIEWS):
        x, y, growth, turn = random.uniform(-1, 1, 4) * (0.04, 0.04, 0.08, 0.14)
        moved = crop.moved(x, y, float(np.exp(growth)), turn)
        mesh = look(teacher, picture, moved, view % 2 == 1)
        views.append(crop.to_crop(moved.to_picture(mesh.points)))
        presences.append(mesh.presence)
    stacked = np.stack(views)
    points = np.asarray(stacked.mean(axis=0), np.float32)
    apart = np.linalg.norm(stacked[..., :2] - points[:, :2], axis=-1).mean()
    return Label(
        crop, first, points, float(apart / eye_distance(points)), float(np.mean(presences))
    )


def yaw_of(points: Array) -> float:
    """Return a mesh's rotation about the vertical in degrees, from the depths of both halves."""
    across = points[[263, 454]].mean(axis=0) - points[[33, 234]].mean(axis=0)
    return float(np.degrees(np.arctan2(across[2], across[0])))


def read_masks(data: Path) -> dict[str, tuple[Array, list[bool]]]:
    """Return by file boxes float32[n, 4] of x1 y1 x2 y2, and which of them wear a mask."""
    masks: dict[str, tuple[Array, list[bool]]] = {}
    for line in (data / "faces/index.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row.get("classes"):
            boxes = np.asarray(row["boxes"], np.float32).reshape(-1, 4)
            boxes[:, 2:] += boxes[:, :2]
            worn = [str(name) != "no_mask" for name in row["classes"]]
            masks["faces/" + row["file"]] = boxes, worn
    return masks


def large_faces(
    entries: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[int, Mapping[str, Any], Array]]:
    """Yield line, entry and float32[14] of every face that is large enough and has points."""
    for number, entry in enumerate(entries):
        if share_of(entry["file"]) >= LARGEST_SHARE.get(entry["set"], 1.0):
            continue
        for face in entry["faces"]:
            values = np.asarray(face, np.float32)
            if np.isfinite(values).all() and (values[2:4] - values[:2]).max() >= SMALLEST_FACE:
                yield number, entry, values


def main(arguments: Iterable[str] | None = None) -> None:
    """Write the labels."""
    parser = argparse.ArgumentParser(description="make the training labels of the face mesh")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="labels.jsonl of the face detector")
    parser.add_argument("teacher", type=Path, help="face_landmark_with_attention.tflite")
    parser.add_argument("out", type=Path, help="folder that takes meshes.npz")
    parser.add_argument("--terms", choices=("open", "all"), default="all")
    parser.add_argument("--share", default="0/1", help="this process does faces i of n: i/n")
    options = parser.parse_args(None if arguments is None else list(arguments))
    options.out.mkdir(parents=True, exist_ok=True)
    part, parts = (int(number) for number in options.share.split("/"))
    teacher, masks = Teacher(options.teacher), read_masks(options.data)
    entries = [json.loads(line) for line in options.labels.read_text().splitlines()]
    usable = [
        face
        for face in large_faces(entries)
        if options.terms == "all" or TERMS[face[1]["set"]] == "open"
    ][part::parts]
    rows: list[Label] = []
    masked: list[bool] = []
    for number, entry, face in tqdm(usable, mininterval=5):
        picture = read_picture(options.data, entry["file"])
        box = np.concatenate([face[:2], face[2:4] - face[:2]])
        random = np.random.default_rng([number, abs(int(face[0]))])
        rows.append(label(teacher, picture, face[4:].reshape(5, 2), box, random))
        boxes, worn = masks.get(entry["file"], (np.zeros((0, 4), np.float32), []))
        overlaps = iou(face[None, :4], boxes)[0]
        best = int(overlaps.argmax()) if len(overlaps) else -1
        masked.append(best >= 0 and bool(overlaps[best] > 0.5) and worn[best])
    name = "meshes.npz" if parts == 1 else f"meshes-{part}.npz"
    np.savez(
        options.out / name,
        entry=np.asarray([face[0] for face in usable], np.int32),
        crop=crops_of([row.crop for row in rows]),
        first=crops_of([row.first for row in rows]),
        points=np.stack([row.points for row in rows]),
        spread=np.asarray([row.spread for row in rows], np.float32),
        presence=np.asarray([row.presence for row in rows], np.float32),
        masked=np.asarray(masked),
    )


def crops_of(crops: list[Crop]) -> Array:
    """Return float32[n, 4] of x, y, side, angle."""
    return np.asarray([(crop.x, crop.y, crop.side, crop.angle) for crop in crops], np.float32)


if __name__ == "__main__":
    main()
