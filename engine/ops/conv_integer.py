"""The op conv_integer."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.conv import conv
from palmkit.engine.ops.products import macs_of_kernel
from palmkit.engine.ops.rules import need_dtype
from palmkit.engine.ops.traits import Family, Traits

_LEVELS = ("int8", "uint8")


def _infer(
    x: Type,
    w: Type,
    x_zero_point: Type | None = None,
    w_zero_point: Type | None = None,
    *,
    auto_pad: str,
    dilations: tuple[int, ...],
    group: int,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...],
    strides: tuple[int, ...],
) -> Type:
    for levels, zero, counts in ((x, x_zero_point, (1,)), (w, w_zero_point, (1, w.dims[0]))):
        need_dtype("conv_integer", levels, *([] if zero is None else [zero]), among=_LEVELS)
        if zero is not None and (len(zero.dims) > 1 or zero.elements not in counts):
            raise ShapeError(f"conv_integer: expected a zero point for {levels}, got {zero}")
    floats = [Type("float64", each.dims) for each in (x, w)]
    result = conv.infer(
        *floats,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    assert isinstance(result, Type)
    return Type("int32", result.shape)


@op(
    _infer,
    case((1, 2, 6, 5), (3, 2, 3, 3), np.array(7, np.uint8), dtype="uint8"),
    case((1, 2, 6, 5), (3, 2, 3, 3), dtype="uint8", pads=(1, 1, 1, 1), strides=(2, 2)),
    case((1, 2, 6, 5), (2, 1, 3, 3), np.array(7, np.uint8), dtype="uint8", group=2),
    case(
        (1, 2, 6, 5),
        np.arange(-27, 27, dtype=np.int8).reshape(3, 2, 3, 3),
        np.array(7, np.uint8),
        np.array(2, np.int8),
        dtype="uint8",
    ),
    traits=Traits(family=Family.MATRICES),
    macs=macs_of_kernel,
)
def conv_integer(
    x: Array,
    w: Array,
    x_zero_point: Array | None = None,
    w_zero_point: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] = (),
    group: int = 1,
    kernel_shape: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Array:
    """conv of (x - its zero point) and (w - its zero point) as int32, exactly; pads are zeros.

    Zero points: one number; for w also one for each output channel.
    """
    # Products of bytes and their sums are integers far below 2^53, exact in float64.
    wide_x, wide_w = x.astype(np.float64), w.astype(np.float64)
    if x_zero_point is not None:
        wide_x -= x_zero_point.reshape(())
    if w_zero_point is not None:
        wide_w -= w_zero_point.reshape(-1, *[1] * (w.ndim - 1))
    y = conv.reference(
        wide_x,
        wide_w,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    return np.asarray(y).astype(np.int64).astype(np.int32)
