"""Nodes that do not depend on the graph's inputs are computed once."""

from collections.abc import Sequence

from palmkit.engine.ir import Array, Graph, Known, Node, Type
from palmkit.engine.ops import find, is_light, run_reference
from palmkit.engine.passes.rewrite import Change, Draft, has_any, ops_among, rewrite
from palmkit.engine.passes.weights import is_convolution, is_matrix

_SMALL_BYTES = 1 << 20
_MOST_GROWTH = 8


def fold_constants(graph: Graph) -> Graph:
    """Replace a node of constants by its results, and the shape of a value of known type.

    Left alone are identities, by which a constant is an output of the graph; results of over 1 MiB
    that are over 8 times as large as what they are computed from; and integer weights of layers in
    a quantized graph, which the layers are to compute with.
    """
    waiting = _integer_weights(graph)

    def fold(draft: Draft, node: Node) -> Change:
        return None if waiting and node.outputs[0] in waiting else _fold(draft, node)

    return rewrite(graph, fold, {node.op for node in graph.nodes} - {"identity"})


def fold_levels(graph: Graph) -> Graph:
    """Turn integer weights that no layer computes with into floats, once all sizes are known."""
    return rewrite(graph, _fold, ("dequantize_linear",)) if graph.is_static else graph


def _integer_weights(graph: Graph) -> set[str]:
    """Return what dequantize_linear makes of bytes for a layer, if any values are quantized."""
    if not has_any(graph, ("quantize_linear",)):
        return set()
    layers = ops_among(graph, lambda traits: is_convolution(traits) or is_matrix(traits))
    read = {n.inputs[1] for n in graph.nodes if n.op in layers and len(n.inputs) > 1}
    return {
        node.outputs[0]
        for node in graph.nodes
        if node.op == "dequantize_linear"
        and node.outputs[0] in read
        and node.inputs[0] in graph.constants
        and graph.constants[node.inputs[0]].dtype.name in ("int8", "uint8")
    }


def _fold(draft: Draft, node: Node) -> Change:
    if node.bodies or not find(node.op).pure:
        return None
    inputs = [draft.constant(name) for name in node.inputs]
    outputs = [name for name in node.outputs if name]
    constant = all(v is not None for v, name in zip(inputs, node.inputs, strict=True) if name)
    if not constant and not isinstance(draft.type(outputs[0]), Known):
        return None
    types = [draft.type(name) for name in outputs]
    results = [type.value for type in types if isinstance(type, Known)]
    if len(results) != len(types):
        if not constant or not _is_reasonable(node, types, inputs):
            return None
        computed = zip(node.outputs, run_reference(node, inputs), strict=False)
        results = [result for name, result in computed if name]
    return {
        output: draft.new_constant(f"{output}/folded", result)
        for output, result in zip(outputs, results, strict=True)
    }


def _is_reasonable(
    node: Node, types: Sequence[Type | None], inputs: Sequence[Array | None]
) -> bool:
    made = sum(type.size_bytes for type in types if type is not None)
    read = sum(value.nbytes for value in inputs if value is not None)
    if None in types or not (made <= _SMALL_BYTES or made <= _MOST_GROWTH * read):
        return False
    return is_light(node, [None if value is None else Type.of(value) for value in inputs], types)
