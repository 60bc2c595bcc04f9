"""The op average_pool."""

from collections.abc import Iterator

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.rules import need_dtype
from palmkit.engine.ops.traits import Traits
from palmkit.engine.ops.windows import Windows, place


def _infer(
    x: Type,
    *,
    kernel_shape: tuple[int, ...],
    auto_pad: str,
    ceil_mode: int,
    count_include_pad: int,
    dilations: tuple[int, ...],
    pads: tuple[int, ...],
    strides: tuple[int, ...],
) -> Type:
    need_dtype("average_pool", x, among=FLOATS)
    windows = place("average_pool", x, kernel_shape, auto_pad, dilations, pads, strides, ceil_mode)
    return Type(x.dtype, (*x.dims[:2], *windows.sizes))


@op(
    _infer,
    case((1, 3, 8, 8), kernel_shape=(2, 2), strides=(2, 2)),
    case((1, 19, 9, 7), kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    case((2, 3, 9, 7), kernel_shape=(3, 3), pads=(1, 1, 1, 1), count_include_pad=1),
    case((2, 3, 9, 7), kernel_shape=(3, 2), pads=(0, 1, 2, 0)),
    case((1, 3, 10, 9), kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1),
    case((1, 3, 2, 1), kernel_shape=(3, 2), strides=(2, 2), ceil_mode=1),
    case((1, 3, 10, 9), kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1, count_include_pad=1),
    case((1, 3, 10, 9), kernel_shape=(3, 3), strides=(2, 2), auto_pad="SAME_UPPER"),
    case((1, 3, 10, 9), kernel_shape=(3, 3), strides=(2, 2), auto_pad="SAME_LOWER"),
    case((1, 3, 9, 9), kernel_shape=(3, 3), dilations=(2, 2)),
    case((1, 3, 20), kernel_shape=(3,), strides=(2,)),
    case((1, 2, 5, 6, 4), kernel_shape=(2, 2, 2)),
    traits=Traits(keeps_sign=True, homogeneous=True, pools=True, worth_integers=True),
)
def average_pool(
    x: Array,
    *,
    kernel_shape: tuple[int, ...],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Array:
    """The mean of each window; padding counts as zeros if count_include_pad, else not at all.

    Elements that ceil_mode adds past the padding never count.
    """
    windows = place(
        "average_pool", Type.of(x), kernel_shape, auto_pad, dilations, pads, strides, ceil_mode
    )
    counts = counts_of(windows, x.shape[2:], bool(count_include_pad)).astype(x.dtype)
    return np.asarray(windows.view(x, 0).sum(windows.axes) / counts)


def counts_of(windows: Windows, spatial: tuple[int, ...], with_padding: bool) -> Array:
    """Return how many elements count in each window."""
    counts = np.ones((), np.int64)
    for along in counts_along(windows, spatial, with_padding):
        counts = np.multiply.outer(counts, along)
    return np.asarray(counts)


def counts_along(windows: Windows, spatial: tuple[int, ...], with_padding: bool) -> Iterator[Array]:
    """Yield for each axis how many places count in each window, without visiting each place."""
    for i, dim in enumerate(spatial):
        begin, end = windows.pads[i], windows.pads[i + len(spatial)]
        starts = np.arange(windows.sizes[i]) * windows.strides[i] - begin
        ends = (-begin, dim + end) if with_padding else (0, dim)
        # For each window the first tap at or after either end, by rounding up.
        first, last = (
            np.clip(-((starts - at) // windows.dilations[i]), 0, windows.kernel[i]) for at in ends
        )
        yield last - first
