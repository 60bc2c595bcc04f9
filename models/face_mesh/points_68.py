"""Fit where on the mesh the 68 points of iBUG 300-W are.

`python -m palmkit.models.face_mesh.points_68 DATA [--teacher FILE]` prints how far off they are, of
both networks and the teacher, before and after, and writes them into assets/face_mesh.npz.

From the brows on, each point is a mean of points of the mesh near it, whose weights are not
negative and sum to 1, so it stays on the face however that is turned. They are fitted by
non-negative least squares (C. Lawson and R. Hanson: Solving Least Squares Problems, 1974) to the 49
automatic points of the training pictures of aaf and their mirror images, where face_mesh_best sees
the mesh. The jaw and the inner corners of the mouth, which aaf lacks, are plain means of points
chosen by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from palmkit import assets
from palmkit.engine.ir import Array
from palmkit.kits import FaceDetector
from palmkit.kits.face.crop import crop_from_mesh
from palmkit.kits.face.topology import MIRROR, POINTS, canonical_face, edges, weights_68
from palmkit.kits.kit import shipped_model
from palmkit.models.face_detector.labels import read_picture
from palmkit.models.face_mesh.evaluate import (
    AAF_POINTS,
    Contender,
    crop_of,
    distance_of_known_eyes,
    known_error,
    known_faces,
    known_points,
    student,
    teacher,
)

ASSET = Path(next(iter(assets.__path__))) / "face_mesh.npz"
# Points of the mesh whose mean is near each of the 68. The jaw is that of a published mapping
# (P. Yan: Mediapipe_2_Dlib_Landmarks), made symmetric, and was measured against no ground truth.
STARTS: tuple[tuple[int, ...], ...] = (
    *((127,), (234,), (93,), (132, 58), (58, 172), (136,), (150,), (176,)),
    (152,),
    *((400,), (379,), (365,), (397, 288), (288, 361), (323,), (454,), (356,)),
    *((70,), (63, 105), (105, 66), (66,), (107,)),
    *((336,), (296,), (296, 334), (334, 293), (300,)),
    *((168, 6), (197,), (5, 195), (4,)),
    *((75, 240), (97,), (2,), (326,), (305, 460)),
    *((33,), (160,), (158,), (133, 173), (153,), (144,)),
    *((362, 398), (385,), (387,), (263,), (373,), (380,)),
    *((61,), (39, 40), (37,), (0,), (267,), (269, 270), (291,)),
    *((321,), (314, 405), (17,), (84, 181), (91,)),
    *((78,), (81,), (13,), (311,), (308,), (402,), (14,), (178,)),
)
# Which of the 68 each is in a mirror image.
MIRROR_68 = (
    *range(16, -1, -1),
    *range(26, 16, -1),
    *(27, 28, 29, 30, 35, 34, 33, 32, 31),
    *(45, 44, 43, 42, 47, 46, 39, 38, 37, 36, 41, 40),
    *(54, 53, 52, 51, 50, 49, 48, 59, 58, 57, 56, 55),
    *(64, 63, 62, 61, 60, 67, 66, 65),
)
# Points of the mesh, the nearest by its edges, that a point of the 68 may be a mean of: none beyond
# the slits of the eyes and the mouth, which open and close.
NEAR = 16


class Face(NamedTuple):
    """A face of aaf: its split, float64[49, 2] where its points are, in pixels, and its mesh."""

    split: str
    known: Array
    mesh: Array


def read_faces(data: Path, contender: Contender) -> Iterator[Face]:
    """Yield the faces of aaf that the detector finds, each with the mean of two looks."""
    detector = FaceDetector(quality="fast")
    for file, row in tqdm(known_faces(data).items(), mininterval=5, leave=False):
        picture = read_picture(data, file)
        crop = crop_of(detector.detect(picture), row["boxes"][0])
        if crop is None:
            continue
        first = crop.to_picture(contender.at(picture, crop).points)
        crop = crop_from_mesh(first)
        second = crop.to_picture(contender.mirrored(picture, crop))
        yield Face(row["split"], known_points(row), (first + second) / 2)


def error(weights: Array, faces: Iterable[Face]) -> float:
    """Return the mean error of faces, see `known_error`."""
    return float(np.mean([known_error(weights @ face.mesh, face.known) for face in faces]))


def starts() -> Array:
    """Return the weights of the means in STARTS, float64[68, 478]."""
    weights = np.zeros((len(STARTS), POINTS))
    for row, group in enumerate(STARTS):
        weights[row, list(group)] = 1 / len(group)
    return weights


def distances() -> Array:
    """Return how far points are from one another along edges of the canonical face, in cm."""
    graphs: Any = import_module("scipy.sparse.csgraph")
    lengths = np.zeros((POINTS, POINTS))
    for one, other in edges():
        lengths[one, other] = np.linalg.norm(canonical_face()[one] - canonical_face()[other])
    found: Array = graphs.dijkstra(lengths, directed=False)
    return found


def fitted(faces: Sequence[Face]) -> Array:
    """Return the weights of the mesh's points in each of the 68, float64[68, 478]."""
    nnls: Any = import_module("scipy.optimize").nnls
    sizes = [distance_of_known_eyes(face.known) for face in faces]
    meshes = np.stack([face.mesh[:, :2] / size for face, size in zip(faces, sizes, strict=True)])
    known = np.stack([face.known / size for face, size in zip(faces, sizes, strict=True)])
    weights = starts()
    far = distances()
    for row, start in enumerate(STARTS):
        other = MIRROR_68[row]
        if other < row or not {row, other} <= {*AAF_POINTS}:
            continue
        near = np.argsort(far[list(start)].mean(0))[:NEAR]
        if other == row:
            near = np.union1d(near, MIRROR[near])
        asked, wanted = [], []
        for point, columns in ((row, near), (other, MIRROR[near])):
            seen = meshes[:, columns]
            middle = seen.mean(1)
            asked.append((seen - middle[:, None]).swapaxes(1, 2).reshape(-1, len(near)))
            wanted.append((known[:, AAF_POINTS.index(point)] - middle).ravel())
        # A row as heavy as all others a hundredfold says that the sum is 1.
        heavy = 100 * np.sqrt(2 * wanted[0].size)
        rows = np.concatenate([*asked, np.full((1, len(near)), heavy)])
        shares, _ = nnls(rows, np.concatenate([*wanted, [heavy]]))
        weights[[row, other]] = 0
        weights[row, near] += shares / shares.sum()
        weights[other, MIRROR[near]] += shares / shares.sum()
        if other == row:
            weights[row] /= 2
    return weights


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="where on the mesh the 68 points of iBUG are")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("--teacher", type=Path, help="face_landmark_with_attention.tflite")
    options = parser.parse_args(None if arguments is None else list(arguments))
    contenders = {
        name: student(shipped_model(name)) for name in ("face_mesh_best", "face_mesh")
    } | ({"teacher": teacher(options.teacher)} if options.teacher else {})
    seen = {name: list(read_faces(options.data, each)) for name, each in contenders.items()}
    weights = fitted([face for face in seen["face_mesh_best"] if face.split == "train"])
    print("| | part | faces | by hand | as they were | fitted |\n|---|---|---|---|---|---|")
    for name, faces in seen.items():
        for part in ("train", "dev"):
            some = [face for face in faces if face.split == part]
            of_each = (error(each, some) for each in (starts(), weights_68(), weights))
            print(f"| {name} | {part} | {len(some)} |", *(f"{off:.4f} |" for off in of_each))
    with np.load(ASSET) as file:
        arrays = dict(file)
    arrays["points_68"] = weights.astype(np.float32)
    np.savez_compressed(ASSET, allow_pickle=False, **arrays)


if __name__ == "__main__":
    main()
