"""Glasses, drawn in space on the canonical face and seen as the head is rotated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.face import topology
from palmkit.kits.options import one_of
from palmkit.kits.tryon import regions
from palmkit.kits.tryon.canvas import Canvas
from palmkit.kits.tryon.colour import Finish, Floats, lab_of, read_shade
from palmkit.kits.tryon.effect import Effect

Space: TypeAlias = NDArray[np.float64]

# The subject's left lens: where its middle is, in centimetres on the canonical face.
_MIDDLE = (3.3, -0.25, 1.75)
# The frame goes back by so much of the square of the distance from the nose, in 1/cm.
_WRAP = 0.022
_HINGE_HEIGHT = 0.5
_EAR = (7.5, 0.2, -7.2)
# The direction that the head faces under a hinge, x and z, how that turns from there to the ear,
# and after which share of an arm its side is reached.
_AT_HINGE, _AT_EAR, _ROUND = (0.55, 0.83), -0.1, 0.33
# The mask below which hair is none, and from which on it hides all; in which squares it is
# followed, in centimetres.
_HAIR, _CELL_CM = (0.35, 0.7), 0.3
# So far beside the face hair is before the rims where it is before the face, in centimetres.
_BESIDE_CM = 4.0
_CORNERS = 72


@dataclass(frozen=True)
class Shape:
    """The outline of a lens.

    width, height: centimetres. square: 2 an ellipse, more nearer to a rectangle (the exponent of
    Lamé's curve). lift: how far the outer upper corner is drawn up. drop: how far the lower
    outer part hangs. rim: how thick the frame is, centimetres.
    """

    width: float
    height: float
    square: float
    lift: float = 0.0
    drop: float = 0.0
    rim: float = 0.3

    def outline(self) -> NDArray[np.float64]:
        """Return float64[72, 2] of x (away from the nose) and y (up), cm from its centre."""
        angle = np.arange(_CORNERS) * (2 * np.pi / _CORNERS)
        cos, sin = np.cos(angle), np.sin(angle)
        power = 2 / self.square
        x = np.sign(cos) * np.abs(cos) ** power * self.width / 2
        y = np.sign(sin) * np.abs(sin) ** power * self.height / 2
        out = np.clip(0.5 + x / self.width, 0, 1)
        y = y + self.lift * out**2 * np.clip(sin, 0, 1) - self.drop * np.clip(-sin, 0, 1) * out
        return np.stack([x, y], axis=1)


SHAPES = {
    "round": Shape(4.7, 4.5, 2.0, rim=0.22),
    "square": Shape(5.2, 4.0, 4.5, rim=0.42),
    "aviator": Shape(5.6, 4.8, 2.6, drop=0.55, rim=0.14),
    "cat_eye": Shape(5.3, 3.9, 2.9, lift=0.75, rim=0.36),
    "rimless": Shape(5.0, 3.5, 3.2, rim=0.05),
}


@dataclass(frozen=True)
class Glasses(Effect):
    """Drawn glasses, which rotate with the head.

    style: "round", "square", "aviator", "cat_eye" or "rimless". colour, opacity and finish: of the
    frame. lens: its colour; tint: 0..1, how far it hides the eyes, more at its upper edge.
    """

    name: ClassVar[str] = "glasses"
    finishes: ClassVar[tuple[Finish, ...]] = ("matte", "satin", "gloss")

    colour: str = "#201c1c"
    opacity: float = 1.0
    finish: Finish = "gloss"
    style: str = "square"
    lens: str = "#101418"
    tint: float = 0.12

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid option."""
        super().__post_init__()
        one_of("glasses style", self.style, tuple(SHAPES))
        red, green, blue = read_shade("glasses lens", self.lens)
        object.__setattr__(self, "lens", f"#{red:02x}{green:02x}{blue:02x}")

    def lay(self, canvas: Canvas) -> None:
        """Draw them over everything else on the face."""
        place = _Place(canvas)
        rims = [_rims(self.style, side) for side in (-1.0, 1.0)]
        temples = {side: _temple(self.style, side) for side in (-1.0, 1.0)}
        outlines = [line for pair in (*rims, *temples.values()) for line in pair]
        where = canvas.part(place(np.concatenate(outlines)), 0.8)
        lab = canvas.lab(where)
        if not lab.size:
            return
        place.move(where)
        corner = np.array([where[1].start, where[0].start], np.float32)
        oval = canvas.points[list(topology.FACE_OVAL)] - corner
        face = regions.fill(lab.shape, regions.curve(oval, True))
        before = _hair_before(canvas, where, face)
        free = canvas.uncovered[where]
        in_front = free if before is None else free * (1 - before)
        over, under = (place(line) for line in _bridge(self.style))
        frame = regions.band(lab.shape, over, under, False)
        for outer, inner in rims:
            rim = regions.band(lab.shape, place(outer), place(inner), True)
            np.maximum(frame, rim, out=frame)
        frame *= in_front
        np.maximum(frame, self._arms(canvas, where, place, temples) * free, out=frame)
        lens = regions.fill(lab.shape, *(place(inner) for _, inner in rims))
        lens *= in_front * (1 - frame)
        shadow = self._shade(lab, frame, canvas.per_cm, face * in_front)
        lens = self._tint(lab, lens, place)
        weight = frame * np.float32(self.opacity)
        colour = lab_of(read_shade(self.name, self.colour))
        for axis in range(3):
            lab[..., axis] += weight * (colour[axis] - lab[..., axis])
        if self.finish != "matte":
            lab[..., 0] += weight * self._gleam(frame, canvas.per_cm)
            np.minimum(lab[..., 0], 100, out=lab[..., 0])
        canvas.mark(where, np.maximum(np.maximum(frame, lens), shadow))

    def _shade(self, lab: Floats, frame: Floats, per_cm: float, skin: Floats) -> Floats:
        """Draw the frame's shadow on the skin; return its density.

        It is dark and narrow where the frame nearly touches the skin, and falls wide and faint on
        what lies below.
        """
        import cv2

        height, width = frame.shape
        step = max(int(per_cm * _CONTACT.soft / 2), 1)
        size = max(width // step, 1), max(height // step, 1)
        small = cast(Floats, cv2.resize(frame, size, interpolation=cv2.INTER_AREA))
        cm = per_cm / step
        shadow = np.zeros_like(small)
        for each in (_CONTACT, _CAST):
            below = np.array([[1, 0, 0], [0, 1, each.below * cm]], np.float64)
            moved = np.asarray(cv2.warpAffine(small, below, size), np.float32)
            shadow += regions.soften(moved, each.soft * cm) * np.float32(each.dark)
        shadow = cast(Floats, cv2.resize(shadow, (width, height))) * (1 - frame) * skin
        lab[..., 0] *= 1 - shadow
        return shadow

    def _tint(self, lab: Floats, lens: Floats, place: _Place) -> Floats:
        """Draw the lenses, darker above; return how far they cover what is behind them."""
        top, bottom = place(np.array([[0.0, 2.2, 1.75], [0.0, -2.6, 1.75]]))
        down = bottom - top
        down = down / np.float32(max(float(down @ down), 1e-3))
        across, below = (np.arange(length, dtype=np.float32) for length in lab.shape[1::-1])
        along = ((across - top[0]) * down[0])[None] + ((below - top[1]) * down[1])[:, None]
        weight = np.asarray(np.clip(along, 0, 1), np.float32)
        weight *= np.float32(-0.45 * self.tint)
        weight += np.float32(1.15 * self.tint)
        weight *= lens
        np.clip(weight, 0, 1, out=weight)
        colour = lab_of(read_shade("glasses lens", self.lens))
        # It acts as a filter: dark stays dark, and light takes the lens's colour.
        lab[..., 0] += weight * (np.minimum(colour[0], lab[..., 0]) - lab[..., 0])
        for axis in (1, 2):
            lab[..., axis] += weight * (colour[axis] - lab[..., axis])
        return weight

    def _gleam(self, frame: Floats, per_cm: float) -> Floats:
        """Return light on the frame's upper side."""
        inside = regions.soften(frame, 0.1 * per_cm)
        slope = np.zeros_like(frame)
        slope[1:] = inside[1:] - inside[:-1]
        strength = 55.0 if self.finish == "gloss" else 25.0
        return np.asarray(np.clip(slope, 0, None) * np.float32(strength), np.float32)

    def _arms(
        self,
        canvas: Canvas,
        where: tuple[slice, slice],
        place: _Place,
        temples: dict[float, tuple[Space, Space]],
    ) -> Floats:
        """Draw both arms, each from its hinge until the head hides it, and under the hair."""
        shape = canvas.lab(where).shape
        found = np.zeros(shape[:2], np.float32)
        for side, lines in temples.items():
            seen = _seen_share(canvas, side)
            if seen <= 0:
                continue
            upper, lower = (_first_part(line, seen) for line in lines)
            arm = regions.band(shape, place(upper), place(lower), False)
            np.maximum(found, arm, out=found)
        return found if canvas.hair is None else found * (1 - canvas.hair[where])


class _Shadow(NamedTuple):
    """How far below the frame a shadow lies and how soft it is, in centimetres; its density."""

    below: float
    soft: float
    dark: float


_CONTACT, _CAST = _Shadow(0.12, 0.12, 0.22), _Shadow(0.5, 0.3, 0.14)


def _hair_before(canvas: Canvas, where: tuple[slice, slice], face: Floats) -> Floats | None:
    """Return where hair hangs before the face, 0..1: all on it that comes from beyond its edge.

    face: float32[h, w], 0..1, where that is. Hair beside the face lies behind the rims, but for
    what goes on from hair before it, and brows are none. None: nowhere.
    """
    import cv2

    if canvas.hair is None or not (canvas.hair[where] * face > _HAIR[0]).any():
        return None
    # It varies little within a few millimetres.
    step = max(int(_CELL_CM * canvas.per_cm), 1)
    coarse = canvas.hair[step // 2 :: step, step // 2 :: step]
    if not coarse.size:
        return None
    oval = np.asarray(canvas.points[list(topology.FACE_OVAL)] * np.float32(1 / step), np.float32)
    beyond = regions.fill(coarse.shape, oval) < 0.5
    _, found = cv2.connectedComponents(np.asarray(coarse > _HAIR[0], np.uint8), connectivity=8)
    parts = np.asarray(found, np.intp)
    comes = np.bincount(parts[beyond & (coarse > _HAIR[1])], minlength=int(parts.max()) + 1) > 0
    comes[0] = False
    hangs = cv2.dilate(np.asarray(comes[parts], np.uint8), np.ones((3, 3), np.uint8))
    whole = cv2.resize(hangs, canvas.shape[::-1], interpolation=cv2.INTER_NEAREST)
    hair = regions.smoothstep(canvas.hair[where], *_HAIR)
    hair = np.asarray(hair * whole[where], np.float32)
    before = hair * face
    reach = max(round(_BESIDE_CM * canvas.per_cm), 1)
    across = np.zeros((2 * reach + 1, 2 * reach + 1), np.uint8)
    away = canvas.rotation[:2, 0] / max(float(np.hypot(*canvas.rotation[:2, 0])), 1e-6)
    x, y = (round(reach * float(value)) for value in away)
    cv2.line(across, (reach - x, reach - y), (reach + x, reach + y), 1)
    return np.asarray(hair * cv2.dilate(before, across), np.float32)


@lru_cache(maxsize=2)
def _normals(side: float) -> Space:
    """Return where the head faces under an arm from the hinge to the ear, float64[33, 3]."""
    share = np.linspace(0, 1, 33)
    back = np.minimum(share / _ROUND, 1)
    x = _AT_HINGE[0] + (1 - _AT_HINGE[0]) * back
    z = _AT_HINGE[1] * (1 - back) + _AT_EAR * share
    return np.stack([side * x, np.zeros_like(x), z], axis=1)


def _seen_share(canvas: Canvas, side: float) -> float:
    """Return how much of an arm's length, from the hinge, lies on what faces the camera, 0..1."""
    facing = canvas.faces_camera(_normals(side))
    hidden = np.flatnonzero(facing <= 0)
    if not len(hidden):
        return 1.0
    first = int(hidden[0])
    if not first:
        return 0.0
    before, after = float(facing[first - 1]), float(facing[first])
    return (first - 1 + before / (before - after)) / (len(facing) - 1)


def _first_part(line: Space, share: float) -> Space:
    """Return so much of a line of evenly spaced points, by as many points."""
    at = np.linspace(0, share * (len(line) - 1), len(line))
    rows = np.arange(len(line))
    return np.stack([np.interp(at, rows, line[:, axis]) for axis in range(3)], axis=1)


class _Place:
    """A map from the canonical face's centimetres to the canvas, or a part of it."""

    def __init__(self, canvas: Canvas) -> None:
        self._matrix = canvas.rotation * canvas.per_cm
        self._shift = canvas.shift[:2] - np.array([canvas.left, canvas.top])

    def move(self, where: tuple[slice, slice]) -> None:
        """Use pixels of this part from here on."""
        self._shift = self._shift - np.array([where[1].start, where[0].start])

    def __call__(self, points: Space) -> Floats:
        """Map float64[n, 3] to float32[n, 2]."""
        return np.asarray(points @ self._matrix[:2].T + self._shift, np.float32)


@lru_cache(maxsize=16)
def _rims(style: str, side: float) -> tuple[Space, Space]:
    """Return the outer and the inner edge of a rim in space, float64[72, 3] each."""
    shape = SHAPES[style]
    line = shape.outline()
    reach = np.hypot(*line.T)[:, None]
    grow = shape.rim / 2 / reach
    return _bent(line * (1 + grow), side), _bent(line * (1 - grow), side)


def _bent(line: NDArray[np.float64], side: float) -> Space:
    """Place a flat line of a lens on the face, further back at the sides."""
    x = _MIDDLE[0] + line[:, 0]
    z = _MIDDLE[2] - _WRAP * x**2
    return np.stack([side * x, _MIDDLE[1] + line[:, 1], z], axis=1)


@lru_cache(maxsize=8)
def _bridge(style: str) -> tuple[Space, Space]:
    """Return upper and lower edge of the part over the nose."""
    shape = SHAPES[style]
    inner = _MIDDLE[0] - shape.width / 2 + shape.rim * 0.3
    x = np.linspace(-inner, inner, 12)
    arch = 0.35 * (1 - (x / inner) ** 2)
    y = _MIDDLE[1] + 0.22 * shape.height + arch
    z = _MIDDLE[2] + 0.35 * (1 - (x / inner) ** 2)
    thick = max(shape.rim, 0.12)
    upper = np.stack([x, y + thick / 2, z], axis=1)
    lower = np.stack([x, y - thick / 2, z], axis=1)
    return upper, lower


@lru_cache(maxsize=16)
def _temple(style: str, side: float) -> tuple[Space, Space]:
    """Return upper and lower edge of an arm, from its hinge to the ear."""
    shape = SHAPES[style]
    end = _bent(np.array([[shape.width / 2, _HINGE_HEIGHT]]), 1.0)[0]
    share = np.linspace(0, 1, 16)[:, None]
    line = end + (np.array(_EAR) - end) * share
    # It goes outward at once, then straight back.
    line[:, 0] = end[0] + (_EAR[0] - end[0]) * np.minimum(share[:, 0] * 4, 1)
    thick = np.array([0, max(shape.rim, 0.16) / 2, 0])
    line = line * np.array([side, 1, 1])
    return line + thick, line - thick
