"""Quantized values become uint8, and ops that only move elements work on the integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from palmkit.engine.ir import Array, Graph, Node
from palmkit.engine.ops.traits import Movement, Traits
from palmkit.engine.passes.levels import Levels, dequantized, written
from palmkit.engine.passes.rewrite import Change, Draft, input_at, ops_among, rewrite

_SIGNED = np.arange(-128, 128)
_FROM_SIGNED = (_SIGNED + 128).astype(np.uint8)
_TO_SIGNED = _SIGNED.astype(np.int8)


def make_unsigned(graph: Graph) -> Graph:
    """Turn int8 between quantize_linear and dequantize_linear into uint8, 128 more.

    At a graph input or output, and where other nodes read the integers, a lookup converts them.
    """
    return rewrite(graph, _unsigned, ("quantize_linear", "dequantize_linear", "lookup"))


def _unsigned(draft: Draft, node: Node) -> Change:
    if node.op == "lookup":
        return _composed(draft, node)
    x, y = node.inputs[0], node.outputs[0]
    stored = draft.type(y if node.op == "quantize_linear" else x)
    scale, zero = draft.constant(node.inputs[1]), draft.constant(input_at(node, 2))
    if stored is None or stored.dtype != "int8" or draft.constant(x) is not None:
        return None
    if scale is None or scale.size != 1 or (input_at(node, 2) and zero is None):
        return None
    if set(node.attrs) - {"axis"}:
        return None
    moved = np.array((0 if zero is None else int(zero.reshape(-1)[0])) + 128, np.uint8)
    name = draft.new_constant(f"{node.outputs[0]}/zero_point", moved)
    raw = draft.new_value(f"{y if node.op == 'quantize_linear' else x}/unsigned")
    if node.op == "quantize_linear":
        table = draft.new_constant(f"{y}/table", _TO_SIGNED)
        return [
            replace(node, inputs=(x, node.inputs[1], name), outputs=(raw,)),
            Node("lookup", (raw, table), (y,), name=node.name),
        ]
    table = draft.new_constant(f"{x}/table", _FROM_SIGNED)
    return [
        Node("lookup", (x, table), (raw,), name=node.name),
        replace(node, inputs=(raw, node.inputs[1], name)),
    ]


def _composed(draft: Draft, node: Node) -> Change:
    """Merge two lookups; drop one that changes nothing."""
    x, y = node.inputs[0], node.outputs[0]
    table = draft.constant(node.inputs[1])
    type, before = draft.type(x), draft.producer(x)
    if table is None or type is None:
        return None
    if type.dtype == table.dtype.name == "uint8" and (table == np.arange(256)).all():
        return None if draft.is_output(y) else {y: x}
    if before is None or before.op != "lookup":
        return None
    first = draft.constant(before.inputs[1])
    if first is None:
        return None
    places = first.astype(np.int16) - np.iinfo(first.dtype).min
    if table.ndim == 1:
        both = table[places]
    else:
        both = np.take_along_axis(table, np.broadcast_to(places, table.shape), 1)
    name = draft.new_constant(f"{y}/table", both)
    return [replace(node, inputs=(before.inputs[0], name))]


def move_levels(graph: Graph) -> Graph:
    """Rewrite op(dequantize_linear(x)) as dequantize_linear(op(x)) if op only moves elements.

    max_pool qualifies, as larger integers stand for larger numbers. So do concat where all inputs
    have one scale, resize of mode nearest, and pad with zeros or with elements.
    """
    movers = ops_among(graph, _moves) | ops_among(graph, _OTHERS)
    graph = rewrite(graph, _moved, movers)
    return rewrite(graph, _risen, ("quantize_linear",))


# Ops with conditions: they move some dtypes only, or have several inputs, or take a maximum.
_OTHERS = ("max_pool", "global_max_pool", "concat", "interleave", "pad", "resize")


def _moves(traits: Traits) -> bool:
    # Transposes sink through dequantize_linear themselves: cancel_transposes.py.
    return traits.moves and traits.movement is not Movement.TRANSPOSES


def _keeps_all(traits: Traits) -> bool:
    return _moves(traits) and traits.movement is not Movement.PICKS


def _risen(draft: Draft, node: Node) -> Change:
    """Rewrite quantize_linear(op(x)) as op(quantize_linear(x)) if nobody else reads op(x)."""
    mover = draft.sole_producer_with(node.inputs[0], _keeps_all)
    mover = mover or draft.sole_producer(node.inputs[0], "max_pool")
    if mover is None or written(draft, node) is None:
        return None
    if mover.op == "max_pool" and not _pools_inside(draft, mover):
        return None
    levels = draft.new_value(f"{mover.inputs[0]}/levels")
    return [
        replace(node, inputs=(mover.inputs[0], *node.inputs[1:]), outputs=(levels,)),
        replace(mover, inputs=(levels, *mover.inputs[1:]), outputs=node.outputs),
    ]


def _moved(draft: Draft, node: Node) -> Change:
    type = draft.type(node.outputs[0])
    levels = dequantized(draft, node.inputs[0])
    if levels is None or type is None:
        return None
    inputs = [levels.name, *node.inputs[1:]]
    if node.op in ("concat", "interleave"):
        parts = [dequantized(draft, name) for name in node.inputs]
        if any(part is None or not part.is_like(levels) for part in parts):
            return None
        inputs = [part.name for part in parts if part is not None]
    elif node.op == "resize":
        if node.text("mode") != "nearest" or _crops(node):
            return None
    elif node.op == "pad":
        fill = _fill(draft, node, levels)
        if fill is None:
            return None
        inputs = [levels.name, node.inputs[1], draft.new_constant("fill", fill), *node.inputs[3:]]
    elif node.op == "global_max_pool":
        dims = draft.dims(levels.name) or ()
        node = replace(node, op="max_pool", attrs={"kernel_shape": dims[2:]})
    if node.op == "max_pool" and not _pools_inside(draft, node):
        return None
    given = draft.producer(node.inputs[0])
    assert given is not None
    outputs = tuple(draft.new_value(f"{n}/levels") if n else "" for n in node.outputs)
    return [replace(node, inputs=tuple(inputs), outputs=outputs)] + [
        replace(given, inputs=(level, *given.inputs[1:]), outputs=(name,))
        for level, name in zip(outputs, node.outputs, strict=True)
        if name
    ]


def _crops(node: Node) -> bool:
    return node.text("coordinate_transformation_mode") == "tf_crop_and_resize"


def _fill(draft: Draft, node: Node, levels: Levels) -> Array | None:
    """Return the integer that stands for the padding value; None if none does exactly."""
    value = draft.constant(input_at(node, 2)) if input_at(node, 2) else np.zeros((), np.float32)
    if value is None or value.size != 1 or draft.constant(node.inputs[1]) is None:
        return None
    if node.text("mode") != "constant":
        return np.array(0, np.uint8)
    place = levels.nearest(value.reshape(()))
    return place if levels.real()[int(place)] == value.reshape(()) else None


def _pools_inside(draft: Draft, node: Node) -> bool:
    """Return whether no window lies in the padding alone and no one reads the indices.

    Padding stands for a number below all others, which integers do not have.
    """
    kernel = node.integers("kernel_shape")
    rank = len(kernel)
    undilated = all(each == 1 for each in node.integers("dilations"))
    pads = node.integers("pads") or (0,) * (2 * rank)
    fits = node.text("auto_pad") in ("NOTSET", "VALID")
    alone = len([name for name in node.outputs if name and draft.reads(name)]) == 1
    inside = all(pad < size for pad, size in zip(pads, kernel * 2, strict=True))
    return rank in (1, 2) and undilated and fits and inside and alone and bool(node.outputs[0])
