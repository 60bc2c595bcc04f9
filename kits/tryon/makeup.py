"""Make-up: effects that change the colour of a part of the face."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.face import topology
from palmkit.kits.tryon import regions
from palmkit.kits.tryon.canvas import Canvas
from palmkit.kits.tryon.colour import Finish, Floats, dye, mean_of
from palmkit.kits.tryon.effect import Effect
from palmkit.kits.tryon.shimmer import sparkle

# Lower lip: the middles of its outer and inner edge, from the right.
_SHINE_OUTER, _SHINE_INNER = (181, 84, 17, 314, 405), (178, 87, 14, 317, 402)
_SHINE = 26.0
_EYELID_REACH = 0.62
# A face less than this much of its points seen has no region there.
_LEAST_SEEN = 0.3
# The direction that a lid's outer half faces, on the canonical face; the least of it that has to be
# towards the camera, as a cosine.
_LID_NORMAL, _LEAST_FACING = (0.5, 0.0, 0.87), 0.12
# Of a line: less is no connection.
_FAINT = 0.15
# Darker colours count as this dark, so that nothing is compared with less.
_BLACK = 1.0


@dataclass(frozen=True)
class Lipstick(Effect):
    """Colour on the lips; teeth and tongue stay.

    Lips covered by a mask, a hand or hair stay as they are.
    """

    name: ClassVar[str] = "lipstick"

    opacity: float = 0.8

    def lay(self, canvas: Canvas) -> None:
        """Colour the lips."""
        outer = canvas.points[list(topology.LIPS_OUTER)]
        inner = canvas.points[list(topology.LIPS_INNER)]
        where = canvas.part(outer, 0.4)
        lab = canvas.lab(where)
        if not lab.size or canvas.seen(topology.LIPS_OUTER) < _LEAST_SEEN:
            return
        corner = np.array([where[1].start, where[0].start], np.float32)
        line, other = (regions.curve(each - corner, True) for each in (outer, inner))
        mask = regions.band(lab.shape, line, other, True) * (1 - regions.fill(lab.shape, other))
        mask = regions.soften(mask, 0.05 * canvas.per_cm) * canvas.free[where]
        weight = mask * _like_lips(canvas, lab, mask)
        base = canvas.base(self.name, lab, weight)
        shine = self._shine(canvas, lab, base, weight, corner)
        dye(lab, weight * np.float32(self.opacity), self.lab, base, self.finish)
        if shine is not None:
            lab[..., 0] += shine * weight
            np.clip(lab[..., 0], 0, 100, out=lab[..., 0])
        canvas.mark(where, weight)

    def _shine(
        self, canvas: Canvas, lab: Floats, base: Floats, weight: Floats, corner: Floats
    ) -> Floats | None:
        """Return what gloss adds along the middle of the lower lip, broken by the lip's texture."""
        if self.finish == "shimmer":
            return sparkle(canvas, topology.LIPS_OUTER, lab.shape[:2], corner) * self.opacity
        if self.finish != "gloss":
            return None
        outer, inner = (canvas.points[list(each)] - corner for each in (_SHINE_OUTER, _SHINE_INNER))
        thick = outer - inner
        lines = (np.asarray(inner + thick * share, np.float32) for share in (0.28, 0.55))
        near, far = (regions.curve(each, False) for each in lines)
        height = float(np.hypot(*thick[2]))
        wet = regions.band(lab.shape, near, far, False)
        wet = regions.soften(wet, max(0.13 * height, 0.4))
        fine = lab[..., 0] - regions.soften(lab[..., 0], max(0.12 * height, 0.6))
        broken = np.clip(0.75 + fine * np.float32(0.12), 0.2, 1.5)
        return np.asarray(wet * broken * np.float32(_SHINE * self.opacity), np.float32)


