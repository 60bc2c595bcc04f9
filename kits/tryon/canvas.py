"""One face's part of a picture while effects are laid on it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.cached import cached
from palmkit.kits.face import topology
from palmkit.kits.face.pose import RIGID, fit_similarity
from palmkit.kits.image import Image
from palmkit.kits.stopwatch import Stopwatch
from palmkit.kits.tryon.colour import Floats, mean_of, to_lab, to_rgb
from palmkit.kits.tryon.regions import fixed, soften
from palmkit.kits.tryon.things import find_things

# Margin round the mesh, in centimetres.
MARGIN_CM = 2.0
# What is seen is hidden below the first of these, what is hidden is seen from the second on.
HIDDEN, SEEN = 0.4, 0.6
# Effects that cover less of a pixel than this change nothing.
LEAST = 1 / 512
# How fast what is remembered of a face's colours follows it, in seconds.
MEMORY_S = 0.4


@dataclass
class Memory:
    """Colours remembered from a face's earlier frames, which must not flicker."""

    seen_s: float | None = None
    hidden: NDArray[np.bool_] | None = None
    colours: dict[str, Floats] = field(default_factory=dict[str, Floats])

    def settle(self, name: str, colour: Floats, time_s: float | None) -> Floats:
        """Return the colour, moved towards from the remembered one; unchanged in image mode."""
        if time_s is None:
            return colour
        before = self.colours.get(name)
        if before is not None and self.seen_s is not None:
            share = 1 - np.exp(-max(time_s - self.seen_s, 0.0) / MEMORY_S)
            colour = np.asarray(before + share * (colour - before), np.float32)
        self.colours[name] = colour
        return colour

    def hide(self, visibility: Floats) -> NDArray[np.bool_]:
        """Return which things are hidden, by how far each is seen, 0..1; doubt changes nothing."""
        before = visibility < (HIDDEN + SEEN) / 2 if self.hidden is None else self.hidden
        self.hidden = np.where(before, visibility < SEEN, visibility < HIDDEN)
        return self.hidden


