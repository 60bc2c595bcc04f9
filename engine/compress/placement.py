"""Which nodes of a graph compute with integers, and which values they hand on as such.

Layers with constant weights are what is worth it. What stands between two of them (additions,
pools, activations, movement) follows where everything it reads comes as integers and leads to
another layer; what leads from the last layers to the outputs stays float, and so do those layers'
own results: they read integers and write floats. A layer that reads what was computed from other
layers in floats is small, mostly, and stays float, too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from palmkit.engine.ir import Graph, Node, consumers
from palmkit.engine.ops import infer_types

# Layers, and where their weights stand.
LAYERS = ("conv", "fused_conv", "gemm", "matmul")
# What passes levels on unchanged: the output has the scale and zero point of the first input.
MOVING = (
    "max_pool", "reshape", "flatten", "transpose", "squeeze", "unsqueeze", "slice", "split",
    "gather", "depth_to_space", "space_to_depth", "expand", "tile", "resize",
)  # fmt: skip
# What computes levels of a scale of its own.
COMPUTING = (
    "add", "mul", "concat", "average_pool", "global_average_pool", "reduce_mean", "relu", "clip",
    "hard_swish", "hard_sigmoid", "sigmoid", "tanh", "leaky_relu", "elu", "swish", "prelu",
)  # fmt: skip
# How many of a node's inputs are data, where not all are.
_DATA_INPUTS = {"add": 2, "mul": 2, "concat": 1 << 30}
# What can clamp what it writes, beside layers.
_CLAMPING = ("add", "mul", "concat", "average_pool", "global_average_pool")
# What saturation to a range computes as well: no levels are needed in front of it.
CLAMPS = ("relu", "clip")


@dataclass(frozen=True)
class Placement:
    """nodes: the first outputs of those that compute with integers.

    values: every value that is rounded to levels, in running order, each with the value whose
    scale and zero point it shares (itself, mostly).
    raw: those of them that come from the graph's inputs by no layer.
    """

    nodes: frozenset[str]
    values: dict[str, str]
    raw: frozenset[str]


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
    names, raw = _candidates(graph)
    readers = consumers(graph)
    chosen: set[str] = set()
    for node in reversed(graph.nodes):
        name = node.outputs[0]
        if name not in names or name in keep or (node.name and node.name in keep):
            continue
        after = [(each, reader) for each in node.outputs for reader in readers.get(each, ())]
        if node.op in LAYERS or any(_reads(reader, each, chosen) for each, reader in after):
            chosen.add(name)
    values = _values(graph, chosen)
    return Placement(frozenset(chosen), values, frozenset(raw & values.keys()))


def _reads(reader: Node, name: str, chosen: Collection[str]) -> bool:
    return reader.outputs[0] in chosen and any(
        reader.inputs[place] == name for place in data_inputs(reader)
    )


def _candidates(graph: Graph) -> tuple[set[str], set[str]]:
    """Layers, and what reads integers only; and the values that hang on no layer."""
    types = infer_types(graph)
    found: set[str] = set()
    integers: set[str] = set()
    raw = {*graph.inputs, *graph.constants}
    for node in graph.nodes:
        data = [node.inputs[place] for place in data_inputs(node)]
        is_float = all(types[each].dtype == "float32" for each in data if each in types)
        if node.op in LAYERS:
            fits = _is_layer(graph, node) and all(each in raw | integers for each in data)
        else:
            fits = (node.op in MOVING or node.op in COMPUTING) and _is_plain(graph, node)
            fits = fits and all(each in integers or each in graph.constants for each in data)
            fits = fits and any(each in integers for each in data)
        if fits and is_float:
            found.add(node.outputs[0])
            integers.update(node.outputs)
        elif node.op not in LAYERS and raw.issuperset(filter(None, node.inputs)):
            raw.update(node.outputs)
    return found, raw


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
        (node.op in LAYERS or node.op in _CLAMPING)
        and len(readers) == 1
        and readers[0].op in CLAMPS
        and not node.attrs.get("activation")
        and not any(name in graph.outputs for name in node.outputs)
    )
