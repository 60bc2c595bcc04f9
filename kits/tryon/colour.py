"""Colours of try-on: read from text, in CIELAB, laid on a part of a picture."""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Finish: TypeAlias = Literal["matte", "satin", "gloss", "shimmer"]
Shade: TypeAlias = "str | tuple[int, int, int]"

_HEX = re.compile(r"#[0-9a-fA-F]{6}")
# The share left of tones lighter than a region's mean.
_LIGHTS = {"matte": 0.55, "satin": 1.0, "gloss": 1.45, "shimmer": 1.1}
# Making dark tones light spreads them, noise too; this power of the spread is given up.
_CALM = 0.65
# The share left of a region's differences of hue.
_MOTTLE = 0.5
# A lightness that counts as black: below it nothing is divided.
_BLACK = 4.0


def read_shade(name: str, shade: Shade) -> tuple[int, int, int]:
    """Return red, green and blue, 0..255, of "#rrggbb" or of a tuple of them.

    name: of the option, for the message.
    Raises ValueError if it is no colour.
    """
    if isinstance(shade, str) and _HEX.fullmatch(shade):
        return int(shade[1:3], 16), int(shade[3:5], 16), int(shade[5:7], 16)
    if isinstance(shade, tuple | list) and len(shade) == 3:
        values: list[Any] = list(shade)
        if all(isinstance(v, int | np.integer) and 0 <= v <= 255 for v in values):
            return int(values[0]), int(values[1]), int(values[2])
    raise ValueError(f"{name}: expected a colour like #b3202a or (179, 32, 42), got {shade!r}")


def to_lab(rgb: NDArray[np.uint8]) -> Floats:
    """Convert uint8[h, w, 3] sRGB to float32[h, w, 3] CIELAB (D65): L 0..100, a, b -128..127."""
    import cv2

    if not rgb.size:
        return np.zeros(rgb.shape, np.float32)
    return cast(
        Floats, cv2.cvtColor(rgb.astype(np.float32) * np.float32(1 / 255), cv2.COLOR_RGB2Lab)
    )


def to_rgb(lab: Floats) -> NDArray[np.uint8]:
    """Convert CIELAB to sRGB, clipping colours that sRGB does not have."""
    import cv2

    rgb = cv2.cvtColor(lab, cv2.COLOR_Lab2RGB)
    return cast("NDArray[np.uint8]", cv2.convertScaleAbs(rgb, alpha=255.0))


def lab_of(colour: tuple[int, int, int]) -> Floats:
    """Return a colour in CIELAB, float32[3]."""
    return np.asarray(to_lab(np.array([[colour]], np.uint8))[0, 0], np.float32)


def mean_of(lab: Floats, weight: Floats) -> Floats:
    """Return the weighted mean colour, float32[3]; black without any weight."""
    total = float(weight.sum())
    if total <= 0:
        return np.zeros(3, np.float32)
    return np.asarray(np.tensordot(weight, lab, axes=2) / total, np.float32)


def dye(lab: Floats, weight: Floats, colour: Floats, base: Floats, finish: Finish) -> None:
    """Give a region a colour; its shading, texture and highlights stay.

    lab: float32[h, w, 3], changed in place. weight: float32[h, w], 0..1. colour: float32[3].
    base: float32[3], the region's mean colour, which becomes `colour` where the weight is 1. What
    is lighter or darker than the base becomes so in proportion of the new lightness, as under the
    same light; where dark becomes light the contrast rises less, and so does the noise. Differences
    of hue are halved, and highlights keep the colour of the light.
    """
    import cv2

    before = max(float(base[0]), _BLACK)
    after = max(float(colour[0]), _BLACK)
    # Contiguous planes take half the time.
    planes = cast("list[Floats]", [*cv2.split(lab)])
    own = planes[0]
    light = np.maximum(own * np.float32(1 / before), np.float32(0.02))
    if (lights := _LIGHTS[finish]) != 1:
        light += np.maximum(light - 1, 0) * np.float32(lights - 1)
    if (lift := after / before) > 1:
        light = cast(Floats, cv2.pow(light, lift**-_CALM))
    light *= np.float32(after)
    # Towards white a highlight loses the colour of what it lies on.
    keep = light - np.float32(after)
    keep *= np.float32(1 / max(100 - after, 12.0))
    np.clip(keep, 0, 1, out=keep)
    keep *= keep
    np.subtract(1, keep, out=keep)
    # At a soft edge lighter pixels are the background shining through, which is not made lighter.
    most = weight * weight
    most *= most * np.float32(0.4 * after)
    most += np.float32(1.04 * after)
    np.maximum(most, own, out=most)
    np.minimum(light, most, out=light)
    np.minimum(light, 100, out=light)
    own += weight * (light - own)
    for axis in (1, 2):
        old = planes[axis]
        new = old * np.float32(_MOTTLE)
        new += np.float32(colour[axis] - _MOTTLE * base[axis])
        new *= keep
        old += weight * (new - old)
    lab[:] = cv2.merge(planes)