def _like_lips(canvas: Canvas, lab: Floats, mask: Floats) -> Floats:
    """Return how far pixels look like lips, not like teeth or a dark mouth, 0..1.

    Teeth are much lighter and hardly coloured; the inside of a mouth is much darker.
    """
    base = canvas.base("lips", lab, mask * mask)
    chroma = np.hypot(lab[..., 1], lab[..., 2])
    typical = max(float(np.hypot(base[1], base[2])), 6.0)
    tooth = regions.smoothstep(lab[..., 0], float(base[0]) + 9, float(base[0]) + 22)
    tooth *= regions.smoothstep(chroma, 0.85 * typical, 0.5 * typical)
    own = max(float(base[0]), _BLACK)
    dark = regions.smoothstep(lab[..., 0], 0.55 * own, 0.3 * own)
    return np.asarray((1 - tooth) * (1 - dark), np.float32)


@dataclass(frozen=True)
class Blush(Effect):
    """Colour on the cheeks."""

    name: ClassVar[str] = "blush"
    finishes: ClassVar[tuple[Finish, ...]] = ("matte", "satin", "shimmer")

    opacity: float = 0.4

    def lay(self, canvas: Canvas) -> None:
        """Colour the cheeks."""
        for cheek in (regions.RIGHT_CHEEK, regions.left(regions.RIGHT_CHEEK)):
            seen = float(regions.smoothstep(canvas.seen(cheek), _LEAST_SEEN, 0.7))
            if seen <= 0:
                continue
            line = canvas.points[list(cheek)]
            where = canvas.part(line, 2.2)
            if not canvas.lab(where).size:
                continue
            corner = np.array([where[1].start, where[0].start], np.float32)
            mask = regions.fill(canvas.lab(where).shape, regions.curve(line - corner, True))
            # The blur's faint end is cut off: it would reach the eyes.
            mask = np.clip(_wide(mask, 0.75 * canvas.per_cm) * 1.04 - 0.04, 0, 1)
            mask = np.asarray(mask * canvas.free[where] * np.float32(seen), np.float32)
            _colour(self, canvas, where, corner, mask, cheek)


@dataclass(frozen=True)
class EyeShadow(Effect):
    """Colour on the upper lids, densest at their edge."""

    name: ClassVar[str] = "eye_shadow"
    finishes: ClassVar[tuple[Finish, ...]] = ("matte", "satin", "shimmer")

    opacity: float = 0.6
    finish: Finish = "matte"

    def lay(self, canvas: Canvas) -> None:
        """Colour the upper lids."""
        for lid, above, eye in (
            (regions.RIGHT_LID, regions.RIGHT_ABOVE_LID, topology.RIGHT_EYE),
            (
                regions.left(regions.RIGHT_LID),
                regions.left(regions.RIGHT_ABOVE_LID),
                topology.LEFT_EYE,
            ),
        ):
            if canvas.seen(above) < _LEAST_SEEN:
                continue
            near, crease = canvas.points[list(lid)], canvas.points[list(above)]
            where = canvas.part(np.concatenate([near, crease]), 0.8)
            if not canvas.lab(where).size:
                continue
            corner = np.array([where[1].start, where[0].start], np.float32)
            near, crease = near - corner, crease - corner
            shape = canvas.lab(where).shape
            # Two bands: full at the lid's edge, less towards the brow.
            far = near + (crease - near) * np.float32(1 + _EYELID_REACH)
            edge, middle, end = (regions.curve(each, False) for each in (near, crease, far))
            faint = np.float32(0.4) * regions.band(shape, middle, end, False)
            mask = np.maximum(regions.band(shape, edge, middle, False), faint)
            mask = _wide(mask, 0.16 * canvas.per_cm)
            ball = regions.fill(shape, regions.curve(canvas.points[list(eye)] - corner, True))
            mask *= (1 - regions.soften(ball, 0.02 * canvas.per_cm)) * canvas.free[where]
            _colour(self, canvas, where, corner, mask, above)


