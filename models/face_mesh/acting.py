"""How well actions are recognised, on clips made from photos: the face is warped by its mesh.

`python -m palmkit.models.face_mesh.acting DATA TEACHER` takes frontal faces of development photos
(data/faces, aaf and interfaces) and makes clips of them: one and a half seconds at rest, then two
in which the face blinks, opens its mouth, raises its brows, shakes its head or nods. The teacher's
mesh says where to warp; the kit that sees the clips has its own. It prints in how many clips of
each kind each action is recognised. Training pictures are made by the same warps (see dataset), of
other faces.

The clips are no films: skin stretches, an open mouth is a dark hole, and a turned head is only its
front. They show whether the pipeline works, not how well it does on people.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from palmkit.kits import FaceDetector, FaceMesh, read_image
from palmkit.kits.crop import Crop, sample
from palmkit.kits.face import topology
from palmkit.kits.face.crop import crop_from_keypoints, crop_from_mesh
from palmkit.kits.face.pose import head_pose, rotation_of
from palmkit.kits.image import Image
from palmkit.kits.results import ACTIONS
from palmkit.models.face_mesh.teacher import SIZE, Teacher

Values = npt.NDArray[np.float64]
Act = Callable[[Values, float], Values]

FRAMES_PER_S = 30
REST_S, ACT_S = 1.5, 2.0
NOISE = 3.0
SIDE = 320
MARGIN = 1.6
FRONTAL_DEGREES = 12.0
UPPER_LIDS = ((161, 160, 159, 158, 157), (388, 387, 386, 385, 384))
LOWER_LIDS = ((163, 144, 145, 153, 154), (390, 373, 374, 380, 381))
ABOVE_LIDS = ((30, 29, 27, 28, 56), (260, 259, 257, 258, 286))
LOWER_INNER_LIP = (95, 88, 178, 87, 14, 317, 402, 318, 324)
DARK = (45, 18, 18)


def blink(mesh: Values, part: float) -> Values:
    """Move the upper lids down to the lower ones."""
    out = mesh.copy()
    for upper, lower, above in zip(UPPER_LIDS, LOWER_LIDS, ABOVE_LIDS, strict=True):
        way = mesh[list(lower)] - mesh[list(upper)]
        out[list(upper)] += 0.92 * part * way
        out[list(above)] += 0.4 * part * way
    return out


def open_mouth(mesh: Values, part: float) -> Values:
    """Move lower lip, chin and what is between them down by most of the mouth's width."""
    right, left, middle = mesh[61], mesh[291], mesh[13]
    width = float(np.linalg.norm(left - right))
    down = (mesh[152] - mesh[10]) / np.linalg.norm(mesh[152] - mesh[10])
    below = (mesh - middle) @ down / width
    aside = np.abs((mesh - (right + left) / 2) @ (left - right)) / width**2
    # Width: to the corners at the lips, wider at the chin.
    reach = 0.5 + 0.6 * np.clip(below, 0, 0.8)
    amount = np.sqrt(np.clip(1 - (aside / reach) ** 2, 0, 1))
    amount[(below <= 0.005) & ~np.isin(np.arange(len(mesh)), LOWER_INNER_LIP)] = 0
    return np.asarray(mesh + (0.5 * part * width * amount)[:, None] * down)


def raise_brows(mesh: Values, part: float) -> Values:
    """Move the brows up by a tenth of the eyes' distance, with the skin round them."""
    up = (mesh[10] - mesh[152]) / np.linalg.norm(mesh[10] - mesh[152])
    size = float(np.linalg.norm(mesh[263] - mesh[33]))
    brows = mesh[[*topology.LEFT_BROW, *topology.RIGHT_BROW]]
    near = np.linalg.norm(mesh[:, None, :2] - brows[None, :, :2], axis=2).min(axis=1) / size
    amount = np.exp(-((near / 0.08) ** 2))
    for eye in (topology.LEFT_EYE, topology.RIGHT_EYE):
        amount[list(eye)] = 0
    return np.asarray(mesh + (0.1 * part * size * amount)[:, None] * up)


