"""The op image_decoder."""

from io import BytesIO

import numpy as np

from palmkit.engine.errors import ImageError, UnsupportedError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Case, Undetermined, op
from palmkit.engine.ops.rules import need_dtype, need_rank

PIXEL_FORMATS = ("RGB", "BGR", "Grayscale")


def _infer(encoded_stream: Type, *, pixel_format: str) -> Type:
    need_dtype("image_decoder", encoded_stream, among=["uint8"])
    need_rank("image_decoder", encoded_stream, 1, 1)
    if pixel_format not in PIXEL_FORMATS:
        raise ValueError(f"unknown pixel_format: {pixel_format}")
    raise Undetermined("image_decoder: the size of the picture is known at run time only")


_PNM = np.frombuffer(b"P6\n3 2\n255\n" + bytes(range(18)), np.uint8)


@op(
    _infer,
    Case((_PNM,)),
    Case((_PNM,), {"pixel_format": "BGR"}),
    Case((_PNM,), {"pixel_format": "Grayscale"}),
)
def image_decoder(encoded_stream: Array, *, pixel_format: str = "RGB") -> Array:
    """The picture in a file's bytes as uint8[height, width, channels].

    Raises ImageError if it is no picture that Pillow reads.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise UnsupportedError(
            "image_decoder needs the package Pillow: pip install pillow"
        ) from None

    try:
        with Image.open(BytesIO(encoded_stream.tobytes())) as image:
            picture = np.array(image.convert("L" if pixel_format == "Grayscale" else "RGB"))
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        raise ImageError(f"not a picture, or damaged: {error}") from None
    if pixel_format == "Grayscale":
        return picture[..., None]
    return np.ascontiguousarray(picture[..., ::-1]) if pixel_format == "BGR" else picture
