"""The op lp_pool."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS
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
    p: int,
    pads: tuple[int, ...],
    strides: tuple[int, ...],
) -> Type:
    need_dtype("lp_pool", x, among=FLOATS)
    if p < 1:
        raise ValueError(f"p is out of range: {p}")
    windows = place("lp_pool", x, kernel_shape, auto_pad, dilations, pads, strides, ceil_mode)
    return Type(x.dtype, (*x.dims[:2], *windows.sizes))


@op(
    _infer,
    case((1, 3, 8, 8), kernel_shape=(2, 2), strides=(2, 2)),
    case((1, 19, 9, 7), kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), p=1),
    case((1, 3, 10, 9), kernel_shape=(3, 2), auto_pad="SAME_UPPER", p=3),
    case((1, 3, 9, 9), kernel_shape=(3, 3), dilations=(2, 2)),
    case((1, 3, 20), kernel_shape=(3,), strides=(2,)),
    case((1, 2, 5, 6, 4), kernel_shape=(2, 2, 2)),
    traits=Traits(pools=True),
)
def lp_pool(
    x: Array,
    *,
    kernel_shape: tuple[int, ...],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] = (),
    p: int = 2,
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Array:
    """The p-norm of each window: (sum of |x|^p)^(1/p)."""
    windows = place(
        "lp_pool", Type.of(x), kernel_shape, auto_pad, dilations, pads, strides, ceil_mode
    )
    total = (np.abs(windows.view(x, 0)) ** p).sum(windows.axes)
    return np.asarray(total ** (1 / p), x.dtype)