def turn(yaw: float, pitch: float) -> Act:
    """Turn the head by so many degrees, about a point behind the face."""

    def act(mesh: Values, part: float) -> Values:
        size = float(np.linalg.norm(mesh[263] - mesh[33]))
        centre = mesh[[234, 454]].mean(axis=0) + np.array([0, 0, 0.2 * size])
        upright = np.diag([1.0, -1.0, -1.0])
        rotation = rotation_of(yaw * part, pitch * part, 0) @ upright
        return np.asarray((mesh - centre) @ rotation.T + centre)

    return act


ACTS: dict[str, Act] = {
    "eye_blink": blink,
    "mouth_open": open_mouth,
    "head_yaw": turn(22, 0),
    "head_pitch": turn(0, 16),
    "brow_jump": raise_brows,
}


def some_act(mesh: Values, random: np.random.Generator) -> Values:
    """Return the mesh of a face that blinks, opens its mouth or raises its brows to some degree."""
    shut = float(np.linalg.norm(mesh[13] - mesh[14]) / np.linalg.norm(mesh[78] - mesh[308])) < 0.1
    kinds = ("blink", "mouth", "mouth", "both", "all") if shut else ("blink", "both", "brows")
    kind = kinds[random.integers(len(kinds))]
    out = mesh
    if shut and kind in ("mouth", "both", "all"):
        out = open_mouth(out, random.uniform(0.25, 1.2))
    if kind == "brows" or (kind in ("blink", "all") and random.random() < 0.5):
        out = raise_brows(out, random.uniform(-0.3, 1.1))
    if kind in ("blink", "both", "all"):
        out = blink(out, random.uniform(0.5, 1.0))
    return out


def timing(name: str) -> Values:
    """Return how far the act has gone in each frame: 0 at rest, 1 at most."""
    times_s = np.arange(round((REST_S + ACT_S) * FRAMES_PER_S)) / FRAMES_PER_S - REST_S
    if name == "eye_blink":
        return np.clip(1.5 - np.abs(times_s - 0.5) / 0.1, 0, 1)
    if name in ("head_yaw", "head_pitch"):
        return np.where((times_s > 0) & (times_s < 1), np.sin(2 * np.pi * times_s), 0)
    return np.clip(2.5 - np.abs(times_s - 0.8) / 0.25, 0, 1)


def _ring(mesh: Values) -> Values:
    """Return points round the face that stay where they are."""
    oval = mesh[list(topology.FACE_OVAL)]
    return np.asarray(oval.mean(axis=0) + 1.45 * (oval - oval.mean(axis=0)))


