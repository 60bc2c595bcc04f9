"""The op max_pool."""

from math import prod

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Results, case, op
from palmkit.engine.ops.dtypes import FLOATS, lowest
from palmkit.engine.ops.rules import need_dtype
from palmkit.engine.ops.traits import Traits
from palmkit.engine.ops.windows import place


def _infer(
    x: Type,
    *,
    kernel_shape: tuple[int, ...],
    auto_pad: str,
    ceil_mode: int,
    dilations: tuple[int, ...],
    pads: tuple[int, ...],
    storage_order: int,
    strides: tuple[int, ...],
) -> tuple[Type, Type]:
    need_dtype("max_pool", x, among=(*FLOATS, "int8", "uint8"))
    windows = place("max_pool", x, kernel_shape, auto_pad, dilations, pads, strides, ceil_mode)
    shape = (*x.dims[:2], *windows.sizes)
    return Type(x.dtype, shape), Type("int64", shape)


@op(
    _infer,
    case((1, 3, 8, 8), kernel_shape=(2, 2), strides=(2, 2)),
    case((1, 19, 9, 7), kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    case((2, 3, 9, 7), kernel_shape=(3, 2), pads=(0, 1, 2, 0)),
    case((1, 3, 9, 9), kernel_shape=(3, 3), dilations=(2, 2)),
    case((1, 3, 10, 9), kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1),
    case((1, 3, 2, 1), kernel_shape=(3, 2), strides=(2, 2), ceil_mode=1),
    case((1, 3, 5, 5), kernel_shape=(1, 1), strides=(2, 2), ceil_mode=1),
    case((1, 3, 4, 4), kernel_shape=(2, 2), strides=(3, 3), pads=(1, 1, 1, 1), ceil_mode=1),
    case((1, 3, 10, 9), kernel_shape=(3, 3), strides=(2, 2), auto_pad="SAME_UPPER"),
    case((1, 3, 10, 9), kernel_shape=(3, 3), strides=(2, 2), auto_pad="SAME_LOWER"),
    case((1, 3, 10, 9), kernel_shape=(3, 3), strides=(2, 2), auto_pad="VALID"),
    case((1, 3, 20), kernel_shape=(3,), strides=(2,)),
    case((1, 2, 5, 6, 4), kernel_shape=(2, 2, 2)),
    case((1, 3, 8, 8), kernel_shape=(2, 2), dtype="uint8"),
    case((2, 3, 9, 7), kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), outputs=2),
    case((2, 3, 9, 7), kernel_shape=(3, 2), storage_order=1, outputs=2),
    traits=Traits(keeps_sign=True, keeps_levels=True, homogeneous=True, pools=True),
)
def max_pool(
    x: Array,
    *,
    kernel_shape: tuple[int, ...],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    storage_order: int = 0,
    strides: tuple[int, ...] = (),
) -> Results:
    """The maximum of each window, and its index in x taken as a flat array.

    storage_order: 1 counts the spatial axes the other way round, the first one fastest.
    """
    windows = place(
        "max_pool", Type.of(x), kernel_shape, auto_pad, dilations, pads, strides, ceil_mode
    )
    shape = (*x.shape[:2], *windows.sizes)
    values = windows.view(x, lowest(x.dtype.name)).reshape(*shape, prod(kernel_shape))
    positions = np.arange(x.size, dtype=np.int64).reshape(x.shape)
    if storage_order:
        spatial = range(2, x.ndim)
        positions = positions.reshape(*x.shape[:2], *reversed(x.shape[2:]))
        positions = positions.transpose(0, 1, *reversed(spatial))
    best = values.argmax(-1)[..., None]
    indices = np.take_along_axis(
        windows.view(positions, -1).reshape(*shape, prod(kernel_shape)), best, -1
    )
    return np.take_along_axis(values, best, -1)[..., 0], indices[..., 0]
