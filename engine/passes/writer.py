"""A helper for passes that replace one node by several."""

from collections.abc import Sequence

import numpy as np

from palmkit.engine.ir import Array, Attr, Node
from palmkit.engine.passes.rewrite import Draft


class Writer:
    """The nodes that replace one; values are named after its first output."""

    def __init__(self, draft: Draft, node: Node) -> None:
        """Start with no nodes."""
        self.draft = draft
        self.node = node
        self.nodes: list[Node] = []

    def add(self, op: str, inputs: Sequence[str], **attrs: Attr) -> str:
        """Add a node with one new output and return the output's name."""
        name = self.draft.new_value(f"{self.node.outputs[0]}.{op}")
        self.nodes.append(Node(op, tuple(inputs), (name,), attrs, self.node.name))
        return name

    def constant(self, stem: str, value: Array) -> str:
        """Add a constant and return its name."""
        return self.draft.new_constant(f"{self.node.outputs[0]}.{stem}", value)

    def transpose(self, x: str, perm: Sequence[int]) -> str:
        """Write x with its axes in another order, unless it is the same."""
        if list(perm) == list(range(len(perm))):
            return x
        return self.add("transpose", [x], perm=tuple(perm))

    def reshape(self, x: str, dims: Sequence[int]) -> str:
        """Write x with these dims."""
        return self.add("reshape", [x, self.constant("shape", np.array(dims, np.int64))])

    def finish(self, x: str, place: int = 0) -> None:
        """Let x, which nothing else reads, be an output of the node."""
        output = self.node.outputs[place]
        if self.nodes and self.nodes[-1].outputs == (x,):
            last = self.nodes.pop()
            self.nodes.append(Node(last.op, last.inputs, (output,), last.attrs, last.name))
        else:
            self.nodes.append(Node("identity", (x,), (output,), name=self.node.name))