@dataclass(frozen=True)
class Eyeliner(Effect):
    """A line along the upper lids.

    width: 0..1 of 2 mm. wing: 0..1, how far it goes on behind the outer corner.
    """

    name: ClassVar[str] = "eyeliner"
    finishes: ClassVar[tuple[Finish, ...]] = ("matte", "satin", "gloss")

    colour: str = "#1c1512"
    opacity: float = 0.85
    finish: Finish = "matte"
    width: float = 0.6
    wing: float = 0.35

    def lay(self, canvas: Canvas) -> None:
        """Draw the lines."""
        for lid in (regions.RIGHT_LID, regions.left(regions.RIGHT_LID)):
            side = float(np.sign(topology.canonical_face()[lid[0], 0]))
            # In profile the far eye looks away, whatever the mesh says of its points.
            looks = canvas.faces_camera(np.array(_LID_NORMAL) * (side, 1, 1))
            if canvas.seen(lid) < _LEAST_SEEN or looks < _LEAST_FACING:
                continue
            edge = canvas.points[list(lid)]
            where = canvas.part(edge, 1.6)
            if not canvas.lab(where).size:
                continue
            corner = np.array([where[1].start, where[0].start], np.float32)
            mask = self._line(canvas, edge - corner, lid, canvas.lab(where).shape)
            # Ends thinner than a pixel would flicker.
            mask = regions.soften(mask, max(0.03 * canvas.per_cm, 0.5)) * canvas.free[where]
            mask = _joined(mask, edge - corner)
            lab = canvas.lab(where)
            # A line covers lashes, lid and everything else.
            lab += (mask * np.float32(self.opacity))[..., None] * (self.lab - lab)
            canvas.mark(where, mask)

    def _line(
        self, canvas: Canvas, edge: Floats, lid: tuple[int, ...], shape: tuple[int, ...]
    ) -> Floats:
        """Return one line from the wing's tip along the lid, thin at both of its ends.

        edge: float32[9, 2], the lid's edge from the outer corner to the inner one.
        """
        face = topology.canonical_face()
        long = max(float(np.hypot(*(face[lid[0], :2] - face[lid[-1], :2]))), 1e-3)
        # A centimetre along the eye and one up the face, as they are seen.
        along = (edge[0] - edge[-1]) * np.float32(1 / long)
        up = np.asarray(canvas.rotation[:2, 1] * canvas.per_cm, np.float32)
        below, thick = edge, np.linspace(1.0, 0.3, len(edge), dtype=np.float32)
        if self.wing > 0:
            flick = (along + 0.6 * up) * np.float32(1.1 * self.wing)
            steps = np.array([[1.0], [0.66], [0.33]], np.float32)
            # It leaves the corner as the lid ends there, and bends up.
            flat = edge[0] + (along + 0.25 * up) * np.float32(1.1 * self.wing) * steps
            bent = steps * (edge[0] + flick * steps) + (1 - steps) * flat
            below = np.concatenate([bent, edge])
            thick = np.concatenate([np.array([0.15, 0.6, 1.0], np.float32), thick])
        # Across the line, away from the eye.
        rows = np.arange(len(below))
        tangent = below[np.minimum(rows + 2, rows[-1])] - below[np.maximum(rows - 2, 0)]
        across = np.stack([-tangent[:, 1], tangent[:, 0]], axis=1)
        across *= np.sign(across @ up)[:, None] / np.maximum(np.hypot(*across.T), 1e-3)[:, None]
        most = np.float32(0.2 * self.width * canvas.per_cm)
        above = np.asarray(below + across * (most * thick)[:, None], np.float32)
        lower, upper = (regions.curve(each, False) for each in (below, above))
        return regions.band(shape, lower, upper, False)


def _joined(mask: Floats, lid: Floats) -> Floats:
    """Return a line without what something in front cuts off from the lid, as a lone wing.

    mask: float32[h, w], 0..1. lid: float32[n, 2], the points of the lid's edge in its pixels.
    """
    import cv2

    count, found = cv2.connectedComponents((mask > _FAINT).view(np.uint8), connectivity=8)
    parts = np.asarray(found, np.intp)
    height, width = mask.shape
    kept = np.zeros(count, np.bool_)
    # Inside of the outer corner, where the wing ends.
    for x, y in lid[1:]:
        near = parts[
            max(int(y) - 2, 0) : min(int(y) + 3, height),
            max(int(x) - 2, 0) : min(int(x) + 3, width),
        ]
        kept[near] = True
    # What is too faint to be connected stays beside what it belongs to.
    kept[0] = False
    if kept[1:].all():
        return mask
    beside = cv2.dilate(kept[parts].view(np.uint8), np.ones((3, 3), np.uint8)) > 0
    return np.where(beside, mask, np.float32(0))


