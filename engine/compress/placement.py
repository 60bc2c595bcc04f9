"""Which nodes of a graph compute with integers, and which values they pass on as integers.

Layers with constant weights profit from integers. Nodes between two of them (additions, pools,
activations, movement) follow where everything they read comes as integers and leads to another
layer. Nodes between the last layers and the outputs stay float, and so do those layers' own
results: they read integers and write floats. A layer whose input was computed from other layers in
floats is mostly small, and stays float, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from palmkit.engine.ir import Graph, Node, consumers
from palmkit.engine.ops import infer_types, traits_of
from palmkit.engine.ops.traits import Layer
from palmkit.engine.passes.weights import has_rows_of_outputs, is_unscaled, reads_columns

# How many of a node's inputs are data, for ops with more than one.
_ANY_NUMBER = 1 << 30


def is_layer(op: str) -> bool:
    """Return whether the op is a layer that can compute with integers; input 1 is its weights."""
    return traits_of(op).layer in (Layer.CONVOLUTION, Layer.MATRIX)


def is_moving(op: str) -> bool:
    """Return whether the op's output has the scale and zero point of its first input."""
    traits = traits_of(op)
    return traits.moves or traits.keeps_levels


def is_clamp(op: str) -> bool:
    """Return whether saturation computes the op as well, so that it needs no levels before it."""
    return traits_of(op).bounds is not None


def _is_computing(op: str) -> bool:
    """Return whether the op computes levels of a scale of its own."""
    return traits_of(op).worth_integers


def _can_clamp(op: str) -> bool:
    """Return whether the op can clamp its output: layers, and ops of several values or elements."""
    traits = traits_of(op)
    return is_layer(op) or (_is_computing(op) and (_takes_data(op) > 1 or traits.pools))


def _takes_data(op: str) -> int:
    """Return how many inputs are data, at most."""
    return _ANY_NUMBER if op == "concat" or traits_of(op).broadcasts else 1


@dataclass(frozen=True)
class Placement:
    """The choice of integer nodes.

    nodes: the first outputs of those that compute with integers.
    values: every value that is rounded to levels, in running order, each with the value whose scale
    and zero point it shares (mostly itself).
    raw: those of them that come from the graph's inputs without a layer.
    """

    nodes: frozenset[str]
    values: dict[str, str]
    raw: frozenset[str]


def data_inputs(node: Node) -> list[int]:
    """Return the places of the inputs that carry data, not weights or shapes."""
    if is_layer(node.op) and traits_of(node.op).is_fused:
        return [0, 3] if len(node.inputs) > 3 and node.inputs[3] else [0]
    most = min(_takes_data(node.op), len(node.inputs))
    return [place for place in range(most) if node.inputs[place]]


def place(graph: Graph, keep: Collection[str] = ()) -> Placement:
    """Choose the integer nodes of an optimised float graph.

    keep: nodes that stay float, by name or by first output.
    """
    return Candidates(graph).place(keep)


class Candidates:
    """The nodes of an optimised float graph that can compute with integers.

    names: their first outputs.
    """

    def __init__(self, graph: Graph) -> None:
        """Look for them."""
        self.graph = graph
        self.names, self._raw = _candidates(graph)
        self._readers = consumers(graph)

    def place(self, keep: Collection[str] = ()) -> Placement:
        """Choose among them, as the function `place` does."""
        chosen: set[str] = set()
        for node in reversed(self.graph.nodes):
            name = node.outputs[0]
            if name not in self.names or name in keep or (node.name and node.name in keep):
                continue
            after = [(y, reader) for y in node.outputs for reader in self._readers.get(y, ())]
            if is_layer(node.op) or any(_reads(reader, y, chosen) for y, reader in after):
                chosen.add(name)
        values = _values(self.graph, chosen, self._readers)
        return Placement(frozenset(chosen), values, frozenset(self._raw & values.keys()))


def _reads(reader: Node, name: str, chosen: Collection[str]) -> bool:
    return reader.outputs[0] in chosen and any(
        reader.inputs[place] == name for place in data_inputs(reader)
    )


def _candidates(graph: Graph) -> tuple[set[str], set[str]]:
    """Return layers and nodes that read integers only; and the values that depend on no layer."""
    types = infer_types(graph)
    found: set[str] = set()
    integers: set[str] = set()
    raw = {*graph.inputs, *graph.constants}
    for node in graph.nodes:
        data = [node.inputs[place] for place in data_inputs(node)]
        is_float = all(types[each].dtype == "float32" for each in data if each in types)
        if is_layer(node.op):
            fits = _is_layer(graph, node) and all(each in raw | integers for each in data)
        else:
            fits = (is_moving(node.op) or _is_computing(node.op)) and _is_plain(graph, node)
            fits = fits and all(each in integers or each in graph.constants for each in data)
            fits = fits and any(each in integers for each in data)
        if fits and is_float:
            found.add(node.outputs[0])
            integers.update(node.outputs)
        elif not is_layer(node.op) and raw.issuperset(filter(None, node.inputs)):
            raw.update(node.outputs)
    return found, raw


def _is_layer(graph: Graph, node: Node) -> bool:
    """Return whether the weights are a constant used as it stands, and the bias, too."""
    weights = graph.constants.get(node.inputs[1])
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    if weights is None or weights.dtype.name != "float32" or (bias and bias not in graph.constants):
        return False
    if node.op == "matmul":
        return weights.ndim == 2
    if node.op == "gemm":
        plain = not bias or graph.constants[bias].size == gemm_outputs(graph, node)
        return is_unscaled(node) and not reads_columns(node) and plain
    return True


def gemm_outputs(graph: Graph, node: Node) -> int:
    """Return how many columns a gemm writes."""
    return int(graph.constants[node.inputs[1]].shape[0 if has_rows_of_outputs(node) else 1])


def _is_plain(graph: Graph, node: Node) -> bool:
    """Return whether everything but data is constant."""
    data = data_inputs(node)
    rest = [name for place, name in enumerate(node.inputs) if place not in data and name]
    return all(name in graph.constants for name in rest)


def _values(
    graph: Graph, chosen: Collection[str], readers: Mapping[str, list[Node]]
) -> dict[str, str]:
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
            moves = is_moving(node.op) and node.outputs[0] in chosen
            found[name] = found[node.inputs[0]] if moves else name
    return found


def _is_absorbed(graph: Graph, node: Node, readers: list[Node]) -> bool:
    """Return whether only a clamp reads it, and its writer can clamp."""
    return (
        _can_clamp(node.op)
        and len(readers) == 1
        and is_clamp(readers[0].op)
        and not node.has("activation")
        and not any(name in graph.outputs for name in node.outputs)
    )
