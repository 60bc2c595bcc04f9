"""Drawing pictures of icons, and whole sets of them in parallel.

An icon lies anywhere, rotated, sheared and foreshortened, filled, outlined or hatched, on a ground
with gradients and other drawings, half hidden by strokes, blurred and noisy; a plain picture has
less of all that. Picture and class follow from the seed and the number alone.
"""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from palmkit.models.icons.shapes import CLASSES, SHAPES, Outline

Picture: TypeAlias = NDArray[np.uint8]
SIZE = 96
# Bits behind the point of the coordinates that OpenCV draws with.
SHIFT = 4


@dataclass(frozen=True)
class Look:
    """How hard the pictures are to read.

    size: height and width. behind, before: strokes, at most. icon: half its size, in shares of the
    picture's. contrast: least difference of its colour. hatched: chance of it. noise: at most, in
    levels. blur: at most, in pixels.
    """

    size: int = SIZE
    behind: int = 6
    before: int = 3
    icon: tuple[float, float] = (0.14, 0.36)
    contrast: tuple[float, float] = (50.0, 130.0)
    hatched: float = 0.2
    noise: float = 16.0
    blur: float = 1.5


LOOKS = {
    "hard": Look(),
    "plain": Look(64, 3, 1, (0.24, 0.4), (90.0, 150.0), 0.1, 10.0, 1.0),
}


def draw_picture(seed: int, number: int, look: Look = LOOKS["hard"]) -> tuple[Picture, int]:
    """Return the picture uint8[size, size, 3] RGB, and its class, an index of CLASSES."""
    draw = np.random.default_rng([seed, number])
    kind = int(draw.integers(len(CLASSES)))
    picture = _ground(draw)
    for _ in range(int(draw.integers(min(look.behind, 2), look.behind + 1))):
        _stroke(picture, draw)
    _icon(picture, kind, look, draw)
    for _ in range(int(draw.integers(0, look.before + 1))):
        _stroke(picture, draw)
    picture = _photographed(picture, look, draw)
    if look.size != SIZE:
        size = (look.size, look.size)
        picture = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
    return picture, kind


