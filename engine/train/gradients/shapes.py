"""Gradients of ops that move elements: each goes back to where it came from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array, Node
from palmkit.engine.ops import find
from palmkit.engine.train.gradients import Backward, Rule

Back = Sequence["str | None"]


def _constant(tape: Backward, node: Node, place: int) -> Array:
    value = tape.value(node.inputs[place])
    if value is None:
        raise UnsupportedError(f"node {node.label}: {node.inputs[place]} is not constant")
    return value


def _reshape(tape: Backward, node: Node, dy: str) -> Back:
    return [tape.reshape(dy, tape.dims(node.inputs[0])), None]


def _transpose(tape: Backward, node: Node, dy: str) -> Back:
    perm = node.integers("perm") or tuple(reversed(range(len(tape.dims(dy)))))
    return [tape.transpose(dy, [int(axis) for axis in np.argsort(np.array(perm))])]


def _concat(tape: Backward, node: Node, dy: str) -> Back:
    axis, start = node.integer("axis") % len(tape.dims(dy)), 0
    back: list[str | None] = []
    for name in node.inputs:
        size = tape.dims(name)[axis]
        part = {axis: (start, start + size, 1)}
        back.append(tape.slice(dy, part) if name in tape.wants else None)
        start += size
    return back


def _expand(tape: Backward, node: Node, dy: str) -> Back:
    return [tape.sum_to(dy, tape.dims(node.inputs[0])), None]


def _moved(tape: Backward, node: Node, dy: str) -> Back:
    """Find each element's way by moving element numbers; then go back, one axis at a time."""
    dims = tape.dims(node.inputs[0])
    rest = [None if not name else tape.value(name) for name in node.inputs[1:]]
    attrs = dict(node.attrs)
    for axis, size in enumerate(dims):
        # Only this axis is long: the numbers are the places along it that are read.
        line = np.arange(size).reshape([size if each == axis else 1 for each in range(len(dims))])
        numbers = np.broadcast_to(line, dims)
        found = np.asarray(find(node.op).reference(numbers, *rest, **attrs))
        places = found[tuple(slice(None) if each == axis else 0 for each in range(found.ndim))]
        dy = _gathered_back(tape, dy, axis, places, size)
    return [dy, *[None] * len(rest)]


def _slice(tape: Backward, node: Node, dy: str) -> Back:
    for place in range(1, len(node.inputs)):
        if node.inputs[place]:
            _constant(tape, node, place)
    return _moved(tape, node, dy)


def _gathered_back(tape: Backward, dy: str, axis: int, places: Array, size: int) -> str:
    """Sum the elements of dy by the place, 0 to size, that each came from along an axis."""
    count = len(places)
    if count == size and np.array_equal(places, np.arange(size)):
        return dy
    rank = len(tape.dims(dy))
    if count and np.array_equal(places, np.arange(count) + int(places[0])):
        begins, ends = [0] * rank, [0] * rank
        begins[axis], ends[axis] = int(places[0]), size - int(places[0]) - count
        return tape.pad(dy, begins, ends)
    # A product with a matrix of zeros and ones undoes omissions, repetitions and reversals alike.
    matrix = np.zeros((count, size), tape.type(dy).dtype)
    matrix[np.arange(count), places] = 1
    order = [*(each for each in range(rank) if each != axis), axis]
    last = tape.add("matmul", tape.transpose(dy, order), tape.constant(matrix))
    return tape.transpose(last, [int(each) for each in np.argsort(order)])


def _gather(tape: Backward, node: Node, dy: str) -> Back:
    x, indices = node.inputs
    dims, at = tape.dims(x), tape.dims(indices)
    axis = node.integer("axis") % len(dims)
    count = int(np.prod(at))
    flat = tape.reshape(dy, [*dims[:axis], count, *dims[axis + 1 :]])
    known = tape.value(indices)
    if known is not None:
        places = np.where(known < 0, known + dims[axis], known).reshape(-1)
        return [_gathered_back(tape, flat, axis, places, dims[axis]), None]
    # As above, with a matrix made while the graph runs: rows of a table that were looked up.
    rows = tape.reshape(indices, [count])
    depth = tape.constant(np.asarray(dims[axis], np.int64))
    values = tape.constant(np.array([0, 1], tape.type(dy).dtype))
    matrix = tape.add("one_hot", rows, depth, values)
    order = [*(each for each in range(len(dims)) if each != axis), axis]
    last = tape.add("matmul", tape.transpose(flat, order), matrix)
    return [tape.transpose(last, [int(each) for each in np.argsort(order)]), None]


def _pad(tape: Backward, node: Node, dy: str) -> Back:
    if node.text("mode") == "constant":
        rank, dims = len(tape.dims(dy)), tape.dims(node.inputs[0])
        amounts = _constant(tape, node, 1)
        axes = [*range(rank)]
        if len(node.inputs) > 3 and node.inputs[3]:
            axes = [int(axis) % rank for axis in _constant(tape, node, 3).tolist()]
        half = len(amounts) // 2
        begins, ends = [0] * rank, [0] * rank
        for place, axis in enumerate(axes):
            begins[axis], ends[axis] = int(amounts[place]), int(amounts[half + place])
        # Elements that a negative pad cut off get zeros.
        grown = tape.slice(
            dy,
            {
                axis: (max(0, begins[axis]), max(0, begins[axis]) + kept, 1)
                for axis in range(rank)
                if (kept := dims[axis] + min(0, begins[axis]) + min(0, ends[axis])) >= 0
            },
        )
        back = tape.pad(grown, [max(0, -each) for each in begins], [max(0, -each) for each in ends])
        return [back, *[None] * (len(node.inputs) - 1)]
    return _moved(tape, node, dy)


def _tile(tape: Backward, node: Node, dy: str) -> Back:
    repeats, dims = _constant(tape, node, 1), tape.dims(node.inputs[0])
    split = [int(each) for pair in zip(repeats, dims, strict=True) for each in pair]
    return [tape.sum(tape.reshape(dy, split), range(0, 2 * len(dims), 2)), None]


def _space(tape: Backward, node: Node, dy: str) -> Back:
    back = "depth_to_space" if node.op == "space_to_depth" else "space_to_depth"
    return [tape.add(back, dy, **node.attrs)]


RULES: dict[str, Rule] = {
    "concat": _concat,
    "depth_to_space": _space,
    "expand": _expand,
    "flatten": _reshape,
    "gather": _gather,
    "pad": _pad,
    "reshape": _reshape,
    "slice": _slice,
    "space_to_depth": _space,
    "squeeze": _reshape,
    "tile": _tile,
    "transpose": _transpose,
    "unsqueeze": _reshape,
}
