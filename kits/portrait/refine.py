"""Refinement of a network's small mask to one of every pixel of the picture.

Near the edge each pixel is judged by its colour: round it, the person and the background each have
a mean colour, and where the pixel lies between the two says how much of it is person. What the
network said is the prior, so that it stands where the two colours are alike: palmkit.engine.guided.
It costs in proportion to the pixels near the edge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.frames import Box, Frames
from palmkit.engine.guided import guided_fit, guided_upsample
from palmkit.kits.image import Image, resize

Mask: TypeAlias = NDArray[np.float32]
Plane: TypeAlias = NDArray[np.uint8]
Planes: TypeAlias = Callable[[Image], list[Plane]]
AnyPlane = TypeVar("AnyPlane", Mask, Plane)

# The longest side of the small mask that opacity is worked out from: half the person's, but at
# least and at most so many pixels. In large pictures places of a smaller one are seen as steps.
ALPHA_SIDES = (256, 1024)
# What is apart and smaller than this part of all that is person is none.
SPECK = 0.05
# The number of values of a byte.
LEVELS = 256
# How far from the edge a pixel may be a mixture, in pixels of that mask; how much more certain the
# others are than the network.
EDGE = 5
FIRMNESS = 4.0
# Opacities below and above are none and all: a hint of the old background is seen on a new one.
ALPHA_LEVELS = (0.04, 0.96)


@dataclass(frozen=True)
class Trust:
    """How much colours may change the network's result.

    reach: size of the neighbourhood whose colours count: a Gaussian's sigma in pixels of the small
    mask. weight: weight of a pixel's colour beside the network's result: the variance of that
    result where it is even, over the variance of one side's colours, in 0..1.
    """

    reach: float
    weight: float


# Slopes that leave the picture alone.
_LEVEL = np.zeros((1, 1), np.float32)
# Chosen on training pictures; kits/portrait/README.md has what they gain.
MASK_TRUST = Trust(2.0, 2.0)
ALPHA_TRUST = Trust(3.0, 4.0)


def refine(image: Image, coarse: Mask, small: Image | None = None, to: Mask | None = None) -> Mask:
    """Return the mask at the size of the picture, by brightness alone, which is fast.

    image: uint8[h, w, 3]. coarse: float32[n, m] of 0..1, of the same view. small: the picture as
    uint8[n, m, 3], if there is one. to: float32[h, w] that takes the mask; None: a new one.
    Returns float32[h, w], 0..1.
    """
    if small is None:
        small = resize(image, *coarse.shape)
    return _judge(image, _brightness, coarse, small, MASK_TRUST, to)


def refine_on_device(frames: Frames, box: Box, coarse: Mask, small: Image, to: Mask) -> None:
    """Do as `refine` for a part of the frame that a device has; off by half a level of 255.

    small: the part as uint8[n, m, 3]; to: float32[h, w], takes the mask.
    """
    (slopes,), offset = _lines(_brightness(half(small)), coarse, MASK_TRUST)
    _from_device(frames.upsample(offset, slopes, box), to)


def enlarge_on_device(frames: Frames, box: Box, coarse: Mask, to: Mask) -> None:
    """Do as `enlarge` for a part of the frame that a device has; off by half a level of 255."""
    _from_device(frames.upsample(coarse, _LEVEL, box), to)


def _from_device(levels: Plane, to: Mask) -> None:
    to[...] = levels
    to *= np.float32(1 / 255)


def opacity(image: Image, mask: Mask, sides: tuple[int, int] = ALPHA_SIDES) -> Mask:
    """Return how much of each pixel is the person's, by colour, for hair and other fine edges.

    image: uint8[h, w, 3]; mask: float32[h, w], 0..1; sides: see ALPHA_SIDES.
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
    least, most = (side / max(mask.shape) for side in sides)
    scale = min(max(0.5, least), most, 1)
    size = (max(round(mask.shape[1] * scale), 1), max(round(mask.shape[0] * scale), 1))
    coarse = cast(Mask, cv2.resize(mask, size, interpolation=cv2.INTER_AREA))
    coarse = _settled(coarse)
    small = resize(image, *coarse.shape)
    found = _judge(image, _channels, coarse, small, ALPHA_TRUST)
    low, high = ALPHA_LEVELS
    found -= np.float32(low)
    found *= np.float32(1 / (high - low))
    np.clip(found, 0, 1, out=alpha[rows, columns])
    return alpha


def _settled(coarse: Mask) -> Mask:
    """Make the mask more certain where it is not near its edge.

    Uncertain pixels there are no mixture of person and background.
    """
    import cv2

    inside = (coarse > 0.5).view(np.uint8)
    around = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * EDGE + 1, 2 * EDGE + 1))
    edge = cv2.morphologyEx(inside, cv2.MORPH_GRADIENT, around).astype(np.float32)
    near = cv2.blur(edge, (EDGE, EDGE))
    firm = np.clip((coarse - 0.5) * FIRMNESS + 0.5, 0, 1)
    return cast(Mask, firm + near * (coarse - firm))


