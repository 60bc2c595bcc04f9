"""Ops that treat every pixel alike move before an enlarging resize."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from palmkit.engine.ir import Graph, Node
from palmkit.engine.passes.rewrite import (
    Change,
    Draft,
    has_any,
    input_at,
    is_unary,
    ops_among,
    rewrite,
)

_COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                "asymmetric")  # fmt: skip


def move_before_resize(graph: Graph) -> Graph:
    """Move a 1x1 convolution where that saves work, and activations before a nearest resize.

    The result is exact up to rounding: the weights with which a resize mixes pixels sum to one.
    """
    if not has_any(graph, ("resize",)):
        return graph
    return rewrite(graph, _move, ops_among(graph, is_unary) | {"conv"})


def _move(draft: Draft, node: Node) -> Change:
    resize = draft.sole_producer(node.inputs[0], "resize")
    before, after = draft.dims(node.inputs[0]), draft.dims(node.outputs[0])
    source = draft.dims(resize.inputs[0]) if resize is not None else None
    if resize is None or before is None or after is None or source is None:
        return None
    if node.op == "conv":
        if not _pays(before[1], after[1]) or not _is_pointwise(draft, node):
            return None
    elif resize.text("mode") != "nearest" or not _keeps_dtype(draft, node):
        return None
    if not _mixes_pixels(draft, resize, source, before):
        return None
    inner = draft.new_value(f"{node.outputs[0]}/small")
    moved = replace(node, inputs=(resize.inputs[0], *node.inputs[1:]), outputs=(inner,))
    inputs = (inner, *resize.inputs[1:])
    if input_at(resize, 3) and after[1] != before[1]:
        axes = [axis % 4 for axis in resize.integers("axes") or range(4)]
        sizes = [(after[1] if axis == 1 else before[axis]) for axis in axes]
        name = draft.new_constant(f"{node.outputs[0]}/sizes", np.array(sizes, np.int64))
        inputs = (*inputs[:3], name)
    return [moved, replace(resize, inputs=inputs, outputs=node.outputs)]


def _pays(inputs: int, outputs: int) -> bool:
    """Return whether it pays: measured, resizing a channel more costs four multiplications."""
    return outputs <= inputs * max(1, inputs // 4)


def _keeps_dtype(draft: Draft, node: Node) -> bool:
    before, after = draft.type(node.inputs[0]), draft.type(node.outputs[0])
    return before is not None and after is not None and before.dtype == after.dtype


def _is_pointwise(draft: Draft, conv: Node) -> bool:
    """Return whether every output pixel depends on the input pixel in its place alone."""
    weight = draft.dims(conv.inputs[1])
    return (
        weight is not None
        and prod(weight[2:]) == 1
        and not any(conv.integers("pads"))
        and all(stride == 1 for stride in conv.integers("strides"))
    )


def _mixes_pixels(
    draft: Draft, resize: Node, before: tuple[int, ...], after: tuple[int, ...]
) -> bool:
    """Return whether it enlarges, each channel for itself, by weights that sum to one."""
    scales = draft.constant(input_at(resize, 2))
    if len(before) != 4 or prod(after) <= prod(before) or before[:2] != after[:2]:
        return False
    if input_at(resize, 2) and scales is None:
        return False
    if scales is not None and scales.size:
        by_axis = dict(zip(resize.integers("axes") or range(4), scales.tolist(), strict=True))
        if any(scale != 1 for axis, scale in by_axis.items() if axis % 4 < 2):
            return False
    return (
        resize.text("mode") in ("nearest", "linear")
        and resize.text("coordinate_transformation_mode") in _COORDINATES
        and resize.text("keep_aspect_ratio_policy") == "stretch"
    )