def draw_set(
    seed: int, count: int, look: Look = LOOKS["hard"], start: int = 0, processes: int = 0
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return pictures uint8[count, size, size, 3] and classes int64[count].

    processes: 0 for one a core.
    """
    workers = processes or os.cpu_count() or 1
    if workers == 1:
        return draw_part(seed, look, start, start + count)
    edges = np.linspace(start, start + count, 4 * workers + 1).astype(int).tolist()
    with processes_of(workers) as pool:
        parts = list(pool.map(draw_part, repeat(seed), repeat(look), edges[:-1], edges[1:]))
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def processes_of(workers: int) -> ProcessPoolExecutor:
    """Return an executor with `workers` processes that draw.

    They are not forked from this one, as they would lack the threads that its libraries have
    started.
    """
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    context.set_forkserver_preload([__name__])
    return ProcessPoolExecutor(workers, context)


def draw_part(
    seed: int, look: Look, start: int, end: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the pictures from start to end, drawn in this process."""
    cv2.setNumThreads(1)
    pictures = np.empty((end - start, look.size, look.size, 3), np.uint8)
    kinds = np.empty(end - start, np.int64)
    for at in range(end - start):
        pictures[at], kinds[at] = draw_picture(seed, start + at, look)
    return pictures, kinds


def _colour(draw: np.random.Generator) -> NDArray[np.float64]:
    return draw.uniform(0, 255, 3)


def _ground(draw: np.random.Generator) -> Picture:
    """Return a gradient with a coarse texture."""
    cells = int(draw.integers(2, 12))
    coarse = draw.standard_normal((cells, cells, 3), np.float32) * draw.uniform(2, 24)
    corners = np.stack([_colour(draw) for _ in range(4)]).reshape(2, 2, 3)
    size = (SIZE, SIZE)
    smooth = np.asarray(cv2.resize(corners, size, interpolation=cv2.INTER_LINEAR), np.float32)
    smooth += np.asarray(cv2.resize(coarse, size, interpolation=cv2.INTER_CUBIC), np.float32)
    return np.ascontiguousarray(smooth.clip(0, 255).astype(np.uint8))


def _stroke(picture: Picture, draw: np.random.Generator) -> None:
    """Draw something that is no icon: a line, an arc or a corner."""
    colour = _colour(draw).tolist()
    points = (draw.uniform(-10, SIZE + 10, (3, 2)) * (1 << SHIFT)).astype(np.int32)
    kind, thick = int(draw.integers(4)), int(draw.integers(1, 5))
    if kind == 0:
        axes = draw.uniform(4, 26, 2) * (1 << SHIFT)
        begin = draw.uniform(0, 360)
        end = begin + draw.uniform(60, 360)
        centre, half = points[0].tolist(), axes.astype(int).tolist()
        cv2.ellipse(picture, centre, half, 0, begin, end, colour, thick, cv2.LINE_AA, SHIFT)
    elif kind == 1:
        near = points[0] + (points - points[0]) // 4
        cv2.fillPoly(picture, [near], colour, cv2.LINE_AA, SHIFT)
    else:
        cv2.polylines(picture, [points[:kind]], False, colour, thick, cv2.LINE_AA, SHIFT)


def _placed(lines: list[Outline], look: Look, draw: np.random.Generator) -> list[NDArray[np.int32]]:
    """Return the lines in the picture's coordinates, in OpenCV's fixed point."""
    turn = draw.normal(0, 0.5)
    half = SIZE * draw.uniform(*look.icon)
    room = max(SIZE / 2 - 0.9 * half, 0.0)
    centre = SIZE / 2 + draw.uniform(-room, room, 2)
    cos, sin = np.cos(turn), np.sin(turn)
    spread = np.array([[draw.uniform(0.75, 1.25), draw.normal(0, 0.15)], [0.0, 1.0]])
    if draw.random() < 0.5:
        spread[:, 0] *= -1
    matrix = np.array([[cos, -sin], [sin, cos]]) @ spread
    away = draw.normal(0, 0.15, 2)
    placed: list[NDArray[np.int32]] = []
    for line in lines:
        points = line @ matrix.T * half / (1 + line @ away)[:, None] + centre
        placed.append(np.rint(points * (1 << SHIFT)).astype(np.int32))
    return placed


def _icon(picture: Picture, kind: int, look: Look, draw: np.random.Generator) -> None:
    lines = _placed(SHAPES[kind](draw), look, draw)
    ink = _ink(picture, lines, look, draw)
    style = draw.random()
    if style < 0.3:
        cv2.polylines(picture, lines, True, ink, int(draw.integers(1, 3)), cv2.LINE_AA, SHIFT)
        return
    if style < 0.3 + look.hatched:
        mask = np.zeros((SIZE, SIZE), np.uint8)
        cv2.fillPoly(mask, lines, 255, cv2.LINE_AA, SHIFT)
        axis = np.arange(SIZE)
        slope, gap = draw.uniform(-1.5, 1.5), draw.uniform(3.0, 7.0)
        bars = np.sin((axis[:, None] + slope * axis) * (2 * np.pi / gap)) > draw.uniform(-0.6, 0.3)
        share = (mask * bars)[..., None] / 255.0
        picture[:] = picture * (1 - share) + np.array(ink) * share
    else:
        cv2.fillPoly(picture, lines, ink, cv2.LINE_AA, SHIFT)
    if draw.random() < 0.4:
        cv2.polylines(picture, lines, True, _colour(draw).tolist(), 1, cv2.LINE_AA, SHIFT)


def _ink(
    picture: Picture, lines: list[NDArray[np.int32]], look: Look, draw: np.random.Generator
) -> list[float]:
    """Return a colour that differs from the ground, sometimes barely."""
    x, y = np.clip(lines[0].mean(0).astype(int) >> SHIFT, 0, SIZE - 1).tolist()
    ground = picture[y, x].astype(float)
    least = draw.uniform(*look.contrast)
    ink = _colour(draw)
    for _ in range(20):
        if np.abs(ink - ground).max() > least:
            break
        ink = _colour(draw)
    return [float(part) for part in ink]


def _photographed(picture: Picture, look: Look, draw: np.random.Generator) -> Picture:
    """Add blur, light and noise."""
    blur = draw.uniform(-0.6, look.blur)
    if blur > 0.3:
        picture = np.asarray(cv2.GaussianBlur(picture, (0, 0), blur), np.uint8)
    level, contrast = draw.normal(0, 15), draw.uniform(0.5, 1.1)
    noise = draw.standard_normal((SIZE, SIZE, 3), np.float32) * np.float32(
        draw.uniform(0, look.noise)
    )
    lit = (picture.astype(np.float32) - 128) * contrast + (128 + level) + noise
    return lit.clip(0, 255).astype(np.uint8)
