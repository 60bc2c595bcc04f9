"""Sampling x[n, c, *spatial] between its elements."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.resize import cubic_weight

MODES = ("linear", "nearest", "cubic")
PADDING_MODES = ("zeros", "border", "reflection")
_ALPHA = -0.75


def reflected(x: Array, low: float, high: float) -> Array:
    """Return x mirrored at both ends until it lies between them."""
    if high <= low:
        return np.full_like(x, low)
    x = np.abs(np.nan_to_num(x) - x.dtype.type(low)) % x.dtype.type(2 * (high - low))
    return np.asarray(low + np.minimum(x, x.dtype.type(2 * (high - low)) - x))


def _axis_taps(
    x: Array, length: int, mode: str, padding_mode: str, ends: tuple[float, float]
) -> list[tuple[Array, Array]]:
    """Return pairs of index and weight for each coordinate along an axis."""
    if mode == "nearest":
        x = np.rint(x)
    if padding_mode == "border" and mode != "cubic":
        x = np.clip(x, 0, length - 1)
    elif padding_mode == "reflection":
        x = np.where((x < ends[0]) | (x > ends[1]), reflected(x, *ends), x)
    low = np.floor(x)
    if mode == "nearest":
        taps = [(x, np.ones_like(x))]
    elif mode == "linear":
        taps = [(low, low + 1 - x), (low + 1, x - low)]
    else:
        taps = [
            (low + i, cubic_weight(np.abs(x - (low + i)), _ALPHA).astype(x.dtype))
            for i in range(-1, 3)
        ]
    found: list[tuple[Array, Array]] = []
    for index, weight in taps:
        if padding_mode == "zeros":
            weight = np.where((index >= 0) & (index < length), weight, weight.dtype.type(0))
        elif padding_mode == "reflection":
            index = np.trunc(reflected(index, *ends))
        index = np.clip(np.nan_to_num(index), 0, length - 1)
        found.append((index.astype(np.int64), weight))
    return found


def taps(
    x: Array,
    coordinates: Array,
    mode: str = "linear",
    padding_mode: str = "zeros",
    align_corners: int = 0,
) -> Iterator[tuple[Array, Array]]:
    """Yield elements and weights whose weighted sum is x at the coordinates.

    coordinates: [n, *out, spatial axes], counted in elements. Yields values[n, c, *out] and
    weights[n, 1, *out].
    padding_mode: beyond x there are zeros, the elements of its border, or its mirror image, at the
    centres of the outermost elements if align_corners, else at their outer edges.
    """
    n, channels, *spatial = x.shape
    edge = 0.0 if align_corners else 0.5
    axes = [
        _axis_taps(coordinates[..., i], size, mode, padding_mode, (-edge, size - 1 + edge))
        for i, size in enumerate(spatial)
    ]
    flat = x.reshape(n, channels, -1)
    for chosen in product(*axes):
        place = np.zeros(coordinates.shape[:-1], np.int64)
        weight = np.ones(coordinates.shape[:-1], coordinates.dtype)
        for (index, factor), size in zip(chosen, spatial, strict=True):
            place = place * size + index
            weight = weight * factor
        values = np.stack([flat[row][:, place[row]] for row in range(n)]) if n else flat[:, :, :0]
        yield values, weight[:, None]


def sample(
    x: Array,
    coordinates: Array,
    mode: str = "linear",
    padding_mode: str = "zeros",
    align_corners: int = 0,
) -> Array:
    """Return x at the coordinates, [n, c, *out]; parameters as in `taps`."""
    y = np.zeros((*x.shape[:2], *coordinates.shape[1:-1]), np.promote_types(x.dtype, np.float32))
    for values, weight in taps(x, coordinates, mode, padding_mode, align_corners):
        y += values * weight
    return y.astype(x.dtype)