class Canvas:
    """A face and the pixels round it.

    shape: height and width. coverage: float32[h, w], 0..1, where effects lie.
    points: float32[478, 2] of the mesh in pixels of `lab`; depth: float32[478].
    visibility: float32[478].
    hair: float32[h, w], 0..1: where hair is in front of it, or None.
    per_cm: how many pixels a centimetre at the face is, if it is as large as the canonical one.
    """

    def __init__(
        self,
        picture: Image,
        mesh: Floats,
        visibility: Floats,
        hair: Floats | None,
        memory: Memory,
        time_s: float | None,
        hands: Floats | None = None,
        behind_things: bool = True,
        watch: Stopwatch | None = None,
    ) -> None:
        """Cut a face out.

        picture: uint8[h, w, 3]. mesh: float32[478, 3] in its pixels. hair, hands: float32[h, w],
        0..1, which are in front of the face; None: nowhere. behind_things: so is what has another
        colour than the skin. watch: is told how long looking for things takes.
        """
        self._behind_things = behind_things
        self._watch = Stopwatch() if watch is None else watch
        rows = np.array(RIGID, np.intp)
        trust = np.maximum(visibility[rows].astype(np.float64), 1e-2)
        canonical = topology.canonical_face()[rows].astype(np.float64)
        self.per_cm, self.rotation, self.shift = fit_similarity(
            canonical, mesh[rows].astype(np.float64), trust
        )
        height, width = picture.shape[:2]
        margin = MARGIN_CM * self.per_cm
        low = np.floor(mesh[:, :2].min(axis=0) - margin).astype(int)
        high = np.ceil(mesh[:, :2].max(axis=0) + margin).astype(int)
        self.left, self.top = (int(max(v, 0)) for v in low)
        self.right, self.bottom = min(int(high[0]), width), min(int(high[1]), height)
        self._before = picture[self.top : self.bottom, self.left : self.right]
        self.points = np.asarray(mesh[:, :2] - np.array([self.left, self.top]), np.float32)
        self.depth = mesh[:, 2]
        self.visibility = visibility
        self.hair = None if hair is None else hair[self.top : self.bottom, self.left : self.right]
        self._hands = (
            None if hands is None else hands[self.top : self.bottom, self.left : self.right]
        )
        self.memory, self.time_s = memory, time_s
        self.shape = (self._before.shape[0], self._before.shape[1])
        self.coverage = np.zeros(self.shape, np.float32)

    @property
    def is_empty(self) -> bool:
        """Whether the face lies outside of the picture, or is too small to draw on."""
        return self.left >= self.right or self.top >= self.bottom or self.per_cm < 0.5

    def lab(self, where: tuple[slice, slice]) -> Floats:
        """Return a part's pixels in CIELAB, float32[h, w, 3], which effects change in turn."""
        return self._lab[where]

    @cached
    def _lab(self) -> Floats:
        return to_lab(self._before)

    @cached
    def uncovered(self) -> Floats:
        """Where no hand and no other thing is in front of the face, float32[h, w], 0..1."""
        seen = np.ones(self.shape, np.float32)
        triangles = topology.triangles().astype(np.intp)
        hidden = self.memory.hide(self.visibility[triangles].mean(axis=1))
        if hidden.any():
            self._cover(seen, triangles, hidden)
            seen = soften(seen, 0.15 * self.per_cm)
        return seen if self._hands is None else seen * (1 - self._hands)

    @cached
    def things(self) -> Floats | None:
        """Where something of another colour than skin is in front of it, float32[h, w], 0..1."""

        def settle(skin: Floats) -> Floats:
            return self.memory.settle("skin", skin, self.time_s)

        if not self._behind_things:
            return None
        with self._watch.stage("things"):
            return find_things(self._before, self.points, self.visibility, self.per_cm, settle)

    @cached
    def free(self) -> Floats:
        """`uncovered` without hair and other things, float32[h, w], 0..1."""
        free = self.uncovered
        for front in (self.hair, self.things):
            if front is not None:
                free = free * (1 - front)
        return free

    def _cover(self, free: Floats, triangles: NDArray[np.intp], hidden: NDArray[np.bool_]) -> None:
        """Draw hidden triangles, then seen ones over them: the near half of a face in profile."""
        import cv2

        corners = fixed(self.points)[triangles]
        low, high = corners[hidden].min(axis=(0, 1)), corners[hidden].max(axis=(0, 1))
        for triangle in corners[hidden]:
            cv2.fillConvexPoly(free, triangle, 0.0, cv2.LINE_8, 4)
        near = (corners.max(axis=1) >= low).all(axis=1) & (corners.min(axis=1) <= high).all(axis=1)
        for triangle in corners[~hidden & near]:
            cv2.fillConvexPoly(free, triangle, 1.0, cv2.LINE_8, 4)

    def seen(self, points: tuple[int, ...]) -> float:
        """Return how far these points are seen, 0..1."""
        return float(self.visibility[list(points)].mean())

    def faces_camera(self, normals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the cosines between directions of the canonical face and that to the camera.

        normals: float64[..., 3]. Returns float64[...], -1..1.
        """
        return np.asarray(-(normals @ self.rotation[2]), np.float64)

    def part(self, points: Floats, margin_cm: float) -> tuple[slice, slice]:
        """Return rows and columns round some points, inside the canvas; they may be empty."""
        height, width = self.shape
        margin = margin_cm * self.per_cm + 2
        low, high = points.min(axis=0) - margin, points.max(axis=0) + margin
        rows = slice(max(int(low[1]), 0), max(min(int(high[1]) + 1, height), 0))
        return rows, slice(max(int(low[0]), 0), max(min(int(high[0]) + 1, width), 0))

    def base(self, name: str, lab: Floats, weight: Floats) -> Floats:
        """Return the mean colour of a region, steady over time; a hidden one keeps its colour."""
        if weight.sum() < LEAST:
            return self.memory.colours.get(name, np.zeros(3, np.float32))
        return self.memory.settle(name, mean_of(lab, weight), self.time_s)

    def mark(self, where: tuple[slice, slice], weight: Floats) -> None:
        """Record what an effect covers."""
        part = self.coverage[where]
        np.maximum(part, weight, out=part)

    def write(self, picture: Image) -> None:
        """Write changed pixels into the picture; all others stay exactly as they were."""
        import cv2

        touched = (self.coverage > LEAST).view(np.uint8)
        left, top, width, height = cv2.boundingRect(touched)
        if width:
            where = slice(top, top + height), slice(left, left + width)
            part = picture[self.top : self.bottom, self.left : self.right][where]
            cv2.copyTo(to_rgb(self._lab[where]), touched[where], part)

    def affine(self, points: tuple[int, ...]) -> NDArray[np.float64]:
        """Return float64[2, 3]: from the canonical face's x and y, centimetres, to the canvas."""
        rows = list(points)
        source = topology.canonical_face()[rows, :2].astype(np.float64)
        ones = np.ones((len(rows), 1))
        solved = np.linalg.lstsq(np.hstack([source, ones]), self.points[rows].astype(np.float64))
        return np.asarray(solved[0].T, np.float64)
