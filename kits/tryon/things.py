"""Things held or worn in front of a face, found by their colour, which is not the skin's."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.face import topology
from palmkit.kits.image import Image
from palmkit.kits.tryon.colour import Floats, to_lab
from palmkit.kits.tryon.regions import curve, fill, smoothstep, soften

# The resolution in which skin is examined, pixels a centimetre.
FINE = 5
# Of lightness and of the other two: how near a colour is to the skin's that counts for its mean.
_NEAR = (22.0, 10.0)
# The least spread of a skin's hue, and from how many spreads on a colour is another thing's.
_LEAST_SPREAD, _OTHER = 3.5, (3.0, 5.0)
# Of the skin's lightness: below the first is no shadow any more.
_BLACK = (0.28, 0.45)
# What lips may have more and less than skin, of a and b.
_LIP_A, _LIP_B = (-4.0, 30.0), (-16.0, 8.0)
# How far round a place other skin is asked, in centimetres, and how much of it has to be covered:
# at the eyes, which look like no skin themselves, nearly all.
_REACH, _SHARE, _SHARE_EYES = 0.8, (0.3, 0.6), (0.55, 0.85)
# As these, of what may be a highlight.
_PALE_REACH, _PALE_SHARE = 1.3, (0.6, 0.85)
# From what lightness on and up to what chroma a thing is white; how wide a highlight on skin, or on
# lips and teeth, may be so, in centimetres.
_WHITE, _GREY, _GLARE = (84.0, 90.0), (12.0, 7.0), 1.6
# Of which chroma the skin has to be, and how much darker than white, for that.
_SKIN_CHROMA, _SKIN_DARKER = (11.0, 15.0), (5.0, 10.0)
# How far a thing goes on from where it is sure, in centimetres, while its colour is no skin's.
_GROWTH = 0.9


class Skin(NamedTuple):
    """A face's skin: its mean colour, how a and b follow lightness, and their spread."""

    mean: Floats
    slope: Floats
    spread: Floats


@lru_cache(maxsize=1)
def plain_skin() -> NDArray[np.intp]:
    """Return points of the mesh that lie on plain skin."""
    face = topology.canonical_face()[:468, :2].astype(np.float64)
    loops = (topology.RIGHT_EYE, topology.LEFT_EYE, topology.LIPS_OUTER, topology.FACE_OVAL)
    edges = [*loops, topology.RIGHT_BROW, topology.LEFT_BROW]
    lines = topology.canonical_face()[[point for loop in edges for point in loop], :2]
    away = np.hypot(*(face[:, None] - lines[None]).transpose(2, 0, 1)).min(axis=1)
    inside = np.ones(468, np.bool_)
    for loop in loops[:3]:
        low, high = (getattr(face[list(loop)], kind)(axis=0) for kind in ("min", "max"))
        inside &= ~((face > low) & (face < high)).all(axis=1)
    return np.flatnonzero(inside & (away > 0.6))


def skin_of(lab: Floats, points: Floats, trust: Floats) -> Skin:
    """Return the skin's colours at plain places, robust against covers of less than half.

    lab: float32[h, w, 3]. points: float32[478, 2] in its pixels. trust: float32[478].
    """
    rows = plain_skin()
    height, width = lab.shape[:2]
    x, y = np.rint(points[rows] - 0.5).astype(int).T
    inside = (x >= 0) & (y >= 0) & (x < width) & (y < height)
    seen = lab[y.clip(0, height - 1), x.clip(0, width - 1)].astype(np.float64)
    weight = np.where(inside, trust[rows], 0.0) + 1e-6
    # Skin of every tone is somewhere between red and yellow.
    weight *= np.where((seen[:, 1] > 0) & (seen[:, 2] > 0), 1.0, 0.25)
    order = np.argsort(seen, axis=0)
    passed = np.cumsum(weight[order], axis=0) / weight.sum()
    mean = seen[order[(passed > 0.5).argmax(axis=0), (0, 1, 2)], (0, 1, 2)]
    scale = np.array([_NEAR[0], _NEAR[1], _NEAR[1]])
    near = weight
    for _ in range(4):
        near = weight * np.exp(-0.5 * (((seen - mean) / scale) ** 2).sum(axis=1))
        mean = near @ seen / near.sum()
    near = near / near.sum()
    off = seen - mean
    light = float(near @ off[:, 0] ** 2)
    # As under one light: hue is stronger where it is lighter; what is seen draws it elsewhere.
    usual = mean[1:] / max(float(mean[0]), 10.0)
    slope = ((near * off[:, 0]) @ off[:, 1:] + 60 * usual) / (light + 60)
    rest = off[:, 1:] - off[:, :1] * slope
    spread = np.sqrt(near @ rest**2)
    return Skin(*(np.asarray(each, np.float32) for each in (mean, slope, spread)))


