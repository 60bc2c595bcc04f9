"""What passes write that put several nodes in the place of one."""

from collections.abc import Sequence

import numpy as np

from palmkit.engine.ir import Array, Attr, Node
from palmkit.engine.passes.rewrite import Draft


class Writer:
    """The nodes that stand for one; values are called after its first output."""

    def __init__(self, draft: Draft, node: Node) -> None:
        """Begin with none."""
        self.draft = draft
        self.node = node
        self.nodes: list[Node] = []

    def add(self, op: str, inputs: Sequence[str], **attrs: Attr) -> str:
        """A node with one new output; returns its name."""
        name = self.draft.new_value(f"{self.node.outputs[0]}.{op}")
        self.nodes.append(Node(op, tuple(inputs), (name,), attrs, self.node.name))
        return name

    def constant(self, stem: str, value: Array) -> str:
        """A new constant; returns its name."""
        return self.draft.new_constant(f"{self.node.outputs[0]}.{stem}", value)

    def transpose(self, x: str, perm: Sequence[int]) -> str:
        """x with its axes in another order, unless it is the same."""
        if list(perm) == list(range(len(perm))):
            return x
        return self.add("transpose", [x], perm=tuple(perm))

    def reshape(self, x: str, dims: Sequence[int]) -> str:
        """x in these dims."""
        return self.add("reshape", [x, self.constant("shape", np.array(dims, np.int64))])

    def finish(self, x: str, place: int = 0) -> None:
        """x, which nothing else reads, is an output of the node."""
        output = self.node.outputs[place]
        if self.nodes and self.nodes[-1].outputs == (x,):
            last = self.nodes.pop()
            self.nodes.append(Node(last.op, last.inputs, (output,), last.attrs, last.name))
        else:
            self.nodes.append(Node("identity", (x,), (output,), name=self.node.name))
