"""The op conv_transpose."""

from dataclasses import dataclass
from math import prod

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS, wide
from palmkit.engine.ops.products import macs_of_transposed_kernel
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.traits import Layer, Traits
from palmkit.engine.ops.windows import AUTO_PADS, need_at_most


@dataclass(frozen=True)
class Placement:
    """One number an axis: where the kernel's copies are added, and the part of that to keep.

    begins, ends: how much is cut off at the start and at the end.
    """

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    sizes: tuple[int, ...]


def place(
    x: Type,
    kernel: tuple[int, ...],
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] = (),
    output_padding: tuple[int, ...] = (),
    output_shape: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Placement:
    """Return every default and automatic value of the attributes as an explicit number."""
    rank = need_rank("conv_transpose", x, 3) - 2
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    output_padding = output_padding or (0,) * rank
    pads = (pads if auto_pad == "NOTSET" else ()) or (0,) * (2 * rank)
    lengths = {len(kernel), len(strides), len(dilations), len(output_padding), len(pads) / 2}
    if lengths | {len(output_shape) or rank} != {rank}:
        raise ShapeError(f"conv_transpose: attributes are not for {rank} spatial axes: {x}")
    if (
        min(*kernel, *strides, *dilations) < 1
        or min(*pads, *output_padding) < 0
        or auto_pad not in AUTO_PADS
    ):
        raise ValueError("kernel, strides, dilations, pads or auto_pad is out of range")
    begins, ends, sizes = list(pads[:rank]), [0] * rank, [0] * rank
    for i in range(rank):
        extent = (kernel[i] - 1) * dilations[i] + 1
        whole = strides[i] * (x.dims[2 + i] - 1) + output_padding[i] + extent
        sizes[i] = whole - pads[i] - pads[rank + i]
        if output_shape or auto_pad.startswith("SAME"):
            sizes[i] = output_shape[i] if output_shape else x.dims[2 + i] * strides[i]
            total = max(0, whole - sizes[i])
            begins[i] = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
        ends[i] = whole - sizes[i] - begins[i]
    # Ends below 0 are what the output has behind the last copy.
    need_at_most("conv_transpose", "pads", (*begins, *map(abs, ends)))
    return Placement(strides, dilations, tuple(begins), tuple(ends), tuple(sizes))


def _infer(
    x: Type,
    w: Type,
    b: Type | None = None,
    *,
    auto_pad: str,
    dilations: tuple[int, ...],
    group: int,
    kernel_shape: tuple[int, ...],
    output_padding: tuple[int, ...],
    output_shape: tuple[int, ...],
    pads: tuple[int, ...],
    strides: tuple[int, ...],
) -> Type:
    need_dtype("conv_transpose", x, w, *([] if b is None else [b]), among=FLOATS)
    kernel = w.dims[2:]
    placed = place(
        x,
        kernel,
        auto_pad=auto_pad,
        dilations=dilations,
        output_padding=output_padding,
        output_shape=output_shape,
        pads=pads,
        strides=strides,
    )
    outputs = w.dims[1] * group
    if group < 1 or x.dims[1] != w.dims[0] or x.dims[1] % group:
        raise ShapeError(f"conv_transpose: group {group} does not divide {x} and {w}")
    if kernel_shape and kernel_shape != kernel:
        raise ShapeError(f"conv_transpose: expected kernel_shape {kernel_shape}, got {w}")
    if b is not None and b.dims != (outputs,):
        raise ShapeError(f"conv_transpose: expected a bias of [{outputs}], got {b}")
    return Type(x.dtype, (x.dims[0], outputs, *placed.sizes))


