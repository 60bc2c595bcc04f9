"""Another background behind a person: the person's own colours, without the old one's light."""

from __future__ import annotations

import re
from collections.abc import Callable
from numbers import Real
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image, Source, read_image, resize
from palmkit.kits.portrait.refine import Mask

Background: TypeAlias = "float | tuple[int, int, int] | Source | Backdrop"
# Gives the rows from `top` to `bottom` of a background.
Rows: TypeAlias = Callable[[int, int], NDArray[Any]]

# Standard deviation of the blur, as a fraction of the picture's shorter side.
BLUR = 0.03
# The longest side of the picture that colours of both sides are estimated in, and the radii of the
# two steps there.
ESTIMATE_SIDE = 256
RADII = (12, 1)
# Pixels worked on at a time; OpenCV's remap takes less than 2^15.
CHUNK = 1 << 14
# Rows put together at a time.
STRIPE = 128
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")


class Backdrop:
    """A background that can be put behind people, read and checked once."""

    def __init__(self, background: Background) -> None:
        """Read a background.

        background: "blur", a number (of pixels: the blur's standard deviation), "#rrggbb", a tuple
        of red, green, blue in 0..255, or a picture, which is scaled to cover and cut at its middle.
        Raises ImageError if a picture cannot be read, ValueError for anything else.
        """
        self._sigma: float | None = None
        self._colour: NDArray[np.float32] | None = None
        self._picture: Image | None = None
        if isinstance(background, str) and background.startswith("#"):
            self._colour = np.array(read_colour(background), np.float32)
        elif isinstance(background, tuple):
            self._colour = np.array(_checked(background), np.float32)
        elif isinstance(background, Real):
            if not 0 < float(background) <= 1e4:
                raise ValueError(
                    f"background: expected a blur of 0 to 10000 pixels, got {background!r}"
                )
            self._sigma = float(background)
        elif not isinstance(background, str) or background != "blur":
            self._picture = read_image(cast(Source, background))
        self._covering = self._picture

    @staticmethod
    def of(background: Background) -> Backdrop:
        """Return the background itself if it is one already."""
        return background if isinstance(background, Backdrop) else Backdrop(background)

    def rows(self, image: Image, alpha: Mask) -> Rows:
        """Return the rows behind a person: float32 or uint8[rows, w, 3], or one colour."""
        height, width = alpha.shape
        if self._colour is not None:
            colour = self._colour
            return lambda top, bottom: colour
        if self._picture is None:
            return _blurred(image, alpha, self._sigma or BLUR * min(height, width))
        covering = self._covering
        # Frames of a video are of one size.
        if covering is None or covering.shape != image.shape:
            covering = self._covering = cover(self._picture, height, width)
        return lambda top, bottom: covering[top:bottom]


def composite(image: Image, alpha: Mask, backdrop: Backdrop) -> Image:
    """Return the person in front of another background.

    image: uint8[h, w, 3]; alpha: float32[h, w], 0..1.
    Returns uint8[h, w, 3].
    """
    rows = backdrop.rows(image, alpha)
    result = foreground(image, alpha)
    for top in range(0, len(image), STRIPE):
        part = slice(top, min(top + STRIPE, len(image)))
        ours = alpha[part, :, None]
        behind = rows(part.start, part.stop)
        mixed = result[part] * ours + behind * (1 - ours)
        result[part] = np.rint(mixed, out=mixed)
    return result


def cutout(image: Image, alpha: Mask) -> Image:
    """Return the person alone: uint8[h, w, 4], red, green, blue and opacity, not premultiplied."""
    result = np.empty((*alpha.shape, 4), np.uint8)
    result[..., :3] = foreground(image, alpha)
    for top in range(0, len(image), STRIPE):
        part = slice(top, top + STRIPE)
        result[part, :, 3] = np.rint(alpha[part] * 255)
    return result


def foreground(image: Image, alpha: Mask) -> Image:
    """Return the picture with the person's own colours where it is mixed.

    Blur fusion: Forte, Approximate Fast Foreground Colour Estimation, ICIP 2021,
    https://arxiv.org/abs/2107.05932, in a smaller picture; its last step is taken for each pixel.
    Returns uint8[h, w, 3], never `image` itself.
    """
    import cv2

    result = image.copy()
    places = np.flatnonzero((alpha > 0) & (alpha < 1))
    if not len(places):
        return result
    shape = (alpha.shape[0], alpha.shape[1])
    scale = min(ESTIMATE_SIDE / max(shape), 1)
    grid = (max(round(shape[0] * scale), 1), max(round(shape[1] * scale), 1))
    small = resize(image, *grid).astype(np.float32)
    opaque = cast(Mask, cv2.resize(alpha, grid[::-1], interpolation=cv2.INTER_AREA))[..., None]
    ours, theirs = small, small
    for radius in RADII:
        ours, theirs = _fuse(small, ours, theirs, opaque, radius)
    colours, values = result.reshape(-1, 3), alpha.reshape(-1)
    for start in range(0, len(places), CHUNK):
        at = places[start : start + CHUNK]
        rows, columns = np.divmod(at, shape[1])
        x = ((columns + 0.5) * (grid[1] / shape[1]) - 0.5).astype(np.float32)
        y = ((rows + 0.5) * (grid[0] / shape[0]) - 0.5).astype(np.float32)
        own, other = (_look_up(each, x, y) for each in (ours, theirs))
        share = values[at, None]
        own += share * (colours[at] - share * own - (1 - share) * other)
        colours[at] = np.rint(np.clip(own, 0, 255))
    return result


