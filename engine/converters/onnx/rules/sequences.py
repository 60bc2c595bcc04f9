"""Sequences of tensors whose structure is in the file: only their tensors remain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from palmkit.engine.converters.onnx.node import Foreign
from palmkit.engine.converters.onnx.rules import rule
from palmkit.engine.errors import ModelError


@dataclass(frozen=True)
class Items:
    """The tensors of a sequence, by name."""

    values: tuple[str, ...]


@dataclass(frozen=True)
class Slices:
    """The parts of `size` that a value is cut into along an axis; their number is not known.

    keeps: whether the parts keep the axis; otherwise it is 1 and dropped.
    """

    value: str
    size: int
    axis: int
    keeps: bool


def _items(node: Foreign) -> list[str]:
    found = node.scope.sequences.get(node.input(0))
    if not isinstance(found, Items):
        raise node.unsupported("a sequence of a length that is computed")
    return list(found.values)


def _index(node: Foreign, place: int, default: int) -> int:
    if not node.input(place):
        return default
    value = node.known(place)
    if value is None or value.size != 1:
        raise node.unsupported("a computed place in a sequence")
    return int(value.reshape(()))


@rule()
def _sequence_construct(node: Foreign) -> None:
    node.scope.sequences[node.outputs[0]] = Items(tuple(node.inputs))


@rule()
def _sequence_empty(node: Foreign) -> None:
    node.scope.sequences[node.outputs[0]] = Items(())


@rule()
def _sequence_insert(node: Foreign) -> None:
    items = _items(node)
    place = _index(node, 2, len(items))
    if not -len(items) <= place <= len(items):
        raise node.unsupported(f"place {place} in a sequence of {len(items)}")
    items.insert(place, node.input(1))
    node.scope.sequences[node.outputs[0]] = Items(tuple(items))


@rule()
def _sequence_erase(node: Foreign) -> None:
    items = _items(node)
    place = _index(node, 1, -1)
    if not -len(items) <= place < len(items):
        raise node.unsupported(f"place {place} in a sequence of {len(items)}")
    del items[place]
    node.scope.sequences[node.outputs[0]] = Items(tuple(items))


@rule()
def _sequence_length(node: Foreign) -> None:
    parts = node.scope.sequences.get(node.input(0))
    if not isinstance(parts, Slices):
        node.scope.constants[node.outputs[0]] = np.array(len(_items(node)))
        return
    # One part for each whole or started `size` of the axis.
    shape = node.emit_value("shape", [parts.value])
    length = node.emit_value("gather", [shape, node.constant(np.array(parts.axis))])
    more = node.emit_value("add", [length, node.constant(np.array(parts.size - 1))])
    node.emit("div", [more, node.constant(np.array(parts.size))])


@rule()
def _sequence_at(node: Foreign) -> None:
    place = _index(node, 1, 0)
    sequence = node.scope.sequences.get(node.input(0))
    if isinstance(sequence, Slices) and place >= 0:
        _emit_slice(node, sequence, place)
        return
    items = _items(node)
    if not -len(items) <= place < len(items):
        raise node.unsupported(f"place {place} in a sequence of {len(items)}")
    node.scope.aliases[node.outputs[0]] = items[place]


def _emit_slice(node: Foreign, parts: Slices, place: int) -> None:
    first, axis = node.constant(np.array([place * parts.size])), np.array([parts.axis])
    if not parts.keeps:
        node.emit("gather", [parts.value, node.constant(np.array(place))], {"axis": parts.axis})
        return
    last = node.constant(np.array([(place + 1) * parts.size]))
    node.emit("slice", [parts.value, first, last, node.constant(axis)])


@rule()
def _split_to_sequence(node: Foreign) -> None:
    axis = node.integer("axis", 0)
    sizes = node.known(1)
    if node.input(1) and sizes is None:
        raise node.unsupported("a split that is computed")
    if sizes is None or sizes.ndim == 0:
        size = 1 if sizes is None else int(sizes)
        if size < 1:
            raise ModelError(f"{node.label}: expected parts of at least 1, got {size}")
        keeps = sizes is not None or bool(node.integer("keepdims", 1))
        node.scope.sequences[node.outputs[0]] = Slices(node.input(0), size, axis, keeps)
        return
    parts = [node.value("part") for _ in range(len(sizes))]
    node.emit("split", node.inputs, {"axis": axis}, parts)
    node.scope.sequences[node.outputs[0]] = Items(tuple(parts))


@rule()
def _concat_from_sequence(node: Foreign) -> None:
    items, axis = _items(node), node.integer("axis", 0)
    if not items:
        raise node.unsupported("an empty sequence")
    if node.integer("new_axis", 0):
        axes = node.constant(np.array([axis]))
        items = [node.emit_value("unsqueeze", [item, axes]) for item in items]
    node.emit("concat", items, {"axis": axis})
