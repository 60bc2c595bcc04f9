"""How channels pass through each op."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeAlias

import numpy as np

from palmkit.engine.compress.channels import Channels, Labelled
from palmkit.engine.ir import Array, Graph, Node
from palmkit.engine.ops import traits_of
from palmkit.engine.ops.traits import Layer, Movement
from palmkit.engine.passes.rewrite import input_at
from palmkit.engine.passes.weights import has_rows_of_outputs, reads_columns


def _convolution(channels: Channels, number: int, node: Node) -> bool:
    weight = channels.graph.constants.get(node.inputs[1])
    x = channels.values.get(node.inputs[0])
    bias = input_at(node, 2)
    if weight is None or (bias and bias not in channels.graph.constants):
        return False
    if x is not None and x.axis != 1:
        return False
    group = node.integer("group")
    transposed = traits_of(node.op).layer is Layer.TRANSPOSED
    if group == 1:
        makes, reads = (1, 0) if transposed else (0, 1)
        labels = channels.new(weight.shape[makes])
        channels.slot(number, 1, makes, labels, "makes")
        channels.slot(number, 2, 0, labels, "makes")
        if x is not None:
            channels.slot(number, 1, reads, x.labels, "reads")
    elif x is not None and _is_depthwise(weight, group, transposed):
        times = 1 if transposed else len(weight) // group
        labels = tuple(np.repeat(x.labels, times).tolist())
        channels.slot(number, 1, 0, labels, "carries")
        channels.slot(number, 2, 0, labels, "carries")
    else:
        return False
    channels.put(node.outputs[0], 1, labels)
    slope_place = 4 if node.op == "fused_conv" else 3
    beside = input_at(node, 3) if node.op == "fused_conv" else ""
    if beside:
        added = channels.values.get(beside)
        if added is None or added.axis != 1:
            channels.freeze(beside, node.outputs[0])
        else:
            channels.join(labels[: len(added.labels)], added.labels)
    slope = input_at(node, slope_place)
    if slope and not _carried(channels, number, slope_place, node.outputs[0]):
        channels.freeze(node.outputs[0])
    return True


def _is_depthwise(weight: Array, group: int, transposed: bool) -> bool:
    if transposed:
        return len(weight) == group and weight.shape[1] == 1
    return bool(weight.shape[1] == 1 and len(weight) % group == 0)


def _carried(channels: Channels, number: int, place: int, like: str) -> bool:
    """Label a constant that broadcasts over a labelled value; return False if that is unclear."""
    name = channels.graph.nodes[number].inputs[place]
    labelled, rank = channels.values[like], channels.rank(like)
    value = channels.constant(name)
    if value is None or rank is None:
        return False
    axis = labelled.axis - (rank - value.ndim)
    if axis < 0 or value.shape[axis] == 1:
        return True
    if name not in channels.graph.constants:
        return False
    channels.slot(number, place, axis, labelled.labels, "carries")
    return True


def _product(channels: Channels, number: int, node: Node) -> bool:
    """Label gemm and matmul by constant weights."""
    weight = channels.graph.constants.get(node.inputs[1])
    rank = channels.rank(node.inputs[0])
    if weight is None or weight.ndim != 2 or rank is None or reads_columns(node):
        return False
    x = channels.values.get(node.inputs[0])
    if x is not None and x.axis != rank - 1:
        return False
    makes = 0 if has_rows_of_outputs(node) else 1
    labels = channels.new(weight.shape[makes])
    channels.slot(number, 1, makes, labels, "makes")
    if x is not None:
        channels.slot(number, 1, 1 - makes, x.labels, "reads")
    channels.put(node.outputs[0], rank - 1, labels)
    bias = channels.graph.constants.get(input_at(node, 2))
    if bias is not None and bias.ndim and bias.shape[-1] == len(labels):
        channels.slot(number, 2, bias.ndim - 1, labels, "makes")
    elif input_at(node, 2) and (bias is None or bias.size != 1):
        channels.freeze(node.outputs[0])
    return True


def _unary(channels: Channels, number: int, node: Node) -> bool:
    x = channels.values.get(node.inputs[0])
    return x is None or channels.put(node.outputs[0], x.axis, x.labels)


def _broadcast(channels: Channels, number: int, node: Node) -> bool:
    ranks = [channels.rank(name) for name in node.inputs if name]
    rank = max((each for each in ranks if each is not None), default=None)
    if rank is None or None in ranks:
        return False
    placed: list[tuple[str, int, Labelled]] = []
    for name in node.inputs:
        labelled, own = channels.values.get(name), channels.rank(name)
        if labelled is not None and own is not None:
            placed.append((name, labelled.axis + rank - own, labelled))
    if not placed:
        return True
    axis = placed[0][1]
    widest = max((each for _, _, each in placed), key=lambda each: len(each.labels))
    if any(each[1] != axis for each in placed):
        return False
    channels.put(node.outputs[0], axis, widest.labels)
    for _, _, labelled in placed:
        if len(labelled.labels) == len(widest.labels):
            channels.join(widest.labels, labelled.labels)
        else:
            channels.frozen.update(map(channels.root, labelled.labels))
    for place, name in enumerate(node.inputs):
        if not name or name in channels.values:
            continue
        if not _beside(channels, number, place, axis, rank):
            channels.freeze(node.outputs[0])
    return True


def _beside(channels: Channels, number: int, place: int, axis: int, rank: int) -> bool:
    """Label an operand without labels: a constant to cut along, or one that is the same for all."""
    node = channels.graph.nodes[number]
    name = node.inputs[place]
    labels = channels.values[node.outputs[0]].labels
    type, own = channels.type(name), channels.rank(name)
    if type is None or own is None:
        return False
    at = axis - (rank - own)
    if at < 0 or type.shape[at] == 1:
        # An operand wider than the labelled value would have broadcast that value.
        return True
    if name not in channels.graph.constants or type.shape[at] != len(labels):
        return False
    channels.slot(number, place, at, labels, "carries")
    return True


def _normalization(channels: Channels, number: int, node: Node) -> bool:
    x = channels.values.get(node.inputs[0])
    if x is None:
        return True
    if x.axis != 1 or any(name not in channels.graph.constants for name in node.inputs[1:5]):
        return False
    for place in range(1, 5):
        channels.slot(number, place, 0, x.labels, "carries")
    return channels.put(node.outputs[0], 1, x.labels) and not any(node.outputs[1:])


def _concat(channels: Channels, number: int, node: Node) -> bool:
    rank = next((r for r in map(channels.rank, node.inputs) if r is not None), None)
    if rank is None:
        return False
    axis = node.integer("axis") % rank
    known = [channels.values.get(name) for name in node.inputs]
    there = [each for each in known if each is not None]
    if not there:
        return True
    if any(each.axis != there[0].axis for each in there):
        return False
    if there[0].axis != axis:
        if len(there) < len(known):
            return False
        for each in there[1:]:
            channels.join(there[0].labels, each.labels)
        return channels.put(node.outputs[0], there[0].axis, there[0].labels)
    labels: list[int] = []
    for name, part in zip(node.inputs, known, strict=True):
        if part is not None:
            labels += part.labels
            continue
        type = channels.type(name)
        size = None if type is None or not type.has_rank else type.shape[axis]
        if not isinstance(size, int):
            return False
        added = channels.new(size)
        channels.frozen.update(added)
        labels += added
    return channels.put(node.outputs[0], axis, labels)


def _split(channels: Channels, number: int, node: Node) -> bool:
    x, rank = channels.values.get(node.inputs[0]), channels.rank(node.inputs[0])
    if x is None:
        return True
    if rank is None:
        return False
    if node.integer("axis") % rank != x.axis:
        return all(channels.put(name, x.axis, x.labels) for name in node.outputs)
    first = 0
    if input_at(node, 1) not in channels.graph.constants:
        return False
    for name, size in zip(node.outputs, channels.graph.constants[node.inputs[1]], strict=True):
        channels.put(name, x.axis, x.labels[first : first + int(size)])
        first += int(size)
    return True


def _slice(channels: Channels, number: int, node: Node) -> bool:
    x = channels.values.get(node.inputs[0])
    if x is None:
        return True
    bounds = slice_bounds(channels, node, x.axis)
    if bounds is None:
        return False
    return channels.put(node.outputs[0], x.axis, x.labels[slice(*bounds)])


def slice_bounds(channels: Channels, node: Node, axis: int) -> tuple[int, int] | None:
    """Return where a slice begins and ends on an axis; None unless constant and with step 1."""
    rank = channels.rank(node.inputs[0])
    starts, stops = (channels.graph.constants.get(name) for name in node.inputs[1:3])
    axes = channels.constant(input_at(node, 3)) if input_at(node, 3) else None
    moves = channels.constant(input_at(node, 4)) if input_at(node, 4) else None
    if (
        rank is None
        or (input_at(node, 3) and axes is None)
        or (input_at(node, 4) and moves is None)
    ):
        return None
    count = len(channels.values[node.inputs[0]].labels)
    if axes is None:
        axes = np.arange(rank if starts is None else len(starts))
    places = [at for at, each in enumerate(axes.tolist()) if each % rank == axis]
    if not places:
        return 0, count
    if starts is None or stops is None or (moves is not None and moves[places[0]] != 1):
        return None
    begin, end, _ = slice(int(starts[places[0]]), int(stops[places[0]])).indices(count)
    return begin, max(begin, end)


def _pad(channels: Channels, number: int, node: Node) -> bool:
    x = channels.values.get(node.inputs[0])
    if x is None:
        return True
    amounts = pad_amounts(channels, node, x.axis)
    if amounts is None:
        return False
    before, after = amounts
    if (before or after) and (
        node.text("mode") != "constant"
        or min(amounts) < 0
        or node.inputs[1] not in channels.graph.constants
    ):
        return False
    return channels.put(
        node.outputs[0], x.axis, (*channels.new(before), *x.labels, *channels.new(after))
    )


def pad_amounts(channels: Channels, node: Node, axis: int) -> tuple[int, int] | None:
    """Return how much a pad adds before and after on an axis; None if that is not known."""
    pads, rank = channels.constant(node.inputs[1]), channels.rank(node.inputs[0])
    if pads is None or rank is None:
        return None
    at = axis
    if input_at(node, 3):
        axes = channels.constant(node.inputs[3])
        if axes is None:
            return None
        places = [place for place, each in enumerate(axes.tolist()) if each % rank == axis]
        if not places:
            return 0, 0
        at = places[0]
    return int(pads[at]), int(pads[at + len(pads) // 2])


def _transpose(channels: Channels, number: int, node: Node) -> bool:
    x, rank = channels.values.get(node.inputs[0]), channels.rank(node.inputs[0])
    if x is None:
        return True
    if rank is None:
        return False
    perm = node.integers("perm") or tuple(reversed(range(rank)))
    return channels.put(node.outputs[0], perm.index(x.axis), x.labels)


def _reshape(channels: Channels, number: int, node: Node) -> bool:
    """Label an axis that stays, or that merges with those beside it."""
    x = channels.values.get(node.inputs[0])
    if x is None:
        return True
    old, new = channels.type(node.inputs[0]), channels.type(node.outputs[0])
    if old is None or new is None or not old.is_static or not new.is_static:
        return False
    if node.op == "reshape" and node.inputs[1] not in channels.graph.constants:
        return False
    dims = old.dims
    for axis, size in enumerate(new.dims):
        before = prod(new.dims[:axis])
        for first in range(x.axis, -1, -1):
            for end in range(x.axis + 1, len(dims) + 1):
                if prod(dims[:first]) == before and size == prod(dims[first:end]):
                    labels = np.repeat(x.labels, prod(dims[x.axis + 1 : end]))
                    labels = np.tile(labels, prod(dims[first : x.axis]))
                    return channels.put(node.outputs[0], axis, labels.tolist())
    return False


def _pool(channels: Channels, number: int, node: Node) -> bool:
    x = channels.values.get(node.inputs[0])
    if x is None:
        return True
    return x.axis == 1 and channels.put(node.outputs[0], 1, x.labels) and not any(node.outputs[1:])


def _resize(channels: Channels, number: int, node: Node) -> bool:
    x, new = channels.values.get(node.inputs[0]), channels.type(node.outputs[0])
    if x is None:
        return True
    if new is None or new.shape[x.axis] != len(x.labels) or node.has("axes"):
        return False
    if input_at(node, 3) and input_at(node, 3) not in channels.graph.constants:
        return False
    return channels.put(node.outputs[0], x.axis, x.labels)


def _reduction(channels: Channels, number: int, node: Node) -> bool:
    x, rank = channels.values.get(node.inputs[0]), channels.rank(node.inputs[0])
    if x is None:
        return True
    axes = channels.constant(input_at(node, 1)) if input_at(node, 1) else None
    if rank is None or axes is None or not axes.size:
        return False
    gone = {int(axis) % rank for axis in axes.tolist()}
    if x.axis in gone:
        return False
    lower = 0 if node.integer("keepdims") else sum(axis < x.axis for axis in gone)
    return channels.put(node.outputs[0], x.axis - lower, x.labels)


def _softmax(channels: Channels, number: int, node: Node) -> bool:
    x, rank = channels.values.get(node.inputs[0]), channels.rank(node.inputs[0])
    if x is None:
        return True
    if rank is None or node.integer("axis") % rank == x.axis:
        return False
    return channels.put(node.outputs[0], x.axis, x.labels)


Rule: TypeAlias = Callable[[Channels, int, Node], bool]
_RULES: dict[str, Rule] = {
    "batch_normalization": _normalization,
    "concat": _concat,
    "pad": _pad,
    "resize": _resize,
    # Values computed from a shape follow it; sizes that a reshape takes from them freeze.
    "shape": lambda channels, number, node: True,
    "slice": _slice,
    "softmax": _softmax,
    "split": _split,
    "transpose": _transpose,
}


def _rule_of(op: str) -> Rule | None:
    traits = traits_of(op)
    if traits.elementwise is not None:
        return _unary if traits.is_unary else _broadcast
    if traits.layer is not None:
        return _product if traits.layer is Layer.MATRIX else _convolution
    if traits.reduces or traits.pools:
        return _reduction if traits.reduces else _pool
    return _reshape if traits.movement is Movement.RESHAPES else _RULES.get(op)


def channels_of(graph: Graph) -> Channels:
    """Return the labels of a graph; channels that an op uses in an unknown way are frozen."""
    channels = Channels(graph)
    for number, node in enumerate(graph.nodes):
        rule = _rule_of(node.op)
        if node.bodies or rule is None or not rule(channels, number, node):
            channels.freeze(*node.inputs)
    channels.freeze(*graph.outputs)
    return channels
