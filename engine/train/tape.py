"""Writing nodes behind a graph while the type of every value is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Attr, Graph, Known, Node, Type, fresh_name, value_names
from palmkit.engine.ops import infer_outputs, infer_types


class Tape:
    """A graph of known sizes that grows at its end.

    Values are referred to by name, and every value has a static type.
    """

    def __init__(self, graph: Graph) -> None:
        """Start behind the last node of a graph.

        Raises ShapeError if the size of a value is not known.
        """
        self._graph = graph
        self._types = infer_types(graph)
        for node in graph.nodes:
            for name in node.outputs:
                if name and (name not in self._types or not self._types[name].is_static):
                    raise ShapeError(
                        f"node {node.name or name}: the size of {name} is not known: give the "
                        "inputs fixed shapes"
                    )
        self._taken = value_names(graph)
        self._nodes = list(graph.nodes)
        self._constants = dict(graph.constants)

    def type(self, name: str) -> Type:
        """Return the type of a value."""
        return self._types[name]

    def dims(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value."""
        return self._types[name].dims

    def value(self, name: str) -> Array | None:
        """Return a value that is constant or depends on constants and sizes alone, else None."""
        known = self._types[name]
        return getattr(known, "value", None)

    def constant(self, value: Array, stem: str = "constant") -> str:
        """Add a constant and return its name."""
        value = np.array(value, order="C")
        value.flags.writeable = False
        name = fresh_name(self._taken, stem)
        self._constants[name] = value
        self._types[name] = Type.of(value)
        return name

    def number(self, value: float, like: str) -> str:
        """Add a constant of one element, of the dtype of a value, and return its name."""
        return self.constant(np.asarray(value, self.type(like).dtype))

    def add(self, op: str, *inputs: str, **attrs: Attr) -> str:
        """Add a node with one output and return the output's name."""
        return self.add_all(op, inputs, 1, **attrs)[0]

    def add_all(self, op: str, inputs: Sequence[str], outputs: int, **attrs: Attr) -> list[str]:
        """Add a node with `outputs` outputs and return their names."""
        names = [fresh_name(self._taken, op) for _ in range(outputs)]
        node = Node(op, tuple(inputs), tuple(names), attrs)
        types = infer_outputs(node, [self._known(name) for name in inputs])
        self._types.update(zip(names, types, strict=True))
        self._nodes.append(node)
        return names

    def _known(self, name: str) -> Type | None:
        if not name:
            return None
        if name in self._constants:
            return Known.of(self._constants[name])
        return self._types[name]

    def transpose(self, x: str, perm: Sequence[int]) -> str:
        """Write x with its axes in another order."""
        return x if list(perm) == sorted(perm) else self.add("transpose", x, perm=tuple(perm))

    def swap_last(self, x: str) -> str:
        """Write x with its last two axes swapped."""
        rank = len(self.dims(x))
        return self.transpose(x, [*range(rank - 2), rank - 1, rank - 2])

    def reshape(self, x: str, dims: Sequence[int]) -> str:
        """Write x with these dims."""
        if self.dims(x) == tuple(dims):
            return x
        return self.add("reshape", x, self.constant(np.array(dims, np.int64), "shape"))

    def sum(self, x: str, axes: Iterable[int], keepdims: bool = False) -> str:
        """Write the sum of x along axes; return x itself if there are none."""
        axes = [*axes]
        if not axes:
            return x
        along = self.constant(np.array(axes, np.int64), "axes")
        return self.add("reduce_sum", x, along, keepdims=int(keepdims))

    def sum_to(self, x: str, dims: Sequence[int]) -> str:
        """Write the sum of x to the shape that was broadcast to its own."""
        have = self.dims(x)
        extra = len(have) - len(dims)
        axes = [*range(extra)]
        axes += [
            extra + axis for axis, dim in enumerate(dims) if dim == 1 and have[extra + axis] != 1
        ]
        return self.reshape(self.sum(x, axes), dims)

    def expand(self, x: str, dims: Sequence[int]) -> str:
        """Write x broadcast to these dims."""
        if self.dims(x) == tuple(dims):
            return x
        return self.add("expand", x, self.constant(np.array(dims, np.int64), "shape"))

    def slice(self, x: str, cut: dict[int, tuple[int, int, int]]) -> str:
        """Write x from start to stop by step, for some axes."""
        dims = self.dims(x)
        cut = {axis: part for axis, part in cut.items() if part != (0, dims[axis], 1)}
        if not cut:
            return x
        starts, stops, steps = (
            np.array(part, np.int64) for part in zip(*cut.values(), strict=True)
        )
        arrays = [starts, stops, np.array([*cut], np.int64), steps]
        return self.add("slice", x, *(self.constant(array, "cut") for array in arrays))

    def pad(self, x: str, begins: Sequence[int], ends: Sequence[int], value: float = 0.0) -> str:
        """Write x with elements of this value before and after."""
        if not any(begins) and not any(ends):
            return x
        pads = self.constant(np.array([*begins, *ends], np.int64), "pads")
        return self.add("pad", x, pads, *([self.number(value, x)] if value else []))

    def graph(self, outputs: Iterable[str]) -> Graph:
        """Return the graph of all nodes, with the outputs asked for."""
        return replace(
            self._graph,
            nodes=tuple(self._nodes),
            constants=self._constants,
            outputs={name: Type(self.type(name).dtype, self.dims(name)) for name in outputs},
        )
