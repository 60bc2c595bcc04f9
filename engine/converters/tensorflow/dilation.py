"""Dilated convolutions as TensorFlow writes them: SpaceToBatchND, convolution, BatchToSpaceND."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from palmkit.engine.converters.tensorflow.nodes import Body, Operation, Ref
from palmkit.engine.converters.tensorflow.tensors import constant

_CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")
_BETWEEN = ("BiasAdd", "ExpandDims", "Identity", "Squeeze")


def dilations(body: Body) -> dict[str, tuple[int, ...]]:
    """Return the dilation of each operation of such a group, by name.

    In a group SpaceToBatchND only pads, BatchToSpaceND only crops, and the convolution between them
    is dilated.
    """
    operations = body.operations
    readers = Counter(name for each in operations.values() for name, _ in each.inputs)
    readers.update(name for name, _ in body.outputs)
    found: dict[str, tuple[int, ...]] = {}
    for last in operations.values():
        if last.op != "BatchToSpaceND" or len(last.inputs) != 3:
            continue
        convolution = _behind(last.inputs[0], operations, readers, _CONVOLUTIONS)
        if convolution is None or not _is_plain(convolution):
            continue
        first = _behind(convolution.inputs[0], operations, readers, ("SpaceToBatchND",))
        if first is None or len(first.inputs) != 3:
            continue
        block = _integers(last.inputs[1], operations)
        if not block or len(block) > 2 or block != _integers(first.inputs[1], operations):
            continue
        wide = operations[convolution.inputs[0][0]]
        if len(block) == 1 and not _adds_height(wide, operations):
            continue
        found[first.name] = found[last.name] = block
        found[convolution.name] = (1, *block)[-2:]
    return found


def _behind(
    ref: Ref,
    operations: Mapping[str, Operation],
    readers: Mapping[str, int],
    wanted: tuple[str, ...],
) -> Operation | None:
    """Return the wanted operation at the other side of others that pass its value to it alone."""
    for _ in range(4):
        operation = operations[ref[0]]
        if readers[operation.name] != 1:
            return None
        if operation.op in wanted:
            return operation
        if operation.op not in _BETWEEN or not operation.inputs:
            return None
        ref = operation.inputs[0]
    return None


def _is_plain(convolution: Operation) -> bool:
    """Return whether the convolution has no padding, stride or dilation of its own."""
    attrs = convolution.attrs
    steps = [
        *(attrs["strides"].list.i if "strides" in attrs else ()),
        *(attrs["dilations"].list.i if "dilations" in attrs else ()),
    ]
    layout = attrs["data_format"].s if "data_format" in attrs else b"NHWC"
    padding = attrs["padding"].s if "padding" in attrs else b""
    return padding == b"VALID" and layout == b"NHWC" and set(steps) <= {1}


def _integers(ref: Ref, operations: Mapping[str, Operation]) -> tuple[int, ...]:
    """Return a short constant; () for anything else."""
    operation = operations[ref[0]]
    while operation.op == "Identity" and operation.inputs:
        operation = operations[operation.inputs[0][0]]
    if operation.op != "Const" or "value" not in operation.attrs:
        return ()
    found = constant(operation.attrs["value"].tensor, operation.label)
    if len(found.shape) > 1 or found.missing + len(found.values) > 2:
        return ()
    return tuple(map(int, found.array().reshape(-1)))


def _adds_height(operation: Operation, operations: Mapping[str, Operation]) -> bool:
    """Return whether it makes [batch, 1, width, channels] of [batch, width, channels]."""
    if operation.op != "ExpandDims" or len(operation.inputs) != 2:
        return False
    return _integers(operation.inputs[1], operations) in ((1,), (-3,))