@dataclass(frozen=True)
class Iris(Effect):
    """The colour of the eyes; pupils and reflections stay."""

    name: ClassVar[str] = "iris"
    finishes: ClassVar[tuple[Finish, ...]] = ("satin",)

    opacity: float = 0.7

    def lay(self, canvas: Canvas) -> None:
        """Colour the irises."""
        for iris, right in ((topology.RIGHT_IRIS, True), (topology.LEFT_IRIS, False)):
            if canvas.seen(iris) < _LEAST_SEEN:
                continue
            centre, edge = canvas.points[iris[0]], canvas.points[list(iris[1:])]
            radius = float(np.median(np.hypot(*(edge - centre).T)))
            where = canvas.part(edge, 0.1)
            lab = canvas.lab(where)
            if not lab.size or radius < 1.0:
                continue
            corner = np.array([where[1].start, where[0].start], np.float32)
            y, x = np.ogrid[: lab.shape[0], : lab.shape[1]]
            across = x + 0.5 + corner[0] - centre[0]
            down = y + 0.5 + corner[1] - centre[1]
            away = np.asarray(np.hypot(across, down) / radius, np.float32)
            soft = max(0.5 / radius, 0.08)
            mask = regions.smoothstep(away, 1 + soft, 1 - soft)
            opening = regions.fill(lab.shape, regions.eye(canvas.points, right) - corner)
            mask *= regions.soften(opening, 0.03 * canvas.per_cm) * canvas.free[where]
            ring = mask * regions.smoothstep(away, 0.3, 0.5)
            if ring.sum() < 3:
                continue
            base = canvas.base(f"{self.name} {right}", lab, ring)
            light = lab[..., 0]
            own = max(float(base[0]), _BLACK)
            pupil = regions.smoothstep(light, 0.45 * own, 0.8 * own)
            pupil = np.maximum(pupil, regions.smoothstep(away, 0.35, 0.55))
            glint = regions.smoothstep(light, float(base[0]) + 22, float(base[0]) + 40)
            weight = mask * pupil * (1 - glint)
            dye(lab, weight * np.float32(self.opacity), self.aim(base), base, self.finish)
            canvas.mark(where, weight)

    def aim(self, base: Floats) -> Floats:
        """Return the aim, darkened by an iris's edge and the upper lid's shadow, which stay."""
        colour = self.lab
        colour[0] = base[0] + 0.6 * (colour[0] - base[0])
        return colour


