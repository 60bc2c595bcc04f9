"""Convolutions that TFLite's exporters write between space_to_batch and batch_to_space."""

from __future__ import annotations

from palmkit.engine.converters.tflite.file import Operator, Subgraph

SAME_PADDING = 0


def geometry(o: Operator) -> tuple[int, int, int, int]:
    """Return strides and dilations, height first."""
    return (
        o.option("StrideH", 1),
        o.option("StrideW", 1),
        o.option("DilationHFactor", 1),
        o.option("DilationWFactor", 1),
    )


def dilated_tensors(graph: Subgraph) -> dict[int, tuple[int, int]]:
    """Return the inner tensors of dilated convolutions, with the dilation.

    Exporters write a dilated convolution as space_to_batch -> convolution without padding ->
    batch_to_space. The rules of all three then leave the picture whole.
    """
    readers: dict[int, list[Operator]] = {}
    for operator in graph.operators:
        for index in operator.inputs:
            readers.setdefault(index, []).append(operator)
    dilated: dict[int, tuple[int, int]] = {}
    for first in graph.operators:
        if first.op != "SPACE_TO_BATCH_ND" or len(readers.get(first.outputs[0], ())) != 1:
            continue
        middle = readers[first.outputs[0]][0]
        if middle.op not in ("CONV_2D", "DEPTHWISE_CONV_2D") or geometry(middle) != (1, 1, 1, 1):
            continue
        if middle.option("Padding", 0) == SAME_PADDING:
            continue
        (last, *others) = readers.get(middle.outputs[0], [None])
        if last is None or others or last.op != "BATCH_TO_SPACE_ND":
            continue
        blocks = [graph.tensors[operator.inputs[1]].data for operator in (first, last)]
        inner = {first.outputs[0], middle.outputs[0]}
        if blocks[0] is None or blocks[1] is None or inner & {*graph.outputs}:
            continue
        if blocks[0].size == 2 and blocks[0].tolist() == blocks[1].tolist():
            block = (int(blocks[0][0]), int(blocks[0][1]))
            dilated.update(dict.fromkeys(inner, block))
    return dilated
