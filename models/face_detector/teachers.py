"""The published face networks as plain functions from a picture to detections.

They serve twice: as teachers that label pictures without boxes, and as peers that the
evaluation sets beside our own network. Pre- and post-processing follow the projects' own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from palmkit.kits.boxes import nms, weighted_nms

Array = npt.NDArray[np.float32]
Picture = npt.NDArray[np.uint8]
Network = Callable[[Array], Mapping[str, Array]]


class Detections(NamedTuple):
    """Faces of one picture, in its pixels.

    boxes: float32[n, 4], x1 y1 x2 y2.
    scores: float32[n], 0..1.
    points: float32[n, 5, 2], left eye, right eye, nose, mouth left, mouth right (the
        subject's own left); NaN where the detector gives none.
    """

    boxes: Array
    scores: Array
    points: Array

    def select(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Detections:
        """Return the given rows, in the given order."""
        return Detections(self.boxes[rows], self.scores[rows], self.points[rows])

    def above(self, score: float) -> Detections:
        """Return the detections of at least this score."""
        return self.select(self.scores >= score)


Detector = Callable[[Picture], Detections]


def no_detections() -> Detections:
    """Return empty detections."""
    return Detections(
        np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros((0, 5, 2), np.float32)
    )


def open_network(path: Path) -> Network:
    """Return one network file as a function of its single input."""
    from palmkit.engine import load

    model = load(path)
    (name,) = model.inputs
    return lambda tensor: model.run({name: tensor})


def suppress(found: Detections, max_iou: float = 0.45) -> Detections:
    """Apply greedy non-maximum suppression, best first."""
    return found.select(nms(found.boxes, found.scores, max_iou))


def resize(picture: Picture, width: int, height: int) -> Picture:
    """Resize bilinearly with antialiasing."""
    if picture.shape[:2] == (height, width):
        return picture
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BILINEAR))


def letterbox(picture: Picture, size: int) -> tuple[Picture, float, tuple[float, float]]:
    """Fit the whole picture in the middle of a black square of `size`.

    Returns the square, the scale, and the (x, y) of the picture's corner in the square.
    """
    height, width = picture.shape[:2]
    scale = size / max(height, width)
    new_width, new_height = max(1, round(width * scale)), max(1, round(height * scale))
    left, top = (size - new_width) // 2, (size - new_height) // 2
    square = np.zeros((size, size, 3), np.uint8)
    square[top : top + new_height, left : left + new_width] = resize(picture, new_width, new_height)
    return square, scale, (float(left), float(top))


def pad_to_multiple(picture: Picture, multiple: int = 32) -> Picture:
    """Pad with black at the right and the bottom until both sides are multiples."""
    height, width = picture.shape[:2]
    return np.pad(picture, ((0, -height % multiple), (0, -width % multiple), (0, 0)))


def decode_yunet(outputs: Mapping[str, Array], height: int, width: int) -> Detections:
    """Decode all cells of one picture; YuNet gives the right eye and mouth corner first."""
    parts: list[Detections] = []
    for stride in (8, 16, 32):
        rows, columns = height // stride, width // stride
        row, column = np.mgrid[:rows, :columns].reshape(2, -1).astype(np.float32)
        cells = np.stack([column, row], axis=1)
        box = outputs[f"bbox_{stride}"][0]
        centres = (cells + box[:, :2]) * stride
        halves = np.exp(np.clip(box[:, 2:], -10, 10)) * (stride / 2)
        points = (outputs[f"kps_{stride}"][0].reshape(-1, 5, 2) + cells[:, None]) * stride
        scores = np.sqrt(outputs[f"cls_{stride}"][0, :, 0] * outputs[f"obj_{stride}"][0, :, 0])
        boxes = np.concatenate([centres - halves, centres + halves], axis=1)
        parts.append(Detections(boxes, scores, points[:, [1, 0, 2, 4, 3]]))
    return Detections(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def yunet(path: Path, scale: float = 1.0, min_score: float = 0.05) -> Detector:
    """Return YuNet at a multiple of the picture's own size; BGR 0..255."""
    network = open_network(path)

    def detect(picture: Picture) -> Detections:
        height, width = picture.shape[:2]
        scaled = resize(picture, max(1, round(width * scale)), max(1, round(height * scale)))
        padded = pad_to_multiple(scaled)
        tensor = np.ascontiguousarray(padded[:, :, ::-1].transpose(2, 0, 1)[None], np.float32)
        found = decode_yunet(network(tensor), padded.shape[0], padded.shape[1]).above(min_score)
        found = suppress(found)
        x, y = width / scaled.shape[1], height / scaled.shape[0]
        factors = np.asarray([x, y], np.float32)
        return Detections(found.boxes * np.tile(factors, 2), found.scores, found.points * factors)

    return detect


def cell_centres(cells: int, count: int) -> Array:
    """float32[cells * cells * count, 2], x y in 0..1, every centre `count` times, row-major."""
    row, column = np.divmod(np.arange(cells * cells), cells)
    centres = (np.stack([column, row], axis=1) + 0.5) / cells
    return np.repeat(centres, count, axis=0).astype(np.float32)


def blazeface(path: Path, min_score: float = 0.05) -> Detector:
    """Return MediaPipe's short-range (128) or full-range (192) detector, as its graphs run it.

    Its fourth key point is the middle of the mouth: mouth corners are NaN.
    """
    network = open_network(path)
    full_range = "full_range" in path.name
    size = 192 if full_range else 128
    layers = ((48, 1),) if full_range else ((16, 2), (8, 6))
    anchors = np.concatenate([cell_centres(cells, count) for cells, count in layers])

    def detect(picture: Picture) -> Detections:
        square, scale, corner = letterbox(picture, size)
        outputs = network(np.asarray(square[None] / 127.5 - 1, np.float32))
        by_width = {values.shape[-1]: values[0] for values in outputs.values()}
        scores = 1 / (1 + np.exp(-np.clip(by_width[1][:, 0], -80, 80)))
        kept = scores >= min_score
        values = by_width[16][kept].reshape(-1, 8, 2) / size
        centres = values[:, 0] + anchors[kept]
        halves = values[:, 1] / 2
        six = values[:, 2:] + anchors[kept][:, None]
        points = np.full((len(values), 5, 2), np.nan, np.float32)
        points[:, [1, 0, 2]] = six[:, :3]
        boxes = np.concatenate([centres - halves, centres + halves], axis=1)
        found = suppress_weighted(Detections(boxes, scores[kept].astype(np.float32), points))
        shift = np.asarray(corner, np.float32)
        return Detections(
            np.asarray((found.boxes * size - np.tile(shift, 2)) / scale, np.float32),
            found.scores,
            np.asarray((found.points * size - shift) / scale, np.float32),
        )

    return detect


def suppress_weighted(found: Detections, max_iou: float = 0.3) -> Detections:
    """Suppress as MediaPipe: a cluster becomes its mean, weighted by score."""
    values = np.concatenate([found.boxes, found.points.reshape(-1, 10)], axis=1)
    kept, means = weighted_nms(found.boxes, found.scores, values, max_iou, 0)
    return Detections(means[:, :4], found.scores[kept], means[:, 4:].reshape(-1, 5, 2))


def ultraface(path: Path, min_score: float = 0.3) -> Detector:
    """Return Ultra-Light RFB-320 on the picture stretched to 320x240; no key points."""
    network = open_network(path)

    def detect(picture: Picture) -> Detections:
        stretched = resize(picture, 320, 240).transpose(2, 0, 1)[None]
        outputs = network(np.asarray((stretched - 127.0) / 128.0, np.float32))
        scores = outputs["scores"][0, :, 1]
        kept = scores >= min_score
        size = np.asarray([picture.shape[1], picture.shape[0]], np.float32)
        boxes = outputs["boxes"][0][kept] * np.tile(size, 2)
        points = np.full((len(boxes), 5, 2), np.nan, np.float32)
        return suppress(Detections(boxes, scores[kept], points))

    return detect


MESH_LEFT_EYE, MESH_RIGHT_EYE = (263, 362, 386, 374), (33, 133, 159, 145)
MESH_NOSE, MESH_MOUTH_LEFT, MESH_MOUTH_RIGHT = (4,), (291,), (61,)


@functools.cache
def face_mesh(path: Path) -> Callable[[Picture, Array], tuple[Array, float]]:
    """Return MediaPipe's face mesh, which refines five points of one face.

    The function takes the picture and float32[5, 2] points of which the eyes and the mouth place
    the crop, and returns float32[5, 2] and the presence, 0..1.
    """
    network = open_network(path)
    groups = (MESH_LEFT_EYE, MESH_RIGHT_EYE, MESH_NOSE, MESH_MOUTH_LEFT, MESH_MOUTH_RIGHT)

    def refine(picture: Picture, points: Array) -> tuple[Array, float]:
        eyes, mouth = points[:2].mean(axis=0), points[3:].mean(axis=0)
        centre = (eyes + mouth) / 2
        along = points[0] - points[1]
        angle = float(np.arctan2(along[1], along[0]))
        side = 3.2 * max(float(np.hypot(*along)), float(np.hypot(*(mouth - eyes))) * 0.9)
        cos, sin = np.cos(angle) * side / 192, np.sin(angle) * side / 192
        start = centre - 96 * np.asarray([cos - sin, sin + cos])
        crop = Image.fromarray(picture).transform(
            (192, 192),
            Image.Transform.AFFINE,
            (cos, -sin, float(start[0]), sin, cos, float(start[1])),
            Image.Resampling.BILINEAR,
        )
        outputs = network(np.asarray(crop, np.float32)[None] / np.float32(255))
        by_size = {values.size: values.reshape(-1) for values in outputs.values()}
        mesh = by_size[1404].reshape(468, 3)[:, :2]
        five = np.stack([mesh[list(group)].mean(axis=0) for group in groups])
        turned = five @ np.asarray([[cos, sin], [-sin, cos]]) + start
        presence = float(1 / (1 + np.exp(-by_size[1][0])))
        return np.asarray(turned, np.float32), presence

    return refine