@op(
    _infer,
    case((1, 3, 5, 4), (3, 6, 3, 3)),
    case((2, 3, 5, 4), (3, 6, 3, 3), (6,), strides=(2, 2), pads=(1, 1, 1, 1)),
    case((1, 8, 5, 4), (8, 19, 2, 2), (19,), strides=(2, 2)),
    case((1, 3, 5, 4), (3, 6, 4, 3), strides=(2, 3), pads=(0, 1, 2, 1), output_padding=(1, 2)),
    case((1, 3, 5, 4), (3, 2, 3, 3), dilations=(2, 2)),
    case((1, 6, 5, 4), (6, 2, 3, 3), (4,), group=2, strides=(2, 1)),
    case((1, 6, 5, 4), (6, 1, 3, 3), group=6, strides=(2, 2)),
    case((1, 3, 5, 4), (3, 6, 3, 3), auto_pad="SAME_UPPER", strides=(2, 2)),
    case((1, 3, 5, 4), (3, 6, 3, 3), auto_pad="SAME_LOWER", strides=(2, 2)),
    case((1, 3, 5, 4), (3, 6, 3, 3), auto_pad="VALID", strides=(2, 2)),
    case((1, 3, 5, 4), (3, 6, 3, 3), strides=(2, 2), output_shape=(10, 8)),
    case((1, 3, 5, 4), (3, 6, 3, 3), strides=(3, 2), output_shape=(16, 9), auto_pad="SAME_UPPER"),
    case((1, 3, 5, 4), (3, 6, 3, 2), strides=(2, 3), output_shape=(10, 12)),
    case((1, 3, 10), (3, 4, 4), (4,), strides=(2,), pads=(1, 1)),
    case((1, 2, 3, 4, 2), (2, 3, 2, 2, 2), strides=(2, 1, 2)),
    case(
        (1, 16, 6, 5),
        np.linspace(-1, 1, 16 * 24 * 4, dtype=np.float32).reshape(16, 24, 2, 2),
        np.linspace(-1, 1, 24, dtype=np.float32),
        strides=(2, 2),
    ),
    case(
        (1, 8, 6, 5),
        np.linspace(-1, 1, 8 * 3 * 16, dtype=np.float32).reshape(8, 3, 4, 4),
        strides=(2, 2),
        pads=(1, 1, 1, 1),
    ),
    case(
        (1, 8, 6, 5),
        np.linspace(-1, 1, 8 * 3 * 9, dtype=np.float32).reshape(8, 3, 3, 3),
        auto_pad="SAME_UPPER",
        strides=(2, 2),
    ),
    traits=Traits(layer=Layer.TRANSPOSED, fused="fused_conv_transpose"),
    macs=macs_of_transposed_kernel,
)
def conv_transpose(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] = (),
    group: int = 1,
    kernel_shape: tuple[int, ...] = (),
    output_padding: tuple[int, ...] = (),
    output_shape: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Array:
    """The gradient of conv by its input: x[n, c, *spatial], w[c, m / group, *kernel], b[m]."""
    n, c, *spatial = x.shape
    kernel = w.shape[2:]
    placed = place(
        Type.of(x),
        kernel,
        auto_pad=auto_pad,
        dilations=dilations,
        output_padding=output_padding,
        output_shape=output_shape,
        pads=pads,
        strides=strides,
    )
    dtype, x, w = x.dtype, wide(x), wide(w)
    columns = np.matmul(
        w.reshape(group, c // group, prod(w.shape[1:])).swapaxes(1, 2),
        x.reshape(n, group, c // group, prod(spatial)),
    ).reshape(n, group * w.shape[1], *kernel, *spatial)
    spans = [s * (size - 1) + 1 for s, size in zip(placed.strides, spatial, strict=True)]
    canvas_sizes = [
        max(span + d * (k - 1), begin + size)
        for span, d, k, begin, size in zip(
            spans, placed.dilations, kernel, placed.begins, placed.sizes, strict=True
        )
    ]
    canvas = np.zeros((n, columns.shape[1], *canvas_sizes), x.dtype)
    for offset in np.ndindex(*kernel):
        landing = (
            slice(i * d, i * d + span, s)
            for i, d, span, s in zip(offset, placed.dilations, spans, placed.strides, strict=True)
        )
        canvas[(slice(None), slice(None), *landing)] += columns[(slice(None), slice(None), *offset)]
    kept = (slice(b, b + size) for b, size in zip(placed.begins, placed.sizes, strict=True))
    y = canvas[(slice(None), slice(None), *kept)]
    y = y if b is None else y + b.reshape(-1, *[1] * len(kernel))
    return y.astype(dtype)
