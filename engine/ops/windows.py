"""How a kernel slides over the spatial axes of x[n, c, *spatial]: convolution and pooling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Attr, Type
from palmkit.engine.ops.attributes import MOST
from palmkit.engine.ops.rules import need_rank

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass(frozen=True)
class Windows:
    """The windows of a kernel, one number an axis.

    pads: all begins, then all ends; sizes: how many windows fit.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of the kernel in the result of `view`, counted from the back."""
        return tuple(range(-len(self.kernel), 0))

    def view(self, x: Array, fill: Any) -> Array:
        """Return all windows of x[n, c, *spatial] as [n, c, *sizes, *kernel]; `fill` outside."""
        extents = tuple(
            dilation * (kernel - 1) + 1
            for dilation, kernel in zip(self.dilations, self.kernel, strict=True)
        )
        ends = tuple(
            max(0, (size - 1) * stride + extent - begin - dim)
            for size, stride, extent, begin, dim in zip(
                self.sizes, self.strides, extents, self.pads, x.shape[2:], strict=False
            )
        )
        begins = self.pads[: len(ends)]
        if any(begins) or any(ends):
            amounts = [(0, 0), (0, 0), *zip(begins, ends, strict=True)]
            x = np.pad(x, amounts, constant_values=fill)
        axes = tuple(range(2, x.ndim))
        windows = np.lib.stride_tricks.sliding_window_view(x, extents, axes)
        steps = (
            *(slice(0, n * s, s) for n, s in zip(self.sizes, self.strides, strict=True)),
            *(slice(None, None, dilation) for dilation in self.dilations),
        )
        return windows[(slice(None), slice(None), *steps)]


def place(
    op: str,
    x: Type,
    kernel: Sequence[int],
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
    ceil_mode: int = 0,
) -> Windows:
    """Compute the windows over x; attributes as in ONNX, empty ones take their defaults.

    With ceil_mode a last window may reach past the padding, but must not start there; so a kernel
    that exceeds the padded size by less than a stride gives one window.
    Raises ShapeError if the kernel does not fit or is larger than runs, ValueError for attributes
    of wrong length.
    """
    rank = need_rank(op, x, 3) - 2
    spatial = x.dims[2:]
    strides, dilations = tuple(strides) or (1,) * rank, tuple(dilations) or (1,) * rank
    pads = (tuple(pads) if auto_pad == "NOTSET" else ()) or (0,) * (2 * rank)
    if not rank == len(kernel) == len(strides) == len(dilations) == len(pads) // 2 == len(pads) / 2:
        raise ShapeError(f"{op}: attributes are not for {rank} spatial axes: {x}")
    if min(*kernel, *strides, *dilations) < 1 or min(pads) < 0 or auto_pad not in AUTO_PADS:
        raise ValueError("kernel_shape, strides, dilations, pads or auto_pad is out of range")
    begins, ends, sizes = list(pads[:rank]), list(pads[rank:]), [0] * rank
    for i in range(rank):
        stride, extent = strides[i], dilations[i] * (kernel[i] - 1) + 1
        if auto_pad.startswith("SAME"):
            sizes[i] = -(-spatial[i] // stride)
            total = max(0, (sizes[i] - 1) * stride + extent - spatial[i])
            begins[i] = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            ends[i] = total - begins[i]
            continue
        room = spatial[i] + begins[i] + ends[i] - extent
        if room < 0 and not (ceil_mode and room > -stride):
            raise ShapeError(f"{op}: a kernel of {list(kernel)} does not fit into {x}")
        sizes[i] = room // stride + 1
        if ceil_mode and room % stride and sizes[i] * stride < spatial[i] + begins[i]:
            sizes[i] += 1
    narrower = [size for size, dim in zip(kernel, spatial, strict=True) if size != dim]
    need_at_most(op, "kernel_shape", narrower)
    need_at_most(op, "pads", (*begins, *ends))
    return Windows(tuple(kernel), strides, dilations, (*begins, *ends), tuple(sizes))


def need_at_most(op: str, name: str, values: Sequence[int]) -> None:
    """Raise ShapeError for an attribute of which a value is above MOST."""
    if max(values, default=0) > MOST:
        raise ShapeError(f"{op}: {name}: expected at most {MOST}, got {max(values)}")


def explicit_pads(
    attrs: Mapping[str, Attr], spatial: Sequence[int], kernel: Sequence[int]
) -> tuple[int, ...]:
    """Return the pads, all begins then all ends, of a node's attributes, with auto_pad resolved."""
    return windows_over(attrs, spatial, kernel).pads


def windows_over(
    attrs: Mapping[str, Attr], spatial: Sequence[int], kernel: Sequence[int]
) -> Windows:
    """Return the windows of a kernel over a picture by a node's attributes."""
    x = Type("float32", (1, 1, *spatial))
    return windows_of("windows", x, {**attrs, "kernel_shape": tuple(kernel)})


def windows_of(op: str, x: Type, attrs: Mapping[str, Attr]) -> Windows:
    """Return the windows by a node's attributes, its kernel_shape among them."""
    names = ("auto_pad", "ceil_mode", "dilations", "pads", "strides")
    chosen = cast(dict[str, Any], {name: attrs[name] for name in names if name in attrs})
    return place(op, x, cast(Any, attrs["kernel_shape"]), **chosen)
