"""An einsum of one or two values becomes transposes, a matmul and reshapes, which have kernels."""

from collections.abc import Sequence
from math import prod

import numpy as np

from palmkit.engine.ir import Graph, Node
from palmkit.engine.ops.einsum import labels_of
from palmkit.engine.passes.rewrite import Change, Draft, rewrite
from palmkit.engine.passes.writer import Writer


def write_out_einsum(graph: Graph) -> Graph:
    """Write out an einsum without diagonals and broadcast axes."""
    return rewrite(graph, _write_out, {"einsum"})


def _write_out(draft: Draft, node: Node) -> Change:
    types = [draft.type(name) for name in node.inputs]
    known = [type for type in types if type is not None]
    if len(known) != len(types) or not 1 <= len(types) <= 2:
        return None
    *terms, result = labels_of(node.text("equation"), known)
    sizes: dict[str, int] = {}
    for term, type in zip(terms, known, strict=True):
        if len(set(term)) != len(term):
            return None
        for label, dim in zip(term, type.dims, strict=True):
            if sizes.setdefault(label, dim) != dim:
                return None
    writer = Writer(draft, node)
    if len(terms) == 1:
        _single(writer, terms[0], result)
        return writer.nodes
    return writer.nodes if _pair(writer, sizes, terms[0], terms[1], result) else None


def _single(writer: Writer, term: str, result: str) -> None:
    """Sum over the axes that the result lacks, and transpose."""
    x = writer.node.inputs[0]
    summed = [place for place, label in enumerate(term) if label not in result]
    if summed:
        x = writer.add("reduce_sum", [x, writer.constant("axes", np.array(summed))], keepdims=0)
        term = "".join(label for label in term if label in result)
    writer.finish(_transposed(writer, x, term, result))


def _pair(writer: Writer, sizes: dict[str, int], a: str, b: str, result: str) -> bool:
    """Write a matrix product over the common axes, with those of a and of b alone as its sides."""
    batch = [label for label in a if label in b and label in result]
    summed = [label for label in a if label in b and label not in result]
    rows = [label for label in a if label not in b]
    columns = [label for label in b if label not in a]
    if not set(rows + columns) <= set(result) or 0 in sizes.values():
        return False

    def matrix(x: str, term: str, left: Sequence[str], right: Sequence[str]) -> str:
        """Return x as [*batch, left, right]."""
        x = _transposed(writer, x, term, "".join([*batch, *left, *right]))
        if len(left) == len(right) == 1:
            return x
        counts = [prod(sizes[label] for label in group) for group in (left, right)]
        return writer.reshape(x, [*(sizes[label] for label in batch), *counts])

    operands = [
        matrix(writer.node.inputs[0], a, rows, summed),
        matrix(writer.node.inputs[1], b, summed, columns),
    ]
    y = writer.add("matmul", operands)
    labels = [*batch, *rows, *columns]
    if len(rows) != 1 or len(columns) != 1:
        y = writer.reshape(y, [sizes[label] for label in labels])
    writer.finish(_transposed(writer, y, "".join(labels), result))
    return True


def _transposed(writer: Writer, x: str, term: str, result: str) -> str:
    return writer.transpose(x, [term.index(label) for label in result])
