"""Compute once what does not hang on the inputs."""

from math import prod

import numpy as np

from palmkit.engine.ir import Array, Graph, Known, Node
from palmkit.engine.ops import run_reference
from palmkit.engine.passes.rewrite import Change, Draft, rewrite

_SMALL_BYTES = 1 << 20
_MOST_GROWTH = 8


def fold_constants(graph: Graph) -> Graph:
    """A node of constants becomes its results, and so does the shape of a value of known type.

    Left alone: results of over 1 MiB that are over 8 times as large as what they are made from.
    """
    return rewrite(graph, _fold)


def _fold(draft: Draft, node: Node) -> Change:
    inputs = [draft.constant(name) if name else None for name in node.inputs]
    if node.op in ("shape", "size"):
        dims = draft.dims(node.inputs[0])
        inputs = [None if dims is None else np.broadcast_to(np.zeros((), np.bool_), dims)]
    if any(name and value is None for name, value in zip(node.inputs, inputs, strict=True)):
        known = [draft.type(name) for name in node.outputs]
        if not all(isinstance(type, Known) for type in known):
            return None
        results = [type.value for type in known if isinstance(type, Known)]
    else:
        if not _is_reasonable(draft, node, inputs):
            return None
        results = [np.asarray(result) for result in run_reference(node, inputs)]
    return {
        output: draft.new_constant(f"{output}/folded", result)
        for output, result in zip(node.outputs, results, strict=False)
        if output
    }


def _is_reasonable(draft: Draft, node: Node, inputs: list[Array | None]) -> bool:
    types = [draft.type(name) for name in node.outputs if name]
    made = sum(type.size_bytes for type in types if type is not None)
    read = sum(prod(value.shape) * value.itemsize for value in inputs if value is not None)
    return None not in types and (made <= _SMALL_BYTES or made <= _MOST_GROWTH * read)
