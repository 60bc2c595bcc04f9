"""The op deform_conv."""

from math import prod

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS, wide
from palmkit.engine.ops.products import macs_of_kernel
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.sampling import sample
from palmkit.engine.ops.traits import Family, Traits
from palmkit.engine.ops.windows import place


def _infer(
    x: Type,
    w: Type,
    offset: Type,
    b: Type | None = None,
    mask: Type | None = None,
    *,
    dilations: tuple[int, ...],
    group: int,
    kernel_shape: tuple[int, ...],
    offset_group: int,
    pads: tuple[int, ...],
    strides: tuple[int, ...],
) -> Type:
    given = [each for each in (w, offset, b, mask) if each is not None]
    need_dtype("deform_conv", x, *given, among=FLOATS)
    need_rank("deform_conv", w, len(x.dims), len(x.dims))
    kernel = w.dims[2:]
    windows = place("deform_conv", x, kernel, "NOTSET", dilations, pads, strides)
    n, channels, outputs = x.dims[0], x.dims[1], w.dims[0]
    if group < 1 or channels != w.dims[1] * group or outputs % group:
        raise ShapeError(f"deform_conv: group {group} does not divide {x} and {w}")
    if offset_group < 1 or channels % offset_group:
        raise ShapeError(f"deform_conv: offset_group {offset_group} does not divide {x}")
    if kernel_shape and kernel_shape != kernel:
        raise ShapeError(f"deform_conv: expected kernel_shape {kernel_shape}, got {w}")
    if b is not None and b.dims != (outputs,):
        raise ShapeError(f"deform_conv: expected a bias of [{outputs}], got {b}")
    for each, count in ((offset, len(kernel)), (mask, 1)):
        wanted = (n, offset_group * prod(kernel) * count, *windows.sizes)
        if each is not None and each.dims != wanted:
            raise ShapeError(f"deform_conv: expected {list(wanted)} for {x}, got {each}")
    return Type(x.dtype, (n, outputs, *windows.sizes))


@op(
    _infer,
    case((1, 3, 6, 5), (4, 3, 3, 3), (1, 18, 4, 3)),
    case((2, 4, 6, 5), (6, 2, 2, 3), (2, 24, 5, 3), (6,), (2, 12, 5, 3), group=2, offset_group=2),
    case((1, 2, 7, 7), (3, 2, 3, 3), (1, 18, 4, 4), pads=(1, 1, 1, 1), strides=(2, 2)),
    case((1, 2, 7, 7), (3, 2, 2, 2), (1, 8, 5, 5), dilations=(2, 2)),
    traits=Traits(family=Family.MATRICES),
    macs=macs_of_kernel,
)
def deform_conv(
    x: Array,
    w: Array,
    offset: Array,
    b: Array | None = None,
    mask: Array | None = None,
    *,
    dilations: tuple[int, ...] = (),
    group: int = 1,
    kernel_shape: tuple[int, ...] = (),
    offset_group: int = 1,
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Array:
    """conv whose reads are displaced: `offset` gives the distance of each tap for each output.

    offset: [n, offset_group * kernel elements * spatial axes, *out]; mask: a factor for each
    element read. Channels in one of offset_group groups share the offsets.
    Dai et al., Deformable Convolutional Networks, 2017; Zhu et al., the same v2, 2018 (mask).
    """
    kernel = w.shape[2:]
    rank, elements = len(kernel), prod(kernel)
    windows = place("deform_conv", Type.of(x), kernel, "NOTSET", dilations, pads, strides)
    n, channels = x.shape[:2]
    places: Array = np.zeros((*kernel, *windows.sizes, rank))
    for i in range(rank):
        shape = [1] * (2 * rank)
        shape[i], shape[rank + i] = kernel[i], windows.sizes[i]
        inside: Array = np.arange(windows.kernel[i]) * windows.dilations[i]
        starts: Array = np.arange(windows.sizes[i]) * windows.strides[i] - windows.pads[i]
        places[..., i] = (inside[:, None] + starts).reshape(shape)
    shifts = offset.reshape(n * offset_group, *kernel, rank, *windows.sizes)
    values = wide(x)
    places = (places + np.moveaxis(shifts, rank + 1, -1)).astype(values.dtype)
    grouped = values.reshape(n * offset_group, channels // offset_group, *x.shape[2:])
    read = sample(grouped, places)
    if mask is not None:
        read = read * wide(mask).reshape(n * offset_group, 1, *kernel, *windows.sizes)
    columns = read.reshape(n, group, channels // group * elements, prod(windows.sizes))
    y = np.matmul(wide(w).reshape(group, len(w) // group, -1), columns)
    y = y.reshape(n, len(w), *windows.sizes)
    if b is not None:
        y = y + b.reshape(-1, *[1] * rank)
    return np.asarray(y.astype(x.dtype))
