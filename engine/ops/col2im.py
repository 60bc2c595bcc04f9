"""The op col2im."""

from math import prod

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, known_value, op
from palmkit.engine.ops.dtypes import ALL
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.windows import Windows, place


def _windows(
    image: tuple[int, ...],
    block: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[int, ...],
    strides: tuple[int, ...],
) -> Windows:
    shape = Type("float32", (1, 1, *image))
    return place("col2im", shape, block, "NOTSET", dilations, pads, strides)


def _infer(
    x: Type,
    image_shape: Type,
    block_shape: Type,
    *,
    dilations: tuple[int, ...],
    pads: tuple[int, ...],
    strides: tuple[int, ...],
) -> Type:
    need_dtype("col2im", x, among=ALL)
    need_rank("col2im", x, 3, 3)
    image = tuple(known_value(image_shape, "col2im: image_shape").reshape(-1).tolist())
    block = tuple(known_value(block_shape, "col2im: block_shape").reshape(-1).tolist())
    windows = _windows(image, block, dilations, pads, strides)
    if x.dims[1] % prod(block) or x.dims[2] != prod(windows.sizes):
        raise ShapeError(f"col2im: {x} is not of blocks {list(block)} of {list(image)}")
    return Type(x.dtype, (x.dims[0], x.dims[1] // prod(block), *image))


@op(
    _infer,
    case((1, 5, 5), np.array([5, 5]), np.array([1, 5])),
    case((2, 18, 12), np.array([5, 6]), np.array([3, 3])),
    case((1, 8, 9), np.array([6, 6]), np.array([2, 2]), strides=(2, 2)),
    case((1, 9, 4), np.array([6, 6]), np.array([3, 3]), dilations=(2, 2)),
    case((1, 4, 25), np.array([4, 4]), np.array([2, 2]), pads=(1, 1, 1, 1)),
    case((1, 10, 12), np.array([4, 5, 3]), np.array([1, 5, 1])),
)
def col2im(
    x: Array,
    image_shape: Array,
    block_shape: Array,
    *,
    dilations: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Array:
    """Blocks x[n, c * block elements, blocks] added up where they lie in y[n, c, *image]."""
    image, block = tuple(image_shape.reshape(-1).tolist()), tuple(block_shape.reshape(-1).tolist())
    windows = _windows(image, block, dilations, pads, strides)
    rank = len(image)
    begins, ends = windows.pads[:rank], windows.pads[rank:]
    n, channels = x.shape[0], x.shape[1] // prod(block)
    padded = [b + size + e for b, size, e in zip(begins, image, ends, strict=True)]
    y = np.zeros((n, channels, *padded), x.dtype)
    blocks = x.reshape(n, channels, *block, *windows.sizes)
    for offset in np.ndindex(*block):
        landing = (
            slice(i * d, i * d + s * (size - 1) + 1, s)
            for i, d, s, size in zip(
                offset, windows.dilations, windows.strides, windows.sizes, strict=True
            )
        )
        y[(slice(None), slice(None), *landing)] += blocks[(slice(None), slice(None), *offset)]
    kept = (slice(b, b + size) for b, size in zip(begins, image, strict=True))
    return y[(slice(None), slice(None), *kept)]