def unlike(lab: Floats, skin: Skin, lips: Floats) -> tuple[Floats, Floats]:
    """Return how far a pixel's colour differs from skin in any light, and from its lips.

    lab: float32[h, w, 3]. lips: float32[h, w], 0..1, where they are.
    Returns float32[h, w], 0..1, twice: differences that are no highlight on the skin, and all.
    """
    light = lab[..., 0] - skin.mean[0]
    shape = lab.shape[:2]
    coloured, all_of_it = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for axis, (less, more) in ((1, _LIP_A), (2, _LIP_B)):
        usual = np.asarray(skin.mean[axis] + skin.slope[axis - 1] * light, np.float32)
        off = np.asarray(lab[..., axis] - usual, np.float32)
        allowed = np.asarray(np.clip(off, less, more), np.float32)
        off = np.asarray(off - allowed * (lips > 0.5), np.float32)
        spread = max(float(skin.spread[axis - 1]), _LEAST_SPREAD)
        all_of_it += np.square(off / np.float32(spread))
        # A highlight is on the way from the skin's colour to white.
        back = np.asarray(np.maximum(-off * np.sign(usual), 0), np.float32)
        pale = np.minimum(back, np.abs(usual)) * smoothstep(light, 0.0, 8.0)
        beyond = np.asarray(np.maximum(np.abs(off) - pale, 0), np.float32)
        coloured += np.square(beyond / np.float32(spread))
    own = max(float(skin.mean[0]), 1.0)
    dark = smoothstep(lab[..., 0], _BLACK[1] * own, _BLACK[0] * own)
    first, second = (
        np.maximum(smoothstep(np.sqrt(away), *_OTHER), dark) for away in (coloured, all_of_it)
    )
    return first, second


def find_things(
    picture: Image,
    points: Floats,
    trust: Floats,
    per_cm: float,
    settle: Callable[[Floats], Floats],
) -> Floats:
    """Return where something that is no skin is in front of a face: float32[h, w], 0..1.

    picture: uint8[h, w, 3], the face's part. points: float32[478, 2] in its pixels. trust:
    float32[478], how far each is seen. settle: steadies the skin's parameters, float32[7]. A place
    counts if its colour is not the skin's, and if the skin round it is covered too: lips with any
    colour on them, eyes and moles stay.
    """
    import cv2

    height, width = picture.shape[:2]
    step = max(round(per_cm / FINE), 1)
    size = (max(width // step, 1), max(height // step, 1))
    small = cast(Image, cv2.resize(picture, size, interpolation=cv2.INTER_AREA))
    scale = np.array([size[0] / width, size[1] / height], np.float32)
    at, fine = points * scale, per_cm / step
    lab = soften(to_lab(small), 0.06 * fine)
    known = settle(np.concatenate(skin_of(lab, at, trust)))
    skin = Skin(known[:3], known[3:5], known[5:])
    loops = [at[list(loop)] for loop in (topology.RIGHT_EYE, topology.LEFT_EYE)]
    shape = lab.shape[:2]
    mouth = at[list(topology.LIPS_OUTER)]
    lips = soften(fill(shape, curve(mouth, True)), 0.1 * fine)
    eyes = soften(fill(shape, *(curve(loop, True) for loop in loops)), 0.35 * fine)
    brows = [at[list(loop)] for loop in (topology.RIGHT_BROW, topology.LEFT_BROW)]
    oval = fill(shape, curve(at[list(topology.FACE_OVAL)], True))
    bare = (lips < 0.1) & (eyes < 0.06) & (soften(fill(shape, *brows), 0.15 * fine) < 0.1)
    plain = np.asarray(oval * bare, np.float32)
    coloured, all_of_it = unlike(lab, skin, lips)
    # No highlight on skin is white over so wide a place.
    wide = 2 * round(_GLARE * fine / 2) + 1
    chroma = np.hypot(lab[..., 1], lab[..., 2])
    white = np.asarray(smoothstep(lab[..., 0], *_WHITE) * smoothstep(chroma, *_GREY), np.float32)
    # Skin of black-and-white and of burnt-out photos is white, too.
    own = float(np.hypot(*skin.mean[1:])), _WHITE[1] - float(skin.mean[0])
    white *= smoothstep(own[0], *_SKIN_CHROMA) * smoothstep(own[1], *_SKIN_DARKER)
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (wide, wide))
    glare = cast(Floats, cv2.morphologyEx(white, cv2.MORPH_OPEN, kernel))
    coloured, all_of_it = np.maximum(coloured, glare), np.maximum(all_of_it, glare)
    at_eyes = smoothstep(eyes, 0.02, 0.1)
    covered = np.zeros(shape, np.float32)
    side = 2 * round(_GROWTH * fine) + 1
    near = np.ones((side, side), np.uint8)
    for other, reach, least in ((coloured, _REACH, _SHARE), (all_of_it, _PALE_REACH, _PALE_SHARE)):
        asked = soften(plain, reach * fine)
        share = np.asarray(
            soften(other * plain, reach * fine) / np.maximum(asked, 1e-3), np.float32
        )
        most = smoothstep(share, *least) * (1 - at_eyes)
        np.maximum(most, smoothstep(share, *_SHARE_EYES), out=most)
        # Up to the thing's edges, where half of what is round is the face.
        grown = cast(Floats, cv2.dilate(other * most, near)) * (1 - at_eyes)
        np.maximum(covered, other * np.maximum(most, grown), out=covered)
    return cast(Floats, cv2.resize(soften(covered, 0.05 * fine), (width, height)))
