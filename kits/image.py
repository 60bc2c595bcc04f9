"""Reading pictures as uint8[h, w, 3], and fitting them to a network's input."""

from __future__ import annotations

import io
import math
import os
import re
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.cached import cached
from palmkit.engine.errors import ImageError, why
from palmkit.engine.forks import finished
from palmkit.engine.frames import Resizing
from palmkit.engine.ir import Type

if TYPE_CHECKING:
    import PIL.Image

# For what it does at a fork.
import_module("palmkit.kits.opencv")

Image: TypeAlias = NDArray[np.uint8]
Points: TypeAlias = NDArray[np.float32]
Source: TypeAlias = "str | os.PathLike[str] | bytes | PIL.Image.Image | NDArray[Any] | BinaryFile"
Format: TypeAlias = Literal["rgb", "rgba", "bgr", "bgra", "gray", "nv21"]
Rotation: TypeAlias = Literal[0, 90, 180, 270]
Flip: TypeAlias = Literal["horizontal", "vertical"]
Part: TypeAlias = tuple[float, float, float, float]

# Plain pictures only: some of Pillow's other readers start programs or follow references.
FILE_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
JPEG_SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif")
SUFFIXES = frozenset(
    (*JPEG_SUFFIXES, ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
)
# Formats that hold how opaque each pixel is.
TRANSPARENT = (".png", ".tif", ".tiff", ".webp")
MAX_PIXELS = 80_000_000
# Of an open file no more is read than the largest pictures take: some never end.
_MOST_BYTES_A_PIXEL, _MOST_OTHER_BYTES = 8, 1 << 20
_READ_BYTES = 1 << 20
# Of what is written; libjpeg's own limit is less than the format's.
_MOST_PIXELS_A_SIDE = {
    **dict.fromkeys(JPEG_SUFFIXES, 65_500), ".webp": 16_383, ".gif": 65_535
}  # fmt: skip
_CHANNELS: dict[Format, int] = {"rgb": 3, "rgba": 4, "bgr": 3, "bgra": 4, "gray": 1, "nv21": 1}
_BY_CHANNELS: dict[int, Format] = {1: "gray", 3: "rgb", 4: "rgba"}
_SHAPES = {1: "uint8[h, w]", 3: "uint8[h, w, 3]", 4: "uint8[h, w, 4]"}
_EXIF_ORIENTATION = 0x0112
_SCHEME = r"(?:[a-z][a-z0-9+.-]+://|data:)"


class BinaryFile(Protocol):
    """An open binary file, or what is read like one, such as io.BytesIO."""

    def read(self, size: int = ..., /) -> bytes:
        """Return at most so many bytes, b"" at the end."""
        ...


@finished
def read_image(
    source: Source,
    *,
    format: Format | None = None,
    rotation: Rotation = 0,
    flip: Flip | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Image:
    """Read any picture as upright uint8[h, w, 3], RGB.

    source: a path, the bytes of a picture file, an open binary file such as io.BytesIO, a
        PIL.Image, or an array uint8[h, w, 3 or 4], uint8[h, w] or uint8[h, w, 1]. An open file is
        read from its start, if it can seek, to its end, and stays open. Of a file, EXIF orientation
        is applied, the first frame taken, 16 bits are cut to 8, and transparent pixels lie on
        white; an array's alpha is ignored, because cameras and screens leave it undefined. URLs are
        refused.
    format: what an array holds; None: gray, rgb or rgba by its shape. nv21: uint8[h * 3 / 2, w].
    rotation: degrees clockwise that turn the picture upright.
    flip: mirror it after that, "horizontal" left to right or "vertical" top to bottom.
    max_pixels: a file that says it has more is refused before it is decoded. Pillow's own limit
        (PIL.Image.MAX_IMAGE_PIXELS, twice) stays in force.
    Returns an array that may share memory with `source`.
    Raises ImageError, with the reason in one line.
    """
    if rotation not in get_args(Rotation):
        raise ImageError(f"rotation: expected 0, 90, 180 or 270, got {rotation!r}")
    if flip is not None and flip not in get_args(Flip):
        raise ImageError(f"flip: expected 'horizontal', 'vertical' or None, got {flip!r}")
    if format is not None and format not in _CHANNELS:
        raise ImageError(f"format: expected one of {', '.join(_CHANNELS)}, got {format!r}")
    if isinstance(source, np.ndarray):
        image = _from_array(source, format)
    elif format is not None:
        raise ImageError(f"format: an array only has one, got {format!r} for a picture file")
    else:
        image = _from_file(source, max_pixels)
    if rotation:
        image = np.rot90(image, -rotation // 90)
    if flip:
        image = image[:, ::-1] if flip == "horizontal" else image[::-1]
    return np.ascontiguousarray(image)


def _from_array(array: NDArray[Any], format: Format | None) -> Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    channels = array.shape[2] if array.ndim == 3 else 1 if array.ndim == 2 else 0
    chosen = format or _BY_CHANNELS.get(channels)
    if chosen is None or array.dtype != np.uint8 or _CHANNELS[chosen] != channels:
        expected = (
            "uint8[h, w, 3]" if format is None else f"{_SHAPES[_CHANNELS[format]]} for {format}"
        )
        raise ImageError(f"input image: expected {expected}, got {Type.of(array)}")
    if array.size == 0:
        raise ImageError(f"input image: no pixels in it: {Type.of(array)}")
    if chosen == "gray":
        return np.repeat(array[:, :, None], 3, axis=2)
    if chosen == "nv21":
        return _from_nv21(array)
    if chosen == "rgb":
        return array
    return array[:, :, :3] if chosen == "rgba" else array[:, :, 2::-1]


def _from_nv21(array: Image) -> Image:
    if array.shape[0] % 3 or array.shape[1] % 2:
        raise ImageError(
            "input image: expected uint8[h * 3 / 2, w] with even h and w for nv21, "
            f"got {Type.of(array)}"
        )
    import cv2

    return cast(Image, cv2.cvtColor(np.ascontiguousarray(array), cv2.COLOR_YUV2RGB_NV21))


def _from_file(source: Source, max_pixels: int) -> Image:
    import PIL.Image

    if isinstance(source, PIL.Image.Image):
        return _from_picture(source, "picture", max_pixels)
    if isinstance(source, bytes | bytearray | memoryview):
        return _decode(io.BytesIO(source), f"bytes of length {len(source)}", max_pixels)
    if not isinstance(source, str | os.PathLike):
        data = bytes_of(source, max_pixels)
        return _decode(io.BytesIO(data), f"a file of {len(data)} bytes", max_pixels)
    name = os.fspath(source)
    if re.match(_SCHEME, str(name), re.IGNORECASE):
        raise ImageError(f"input image: is a URL, download it first: {name[:200]}")
    try:
        # Reading a pipe or a device may block, or never end.
        if not stat.S_ISREG(os.stat(name).st_mode):
            kind = "a folder" if os.path.isdir(name) else "not a regular file"
            raise ImageError(f"expected a picture file, this is {kind}: {name}")
        with open(name, "rb") as file:
            return _decode(file, name, max_pixels)
    except FileNotFoundError:
        raise ImageError(f"no such file: {name}") from None
    except (OSError, ValueError) as error:
        if isinstance(error, ImageError):
            raise
        raise ImageError(f"cannot be opened, {why(error)}: {name!r}") from error


def bytes_of(file: object, max_pixels: int = MAX_PIXELS) -> bytes:
    """Read an open binary file, from its start if it can seek.

    max_pixels: a file of more bytes than the largest picture of so many pixels is refused.
    Raises ImageError if it is no open binary file, or cannot be read.
    """
    read = getattr(file, "read", None)
    kind = type(file).__name__
    if not callable(read):
        raise ImageError(
            "input image: expected a path, bytes, an open binary file, a PIL.Image or a numpy "
            f"array, got {kind}"
        )
    most = max_pixels * _MOST_BYTES_A_PIXEL + _MOST_OTHER_BYTES
    parts: list[bytes] = []
    size = 0
    try:
        if getattr(file, "seekable", bool)():
            cast(Any, file).seek(0)
        while size <= most:
            part: object = read(_READ_BYTES)
            if not isinstance(part, bytes):
                if hasattr(part, "close"):
                    cast(Any, part).close()  # A coroutine that nobody awaits would warn.
                got = f"{type(part).__name__} from {kind}.read"
                raise ImageError(f"input image: expected a file opened in binary mode, got {got}")
            if not part:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, ImageError):
            raise
        raise ImageError(f"an open file cannot be read, {why(error)}: {kind}") from error
    raise ImageError(f"more bytes than {max_pixels} pixels (max_pixels) can take: {kind}")


def _decode(file: BinaryIO, name: str, max_pixels: int) -> Image:
    import PIL.Image

    if file.seek(0, io.SEEK_END) == 0:
        raise ImageError(f"the picture is empty: {name}")
    file.seek(0)
    try:
        picture = PIL.Image.open(file, formats=FILE_FORMATS)
    except PIL.UnidentifiedImageError:
        kinds = ", ".join(FILE_FORMATS)
        raise ImageError(f"not a picture, or a damaged one (read are {kinds}): {name}") from None
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning):
        raise ImageError(f"more than {max_pixels} pixels (max_pixels): {name}") from None
    except Exception as error:
        raise _damaged(error, name) from error
    with picture:
        return _from_picture(picture, name, max_pixels)


def _from_picture(picture: PIL.Image.Image, name: str, max_pixels: int) -> Image:
    """Return a PIL picture, decoded only now, as RGB and upright."""
    if picture.width * picture.height > max_pixels:
        size = f"{picture.width}x{picture.height}"
        raise ImageError(f"{size} is more than {max_pixels} pixels (max_pixels): {name}")
    if picture.width == 0 or picture.height == 0:
        raise ImageError(f"no pixels in it: {name}")
    try:
        image = _rgb(picture)
    except ImageError:
        raise
    except Exception as error:
        raise _damaged(error, name) from error
    return _upright(image, _orientation(picture))


def _damaged(error: Exception, name: str) -> ImageError:
    """Return the error for a damaged file, at which Pillow's readers raise nearly anything."""
    reason = " ".join((str(error) or type(error).__name__).split()).lower().rstrip(".")
    return ImageError(f"the picture is damaged, {reason}: {name}")


def _rgb(picture: PIL.Image.Image) -> Image:
    import PIL.Image

    if picture.mode.startswith("I"):
        deep = np.asarray(picture).astype(np.int64)
        # Mode I is how Pillow widens 16-bit gray; more than 16 bits have no agreed white.
        if deep.min() < 0 or deep.max() > 0xFFFF:
            raise ImageError("a gray picture of more than 16 bits has no agreed white")
        return np.repeat((deep >> 8).astype(np.uint8)[:, :, None], 3, axis=2)
    if picture.mode == "F":
        raise ImageError("a picture of floats has no agreed white")
    if "A" in picture.mode.upper() or "transparency" in picture.info:
        over = picture.convert("RGBA")
        white = PIL.Image.new("RGBA", over.size, "white")
        picture = PIL.Image.alpha_composite(white, over)
    return np.asarray(picture.convert("RGB"))


def _orientation(picture: PIL.Image.Image) -> int:
    try:
        return int(picture.getexif().get(_EXIF_ORIENTATION, 1))
    except Exception:  # The pixels are fine: a damaged EXIF block is ignored.
        return 1


def _upright(image: Image, orientation: int) -> Image:
    """Undo an EXIF orientation (1 to 8, CIPA DC-008, 4.6.5.1.6); ignore other numbers."""
    if orientation in (5, 6, 7, 8):
        image = image.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        image = image[:, ::-1]
    if orientation in (3, 4, 7, 8):
        image = image[::-1]
    return image


@finished
def write_image(path: str | os.PathLike[str], image: Image) -> None:
    """Write a picture in the format that the suffix names.

    image: uint8[h, w, 3] RGB, uint8[h, w] gray, or uint8[h, w, 4] with opacity, which PNG, TIFF and
    WebP hold.

    The file appears whole or not at all; its folder must exist.
    Raises ImageError if there is no such format, the picture is none, or the file cannot be
    written.
    """
    import PIL.Image

    from palmkit.engine.replacing import replacing

    _check_picture(image)
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ImageError(f"no picture format has the suffix {suffix!r}: {os.fspath(path)}")
    if image.ndim == 3 and image.shape[2] == 4 and suffix not in TRANSPARENT:
        known = ", ".join(TRANSPARENT)
        raise ImageError(
            f"a {suffix} picture holds no transparency, expected one of {known}: {os.fspath(path)}"
        )
    options: dict[str, Any] = {"quality": 92} if suffix in (*JPEG_SUFFIXES, ".webp") else {}
    height, width = image.shape[:2]
    if max(height, width) > (most := _MOST_PIXELS_A_SIDE.get(suffix, sys.maxsize)):
        raise ImageError(
            f"a {suffix} picture has at most {most} pixels a side, this one has {width}x{height}: "
            f"{os.fspath(path)}"
        )
    try:
        with replacing(path) as part:
            PIL.Image.fromarray(image).save(part, **options)
    except MemoryError:
        raise
    except Exception as error:  # As its readers, Pillow's writers raise nearly anything.
        raise ImageError(f"cannot be written, {why(error)}: {os.fspath(path)}") from error


@finished
def png(image: Image) -> bytes:
    """Return the bytes of a PNG file of uint8[h, w], uint8[h, w, 3] RGB or uint8[h, w, 4]."""
    import cv2

    orders = {3: cv2.COLOR_RGB2BGR, 4: cv2.COLOR_RGBA2BGRA}
    channels = image.shape[2] if image.ndim == 3 else 1
    in_order = cv2.cvtColor(image, orders[channels]) if channels in orders else image
    return cv2.imencode(".png", in_order)[1].tobytes()


def _check_picture(image: object) -> None:
    expected = "picture to write: expected uint8[h, w] or [h, w, 3 or 4]"
    if not isinstance(image, np.ndarray):
        raise ImageError(f"{expected}, got {type(image).__name__}")
    array = cast("NDArray[Any]", image)
    shaped = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if not shaped or array.dtype != np.uint8 or array.size == 0:
        raise ImageError(f"{expected}, got {Type.of(array)}")


@dataclass(frozen=True, eq=False)
class Placement:
    """The place of a picture on a network's input.

    matrix: float64[2, 3], from a point (x, y, 1) of the picture to one of the input, in pixels.
    """

    matrix: NDArray[np.float64]

    def to_input(self, points: NDArray[Any]) -> Points:
        """Map points[..., 2] from the picture to the input, in pixels."""
        return (points @ self.matrix[:, :2].T + self.matrix[:, 2]).astype(np.float32)

    def to_picture(self, points: NDArray[Any]) -> Points:
        """Map points[..., 2] from the input to the picture, in pixels."""
        return ((points - self.matrix[:, 2]) @ self._inverse.T).astype(np.float32)

    @cached
    def _inverse(self) -> NDArray[np.float64]:
        (a, b), (c, d) = self.matrix[:, :2].tolist()
        return np.asarray(np.array([[d, -b], [-c, a]]) / (a * d - b * c), np.float64)


def resize(image: Image, height: int, width: int) -> Image:
    """Resize uint8[h, w, 3]: by pixel areas where it shrinks, bilinear where it grows."""
    return resized(image, resizings((image.shape[1], image.shape[0]), (width, height)))


def resizings(size: tuple[int, int], to: tuple[int, int]) -> list[Resizing]:
    """Return the steps of `resize` from one width and height to another."""
    width, height = size
    steps: list[Resizing] = []
    # Halving exactly is three times as fast for OpenCV as any other step of the same size.
    while width >= 2 * to[0] and height >= 2 * to[1] and not (width % 2 or height % 2):
        width, height = width // 2, height // 2
        steps.append(Resizing(width, height, "area"))
    if (width, height) != to:
        shrinks = height >= to[1] and width >= to[0]
        steps.append(Resizing(*to, "area" if shrinks else "linear"))
    return steps


def resized(image: Image, steps: Iterable[Resizing]) -> Image:
    """Do steps of resizing, one after the other; without any the picture itself is returned."""
    import cv2

    methods = {"area": cv2.INTER_AREA, "linear": cv2.INTER_LINEAR}
    for width, height, method in steps:
        image = cast(Image, cv2.resize(image, (width, height), interpolation=methods[method]))
    return image


def letterbox(
    image: Image, height: int, width: int, *, part: Part | None = None, max_scale: float = 1.0
) -> tuple[Image, Placement]:
    """Fit a picture, or a part of it, whole and undistorted in a network's input.

    image: uint8[h, w, 3].
    part: x, y, w, h in pixels; what lies outside the picture is left out. None: all of it.
    max_scale: it is enlarged by no more than this.
    Returns uint8[height, width, 3], black to the right and below, and where the picture lies.
    Raises ImageError if the part and the picture share no pixel.
    """
    left, top, right, bottom = clip_part(image, part)
    crop = image[top:bottom, left:right]
    scale = min(height / crop.shape[0], width / crop.shape[1], max_scale)
    fit_height = min(max(round(crop.shape[0] * scale), 1), height)
    fit_width = min(max(round(crop.shape[1] * scale), 1), width)
    canvas = np.zeros((height, width, 3), np.uint8)
    canvas[:fit_height, :fit_width] = resize(crop, fit_height, fit_width)
    # The scale of each axis after rounding, so that mapping back is exact.
    scale_x, scale_y = fit_width / crop.shape[1], fit_height / crop.shape[0]
    matrix = np.array([[scale_x, 0, -left * scale_x], [0, scale_y, -top * scale_y]])
    return canvas, Placement(matrix)


def clip_part(image: Image, part: Part | None) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of the pixels that a part (x, y, w, h) touches.

    Raises ImageError if there is none.
    """
    height, width = image.shape[:2]
    if part is None:
        return 0, 0, width, height
    try:
        x, y, wide, tall = (float(each) for each in part)
    except (TypeError, ValueError):
        x = y = wide = tall = math.nan
    if not (math.isfinite(x + wide) and math.isfinite(y + tall) and wide > 0 and tall > 0):
        raise ImageError(f"roi: expected x, y, w, h with w and h above 0, got {part!r}")
    left, top = max(math.floor(x), 0), max(math.floor(y), 0)
    right, bottom = min(math.ceil(x + wide), width), min(math.ceil(y + tall), height)
    if left >= right or top >= bottom:
        raise ImageError(f"roi: lies outside the picture of {width}x{height} pixels: {part}")
    return left, top, right, bottom
