"""The op resize."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, get_type_hints

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Node, Type
from palmkit.engine.ops import Case, case, known_value, op
from palmkit.engine.ops.attributes import Attribute
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.rules import need_dtype, positive_axes
from palmkit.engine.ops.traits import Family, Traits

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
MODES = ("nearest", "linear", "cubic")
NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True)
class Options:
    """The attributes of the op, with their defaults."""

    antialias: int = 0
    axes: tuple[int, ...] = ()
    coordinate_transformation_mode: str = "half_pixel"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    extrapolation_value: float = 0.0
    keep_aspect_ratio_policy: str = "stretch"
    mode: str = "nearest"
    nearest_mode: str = "round_prefer_floor"

    def check(self) -> None:
        """Raise an error unless the op is defined for these options."""
        if (
            self.mode not in MODES
            or self.nearest_mode not in NEAREST_MODES
            or self.coordinate_transformation_mode not in COORDINATES
            or self.keep_aspect_ratio_policy not in ("stretch", "not_larger", "not_smaller")
        ):
            raise ValueError("unknown mode")


@dataclass(frozen=True)
class Taps:
    """Along one axis: the elements of x that each output is a weighted sum of.

    index: int32[out, taps], weight: float32[out, taps]; outside: bool[out], true where the output
    is the extrapolation value.
    """

    index: Array
    weight: Array
    outside: Array


def _scales(
    x: Type, scales: Array | None, sizes: Array | None, options: Options
) -> tuple[dict[int, np.float32], dict[int, int]]:
    """Return the scale and the new size of each axis that is named."""
    axes = positive_axes("resize", options.axes or range(len(x.shape)), x)
    if any(not x.dims[axis] for axis in axes):
        raise ShapeError(f"resize: cannot stretch an empty axis: {x}")
    if scales is not None and len(scales) == len(axes):
        stretched = {axis: np.float32(scale) for axis, scale in zip(axes, scales, strict=True)}
        if min(stretched.values()) <= 0:
            raise ShapeError(f"resize: expected scales above 0, got {scales.tolist()}")
        new = {
            axis: int(np.floor(np.float32(x.dims[axis]) * scale))
            for axis, scale in stretched.items()
        }
        return stretched, new
    if sizes is not None and len(sizes) == len(axes):
        new = {axis: int(size) for axis, size in zip(axes, sizes, strict=True)}
        found = {axis: np.float32(size / x.dims[axis]) for axis, size in new.items()}
        if options.keep_aspect_ratio_policy != "stretch":
            choose = min if options.keep_aspect_ratio_policy == "not_larger" else max
            found = dict.fromkeys(found, choose(found.values()))
            new = {axis: int(np.floor(x.dims[axis] * s + 0.5)) for axis, s in found.items()}
        return found, new
    raise ShapeError(f"resize: expected one of scales or sizes for {len(axes)} axes of {x}")


def _coordinates(
    mode: str, length: int, size: int, scale: np.float32, roi: tuple[float, float]
) -> Array:
    """Return the position in x, float32[size], of each output's centre.

    The computation is in float32, as in ONNX Runtime: it decides which way ties of mode nearest go.
    """
    y = np.arange(size, dtype=np.float32)
    if mode == "asymmetric":
        return y / scale
    if mode == "align_corners":
        whole = length * float(scale)
        if size <= 1:
            return y * 0
        # The exact size: where scales are given it need not be an integer.
        return y * (length - 1) / np.float32(size - 1 if round(whole, 3) == size else whole - 1)
    if mode == "tf_crop_and_resize":
        start, end = roi
        if size > 1:
            return start * (length - 1) + y * (end - start) * (length - 1) / (size - 1)
        return np.full(size, 0.5 * (start + end) * (length - 1), np.float32)
    if mode == "pytorch_half_pixel" and size <= 1:
        return y * 0
    x = (y + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        x += length / 2 * (1 - size / (scale * length))
    return x


def _taps(
    options: Options, length: int, size: int, scale: np.float32, roi: tuple[float, float]
) -> Taps:
    x = _coordinates(options.coordinate_transformation_mode, length, size, scale, roi)
    outside = np.zeros(size, np.bool_)
    if options.coordinate_transformation_mode == "tf_crop_and_resize":
        outside = (x < 0) | (x > length - 1)
    if options.mode == "nearest":
        rounded = {
            "round_prefer_floor": np.ceil(x - 0.5),
            "round_prefer_ceil": np.floor(x + 0.5),
            "floor": np.floor(x),
            "ceil": np.ceil(x),
        }[options.nearest_mode]
        index, weight = rounded[:, None], np.ones((size, 1))
    elif options.antialias and scale < 1:
        index, weight = _filtered(options, x, length, float(scale))
    elif options.mode == "linear":
        x = np.clip(x, 0, length - 1)
        lower = np.floor(x)
        index = np.stack([lower, lower + 1], 1)
        weight = np.stack([lower + 1 - x, x - lower], 1)
    else:
        index = np.floor(x)[:, None] + np.arange(-1, 3)
        weight = cubic_weight(np.abs(x[:, None] - index), options.cubic_coeff_a)
    if options.exclude_outside and options.mode != "nearest":
        weight = np.where((index >= 0) & (index < length), weight, 0)
        weight = weight / weight.sum(1, keepdims=True)
    index = np.clip(np.nan_to_num(index), 0, length - 1).astype(np.int32)
    return Taps(index, weight.astype(np.float32), outside)


def _filtered(options: Options, x: Array, length: int, scale: float) -> tuple[Array, Array]:
    """Return index and weight where x shrinks: the kernel is stretched so that it covers all."""
    width = 1 if options.mode == "linear" else 2
    reach = int(min(np.ceil(width / scale), width * length))
    index = np.floor(x)[:, None] + np.arange(-reach, reach + 2)
    distance = np.abs(x[:, None] - index) * scale
    if options.mode == "linear":
        weight = np.clip(1 - distance, 0, 1)
    else:
        weight = cubic_weight(distance, options.cubic_coeff_a)
    return index, weight / weight.sum(1, keepdims=True)


def cubic_weight(distance: Array, a: float) -> Array:
    """Return the weight of an element at a distance of 0..2.

    Keys, Cubic convolution interpolation.
    """
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _need_roi(x: Type, roi: Array | None, options: Options) -> None:
    wanted = 2 * (len(options.axes) or len(x.shape))
    crop = options.coordinate_transformation_mode == "tf_crop_and_resize"
    if crop and (roi is None or len(roi) != wanted):
        raise ShapeError(f"resize: expected a roi of {wanted} numbers for {x}")


def _all_taps(
    x: Type, roi: Array | None, scales: Array | None, sizes: Array | None, options: Options
) -> dict[int, Taps]:
    """Return the taps of every axis that changes."""
    _need_roi(x, roi, options)
    found, new = _scales(x, scales, sizes, options)
    taps: dict[int, Taps] = {}
    for i, (axis, size) in enumerate(new.items()):
        ends = (0.0, 1.0)
        if roi is not None and options.coordinate_transformation_mode == "tf_crop_and_resize":
            ends = (float(roi[i]), float(roi[i + len(new)]))
        if size != x.dims[axis] or found[axis] != 1 or ends != (0, 1):
            taps[axis] = _taps(options, x.dims[axis], size, found[axis], ends)
    return taps


def taps_of(node: Node, types: Mapping[str, Type]) -> tuple[Options, dict[int, Taps]]:
    """Return the options of a resize node of constant size, and the taps of each axis it changes.

    Raises Undetermined if the size is not constant.
    """
    x, *rest = (types[name] if name else None for name in node.inputs)
    assert x is not None
    roi, scales, sizes = (
        [None if t is None else known_value(t, "resize") for t in rest] + [None] * 3
    )[:3]
    options = Options(**cast(dict[str, Any], dict(node.attrs)))
    options.check()
    return options, _all_taps(x, roi, scales, sizes, options)


def _infer(
    x: Type,
    roi: Type | None = None,
    scales: Type | None = None,
    sizes: Type | None = None,
    **attrs: Any,
) -> Type:
    options = Options(**attrs)
    options.check()
    if options.mode != "nearest":
        need_dtype("resize", x, among=FLOATS)
    positive_axes("resize", options.axes, x)
    values = [None if t is None else known_value(t, "resize") for t in (roi, scales, sizes)]
    _need_roi(x, values[0], options)
    _, new = _scales(x, values[1], values[2], options)
    return Type(x.dtype, tuple(new.get(axis, dim) for axis, dim in enumerate(x.dims)))


_KINDS = get_type_hints(Options)
_UP, _DOWN = (1.0, 1.0, 2.0, 3.0), (1.0, 1.0, 0.6, 0.7)


def _scaled(*scales: float, **attrs: Any) -> Case:
    return case((1, 3, 5, 7), None, np.array(scales, np.float32), **attrs)


def _sized(*sizes: int, **attrs: Any) -> Case:
    return case((1, 3, 5, 7), None, None, np.array(sizes), **attrs)


@op(
    _infer,
    _scaled(*_UP),
    _scaled(*_DOWN),
    *(
        _sized(1, 3, 8, 9, mode=mode, coordinate_transformation_mode=coordinates)
        for mode in MODES
        for coordinates in COORDINATES[:5]
    ),
    *(
        _sized(1, 3, 3, 4, mode=mode, coordinate_transformation_mode=coordinates)
        for mode in MODES
        for coordinates in COORDINATES[:5]
    ),
    *(
        _sized(1, 3, 9, 5, coordinate_transformation_mode="asymmetric", nearest_mode=nearest)
        for nearest in NEAREST_MODES
    ),
    _sized(1, 3, 10, 14, mode="linear"),
    _scaled(*_UP, mode="linear"),
    _scaled(*_DOWN, mode="linear"),
    _scaled(*_UP, coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    _scaled(*_DOWN, mode="linear", coordinate_transformation_mode="half_pixel_symmetric"),
    _sized(1, 3, 1, 1, mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
    _sized(1, 3, 1, 4, mode="linear", coordinate_transformation_mode="align_corners"),
    _sized(1, 3, 5, 7, mode="linear"),
    _scaled(*_UP, mode="cubic", cubic_coeff_a=-0.5),
    _scaled(*_DOWN, mode="cubic", exclude_outside=1),
    _sized(8, 9, axes=(2, 3), mode="linear"),
    _sized(8, 8, axes=(2, 3), mode="linear", keep_aspect_ratio_policy="not_larger"),
    _sized(8, 8, axes=(2, 3), keep_aspect_ratio_policy="not_smaller"),
    case(
        (1, 3, 5, 7),
        np.array([0, 0, 0.2, -0.1, 1, 1, 0.9, 1.2], np.float32),
        None,
        np.array([1, 3, 4, 6]),
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=2.5,
    ),
    case((2, 5), None, None, np.array([3, 8]), mode="linear"),
    *(
        _scaled(1, 1, 0.6, 0.3, mode=mode, antialias=1, exclude_outside=exclude)
        for mode in MODES[1:]
        for exclude in (0, 1)
    ),
    _sized(1, 3, 3, 9, mode="linear", antialias=1),
    case((1, 3, 5, 7), None, np.array(_UP, np.float32), dtype="uint8"),
    like={name: Attribute(kind, getattr(Options, name)) for name, kind in _KINDS.items()},
    traits=Traits(keeps_levels=True, homogeneous=True, family=Family.SAMPLING),
)
def resize(
    x: Array,
    roi: Array | None = None,
    scales: Array | None = None,
    sizes: Array | None = None,
    **attrs: Any,
) -> Array:
    """x resampled along each axis on its own, to `sizes` or by `scales`; attributes: Options."""
    options = Options(**attrs)
    y = x
    for axis, taps in _all_taps(Type.of(x), roi, scales, sizes, options).items():
        shape = [-1 if i == axis else 1 for i in range(x.ndim)]
        if options.mode == "nearest":
            y = np.take(y, taps.index[:, 0], axis)
        else:
            y = sum(
                np.take(y, index, axis) * weight.reshape(shape).astype(x.dtype)
                for index, weight in zip(taps.index.T, taps.weight.T, strict=True)
            )
        if taps.outside.any():
            y = np.where(taps.outside.reshape(shape), x.dtype.type(options.extrapolation_value), y)
    return np.asarray(y, x.dtype)
