"""An einsum of one or two values is transposes, a matmul and reshapes: those have kernels."""

from collections.abc import Sequence
from math import prod

import numpy as np

from palmkit.engine.ir import Graph, Node
from palmkit.engine.ops.einsum import labels_of
from palmkit.engine.passes.rewrite import Change, Draft, rewrite


def write_out_einsum(graph: Graph) -> Graph:
    """Einsum without diagonals and broadcast axes becomes what it is short for."""
    return rewrite(graph, _write_out, {"einsum"})


def _write_out(draft: Draft, node: Node) -> Change:
    types = [draft.type(name) for name in node.inputs]
    known = [type for type in types if type is not None]
    if len(known) != len(types) or not 1 <= len(types) <= 2:
        return None
    *terms, result = labels_of(str(node.attrs["equation"]), known)
    sizes: dict[str, int] = {}
    for term, type in zip(terms, known, strict=True):
        if len(set(term)) != len(term):
            return None
        for label, dim in zip(term, type.dims, strict=True):
            if sizes.setdefault(label, dim) != dim:
                return None
    writer = _Writer(draft, node, sizes)
    if len(terms) == 1:
        writer.single(terms[0], result)
        return writer.nodes
    return writer.nodes if writer.pair(terms[0], terms[1], result) else None


class _Writer:
    def __init__(self, draft: Draft, node: Node, sizes: dict[str, int]) -> None:
        self.draft = draft
        self.node = node
        self.sizes = sizes
        self.nodes: list[Node] = []

    def single(self, term: str, result: str) -> None:
        """Sums over what the result lacks, and a transpose."""
        x = self.node.inputs[0]
        summed = [place for place, label in enumerate(term) if label not in result]
        if summed:
            axes = self.draft.new_constant(f"{self.node.outputs[0]}.axes", np.array(summed))
            x = self.add("reduce_sum", [x, axes], keepdims=0)
            term = "".join(label for label in term if label in result)
        self.finish(x, term, result)

    def pair(self, a: str, b: str, result: str) -> bool:
        """A product of matrices, made of the axes in common, those of a and those of b alone."""
        batch = [label for label in a if label in b and label in result]
        summed = [label for label in a if label in b and label not in result]
        rows = [label for label in a if label not in b]
        columns = [label for label in b if label not in a]
        if not set(rows + columns) <= set(result) or 0 in self.sizes.values():
            return False
        left = self.matrix(self.node.inputs[0], a, batch, rows, summed)
        right = self.matrix(self.node.inputs[1], b, batch, summed, columns)
        y = self.add("matmul", [left, right])
        labels = batch + rows + columns
        if len(rows) != 1 or len(columns) != 1:
            y = self.reshape(y, [self.sizes[label] for label in labels])
        self.finish(y, "".join(labels), result)
        return True

    def matrix(
        self, x: str, term: str, batch: Sequence[str], rows: Sequence[str], columns: Sequence[str]
    ) -> str:
        """x as [*batch, rows, columns]."""
        x = self.transpose(x, term, "".join([*batch, *rows, *columns]))
        if len(rows) == len(columns) == 1:
            return x
        counts = [prod(self.sizes[label] for label in group) for group in (rows, columns)]
        return self.reshape(x, [*(self.sizes[label] for label in batch), *counts])

    def transpose(self, x: str, term: str, result: str) -> str:
        if term == result:
            return x
        return self.add("transpose", [x], perm=tuple(term.index(label) for label in result))

    def reshape(self, x: str, dims: Sequence[int]) -> str:
        shape = self.draft.new_constant(f"{self.node.outputs[0]}.shape", np.array(dims, np.int64))
        return self.add("reshape", [x, shape])

    def finish(self, x: str, term: str, result: str) -> None:
        """The last node writes the output of the einsum."""
        x = self.transpose(x, term, result)
        if not self.nodes:
            self.add("identity", [x])
        last = self.nodes.pop()
        self.nodes.append(Node(last.op, last.inputs, self.node.outputs, last.attrs, last.name))

    def add(self, op: str, inputs: Sequence[str], **attrs: int | tuple[int, ...]) -> str:
        name = self.draft.new_value(f"{self.node.outputs[0]}.{op}")
        self.nodes.append(Node(op, tuple(inputs), (name,), attrs, self.node.name))
        return name
