"""What a mask of hair says against the picture's colours, and where it is not sure itself.

The network errs where it has never seen the like: a scarf, a collar, a shadow or an arm beside the
hair. It is less sure there than of hair, and what it takes for hair has not the colours of the
hair that it is sure of, but those of what lies beside it.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image
from palmkit.kits.tryon.colour import Floats, mean_of, to_lab
from palmkit.kits.tryon.regions import smoothstep, soften
from palmkit.kits.tryon.things import skin_of

# The mask from which on hair is sure, the least spread of its colours, the spread of skin's
# lightness, and how much skin's colour may say against the mask, as the logarithm of odds.
SURE, SPREAD, SKIN_LIGHT, MOST_EVIDENCE = 0.9, (10.0, 4.0, 4.0), 12.0, 3.5

# Points of the mesh above and below; how far the crown reaches above the first, and to both sides,
# in the distance of both, and where it begins; the mask from which on it is claimed to be hair.
FOREHEAD, CHIN = 10, 152
CROWN, BEGINS, CLAIMED = (0.6, 0.5), (-0.1, 0.1), 0.8
# How sure other looks are of a crown that is none, and of one that is hair; the same of a place
# below it.
DOUBTED, SURE_ITSELF = (0.79, 0.85), (0.7, 0.85)

# The pixels along a face in which places are judged.
FINE = 64
# How far round a place its surety is asked, how far colours are steady, and how far evidence is,
# in the face's longer side.
REACH, GRAIN, STEADY = 0.12, 0.02, 0.06
# The mask from which on it counts for the surety, below which a place is none of the hair, and
# from which on it shows the hair's colours; how many places of these there are at least.
COUNTS, NONE, SHOWS, LEAST = 0.5, 0.1, 0.95, 10
# Below the first surety nothing is hair, from the second on the mask's word is taken.
UNSURE = (0.6, 0.8)
# Between these the colours' word loses its weight.
OPEN_TO_COLOUR = (0.95, 0.9)
# The sides of a cell of colours, L, a and b, and the ranges; a share of all colours that is as good
# as none; how much colours may say against the mask, as the logarithm of odds.
CELL, LOW, CELLS = (6.25, 6.0, 6.0), (0.0, -96.0, -96.0), (17, 33, 33)
RARE, MOST_SAID = 1e-4, 5.0


def without_skin(
    picture: Image,
    part: tuple[slice, slice],
    mask: Floats,
    points: Floats,
    visibility: Floats,
) -> Floats:
    """Return the mask without what has the colour of the face's skin, not of its surest hair.

    picture: uint8[h, w, 3]. part: of it, where the mask lies: float32, 0..1, of one head's hair.
    points: float32[478, 2] of its mesh, in the picture's pixels. visibility: float32[478]. It is
    Bayes' rule with the mask as the prior and a Gaussian of each one's colours; where the two are
    alike nothing changes.
    """
    height, width = picture.shape[:2]
    (left, top), (right, bottom) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    rows = slice(max(int(top), 0), min(int(bottom) + 1, height))
    columns = slice(max(int(left), 0), min(int(right) + 1, width))
    sure = np.where(mask > SURE, mask, np.float32(0))
    if rows.start >= rows.stop or columns.start >= columns.stop or sure.sum() < 1:
        return mask
    corner = np.array([columns.start, rows.start], np.float32)
    skin = skin_of(to_lab(picture[rows, columns]), points - corner, visibility)
    lab = to_lab(picture[part])
    hair = mean_of(lab, sure)
    off = lab - hair
    spread = np.maximum(
        np.sqrt(mean_of(np.square(off, dtype=np.float32), sure)), np.asarray(SPREAD, np.float32)
    )
    as_hair = np.square(off / spread).sum(axis=2) / 2 + np.log(spread).sum()
    # Skin's hue follows its lightness.
    off = lab - skin.mean
    off[..., 1:] -= off[..., :1] * skin.slope
    spread = np.array([SKIN_LIGHT, *skin.spread], np.float32)
    spread = np.maximum(spread, np.asarray(SPREAD, np.float32))
    as_skin = np.square(off / spread).sum(axis=2) / 2 + np.log(spread).sum()
    against = np.clip(as_hair - as_skin, 0, MOST_EVIDENCE)
    # A single pixel may be noise.
    against = soften(np.asarray(against, np.float32), max(0.004 * (bottom - top), 0.7))
    return _weighed(mask, -against)


def without_hats(mask: Floats, otherwise: Floats, points: Floats) -> Floats:
    """Return the mask without a hat, or a shaved head, that is taken for hair.

    mask, otherwise: float32[h, w], 0..1, of one head's hair, the second in other looks
    (HairSegmenter.otherwise). points: float32[478, 2] of its mesh, in their pixels. Where other
    looks are not sure of the hair on the crown, there is none, and below it each place has to be
    sure in them.
    """
    above, crown = crown_of(mask.shape, points)
    crown &= mask > CLAIMED
    if crown.sum() < LEAST:
        return mask
    head = smoothstep(float(otherwise[crown].mean()), *DOUBTED)
    if head == 1:
        return mask
    below = 1 - smoothstep(above, *BEGINS)
    trust = np.maximum(head, below * smoothstep(otherwise, *SURE_ITSELF))
    return np.asarray(mask * trust, np.float32)


def crown_of(shape: tuple[int, ...], points: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return how far above the forehead each pixel is, in lengths of the face, and the crown.

    shape: height and width. points: float32[478, 2] of the mesh. Returns float32[h, w], bool[h, w].
    """
    axis = np.asarray(points[FOREHEAD] - points[CHIN], np.float32)
    long = max(float(np.hypot(axis[0], axis[1])), 1e-3)
    x, y = (float(value) for value in axis / np.float32(long))
    across = np.arange(shape[1], dtype=np.float32) - points[FOREHEAD, 0]
    down = np.arange(shape[0], dtype=np.float32)[:, None] - points[FOREHEAD, 1]
    above = np.asarray((across * x + down * y) / np.float32(long), np.float32)
    beside = np.asarray(np.abs(across * y - down * x) / np.float32(long), np.float32)
    return above, (above > 0) & (above < CROWN[0]) & (beside < CROWN[1])


