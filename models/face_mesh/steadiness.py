"""How steady and how late faces are in a video, from one picture of a face.

`python -m palmkit.models.face_mesh.steadiness PICTURE` makes clips of the picture, 30 frames a
second: still with a camera's noise, and moving at several speeds. It prints of the points of the
mesh, or with `--kit detector` of the five of the face detector, with and without smoothing,

jitter    RMS of each point about its own mean, over still frames after the first second
lag       how far behind the unsmoothed points the smoothed ones are while the face moves
          steadily, as a time
blink     of the mesh: how much of the depth of a 150 ms blink of the canonical face is left, and
          how late it is

Lengths are also given in parts of the distance of the eyes' outer corners, or of the eyes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from palmkit.kits import FaceDetector, FaceMesh, read_image
from palmkit.kits.face import topology
from palmkit.kits.face.smoothing import MeshFilter
from palmkit.kits.image import Image

Values = npt.NDArray[np.float64]
Maker: TypeAlias = type[FaceMesh] | type[FaceDetector]

FRAMES_PER_S = 30
# Noise of a phone's or a web camera's picture indoors, in steps of 1/255.
NOISE = 5.0
SPEEDS = (0.25, 1.0, 4.0)
WIDTH, HEIGHT = 640, 480


def clip(picture: Image, shifts: Values, noise: float) -> Iterator[Image]:
    """Yield the picture moved by each of shifts[n, 2], in pixels, with noise."""
    import cv2

    random = np.random.default_rng(0)
    for x, y in shifts:
        matrix = np.array([[1, 0, x], [0, 1, y]], np.float64)
        moved = cv2.warpAffine(
            picture, matrix, (WIDTH, HEIGHT), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT
        )
        noisy = moved + random.normal(0, noise, moved.shape)
        yield np.clip(np.round(noisy), 0, 255).astype(np.uint8)


def points_of(make: Maker, picture: Image, shifts: Values, noise: float, **options: Any) -> Values:
    """Return the first face's points in each frame: float64[n, 478, 3] or [n, 5, 2]."""
    found: list[Values] = []
    with make("video", max_faces=1, **options) as kit:
        for index, frame in enumerate(clip(picture, shifts, noise)):
            faces = kit.detect(frame, index * 1000 / FRAMES_PER_S)
            if not len(faces):
                raise SystemExit(f"no face in frame {index}")
            points = faces.keypoints if faces.mesh is None else faces.mesh
            found.append(points[0].astype(np.float64))
    return np.stack(found)


def eye_distance(points: Values) -> float:
    """Return the mean distance of the eyes in pixels."""
    left, right = (263, 33) if points.shape[1] > 5 else (0, 1)
    return float(np.linalg.norm(points[:, right, :2] - points[:, left, :2], axis=1).mean())


def jitter(points: Values) -> float:
    """Return the RMS of x and y about each point's mean, in pixels."""
    late = points[FRAMES_PER_S:, :, :2]
    return float(np.sqrt(((late - late.mean(axis=0)) ** 2).sum(axis=2).mean()))


def blink() -> tuple[float, float]:
    """Return the share of a blink's depth that smoothing leaves, and its delay in ms."""
    face = topology.canonical_face() * np.array([10.0, -10.0, -10.0])
    shut = face.copy()
    lids = [[160, 159, 158], [144, 145, 153]]
    shut[lids[0]] = shut[lids[1]] = (face[lids[0]] + face[lids[1]]) / 2
    filter = MeshFilter()
    times_s = np.arange(60) / FRAMES_PER_S
    depth = np.clip(1 - np.abs(times_s - 1) / 0.075, 0, 1)
    seen: list[float] = []
    for time_s, part in zip(times_s, depth, strict=True):
        out = filter.filter(face + part * (shut - face), float(time_s))
        gap = np.linalg.norm(out[159] - out[145]) / np.linalg.norm(face[159] - face[145])
        seen.append(1 - float(gap))
    left = np.clip(np.array(seen), 0, None)
    delay_s = left @ times_s / left.sum() - depth @ times_s / depth.sum()
    return float(left.max() / depth.max()), float(delay_s * 1e3)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--model", help="another model file")
    parser.add_argument("--kit", choices=("mesh", "detector"), default="mesh")
    options = parser.parse_args()
    make = FaceMesh if options.kit == "mesh" else FaceDetector
    measure(read_image(options.picture), make, model=options.model)


def measure(picture: Image, make: Maker = FaceMesh, **options: Any) -> None:
    """Print all measures."""
    still = np.zeros((4 * FRAMES_PER_S, 2))
    for smoothing in (False, True):
        points = points_of(make, picture, still, NOISE, smoothing=smoothing, **options)
        size, moved = eye_distance(points), jitter(points)
        print(
            f"smoothing {smoothing}: eyes {size:.0f} px apart, noise {NOISE:g}:"
            f" jitter {moved:.3f} px, {moved / size:.2%}"
        )
    for speed in SPEEDS:
        # There and back at a steady speed, so that the face stays in the picture.
        steps = np.arange(3 * FRAMES_PER_S) / FRAMES_PER_S
        reach = 0.6 if speed > 0.5 else 0.3
        way = reach * (2 / np.pi) * np.arcsin(np.sin(np.pi / 2 * steps * speed / reach))
        shifts = np.stack([way * size, np.zeros_like(way)], axis=1)
        raw = points_of(make, picture, shifts, 0, smoothing=False, **options)
        smooth = points_of(make, picture, shifts, 0, smoothing=True, **options)
        velocity = np.gradient(way * size, 1 / FRAMES_PER_S)
        steady = np.abs(np.abs(velocity) - speed * size) < 0.01 * speed * size
        steady[:5] = False
        behind = (raw - smooth)[steady, :, 0] / velocity[steady, None]
        print(f"speed {speed:g} eye distances a second: lag {behind.mean() * 1e3:.1f} ms")
    if make is FaceMesh:
        left, delay_ms = blink()
        print(f"blink of 150 ms: {left:.0%} of its depth is left, {delay_ms:.0f} ms late")


if __name__ == "__main__":
    main()
