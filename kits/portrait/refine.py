"""From a network's small mask to one of every pixel of the picture.

Near the edge each pixel is judged by its colour: round it, the person and the background each have
a mean colour, and where the pixel lies between the two says how much of it is person. What the
network said is the prior, so that it stands where the two colours are alike. This is Bayesian
matting (Chuang, Curless, Salesin, Szeliski, CVPR 2001) with one colour a side and the opacity as
the only unknown. It costs in proportion to the pixels near the edge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image, resize

Mask: TypeAlias = NDArray[np.float32]
Plane: TypeAlias = NDArray[np.uint8]

# The longest side of the small mask that opacity is worked out from.
ALPHA_SIDE = 256
# What is apart and smaller than this part of all that is person is none.
SPECK = 0.02
# How far from the edge a pixel may be a mixture, in pixels of that mask; how much more certain the
# others are than the network.
EDGE = 5
FIRMNESS = 4.0
# A pixel's colour that weighs less than this beside the network's word is not looked at.
NOTHING = 1e-4
# Opacities below and above are none and all: a hint of the old background is seen on a new one.
ALPHA_LEVELS = (0.04, 0.96)


@dataclass(frozen=True)
class Trust:
    """How much colours may change what the network said.

    reach: of the neighbourhood whose colours count: a Gaussian's sigma in pixels of the small mask.
    weight: how much a pixel's colour counts beside the network's word: the variance of that word
    where it calls a pixel even, over the variance of one side's colours, in 0..1.
    """

    reach: float
    weight: float


# Chosen on training pictures; kits/portrait/README.md has what they gain.
MASK_TRUST = Trust(2.0, 2.0)
ALPHA_TRUST = Trust(3.0, 4.0)


def refine(image: Image, coarse: Mask, small: Image | None = None) -> Mask:
    """The mask at the size of the picture; by brightness alone, which is fast.

    image: uint8[h, w, 3].
    coarse: float32[n, m] of 0..1, of the same view.
    small: the picture as uint8[n, m, 3], if there is one.
    Returns float32[h, w], 0..1.
    """
    if small is None:
        small = resize(image, *coarse.shape)
    return _judge([_brightness(image)], [_brightness(small)], coarse, MASK_TRUST)


def opacity(image: Image, mask: Mask) -> Mask:
    """How much of each pixel is the person's, for hair and other fine edges; by colour.

    image: uint8[h, w, 3]; mask: float32[h, w], 0..1.
    Returns float32[h, w], 0..1.
    """
    import cv2

    alpha = np.zeros_like(mask)
    left, top, width, height = cv2.boundingRect((mask > ALPHA_LEVELS[0]).view(np.uint8))
    if not width:
        return alpha
    # A little more than the person, so that there is background on every side.
    margin = max(width, height) // 16 + 1
    rows = slice(max(top - margin, 0), top + height + margin)
    columns = slice(max(left - margin, 0), left + width + margin)
    image, mask = image[rows, columns], mask[rows, columns]
    scale = min(ALPHA_SIDE / max(mask.shape), 1)
    size = (max(round(mask.shape[1] * scale), 1), max(round(mask.shape[0] * scale), 1))
    coarse = cast(Mask, cv2.resize(mask, size, interpolation=cv2.INTER_AREA))
    coarse = _settled(coarse)
    small = resize(image, *coarse.shape)
    found = _judge(_channels(image), _channels(small), coarse, ALPHA_TRUST)
    low, high = ALPHA_LEVELS
    found -= np.float32(low)
    found *= np.float32(1 / (high - low))
    np.clip(found, 0, 1, out=alpha[rows, columns])
    return alpha


def _settled(coarse: Mask) -> Mask:
    """The mask made up its mind where it is not near its edge.

    There what the network is not sure of is no mixture of person and background.
    """
    import cv2

    inside = (coarse > 0.5).view(np.uint8)
    around = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * EDGE + 1, 2 * EDGE + 1))
    edge = cv2.morphologyEx(inside, cv2.MORPH_GRADIENT, around).astype(np.float32)
    near = cv2.blur(edge, (EDGE, EDGE))
    firm = np.clip((coarse - 0.5) * FIRMNESS + 0.5, 0, 1)
    return cast(Mask, firm + near * (coarse - firm))


def without_specks(coarse: Mask) -> Mask:
    """The mask without what is apart from the rest and small: hardly ever another person."""
    import cv2

    # Half the resolution holds all that matters, in a quarter of the time.
    size = ((coarse.shape[1] + 1) // 2, (coarse.shape[0] + 1) // 2)
    inside = (cv2.resize(coarse, size, interpolation=cv2.INTER_AREA) > 0.5).view(np.uint8)
    count, parts, facts, _ = cv2.connectedComponentsWithStats(inside, connectivity=8)
    if count < 3:
        return coarse
    areas = facts[:, cv2.CC_STAT_AREA]
    small = areas < SPECK * areas[1:].sum()
    small[0] = False
    if not small.any():
        return coarse
    specks = small[parts]
    around = cv2.dilate(specks.view(np.uint8), np.ones((3, 3), np.uint8))
    around[~specks & (inside > 0)] = 0
    around = cv2.resize(around, coarse.shape[::-1], interpolation=cv2.INTER_NEAREST)
    return np.where(around, coarse * np.float32(0.2), coarse)


def enlarge(coarse: Mask, image: Image) -> Mask:
    """The mask at the size of the picture, bilinear."""
    import cv2

    size = (image.shape[1], image.shape[0])
    return cast(Mask, cv2.resize(coarse, size, interpolation=cv2.INTER_LINEAR))


def _brightness(image: Image) -> Plane:
    import cv2

    return cast(Plane, cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))


def _channels(image: Image) -> list[Plane]:
    import cv2

    return [cast(Plane, cv2.extractChannel(image, channel)) for channel in range(3)]


def _judge(planes: list[Plane], small: list[Plane], coarse: Mask, trust: Trust) -> Mask:
    """What the small mask and the colours of the picture say together.

    planes: uint8[h, w] each; small: the same as uint8[n, m].
    Returns float32[h, w], 0..1.
    """
    import cv2

    size = planes[0].shape[::-1]
    slopes, offset = _lines(small, coarse, trust)
    mask = cv2.resize(offset, size)
    for plane, slope in zip(planes, slopes, strict=True):
        term = cv2.resize(slope, size)
        cv2.multiply(plane, term, dst=term, dtype=cv2.CV_32F)
        cv2.add(mask, term, dst=mask)
    return cast(Mask, np.clip(mask, 0, 1, out=mask))


def _lines(planes: list[Plane], coarse: Mask, trust: Trust) -> tuple[list[Mask], Mask]:
    """For each pixel of the small mask, what it becomes as a linear function of colour.

    Returns a slope for each plane, and an offset: float32[n, m].
    """
    import cv2

    # Neighbourhoods are smooth: half the resolution holds them.
    size = ((coarse.shape[1] + 1) // 2, (coarse.shape[0] + 1) // 2)
    even = cv2.resize(coarse, size, interpolation=cv2.INTER_AREA)
    colours = [cv2.resize(each, size, interpolation=cv2.INTER_AREA) for each in planes]
    scaled = [cast(Mask, each * np.float32(1 / 255)) for each in colours]
    lead: Mask = np.asarray(2 * even - 1, np.float32)
    ours, theirs = (
        _means(scaled, np.maximum(certainty, 0, dtype=np.float32), trust.reach / 2)
        for certainty in (lead, np.asarray(-lead, np.float32))
    )
    towards = [a - b for a, b in zip(ours, theirs, strict=True)]
    length = _dot(towards, towards)
    slopes = [cast(Mask, each / (length + np.float32(1e-6))) for each in towards]
    offset, length, *slopes = (
        cast(Mask, cv2.resize(each, coarse.shape[::-1]))
        for each in (-_dot(slopes, theirs), length, *slopes)
    )
    said = coarse * (1 - coarse) * length * np.float32(4 * trust.weight)
    # Next to nothing is nothing: denormal numbers would make all that follows slow.
    said[said < NOTHING] = 0
    gain = cast(Mask, said / (said + 1))
    offset = coarse + gain * (offset - coarse)
    gain *= np.float32(1 / 255)
    return [each * gain for each in slopes], np.asarray(offset, np.float32)


def _means(planes: list[Mask], certainty: Mask, reach: float) -> list[Mask]:
    """The mean of each plane round each pixel, weighted by how certain a side is."""
    import cv2

    weight = np.asarray(certainty * certainty + np.float32(1e-4), np.float32)
    side = 2 * math.ceil(2 * reach) + 1

    def blur(values: Mask) -> Mask:
        return cast(Mask, cv2.GaussianBlur(values, (side, side), reach))

    total = blur(weight)
    return [cast(Mask, blur(each * weight) / total) for each in planes]


def _dot(a: list[Mask], b: list[Mask]) -> Mask:
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total += x * y
    return total
