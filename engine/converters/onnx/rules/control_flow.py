"""If, Loop and Scan: bodies get what they read from outside as their last inputs."""

from __future__ import annotations

from dataclasses import replace

from palmkit.engine.converters.onnx.node import Foreign
from palmkit.engine.converters.onnx.rules import rule
from palmkit.engine.ir import UNKNOWN, Attr, Graph, Node


@rule()
def _if(node: Foreign) -> None:
    then_branch, then_reads = node.body("then_branch")
    else_branch, else_reads = node.body("else_branch")
    captured = [*dict.fromkeys([*then_reads, *else_reads])]

    def with_inputs(branch: Graph) -> Graph:
        return replace(branch, inputs=dict.fromkeys(captured, UNKNOWN))

    attrs = {"then_branch": with_inputs(then_branch), "else_branch": with_inputs(else_branch)}
    node.emit(
        "if",
        [node.input(0), *map(node.outer, captured)],
        {**attrs, "captures": len(captured)},
    )


@rule()
def _loop(node: Foreign) -> None:
    body, captured = node.body("body")
    values = node.inputs[2:]
    inputs = [node.input(0), node.input(1), *values, *map(node.outer, captured)]
    node.emit("loop", inputs, {"body": body, "captures": len(captured)})


@rule()
def _scan(node: Foreign) -> None:
    if node.opset < 9:
        _scan_of_batches(node)
        return
    body, captured = node.body("body")
    inputs = [*node.inputs, *map(node.outer, captured)]
    node.emit("scan", inputs, {**node.attrs, "body": body, "captures": len(captured)})


def _scan_of_batches(node: Foreign) -> None:
    """Write a scan in a scan: in opset 8 each sequence of a batch is scanned by itself."""
    if node.input(0):
        raise node.unsupported("sequence_lens")
    body, captured = node.body("body")
    scanned, count = node.inputs[1:], len(captured)
    attrs: dict[str, Attr] = {"body": body, "captures": count}
    attrs["num_scan_inputs"] = node.integer("num_scan_inputs", 1)
    attrs["scan_input_directions"] = node.attrs.get("directions", ())
    inputs = [*(f"x{i}" for i in range(len(scanned))), *(f"captured{i}" for i in range(count))]
    outputs = [f"y{i}" for i in range(len(node.outputs))]
    inner = Node("scan", tuple(inputs), tuple(outputs), attrs, node.name)
    one = Graph(dict.fromkeys(inputs, UNKNOWN), dict.fromkeys(outputs, UNKNOWN), (inner,))
    node.emit(
        "scan",
        [*scanned, *map(node.outer, captured)],
        {"body": one, "num_scan_inputs": len(scanned), "captures": count},
    )
