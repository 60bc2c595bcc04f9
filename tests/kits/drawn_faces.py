"""A face drawn from the mesh of a face at rest, enough like a photograph for the networks."""

import math
from collections.abc import Iterable, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from palmkit.kits.face import topology
from palmkit.kits.image import Image

SKIN, HAIR, LIPS, SHIRT = (222, 174, 146), (70, 44, 30), (186, 92, 92), (60, 84, 120)
# Drawn so many times as large: edges are smooth.
DETAIL = 4
Points = NDArray[np.float64]


def scene(
    faces: Iterable[tuple[float, float]], height: int = 360, width: int = 640, scale: float = 11.0
) -> Image:
    """Return uint8[height, width, 3] with faces by x, y between the eyes.

    scale: pixels of a centimetre of the face.
    """
    ground = np.linspace((150, 166, 176), (104, 118, 130), height)[:, None]
    canvas = np.repeat(ground, width, axis=1).astype(np.uint8)
    canvas = np.repeat(np.repeat(canvas, DETAIL, axis=0), DETAIL, axis=1)
    for x, y in faces:
        _paint(canvas, x * DETAIL, y * DETAIL, scale * DETAIL)
    canvas = np.asarray(cv2.GaussianBlur(canvas, (0, 0), 0.6 * DETAIL), np.uint8)
    return np.asarray(cv2.resize(canvas, (width, height), interpolation=cv2.INTER_AREA), np.uint8)


def _paint(canvas: Image, x: float, y: float, scale: float) -> None:
    solid = topology.canonical_face().astype(np.float64)
    points = solid[:, :2] * (scale, -scale) + (x, y)

    def ellipse(
        right: float, down: float, wide: float, high: float, colour: Sequence[float]
    ) -> None:
        centre = (round(x + right * scale), round(y + down * scale))
        axes = (round(wide * scale), round(high * scale))
        cv2.ellipse(canvas, centre, axes, 0, 0, 360, tuple(colour), -1)

    before = canvas.copy()
    ellipse(0, -0.5, 9.4, 9.8, HAIR)
    ellipse(0, 4.5, 8.6, 9.5, HAIR)
    _strands(canvas, before, scale)
    ellipse(0, 26, 17, 13, SHIRT)
    ellipse(0, 12, 4.6, 6.5, [0.8 * c for c in SKIN])
    _skin(canvas, points, solid)
    _features(canvas, points, scale)
    before = canvas.copy()
    # The hair over the forehead: between two arcs.
    angles = np.linspace(math.pi, 2 * math.pi, 60)
    crown = np.stack([9.2 * np.cos(angles), -0.5 + 9.6 * np.sin(angles)], axis=1)
    fringe = np.stack([7.1 * np.cos(angles), 0.6 + 5.9 * np.sin(angles)], axis=1)[::-1]
    outline = np.concatenate([crown, fringe]) * scale + (x, y)
    cv2.fillPoly(canvas, [outline.astype(np.int32)], HAIR)
    _strands(canvas, before, scale)


def _strands(canvas: Image, before: Image, scale: float) -> None:
    """Make strands of what is other than before."""
    height, width = canvas.shape[:2]
    shape = (round(height / (4 * scale)), round(width / (0.3 * scale)))
    noise = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    strands = 1 + 0.5 * cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
    changed = (canvas != before).any(axis=2, keepdims=True)
    drawn = np.clip(canvas * np.clip(strands, 0.4, 2.2)[..., None], 0, 255).astype(np.uint8)
    np.copyto(canvas, drawn, where=changed)


def _skin(canvas: Image, points: Points, solid: Points) -> None:
    light = np.array([-0.35, 0.45, 0.82])
    triangles = topology.triangles()
    normals = np.zeros_like(solid)
    for a, b, c in triangles:
        normal = np.cross(solid[b] - solid[a], solid[c] - solid[a])
        normals[[a, b, c]] += normal
    normals /= np.linalg.norm(normals, axis=1, keepdims=True) + 1e-9
    shade = 0.5 + 0.55 * np.clip(normals @ light, 0, 1)
    oval = points[list(topology.FACE_OVAL)]
    cv2.fillPoly(canvas, [oval.astype(np.int32)], SKIN)
    order = np.argsort(solid[triangles].mean(axis=1)[:, 2])
    for corners in triangles[order]:
        _gradient(canvas, points[corners], shade[corners])


def _gradient(canvas: Image, corners: Points, shade: Points, depth: int = 1) -> None:
    """A triangle by smaller ones, so that its shade changes smoothly."""
    if depth:
        a, b, c = range(3)
        middle = (corners[[a, b, c]] + corners[[b, c, a]]) / 2
        between = (shade[[a, b, c]] + shade[[b, c, a]]) / 2
        for i in range(3):
            _gradient(
                canvas,
                np.array([corners[i], middle[i], middle[i - 1]]),
                np.array([shade[i], between[i], between[i - 1]]),
                depth - 1,
            )
        _gradient(canvas, middle, between, depth - 1)
        return
    colour = tuple(float(c) for c in np.clip(np.array(SKIN) * shade.mean(), 0, 255))
    cv2.fillPoly(canvas, [np.round(corners).astype(np.int32)], colour)


def _features(canvas: Image, points: Points, scale: float) -> None:
    def fill(indexes: Sequence[int], colour: Sequence[float]) -> None:
        cv2.fillPoly(canvas, [np.round(points[list(indexes)]).astype(np.int32)], tuple(colour))

    def line(indexes: Sequence[int], colour: Sequence[float], wide: float) -> None:
        at = [np.round(points[list(indexes)]).astype(np.int32)]
        cv2.polylines(canvas, at, False, tuple(colour), max(1, round(wide * scale)), cv2.LINE_AA)

    for eye, iris, brow in (
        (topology.RIGHT_EYE, topology.RIGHT_IRIS, topology.RIGHT_BROW),
        (topology.LEFT_EYE, topology.LEFT_IRIS, topology.LEFT_BROW),
    ):
        mask = np.zeros(canvas.shape[:2], np.uint8)
        cv2.fillPoly(mask, [np.round(points[list(eye)]).astype(np.int32)], 1)
        ball = np.full_like(canvas, (236, 232, 228))
        centre = tuple(int(round(float(v))) for v in points[iris[0]])
        for radius, colour in ((0.6, (74, 52, 36)), (0.28, (12, 10, 10))):
            cv2.circle(ball, centre, round(radius * scale), colour, -1)
        spark = (centre[0] - round(0.15 * scale), centre[1] - round(0.15 * scale))
        cv2.circle(ball, spark, max(1, round(0.1 * scale)), (250, 250, 250), -1)
        np.copyto(canvas, ball, where=mask[..., None] > 0)
        line((*eye[8:], eye[0]), (52, 34, 26), 0.16)
        line(eye[:9], (140, 96, 80), 0.06)
        fill(brow, (78, 52, 38))
    fill(topology.LIPS_OUTER, LIPS)
    line((61, *topology.LIPS_INNER[:11], 291), (110, 44, 46), 0.12)
    for nostril in ((60, 99, 97), (290, 328, 326)):
        line(nostril, (120, 76, 62), 0.28)
    line(topology.NOSE_BASE, (176, 126, 102), 0.1)
