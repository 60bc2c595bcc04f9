"""One node of an ONNX graph: what rules read, and how they write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from palmkit.engine.converters.onnx.tensors import read_array, read_attr
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array, Attr, Graph, Node, fresh_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx import AttributeProto, GraphProto, NodeProto

# Attributes that were hints to engines before opset 7.
_GONE = ("consumed_inputs", "is_test")


@dataclass
class Scope:
    """A graph, or a body of one, under construction.

    aliases: names of values that are another value.
    sequences: what rules know of values that are sequences: the names of their tensors, or more.
    body: a function that converts a graph attribute, given the scope around it, to a graph and the
    values of this scope that it reads.
    """

    opset: int
    body: Callable[[GraphProto, Scope], tuple[Graph, list[str]]]
    taken: set[str]
    nodes: list[Node] = field(default_factory=list[Node])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    sequences: dict[str, object] = field(default_factory=dict[str, object])


class Foreign:
    """An ONNX node, and the scope that its conversion is written to."""

    def __init__(self, scope: Scope, node: NodeProto, op: str) -> None:
        """Wrap `node`, whose operator we call `op`."""
        self.scope = scope
        self.opset = scope.opset
        self.op = op
        self.name = node.name
        self.inputs = [scope.aliases.get(name, name) for name in node.input]
        self.outputs = list(node.output)
        self.protos: dict[str, AttributeProto] = {each.name: each for each in node.attribute}

    @property
    def label(self) -> str:
        """The node's name in messages."""
        return f"{self.op} {self.name or next(iter(self.outputs), '')}"

    @property
    def attrs(self) -> dict[str, Attr]:
        """Every attribute as the IR has it; graphs are left to `body`."""
        return {
            name: read_attr(each, self.label)
            for name, each in self.protos.items()
            if not each.HasField("g") and not (self.opset < 7 and name in _GONE)
        }

    def body(self, name: str) -> tuple[Graph, list[str]]:
        """Return a graph attribute, and the outside values that it reads: its last inputs."""
        if name not in self.protos or not self.protos[name].HasField("g"):
            raise ModelError(f"{self.label}: attribute {name} is missing")
        return self.scope.body(self.protos[name].g, self.scope)

    def outer(self, name: str) -> str:
        """Return the value that a name stands for in this scope."""
        return self.scope.aliases.get(name, name)

    def integer(self, name: str, default: int) -> int:
        """Return an attribute that is one integer."""
        if name not in self.protos:
            return default
        proto = self.protos[name]
        if proto.type != proto.INT:
            raise ModelError(f"{self.label}: attribute {name} is not an integer")
        return int(proto.i)

    def number(self, name: str, default: float) -> float:
        """Return an attribute that is one number."""
        return float(self.protos[name].f) if name in self.protos else default

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return an attribute that is a list of numbers; empty if it is missing."""
        return tuple(self.protos[name].floats) if name in self.protos else ()

    def integers(self, name: str) -> Array:
        """Return an attribute that is a list of integers, int64[n]; empty if it is missing."""
        proto = self.protos.get(name)
        return np.array([] if proto is None else proto.ints, np.int64)

    def texts(self, name: str) -> list[str]:
        """Return an attribute that is a list of strings; empty if it is missing."""
        proto = self.protos.get(name)
        return [] if proto is None else [each.decode() for each in proto.strings]

    def tensor(self, name: str) -> Array | None:
        """Return an attribute that is a tensor; None if it is missing."""
        proto = self.protos.get(name)
        return read_array(proto.t) if proto is not None and proto.HasField("t") else None

    def string(self, name: str) -> str:
        """Return an attribute that is a string; "" if it is missing."""
        return self.protos[name].s.decode() if name in self.protos else ""

    def input(self, index: int) -> str:
        """Return the input's name; "" if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def known(self, index: int) -> Array | None:
        """Return the input's value if it is a constant."""
        return self.scope.constants.get(self.input(index))

    def constant(self, value: Array, stem: str = "") -> str:
        """Add a constant and return its name."""
        name = fresh_name(self.scope.taken, stem or f"{self.outputs[0]}.constant")
        self.scope.constants[name] = value
        return name

    def value(self, stem: str) -> str:
        """Return a name for a new value."""
        return fresh_name(self.scope.taken, f"{self.outputs[0]}.{stem}")

    def emit(
        self,
        op: str,
        inputs: Sequence[str],
        attrs: Mapping[str, Attr] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> None:
        """Write a node; its outputs are those of the foreign node unless given."""
        inputs, outputs = list(inputs), list(self.outputs if outputs is None else outputs)
        for names in (inputs, outputs):
            while names and not names[-1]:
                names.pop()
        self.scope.nodes.append(
            Node(op, tuple(inputs), tuple(outputs), dict(attrs or {}), self.name)
        )

    def emit_value(
        self, op: str, inputs: Sequence[str], attrs: Mapping[str, Attr] | None = None
    ) -> str:
        """Write a node with one new output and return its name."""
        name = self.value(op)
        self.emit(op, inputs, attrs, [name])
        return name

    def emit_attrs_as_inputs(self, *names: str) -> None:
        """Write the node with these integer attributes as its inputs from the second on."""
        attrs = self.attrs
        values = [attrs.pop(name, None) for name in names]
        inputs = [
            "" if value is None else self.constant(np.array(value, np.int64).reshape(-1))
            for value in values
        ]
        self.emit(self.op, [self.input(0), *inputs], attrs)

    def alias(self) -> None:
        """Let the first output stand for the first input."""
        self.scope.aliases[self.outputs[0]] = self.inputs[0]

    def unsupported(self, what: str) -> UnsupportedError:
        """Return the error that says what of this node has no rule."""
        return UnsupportedError(f"{self.label}: {what} is not supported")
