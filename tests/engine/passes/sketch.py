"""A random graph that grows by steps."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from palmkit.engine.ir import Array, Attr, Graph, Node, Type
from palmkit.engine.ops import infer_types

Choose = Callable[[int, int], int]

MOST_ELEMENTS = 3000


class Sketch:
    """A graph that grows by random steps; every value is float64 of known shape.

    choose: gives a number of low..high, both included; all choices but those of the constants'
    values go through it.
    """

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.random = np.random.default_rng(choose(0, 9999))
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        batch = (1, 1, 1, 2, 0)[choose(0, 4)]
        shape = (batch, choose(1, 6), *(choose(1, 7) for _ in range(2)))
        self.inputs = {name: Type("float64", shape) for name in ("x", "z")}
        self.types = dict(self.inputs)

    def chance(self, percent: int) -> bool:
        return self.choose(0, 99) >= 100 - percent

    def one_of(self, *things: Any) -> Any:
        return things[self.choose(0, len(things) - 1)]

    def pick(self, rank: int = 4, least: int = 0) -> str:
        """Return one of the last values of this rank with at least `least` pixels a side."""
        names = [
            name
            for name, type in self.types.items()
            if len(type.shape) == rank
            and type.dtype == "float64"
            and min(type.dims[2:], default=9) >= least
        ]
        return str(self.one_of(*names[-5:])) if names else ""

    def dims(self, name: str) -> tuple[int, ...]:
        return self.types[name].dims

    def weights(self, *shape: int, low: float = -1.0, high: float = 1.0) -> str:
        return self.constant(self.random.uniform(low, high, shape))

    def number(self, value: float, shape: tuple[int, ...] = ()) -> str:
        return self.constant(np.full(shape, value, np.float64))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def constant(self, value: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attrs: Attr) -> str:
        """Return a node's first output, or its first input where it would be too large."""
        names = tuple(f"v{len(self.nodes)}_{i}" for i in range(outputs))
        node = Node(op, inputs, names, attrs)
        inferred = infer_types(Graph(dict(self.types), {}, (node,), self.constants))
        if any(inferred[name].elements > MOST_ELEMENTS for name in names):
            return inputs[0]
        self.nodes.append(node)
        self.types.update({name: inferred[name] for name in names})
        return names[0]

    def conv(self, x: str, outputs: int, kernel: int = 1, **attrs: Any) -> str:
        inputs = self.dims(x)[1] // attrs.get("group", 1)
        bias = [self.weights(outputs)] if self.chance(50) else []
        scale = 1 / max(1, inputs * kernel)
        weights = self.weights(outputs, inputs, kernel, kernel, low=-scale, high=2 * scale)
        return self.node("conv", x, weights, *bias, **attrs)

    def either_way(self, op: str, a: str, b: str) -> str:
        return self.node(op, *((a, b) if self.chance(70) else (b, a)))

    def graph(self, steps: Sequence[Callable[["Sketch"], None]], count: int) -> Graph:
        """Return the graph after `count` of the steps; some of its values are its outputs."""
        for _ in range(count):
            steps[self.choose(0, len(steps) - 1)](self)
        written = [name for node in self.nodes for name in node.outputs] or ["x"]
        ends = dict.fromkeys(
            [written[-1], *(self.one_of(*written[-8:], "x") for _ in range(self.choose(0, 2)))]
        )
        outputs = {name: Type(self.types[name].dtype, self.dims(name)) for name in ends}
        return Graph(self.inputs, outputs, tuple(self.nodes), self.constants)


def with_symbolic_dims(graph: Graph, axes: Collection[int] = (0,)) -> Graph:
    """Return the same graph with some input dims unknown."""
    unknown = {
        name: Type(
            type.dtype,
            tuple(f"d{axis}" if axis in axes else dim for axis, dim in enumerate(type.shape)),
        )
        for name, type in graph.inputs.items()
    }
    return replace(graph, inputs=unknown)