def _look_up(values: Mask, x: Mask, y: Mask) -> Mask:
    """Return values[h, w, 3] at x[m] and y[m], bilinear: float32[m, 3]."""
    import cv2

    x, y = x[:, None], y[:, None]
    found = cv2.remap(values, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return cast(Mask, found[:, 0])


def _fuse(small: Mask, ours: Mask, theirs: Mask, alpha: Mask, radius: int) -> tuple[Mask, Mask]:
    """Spread each side's colours from where it is alone, then fit them to the picture."""
    own, other = _spread(ours, alpha, radius), _spread(theirs, 1 - alpha, radius)
    left = small - alpha * own - (1 - alpha) * other
    both = np.clip(own + alpha * left, 0, 255), np.clip(other + (1 - alpha) * left, 0, 255)
    return cast("tuple[Mask, Mask]", both)


def _spread(colours: Mask, weight: Mask, radius: float) -> Mask:
    """Return the weighted mean colour round each pixel; without any weight, of everything."""
    import cv2

    # What lies further off than the radius counts a little, so that there is always something.
    weight = weight + np.float32(1e-5)
    side = 2 * int(radius) + 1
    total = cv2.blur(weight, (side, side), borderType=cv2.BORDER_REFLECT)
    found = cv2.blur(colours * weight, (side, side), borderType=cv2.BORDER_REFLECT)
    return cast(Mask, found / total[..., None])


def read_colour(text: str) -> tuple[int, int, int]:
    """Return red, green and blue of "#rrggbb"; raise ValueError for other text."""
    if not _COLOUR.fullmatch(text):
        raise ValueError(f"background: expected a colour like #1e90ff, got {text!r}")
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def _checked(colour: tuple[Any, ...]) -> tuple[Any, ...]:
    whole = all(isinstance(value, int | np.integer) and 0 <= value <= 255 for value in colour)
    if len(colour) != 3 or not whole:
        raise ValueError(f"background: expected red, green, blue in 0..255, got {colour!r}")
    return colour


def cover(picture: Image, height: int, width: int) -> Image:
    """Return the middle of a picture, scaled so that it fills height x width."""
    ratio = min(picture.shape[0] / height, picture.shape[1] / width)
    rows = min(max(round(height * ratio), 1), picture.shape[0])
    columns = min(max(round(width * ratio), 1), picture.shape[1])
    top, left = (picture.shape[0] - rows) // 2, (picture.shape[1] - columns) // 2
    return resize(picture[top : top + rows, left : left + columns], height, width)


def _blurred(image: Image, alpha: Mask, sigma: float) -> Rows:
    """Blur the background without the person, of whom a glow would stay otherwise."""
    import cv2

    height, width = alpha.shape
    # A strong blur needs few pixels, but some must be free of the person.
    scale = min(max(4 / sigma, 64 / min(height, width)), 1)
    size = (max(round(width * scale), 1), max(round(height * scale), 1))
    # A pixel of the small picture that is partly person counts for next to nothing.
    weight = (1 - cast(Mask, cv2.resize(alpha, size, interpolation=cv2.INTER_AREA))) ** 16
    small = resize(image, size[1], size[0]).astype(np.float32)
    fine, wide = sigma * scale, min(sigma * scale * 6, max(size))
    # Behind the middle of the person there may be no background within reach: look further there.
    total = cv2.GaussianBlur(weight, (0, 0), fine)
    near = cv2.GaussianBlur(small * weight[..., None], (0, 0), fine)
    rest = weight + np.float32(1e-6)
    far = (
        cv2.GaussianBlur(small * rest[..., None], (0, 0), wide)
        / cv2.GaussianBlur(rest, (0, 0), wide)[..., None]
    )
    trust = np.float32(0.02)
    mean = cast(Mask, (near + trust * far) / (total + trust)[..., None])

    def rows(top: int, bottom: int) -> NDArray[Any]:
        y = (np.arange(top, bottom) + 0.5) * (size[1] / height) - 0.5
        # OpenCV takes no more at a time.
        parts = [
            (np.arange(start, min(start + CHUNK, width)) + 0.5) * (size[0] / width) - 0.5
            for start in range(0, width, CHUNK)
        ]
        return np.concatenate([_bilinear(mean, x, y) for x in parts], axis=1)

    return rows


def _bilinear(values: Mask, x: NDArray[np.float64], y: NDArray[np.float64]) -> Mask:
    """Return values[h, w, 3] at every y[n] and x[m], which rise: float32[n, m, 3]."""
    import cv2

    left, top = max(int(x[0]), 0), max(int(y[0]), 0)
    part = values[top : int(y[-1]) + 2, left : int(x[-1]) + 2]
    columns = np.tile((x - left).astype(np.float32), (len(y), 1))
    lines = np.tile((y - top).astype(np.float32)[:, None], (1, len(x)))
    return cast(
        Mask, cv2.remap(part, columns, lines, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    )
