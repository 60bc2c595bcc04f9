"""The op max_unpool."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, known_value, op
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.traits import Family, Traits


def _pooled_from(
    x: Type, kernel_shape: tuple[int, ...], pads: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the smallest shape of which max_pool makes that of x."""
    rank = need_rank("max_unpool", x, 3) - 2
    pads, strides = pads or (0,) * (2 * rank), strides or (1,) * rank
    if not rank == len(kernel_shape) == len(strides) == len(pads) / 2:
        raise ShapeError(f"max_unpool: attributes are not for {rank} spatial axes: {x}")
    return (
        *x.dims[:2],
        *(
            (x.dims[2 + i] - 1) * strides[i] + kernel_shape[i] - pads[i] - pads[rank + i]
            for i in range(rank)
        ),
    )


def _infer(
    x: Type,
    i: Type,
    output_shape: Type | None = None,
    *,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...],
    strides: tuple[int, ...],
) -> Type:
    need_dtype("max_unpool", x, among=(*FLOATS, "int8", "uint8"))
    need_dtype("max_unpool", i, among=["int64"])
    shape = _pooled_from(x, kernel_shape, pads, strides)
    if i.dims != x.dims:
        raise ShapeError(f"max_unpool: expected an index for each of {x}, got {i}")
    if output_shape is not None:
        wanted = known_value(output_shape, "max_unpool: output_shape")
        shape = tuple(wanted.reshape(-1).tolist())
        if len(shape) != len(x.dims):
            raise ShapeError(f"max_unpool: expected a shape of rank {len(x.dims)}, got {shape}")
    return Type(x.dtype, shape)


_INDICES = np.array([[[[5, 7], [13, 15]]]])


@op(
    _infer,
    case((1, 1, 2, 2), _INDICES, kernel_shape=(2, 2), strides=(2, 2)),
    case((1, 1, 2, 2), _INDICES, kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 0, 0)),
    case(
        (1, 1, 2, 2),
        np.array([[[[6, 8], [16, 18]]]]),
        np.array([1, 1, 5, 5]),
        kernel_shape=(2, 2),
        strides=(2, 2),
    ),
    traits=Traits(family=Family.SAMPLING),
)
def max_unpool(
    x: Array,
    i: Array,
    output_shape: Array | None = None,
    *,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Array:
    """x put back where max_pool took it from, with zeros elsewhere.

    i: the indices that max_pool returned, into its input taken as a flat array. ONNX's own tests
    count them in the smallest input that gives x, ONNX Runtime in one of output_shape: the count is
    taken by which each index lies in its window.
    output_shape: that input's shape, where the attributes alone leave it open.
    """
    least = _pooled_from(Type.of(x), kernel_shape, pads, strides)
    shape = least if output_shape is None else tuple(output_shape.reshape(-1).tolist())
    places = np.unravel_index(i, shape)
    if shape != least and not _in_windows(places, kernel_shape, pads, strides):
        places = np.unravel_index(i, least)
    y = np.zeros(shape, x.dtype)
    y[places] = x
    return y


def _in_windows(
    places: tuple[Array, ...],
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...],
    strides: tuple[int, ...],
) -> bool:
    """Return whether each place lies in the window whose maximum the element at its index is."""
    rank = len(kernel_shape)
    kernel, begins = (1, 1, *kernel_shape), (0, 0, *(pads[:rank] or (0,) * rank))
    steps = (1, 1, *(strides or (1,) * rank))
    starts = np.indices(places[0].shape)
    return all(
        bool(((place >= start * step - begin) & (place < start * step - begin + size)).all())
        for place, start, step, begin, size in zip(
            places, starts, steps, begins, kernel, strict=True
        )
    )