def warp(image: Image, mesh: Values, moved: Values) -> Image:
    """Return the picture with each triangle of the mesh moved."""
    import cv2

    ring = _ring(mesh)
    first = len(mesh)
    count = len(ring)
    oval = list(topology.FACE_OVAL)
    collar = [
        corners
        for i in range(count)
        for j in [(i + 1) % count]
        for corners in ((oval[i], oval[j], first + i), (oval[j], first + j, first + i))
    ]
    holes = [
        (loop[0], loop[i], loop[i + 1])
        for loop in (topology.LEFT_EYE, topology.RIGHT_EYE)
        for i in range(1, len(loop) - 1)
    ]
    triangles = np.concatenate([topology.triangles().astype(int), np.array(collar + holes)])
    before = np.concatenate([mesh, ring])[:, :2]
    after = np.concatenate([moved, ring])
    depth = after[triangles, 2].mean(axis=1)
    height, width = image.shape[:2]
    map_y, map_x = np.mgrid[:height, :width].astype(np.float32)
    # Sorted so that the nearest triangle is drawn last.
    for corners in triangles[np.argsort(-depth)]:
        target = after[corners, :2].astype(np.float32)
        low = np.clip(np.floor(target.min(axis=0)), 0, [width, height]).astype(int)
        high = np.clip(np.ceil(target.max(axis=0)) + 1, 0, [width, height]).astype(int)
        if (high <= low).any():
            continue
        inside = np.zeros((high[1] - low[1], high[0] - low[0]), np.uint8)
        cv2.fillConvexPoly(inside, np.round((target - low) * 16).astype(np.int32), 1, shift=4)
        y, x = np.nonzero(inside)
        matrix = cv2.getAffineTransform(target, before[corners].astype(np.float32))
        x, y = x + low[0], y + low[1]
        map_x[y, x] = matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2]
        map_y[y, x] = matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2]
    out = cv2.remap(image, map_x, map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    opened = np.linalg.norm(moved[14] - moved[13]) > np.linalg.norm(mesh[14] - mesh[13]) + 1
    if opened:
        lips = np.round(moved[list(topology.LIPS_INNER), :2] * 16).astype(np.int32)
        cv2.fillPoly(out, [lips], DARK, cv2.LINE_AA, 4)
    return np.asarray(out, np.uint8)


def faces(data: Path, teacher: Teacher, count: int, split: str) -> Iterator[tuple[Image, Values]]:
    """Yield square pictures of frontal faces at rest, and their meshes."""
    detector = FaceDetector(quality="fast")
    rows = [json.loads(line) for line in (data / "faces" / "index.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["split"] == split and row["set"] in ("aaf", "interfaces")]
    for row in rows[:: max(len(rows) // (3 * count), 1)]:
        picture = read_image(data / "faces" / row["file"])
        found = detector.detect(picture)
        if len(found) != 1:
            continue
        crop = crop_from_keypoints(found.keypoints[0], found[0].box)
        crop = crop_from_mesh(crop.to_picture(teacher(sample(picture, crop, SIZE)).points))
        crop = Crop(crop.x, crop.y, crop.side * MARGIN / 1.5, crop.angle)
        square = sample(picture, crop, SIDE)
        close = Crop(SIDE / 2, SIDE / 2, SIDE * 1.5 / MARGIN)
        mesh = close.to_picture(teacher(sample(square, close, SIZE)).points).astype(np.float64)
        yaw, pitch, _ = head_pose(mesh, SIDE, SIDE).angles
        lips = np.linalg.norm(mesh[13] - mesh[14]) / np.linalg.norm(mesh[78] - mesh[308])
        if max(abs(yaw), abs(pitch)) < FRONTAL_DEGREES and lips < 0.1:
            yield square, mesh


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("teacher", type=Path)
    parser.add_argument("--model", help="another model file")
    parser.add_argument("--faces", type=int, default=30)
    parser.add_argument("--split", choices=("train", "dev"), default="dev")
    options = parser.parse_args()
    measure(options.data, options.teacher, options.faces, options.split, model=options.model)


def measure(data: Path, teacher: Path, count: int, split: str, **options: Any) -> None:
    """Print how often each action is recognised."""
    random = np.random.default_rng(0)
    told = np.zeros((len(ACTIONS), len(ACTIONS)), int)
    seen = 0
    for square, mesh in faces(data, Teacher(teacher), count, split):
        if seen == count:
            break
        seen += 1
        for row, name in enumerate(ACTIONS):
            done = np.zeros(len(ACTIONS), bool)
            with FaceMesh("video", max_faces=1, **options) as kit:
                drawn: dict[float, Image] = {}
                for index, part in enumerate(timing(name)):
                    key = round(float(part), 3)
                    if key not in drawn:
                        drawn[key] = warp(square, mesh, ACTS[name](mesh, key))
                    noisy = drawn[key] + random.normal(0, NOISE, square.shape)
                    frame = np.clip(np.round(noisy), 0, 255).astype(np.uint8)
                    result = kit.detect(frame, index * 1000 / FRAMES_PER_S)
                    if result.actions is not None and len(result):
                        done |= result.actions[0]
            told[row] += done
    print(f"{seen} faces; rows: what the clip shows; columns: in how many clips it is told")
    print("            " + " ".join(f"{name:>10}" for name in ACTIONS))
    for row, name in enumerate(ACTIONS):
        print(f"{name:11} " + " ".join(f"{each:>10}" for each in told[row]))


if __name__ == "__main__":
    main()
