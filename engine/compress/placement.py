"""Which nodes of a graph compute with integers, and which values they hand on as such.

Layers with constant weights are what is worth it. What stands between two of them (additions,
pools, activations, movement) follows where everything it reads comes as integers and leads to
another layer; what leads from the last layers to the outputs stays float, and so do those layers'
own results: they read integers and write floats.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from palmkit.engine.ir import Graph, Node, consumers, producers
from palmkit.engine.ops import infer_types

# Layers, and where their weights stand.
LAYERS = ("conv", "fused_conv", "gemm", "matmul")
# What passes levels on unchanged: the output has the scale and zero point of the first input.
MOVING = (
    "max_pool", "reshape", "flatten", "transpose", "squeeze", "unsqueeze", "slice", "split",
    "gather", "depth_to_space", "space_to_depth", "expand", "tile",
)  # fmt: skip
# What computes levels of a scale of its own.
COMPUTING = (
    "add", "mul", "concat", "average_pool", "global_average_pool", "resize", "relu", "clip",
    "hard_swish", "hard_sigmoid", "sigmoid", "tanh", "leaky_relu", "elu", "swish", "prelu",
)  # fmt: skip
# How many of a node's inputs are data, where not all are.
_DATA_INPUTS = {"add": 2, "mul": 2, "concat": 1 << 30}
# What saturation to a range computes as well: no levels are needed in front of it.
CLAMPS = ("relu", "clip")


@dataclass(frozen=True)
class Placement:
    """nodes: the first outputs of those that compute with integers.

    values: every value that is rounded to levels, in running order, each with the value whose
    scale and zero point it shares (itself, mostly).
    """

    nodes: frozenset[str]
    values: dict[str, str]


def data_inputs(node: Node) -> list[int]:
    """The places of the inputs that carry data, not weights or shapes."""
    if node.op == "fused_conv":
        return [0, 3] if len(node.inputs) > 3 and node.inputs[3] else [0]
    most = min(_DATA_INPUTS.get(node.op, 1), len(node.inputs))
    return [place for place in range(most) if node.inputs[place]]


def place(graph: Graph, keep: Collection[str] = ()) -> Placement:
    """Choose for an optimised float graph.

    keep: nodes that stay float, by name or by first output.
    """
    names = _candidates(graph, keep)
    readers = consumers(graph)
    chosen: set[str] = set()
    for node in reversed(graph.nodes):
        name = node.outputs[0]
        if name in names and (
            node.op in LAYERS
            or any(
                _reads(reader, name, chosen)
                for each in node.outputs
                for reader in readers.get(each, ())
            )
        ):
            chosen.add(name)
    return Placement(frozenset(chosen), _values(graph, chosen))


def _reads(reader: Node, name: str, chosen: Collection[str]) -> bool:
    return reader.outputs[0] in chosen and any(
        reader.inputs[place] == name for place in data_inputs(reader)
    )


def _candidates(graph: Graph, keep: Collection[str]) -> set[str]:
    """Layers, and what reads integers only."""
    types = infer_types(graph)
    written = producers(graph)
    found: set[str] = set()
    for node in graph.nodes:
        name = node.outputs[0]
        if name in keep or node.name and node.name in keep:
            continue
        if node.op in LAYERS:
            if _is_layer(graph, node):
                found.add(name)
            continue
        if node.op not in MOVING and node.op not in COMPUTING:
            continue
        data = [node.inputs[place] for place in data_inputs(node)]
        inside = [each for each in data if each not in graph.constants]
        is_float = all(types[each].dtype == "float32" for each in data if each in types)
        if (
            inside
            and is_float
            and _is_plain(graph, node)
            and all(each in written and written[each].outputs[0] in found for each in inside)
        ):
            found.add(name)
    return found


def _is_layer(graph: Graph, node: Node) -> bool:
    """Weights are a constant that is multiplied with as it stands, the bias is one, too."""
    weights = graph.constants.get(node.inputs[1])
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    if weights is None or weights.dtype.name != "float32" or (bias and bias not in graph.constants):
        return False
    if node.op == "matmul":
        return weights.ndim == 2
    if node.op == "gemm":
        alpha, beta = node.attrs.get("alpha", 1.0), node.attrs.get("beta", 1.0)
        plain = not bias or graph.constants[bias].size == gemm_outputs(graph, node)
        return alpha == beta == 1 and not node.attrs.get("transA", 0) and plain
    return True


def gemm_outputs(graph: Graph, node: Node) -> int:
    """How many columns a gemm writes."""
    return int(graph.constants[node.inputs[1]].shape[0 if node.attrs.get("transB", 0) else 1])


def _is_plain(graph: Graph, node: Node) -> bool:
    """Everything but data is constant."""
    data = data_inputs(node)
    rest = [name for place, name in enumerate(node.inputs) if place not in data and name]
    return all(name in graph.constants for name in rest)


def _values(graph: Graph, chosen: Collection[str]) -> dict[str, str]:
    readers = consumers(graph)
    found: dict[str, str] = {}
    read = {
        node.inputs[place]
        for node in graph.nodes
        if node.outputs[0] in chosen
        for place in data_inputs(node)
        if node.inputs[place] not in graph.constants
    }
    for name in graph.inputs:
        if name in read:
            found[name] = name
    for node in graph.nodes:
        for name in node.outputs:
            if name not in read or _is_absorbed(graph, node, readers.get(name, [])):
                continue
            moves = node.op in MOVING and node.outputs[0] in chosen
            found[name] = found[node.inputs[0]] if moves else name
    return found


def _is_absorbed(graph: Graph, node: Node, readers: list[Node]) -> bool:
    """Only a clamp reads it, and what writes it can clamp."""
    return (
        node.op in ("add", "mul", "conv", "fused_conv", "gemm", "matmul")
        and len(readers) == 1
        and readers[0].op in CLAMPS
        and not node.attrs.get("activation")
        and not any(name in graph.outputs for name in node.outputs)
    )
