"""Normalizations: differences of older opsets, and dtypes by name."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.onnx.node import Foreign
from palmkit.engine.converters.onnx.rules import rule
from palmkit.engine.converters.onnx.tensors import read_dtype
from palmkit.engine.ir import Attr


@rule()
def _batch_normalization(node: Foreign) -> None:
    if not node.integer("spatial", 1):
        raise node.unsupported("spatial=0")
    if node.opset < 7 and not node.integer("is_test", 0):
        raise node.unsupported("training, is_test=0,")
    attrs = node.attrs
    attrs.pop("spatial", None)
    # Before opset 14 further outputs are for training only, and hold nothing of use.
    outputs = node.outputs if node.integer("training_mode", 0) else node.outputs[:1]
    node.emit("batch_normalization", node.inputs, attrs, outputs)


def _stashed(node: Foreign) -> dict[str, Attr]:
    attrs = node.attrs
    if attrs.pop("stash_type", None) is not None:
        attrs["stash_type"] = read_dtype(node.integer("stash_type", 1), node.label)
    return attrs


@rule("layer_normalization", "rms_normalization")
def _over_last_axes(node: Foreign) -> None:
    node.emit(node.op, node.inputs, _stashed(node))


@rule()
def _group_normalization(node: Foreign) -> None:
    """Expand scale and bias, which before opset 21 are one number a group, to channels."""
    inputs = node.inputs
    if node.opset < 21:
        groups = node.constant(np.array([node.integer("num_groups", 1)]))
        names = [node.value(stem) for stem in ("shape", "channels", "each", "matrix")]
        shape, channels, each, matrix = names
        one, column, flat = (node.constant(np.array(x)) for x in ([1], [-1, 1], [-1]))
        node.emit("shape", inputs[:1], outputs=[shape])
        node.emit("gather", [shape, one], outputs=[channels])
        node.emit("div", [channels, groups], outputs=[each])
        node.emit("concat", [one, each], {"axis": 0}, [matrix])
        for place in (1, 2):
            names = [node.value(stem) for stem in ("column", "repeated", "parameter")]
            node.emit("reshape", [inputs[place], column], outputs=names[:1])
            node.emit("tile", [names[0], matrix], outputs=names[1:2])
            node.emit("reshape", [names[1], flat], outputs=names[2:])
            inputs = [*inputs[:place], names[2], *inputs[place + 1 :]]
    node.emit("group_normalization", inputs, _stashed(node))
