"""Writing nodes and constants in order, with the types that they have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Array, Attr, Known, Node, Type, numpy_dtype
from palmkit.engine.ops import infer_outputs

TO_THE_END = int(np.iinfo(np.int64).max)
_KEPT = ("dequantize_linear", "quantize_linear")


@dataclass
class Names:
    """Gives out value names, each once."""

    taken: set[str] = field(default_factory=set[str])
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def fresh(self, stem: str) -> str:
        """Return `stem`, with a number appended if it is taken."""
        name = stem
        while name in self.taken:
            self.counts[stem] = self.counts.get(stem, 0) + 1
            name = f"{stem}.{self.counts[stem]}"
        self.taken.add(name)
        return name


class Writer:
    """A graph under construction.

    current: what the nodes are named after. types: the types of the values, as far as known.
    """

    def __init__(self) -> None:
        """Start with an empty graph."""
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.types: dict[str, Type] = {}
        self.names = Names()
        self.current = ""
        self.shared: set[str] = set()
        self._derived: dict[tuple[object, ...], str] = {}

    def emit(self, op: str, *inputs: str, **attrs: Attr) -> str:
        """Add a node with one output and return the output's name."""
        return self.emit_many(op, 1, *inputs, **attrs)[0]

    def emit_many(self, op: str, count: int, *inputs: str, **attrs: Attr) -> tuple[str, ...]:
        """Add a node with `count` outputs and return their names."""
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        outputs = tuple(self.names.fresh(f"{self.current}/{op}") for _ in range(count))
        node = Node(op, inputs, outputs, attrs, self.current)
        if all(not name or (name in self.types and self.types[name].is_static) for name in inputs):
            types = infer_outputs(node, [self.types[name] if name else None for name in inputs])
            self.types.update(zip(outputs, types, strict=False))
        if not self._folded(node):
            self.nodes.append(node)
        return outputs

    def _folded(self, node: Node) -> bool:
        """Replace a node of constants with small results by constants; return whether it did."""
        results = [self.types.get(name) for name in node.outputs]
        if node.op in _KEPT or not all(not name or name in self.constants for name in node.inputs):
            return False
        known = [type.value for type in results if isinstance(type, Known)]
        if len(known) != len(results) or not known:
            return False
        self.constants.update(zip(node.outputs, known, strict=True))
        return True

    def used_constants(self, outputs: Iterable[str]) -> dict[str, Array]:
        """Return the constants that a node reads, or that are outputs."""
        used = {*outputs, *(name for node in self.nodes for name in node.inputs)}
        return {name: value for name, value in self.constants.items() if name in used}

    def array(self, value: Array) -> str:
        """Add a constant and return its name."""
        name = self.names.fresh(f"{self.current}/constant")
        value = np.asarray(value)
        value.flags.writeable = False
        self.constants[name] = value
        self.types[name] = Known.of(value)
        return name

    def int64(self, *numbers: int) -> str:
        """Add a constant int64[n] and return its name."""
        return self.once(("int64", numbers), lambda: self.array(np.array(numbers, np.int64)))

    def int64_array(self, value: Array) -> str:
        """Add an int64 constant of any shape and return its name."""
        return self.array(value.astype(np.int64))

    def scalar(self, number: float, dtype: str = "float32") -> str:
        """Add a constant of rank 0 and return its name."""
        return self.once(
            ("scalar", repr(number), dtype),
            lambda: self.array(np.array(number, numpy_dtype(dtype))),
        )

    def full(self, number: float, shape: str, dtype: str) -> str:
        """Write a tensor of this shape filled with a number."""
        return self.emit("expand", self.scalar(number, dtype), shape)

    def dims(self, value: str, rank: int) -> list[str]:
        """Write the dims of a value, each int64[1]."""
        shape = self.emit("shape", value)
        return [
            self.emit("slice", shape, self.int64(axis), self.int64(axis + 1), self.int64(0))
            for axis in range(rank)
        ]

    def once(self, key: tuple[object, ...], make: Callable[[], str]) -> str:
        """Return the value that `make` gives, made only once for each key."""
        if key not in self._derived:
            self._derived[key] = make()
            self.shared.add(self._derived[key])
        return self._derived[key]

    def enter(self, name: str, value: Array) -> None:
        """Add a constant of this very name unless it exists."""
        if name not in self.constants:
            self.constants[name] = value
            self.types[name] = Known.of(value)


def activate(w: Writer, value: str, activation: int) -> str:
    """Write a fused activation by its number in the schema."""
    dtype = w.types[value].dtype if value in w.types else "float32"
    if activation == 0:
        return value
    if activation == 1:
        return w.emit("relu", value)
    if activation == 2:
        return w.emit("clip", value, w.scalar(-1, dtype), w.scalar(1, dtype))
    if activation == 3:
        return w.emit("clip", value, w.scalar(0, dtype), w.scalar(6, dtype))
    if activation == 4:
        return w.emit("tanh", value)
    if activation == 5:
        return w.emit("sign", value)
    raise ModelError(f"node {w.current}: no fused activation of number {activation}")
