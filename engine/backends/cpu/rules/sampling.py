"""Ops that read images between their pixels."""

from collections.abc import Mapping

import numpy as np

from palmkit.engine.backends.cpu.registry import rule
from palmkit.engine.backends.cpu.rules.movement import gather_axes
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Node
from palmkit.engine.ops.resize import Taps, taps_of
from palmkit.engine.steps.lowering import (
    Lowering,
    axis_attrs,
    channels_last,
    plain,
)
from palmkit.engine.steps.step import View

# Each place along an axis has its row in a table.
_MOST_ALONG_AN_AXIS = 1 << 24


@rule("resize")
def lower_resize(lowering: Lowering, node: Node) -> None:
    """Pictures in one step where two pixels an axis are enough; all else axis by axis."""
    x, y = node.inputs[0], node.outputs[0]
    if max(*lowering.dims(x), *lowering.dims(y), 0) > _MOST_ALONG_AN_AXIS:
        raise UnsupportedError(f"over {_MOST_ALONG_AN_AXIS} places along an axis")
    options, taps = taps_of(node, lowering.types)
    if any(each.outside.any() for each in taps.values()):
        raise UnsupportedError("coordinates outside of the image")
    pictures = len(lowering.dims(x)) == 4 and taps and set(taps) <= {2, 3}
    two = all(each.index.shape[1] <= 2 for each in taps.values())
    if pictures and two and lowering.dtype(x) == "float32":
        _resize_pictures(lowering, node, options.mode, taps)
    elif options.mode == "nearest":
        gather_axes(lowering, node, {axis: each.index[:, 0] for axis, each in taps.items()})
    else:
        lowering.need_dtype(x)
        order = lowering.order(x)
        view = lowering.get(x, order)
        for axis, each in taps.items():
            view = _resample(lowering, view, order.index(axis), each)
        lowering.alias(y, view, order)


def _resize_pictures(lowering: Lowering, node: Node, mode: str, taps: Mapping[int, Taps]) -> None:
    x, y = node.inputs[0], node.outputs[0]
    tables: dict[str, View] = {}
    for axis, side in ((2, "row"), (3, "column")):
        same = np.arange(lowering.dims(x)[axis], dtype=np.int32)
        each = taps.get(axis)
        index = np.stack([same, same], 1) if each is None else each.index
        weight = np.zeros(len(same)) if each is None else each.weight[:, -1]
        columns = {f"{side}s": index[:, 0]}
        if mode == "linear":
            columns[f"next_{side}s"] = index[:, 1]
            columns[f"{side}_weights"] = weight.astype(np.float32)
        for name, column in columns.items():
            tables[name] = lowering.constant(np.ascontiguousarray(column))
    order = channels_last(4)
    inputs = {"image": lowering.get(x, order), **tables}
    lowering.step("resize", inputs, {"y": lowering.put(y, order)}, {"mode": mode})


def _resample(lowering: Lowering, view: View, position: int, taps: Taps) -> View:
    size, count = taps.index.shape
    dims = (*view.dims[:position], size, *view.dims[position + 1 :])
    y = lowering.scratch(view.dtype, dims)
    indices, weights = lowering.constant(taps.index), lowering.constant(taps.weight)
    attrs = {**axis_attrs(view.dims, position), "taps": count}
    lowering.step("resample", {"x": view, "indices": indices, "weights": weights}, {"y": y}, attrs)
    return y


@rule("grid_sample")
def lower_grid_sample(lowering: Lowering, node: Node) -> None:
    """Channels-last images, at points that need no order."""
    x, grid = node.inputs
    lowering.need_dtype(x, grid)
    mode = {"bilinear": "linear"}.get(node.text("mode"), node.text("mode"))
    if len(lowering.dims(x)) != 4 or mode not in ("linear", "nearest"):
        raise UnsupportedError(f"mode {mode} of {len(lowering.dims(x))} dims")
    order = channels_last(4)
    lowering.step(
        "grid_sample",
        {"image": lowering.get(x, order), "grid": lowering.get(grid, plain(4))},
        {"y": lowering.put(node.outputs[0], order)},
        {
            "mode": mode,
            "padding_mode": node.text("padding_mode"),
            "align_corners": node.integer("align_corners"),
        },
    )


@rule("roi_align")
def lower_roi_align(lowering: Lowering, node: Node) -> None:
    """Channels-last images and bins."""
    x, rois, indices = node.inputs
    lowering.need_dtype(x, rois)
    lowering.need_dtype(indices, dtypes=("int32", "int64"))
    half = node.text("coordinate_transformation_mode") == "half_pixel"
    order = channels_last(4)
    lowering.step(
        "roi_align",
        {
            "image": lowering.get(x, order),
            "rois": lowering.get(rois, plain(2)),
            "batch_indices": lowering.get(indices, plain(1)),
        },
        {"y": lowering.put(node.outputs[0], order)},
        {
            "mode": node.text("mode"),
            "offset": 0.5 if half else 0.0,
            "sampling_ratio": node.integer("sampling_ratio"),
            "spatial_scale": node.number("spatial_scale"),
        },
    )
