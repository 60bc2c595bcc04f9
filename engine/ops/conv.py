"""The op conv."""

from math import prod

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS, wide
from palmkit.engine.ops.products import macs_of_kernel
from palmkit.engine.ops.rules import need_dtype
from palmkit.engine.ops.traits import Layer, Traits
from palmkit.engine.ops.windows import place


def _infer(
    x: Type,
    w: Type,
    b: Type | None = None,
    *,
    auto_pad: str,
    dilations: tuple[int, ...],
    group: int,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...],
    strides: tuple[int, ...],
) -> Type:
    need_dtype("conv", x, w, *([] if b is None else [b]), among=FLOATS)
    kernel = w.dims[2:]
    windows = place("conv", x, kernel, auto_pad, dilations, pads, strides)
    outputs = w.dims[0]
    if group < 1 or x.dims[1] != w.dims[1] * group or outputs % group:
        raise ShapeError(f"conv: group {group} does not divide {x} and {w}")
    if kernel_shape and kernel_shape != kernel:
        raise ShapeError(f"conv: expected kernel_shape {kernel_shape}, got {w}")
    if b is not None and b.dims != (outputs,):
        raise ShapeError(f"conv: expected a bias of [{outputs}], got {b}")
    return Type(x.dtype, (x.dims[0], outputs, *windows.sizes))


@op(
    _infer,
    case((1, 3, 9, 8), (5, 3, 3, 3)),
    case((2, 3, 9, 8), (5, 3, 3, 3), (5,), pads=(1, 1, 1, 1), strides=(2, 2)),
    case((1, 8, 7, 6), (16, 8, 1, 1), (16,)),
    case((1, 19, 5, 5), (33, 19, 1, 1), strides=(2, 2)),
    case((1, 4, 9, 11), (6, 4, 3, 5), pads=(0, 2, 1, 3), strides=(1, 2)),
    case((1, 4, 9, 11), (6, 4, 3, 3), dilations=(2, 3), pads=(2, 3, 2, 3)),
    case((1, 6, 8, 8), (4, 3, 3, 3), (4,), group=2, pads=(1, 1, 1, 1)),
    case((1, 19, 9, 9), (19, 1, 3, 3), (19,), group=19, pads=(1, 1, 1, 1)),
    case((1, 32, 9, 9), (32, 1, 5, 5), group=32, auto_pad="SAME_UPPER", strides=(2, 2)),
    case((1, 4, 7, 7), (8, 1, 3, 3), (8,), group=4),
    case((1, 3, 10, 9), (4, 3, 3, 3), auto_pad="SAME_UPPER", strides=(2, 2)),
    case((1, 3, 10, 9), (4, 3, 4, 2), auto_pad="SAME_LOWER", strides=(3, 1)),
    case((1, 3, 10, 9), (4, 3, 3, 3), auto_pad="VALID", kernel_shape=(3, 3)),
    case((1, 3, 10, 9), (4, 3, 3, 3), auto_pad="SAME_UPPER", dilations=(2, 2)),
    case((1, 3, 20), (4, 3, 5), (4,), pads=(2, 2), strides=(2,)),
    case((1, 2, 5, 6, 4), (3, 2, 3, 3, 3), pads=(1, 0, 1, 1, 0, 1)),
    case((0, 3, 9, 8), (5, 3, 3, 3)),
    case((1, 64, 14, 14), (64, 64, 3, 3), (64,), pads=(1, 1, 1, 1)),
    case((1, 3, 9, 8), np.linspace(-1, 1, 135, dtype=np.float32).reshape(5, 3, 3, 3)),
    case(
        (1, 19, 9, 8),
        np.linspace(-1, 1, 171, dtype=np.float32).reshape(19, 1, 3, 3),
        np.linspace(1, 2, 19, dtype=np.float32),
        group=19,
        pads=(0, 0, 1, 1),
        strides=(2, 2),
    ),
    case(
        (1, 19, 7, 5),
        np.linspace(-1, 1, 21 * 19, dtype=np.float32).reshape(21, 19, 1, 1),
        np.linspace(1, 2, 21, dtype=np.float32),
    ),
    traits=Traits(layer=Layer.CONVOLUTION, fused="fused_conv"),
    macs=macs_of_kernel,
)
def conv(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] = (),
    group: int = 1,
    kernel_shape: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Array:
    """Cross-correlation of x[n, c, *spatial] with w[m, c / group, *kernel], plus b[m]."""
    windows = place("conv", Type.of(x), w.shape[2:], auto_pad, dilations, pads, strides)
    n, m, rank = len(x), len(w), x.ndim - 2
    view, w = windows.view(wide(x), 0), wide(w)
    if group == m == x.shape[1]:
        y = np.zeros(view.shape[: 2 + rank], view.dtype)
        for offset in np.ndindex(*windows.kernel):
            y += view[(..., *offset)] * w[(slice(None), 0, *offset)].reshape(-1, *[1] * rank)
    else:
        columns = np.moveaxis(view, windows.axes, range(2, 2 + rank))
        columns = columns.reshape(n, group, prod(w.shape[1:]), prod(windows.sizes))
        y = np.matmul(w.reshape(group, m // group, -1), columns)
        y = y.reshape(n, m, *windows.sizes)
    if b is not None:
        y = y + b.reshape(-1, *[1] * rank)
    return np.asarray(y.astype(x.dtype))