def without_doubtful(picture: Image, mask: Floats, side: float) -> Floats:
    """Return the mask without what it is not sure of, the more so what looks like no hair.

    picture: uint8[h, w, 3], a part of one; mask: float32[h, w], 0..1, of one head's hair in it.
    side: the longer side of its face, in pixels. How sure the mask is of a place is its mean
    where it is hair, round that place. Where it is not quite sure Bayes' rule judges, with the
    mask as the prior, by how often each colour is seen in hair that is sure, and beside all hair.
    """
    import cv2

    height, width = mask.shape
    step = max(round(side / FINE), 1)
    size = max(width // step, 1), max(height // step, 1)
    small, coarse = picture, mask
    if step > 1:
        area = cv2.INTER_AREA
        small = cast(Image, cv2.resize(np.ascontiguousarray(picture), size, interpolation=area))
        coarse = cast(Floats, cv2.resize(np.ascontiguousarray(mask), size, interpolation=area))
    unit = side / step
    counted = np.where(coarse > COUNTS, coarse, np.float32(0))
    sums = soften(np.stack([counted * coarse, counted], axis=2), REACH * unit)
    surety = np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1e-3), np.float32)
    lab = soften(to_lab(small), max(GRAIN * unit, 0.7))
    shown = (coarse > SHOWS) & (surety > SHOWS)
    said = np.zeros_like(coarse)
    if shown.sum() >= LEAST:
        said = _said_by_colours(lab, shown, coarse < NONE)
        said = soften(said * smoothstep(surety, *OPEN_TO_COLOUR), max(STEADY * unit, 0.7))
    trust = smoothstep(surety, *UNSURE)
    said, trust = (cast(Floats, cv2.resize(each, (width, height))) for each in (said, trust))
    return _weighed(mask, said) * trust


def _said_by_colours(lab: Floats, hair: NDArray[np.bool_], other: NDArray[np.bool_]) -> Floats:
    """Return what each pixel's colour says against hair: the logarithm of odds, float32, <= 0.

    lab: float32[h, w, 3]. hair, other: bool[h, w], where there is hair, and where there is none.
    """
    cells = np.rint((lab - np.array(LOW, np.float32)) / np.array(CELL, np.float32)).astype(np.intp)
    cells = np.clip(cells, 0, np.array(CELLS) - 1)
    rows = np.ravel_multi_index((cells[..., 0], cells[..., 1], cells[..., 2]), CELLS)
    seen = [np.log(_shares(rows[where]).reshape(-1)[rows] + RARE) for where in (hair, other)]
    return np.asarray(np.clip(seen[0] - seen[1], -MOST_SAID, 0), np.float32)


def _shares(rows: NDArray[np.intp]) -> Floats:
    """Return how often each cell of colours is seen, blurred to its neighbours; sum 1 or 0."""
    import cv2

    counts = np.bincount(rows, minlength=math.prod(CELLS)).reshape(CELLS).astype(np.float32)
    near, here = np.array([0.25, 0.5, 0.25]), np.ones(1)
    blurred = cv2.sepFilter2D(counts, -1, near, near, borderType=cv2.BORDER_CONSTANT)
    flat = np.reshape(cast(Floats, blurred), (-1, CELLS[2]))
    found = cast(Floats, cv2.sepFilter2D(flat, -1, near, here, borderType=cv2.BORDER_CONSTANT))
    return found / np.float32(max(len(rows), 1))


def _weighed(mask: Floats, said: Floats) -> Floats:
    """Return the mask after evidence, the logarithm of odds."""
    odds = np.exp(said)
    return np.asarray(mask * odds / (1 - mask + mask * odds), np.float32)