@dataclass(frozen=True)
class Foundation(Effect):
    """Evens the skin's colour and smooths it; pores, lines and edges stay.

    colour: that the skin moves towards, in lightness by a fifth of the opacity only.
    smoothing: 0..1, how far blemishes are smoothed.
    """

    name: ClassVar[str] = "foundation"
    finishes: ClassVar[tuple[Finish, ...]] = ("matte", "satin")

    opacity: float = 0.4
    smoothing: float = 0.5

    def lay(self, canvas: Canvas) -> None:
        """Even out the skin."""
        oval = canvas.points[list(topology.FACE_OVAL)]
        where = canvas.part(oval, 0.6)
        lab = canvas.lab(where)
        if not lab.size:
            return
        points = canvas.points - np.array([where[1].start, where[0].start], np.float32)
        mask = regions.fill(lab.shape, regions.curve(points[list(topology.FACE_OVAL)], True))
        inset = _wide(mask, 0.5 * canvas.per_cm)
        mask *= regions.smoothstep(inset, 0.5, 0.95)
        loops = (topology.RIGHT_EYE, topology.LEFT_EYE, topology.LIPS_OUTER)
        features = [regions.curve(points[list(loop)], True) for loop in loops]
        brows = [points[list(loop)] for loop in (topology.RIGHT_BROW, topology.LEFT_BROW)]
        holes = regions.fill(lab.shape, *features, *brows)
        mask *= (1 - np.clip(_wide(holes, 0.2 * canvas.per_cm) * 2, 0, 1)) * canvas.free[where]
        base = canvas.base(self.name, lab, mask)
        weight = mask * _like_skin(lab, mask)
        self._smooth(lab, weight, canvas.per_cm)
        dye(lab, weight * np.float32(self.opacity), self.aim(base), base, self.finish)
        canvas.mark(where, weight)

    def aim(self, base: Floats) -> Floats:
        """Return the skin's own lightness, moved by a fifth."""
        towards = np.array([0.2, 1, 1], np.float32)
        return np.asarray(base + (self.lab - base) * towards, np.float32)

    def _smooth(self, lab: Floats, weight: Floats, per_cm: float) -> None:
        """Remove faint structures larger than pores and smaller than features.

        A guided filter (He, Sun, Tang: Guided Image Filtering, ECCV 2010) of the lightness.
        """
        light = np.ascontiguousarray(lab[..., 0])
        flat = _guided(light, max(round(0.35 * per_cm), 1), 30.0)
        fine = light - regions.soften(light, max(0.03 * per_cm, 0.5))
        smooth = flat + fine
        lab[..., 0] += weight * np.float32(self.smoothing) * (smooth - light)


def _like_skin(lab: Floats, mask: Floats) -> Floats:
    """Return the similarity of pixels to most of the region, 0..1; beards are not similar."""
    base = mean_of(lab, mask)
    total = max(float(mask.sum()), 1.0)
    away = np.zeros_like(mask)
    for axis, least in enumerate((6.0, 3.0, 3.0)):
        off = lab[..., axis] - base[axis]
        off *= off
        spread = max(float((off * mask).sum()) / total, least * least)
        off *= np.float32(1 / spread)
        away += off
    return regions.smoothstep(np.sqrt(away, out=away), 3.6, 2.2)


def _guided(values: Floats, radius: int, spread: float) -> Floats:
    """Return `values` smoothed where they vary by less than `spread` (a variance)."""
    import cv2

    size = (2 * radius + 1, 2 * radius + 1)

    def mean(x: NDArray[Any]) -> Floats:
        return cast(Floats, cv2.blur(x, size, borderType=cv2.BORDER_REPLICATE))

    middle = mean(values)
    variance = np.maximum(mean(values * values) - middle * middle, 0)
    share = variance / (variance + np.float32(spread))
    return np.asarray(mean(share) * values + mean(middle - share * middle), np.float32)


def _wide(mask: Floats, sigma: float) -> Floats:
    """Apply a wide blur, computed in fewer pixels."""
    import cv2

    step = int(sigma / 2.5)
    if step < 2:
        return regions.soften(mask, sigma)
    height, width = mask.shape
    size = (max(width // step, 1), max(height // step, 1))
    small = regions.soften(
        cast(Floats, cv2.resize(mask, size, interpolation=cv2.INTER_AREA)), sigma / step
    )
    return cast(Floats, cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR))


def _colour(
    effect: Effect,
    canvas: Canvas,
    where: tuple[slice, slice],
    corner: Floats,
    mask: Floats,
    points: tuple[int, ...],
) -> None:
    """Colour as powder does: the skin keeps much of its light and takes the colour."""
    lab = canvas.lab(where)
    base = canvas.base(f"{effect.name} {points[0]}", lab, mask)
    dye(lab, mask * np.float32(effect.opacity), effect.lab, base, effect.finish)
    if effect.finish == "shimmer":
        grains = sparkle(canvas, points, mask.shape, corner)
        lab[..., 0] += grains * mask * np.float32(effect.opacity)
        np.clip(lab[..., 0], 0, 100, out=lab[..., 0])
    canvas.mark(where, mask)
