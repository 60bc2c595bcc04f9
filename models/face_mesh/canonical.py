"""The canonical face: the mean of the teacher's meshes of frontal faces, made symmetric.

`python -m palmkit.models.face_mesh.canonical DATA TEACHER OUT.npz` looks at the training pictures
of the face and hair sets in DATA with our face detector and TEACHER, MediaPipe's
face_landmark_with_attention.tflite, and writes the asset that palmkit.kits.face.topology reads.
The triangles are taken over from the asset as it is: they are those of MediaPipe's published list
of connections (face_mesh_connections, Apache-2.0), a fact of its numbering.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from palmkit.kits import FaceDetector, read_image
from palmkit.kits.crop import sample
from palmkit.kits.face import topology
from palmkit.kits.face.crop import crop_from_keypoints, crop_from_mesh
from palmkit.kits.face.pose import fit_similarity
from palmkit.models.face_mesh.teacher import SIZE, Teacher

Values = npt.NDArray[np.float64]

SETS = ("aaf", "interfaces", "figaro", "fasseg_frontal", "fasseg_multipose")
EYE_CORNERS = [33, 133, 362, 263]
OUTER_CORNERS = [33, 263]
# The average of adults.
OUTER_CORNERS_CM = 9.0
FRONTAL_DEGREES = 12.0
ROUNDS = 10


def meshes(data: Path, teacher: Teacher) -> Iterator[Values]:
    """Yield the teacher's meshes of training faces.

    Their axes: x to the subject's left, y up, z to the camera.
    """
    detector = FaceDetector(quality="fast")
    for group in ("faces", "hair"):
        for line in (data / group / "index.jsonl").read_text().splitlines():
            row = json.loads(line)
            if row["split"] != "train" or row["set"] not in SETS:
                continue
            picture = read_image(data / group / row["file"])
            for face in detector.detect(picture):
                crop = crop_from_keypoints(face.keypoints, face.box)
                crop = crop_from_mesh(crop.to_picture(teacher(sample(picture, crop, SIZE)).points))
                mesh = teacher(sample(picture, crop, SIZE))
                if mesh.presence >= 0.5:
                    yield crop.to_picture(mesh.points).astype(np.float64) * np.array([1, -1, -1])


def frontal(faces: Values) -> Values:
    """Return the faces whose eyes are about equally far from the camera."""
    across = faces[:, OUTER_CORNERS[1]] - faces[:, OUTER_CORNERS[0]]
    yaw = np.degrees(np.arctan2(across[:, 2], across[:, 0]))
    return np.asarray(faces[np.abs(yaw) < FRONTAL_DEGREES])


def laid_on(faces: Values, face: Values) -> Values:
    """Return each face scaled, rotated and moved to fit one best."""
    weights = np.ones(topology.POINTS)
    fits = [fit_similarity(each, face, weights) for each in faces]
    return np.stack(
        [scale * each @ r.T + shift for each, (scale, r, shift) in zip(faces, fits, strict=True)]
    )


def mean_face(faces: Values) -> Values:
    """Return the symmetric median of faces, with their median pitch set to 0."""
    mirrored = faces[:, topology.MIRROR] * np.array([-1, 1, 1])
    both = np.concatenate([faces, mirrored])
    mean = faces[0]
    for _ in range(ROUNDS):
        mean = np.median(laid_on(both, mean), axis=0)
        mean = (mean + mean[topology.MIRROR] * np.array([-1, 1, 1])) / 2
        mean = mean - mean.mean(axis=0)
        mean = mean / np.sqrt((mean**2).sum(axis=1).mean())
    weights = np.ones(topology.POINTS)
    turns = np.stack([fit_similarity(mean, each, weights)[1] for each in both])
    # Removes the median pitch, a rotation about x.
    nod = float(np.median(np.arctan2(turns[:, 2, 1], turns[:, 2, 2])))
    cos, sin = np.cos(nod), np.sin(nod)
    mean = mean @ np.array([[1, 0, 0], [0, cos, -sin], [0, sin, cos]]).T
    mean = mean - mean[EYE_CORNERS].mean(axis=0)
    mean = (mean + mean[topology.MIRROR] * np.array([-1, 1, 1])) / 2
    width = float(np.linalg.norm(mean[OUTER_CORNERS[1]] - mean[OUTER_CORNERS[0]]))
    return np.asarray(mean * (OUTER_CORNERS_CM / width))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("teacher", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    faces = frontal(np.stack(list(meshes(options.data, Teacher(options.teacher)))))
    face = mean_face(faces).astype(np.float32)
    old = topology.canonical_face()
    print(
        f"{len(faces)} frontal faces; the old one is {np.abs(face - old).max():.4f} cm away at most"
    )
    np.savez_compressed(options.out, triangles=topology.triangles(), canonical=face)


if __name__ == "__main__":
    main()