def without_specks(coarse: Mask) -> Mask:
    """Return the mask without small separate parts, which are hardly ever another person."""
    import cv2

    # Blocks of four by four hold all that matters: those with any person at all.
    above = (coarse > 0.5).view(np.uint8)
    blocks = cv2.dilate(above, np.ones((4, 4), np.uint8), anchor=(0, 0))[::4, ::4]
    inside = np.ascontiguousarray(blocks, np.uint8)
    count, parts = cv2.connectedComponents(inside, connectivity=8)
    # Hundreds of parts are noise, none of which is a speck beside the others.
    if not 3 <= count <= LEVELS:
        return coarse
    labels = np.asarray(parts, np.uint8)
    areas = cv2.calcHist([labels], [0], None, [LEVELS], [0, LEVELS]).ravel()
    speck = areas < SPECK * areas[1:].sum()
    speck[0] = False
    if not speck[:count].any():
        return coarse
    specks = np.asarray(cv2.LUT(labels, speck.view(np.uint8)), np.uint8)
    left, top, width, height = cv2.boundingRect(specks)
    # As far as a speck's surroundings reach, and the zeros behind them.
    rows = slice(max(top - 4, 0), top + height + 4)
    columns = slice(max(left - 4, 0), left + width + 4)
    specks, inside = specks[rows, columns], inside[rows, columns]
    # The surroundings of a speck fade with it, and other people stay.
    around = cv2.blur(cv2.dilate(specks, np.ones((5, 5), np.uint8)).astype(np.float32), (3, 3))
    around[inside > specks] = 0
    factor = np.float32(1) - np.float32(0.8) * around
    size = (4 * factor.shape[1], 4 * factor.shape[0])
    factor = np.asarray(cv2.resize(factor, size, interpolation=cv2.INTER_LINEAR), np.float32)
    faded = coarse.copy()
    part = faded[4 * rows.start : 4 * rows.stop, 4 * columns.start : 4 * columns.stop]
    part *= factor[: part.shape[0], : part.shape[1]]
    return faded


def large_parts(coarse: Mask, least: float) -> Mask:
    """Return the mask with its connected parts of at least this share of it, and no others.

    Connected are values above 0.5; what is uncertain round a part, up to two pixels, stays with it.
    """
    import cv2

    _, parts, stats, _ = cv2.connectedComponentsWithStats((coarse > 0.5).view(np.uint8))
    areas = np.asarray(stats, np.int32)[:, cv2.CC_STAT_AREA]
    large = np.asarray(areas >= least * coarse.size, np.uint8)
    large[0] = 0
    kept = cv2.dilate(large[np.asarray(parts, np.int32)], np.ones((5, 5), np.uint8))
    return np.asarray(np.where(np.asarray(kept, np.uint8) > 0, coarse, 0), np.float32)


def enlarge(coarse: Mask, image: Image, to: Mask | None = None) -> Mask:
    """Return the mask at the size of the picture, bilinear; `to` takes it if it is given."""
    import cv2

    size = (image.shape[1], image.shape[0])
    return cast(Mask, cv2.resize(coarse, size, dst=to, interpolation=cv2.INTER_LINEAR))


def _brightness(image: Image) -> list[Plane]:
    import cv2

    return [cast(Plane, cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))]


def _channels(image: Image) -> list[Plane]:
    import cv2

    return [cast(Plane, cv2.extractChannel(image, channel)) for channel in range(3)]


def _judge(
    image: Image, planes: Planes, coarse: Mask, small: Image, trust: Trust, to: Mask | None = None
) -> Mask:
    """Combine the small mask and the colours of the picture.

    image: uint8[h, w, 3]; small: the same as uint8[n, m, 3]; planes: the planes of them to use. to:
    float32[h, w] that takes the mask; None: a new one.
    Returns float32[h, w], 0..1.
    """
    # Neighbourhoods are smooth: half the resolution holds them.
    slopes, offset = _lines(planes(half(small)), coarse, trust)
    mask = np.empty(image.shape[:2], np.float32) if to is None else to
    guided_upsample(offset, slopes, image, mask)
    return mask


def _lines(planes: list[Plane], coarse: Mask, trust: Trust) -> tuple[list[Mask], Mask]:
    """Return each place's result as a linear function of colour.

    planes: uint8[n / 2, m / 2] each, rounded up; coarse: float32[n, m].
    Returns a slope for each plane, float32[n / 2, m / 2], and an offset, float32[n, m].
    """
    import cv2

    scaled = [cast(Mask, each * np.float32(1 / 255)) for each in planes]
    slopes, drop = guided_fit(half(coarse), scaled, trust.reach / 2, trust.weight)
    offset = cast(Mask, cv2.resize(drop, coarse.shape[::-1]))
    np.subtract(coarse, offset, out=offset)
    return [each * np.float32(1 / 255) for each in slopes], offset


def half(plane: AnyPlane) -> AnyPlane:
    """Return a mask or a picture in half as many rows and columns, rounded up; by areas."""
    import cv2

    size = ((plane.shape[1] + 1) // 2, (plane.shape[0] + 1) // 2)
    return cast(AnyPlane, cv2.resize(plane, size, interpolation=cv2.INTER_AREA))
