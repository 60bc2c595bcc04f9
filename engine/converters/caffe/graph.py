"""The graph of a Caffe network under construction: what rules read, and how they write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from palmkit.engine.converters.caffe.network import Layer
from palmkit.engine.converters.damage import DAMAGE, reason
from palmkit.engine.errors import ModelError, PalmError, UnsupportedError
from palmkit.engine.ir import Array, Attr, Graph, Known, Node, Type
from palmkit.engine.ops import infer_outputs


@dataclass(frozen=True)
class Copy:
    """A dim of a reshape's target: a copy of the input's dim at `axis`."""

    axis: int


@dataclass
class Draft:
    """Nodes, constants, and the type of every value for the sizes that the files state.

    Rules take only ranks and channels from the types: another input size must not need another
    graph.
    """

    nodes: list[Node]
    constants: dict[str, Array]
    types: dict[str, Type]
    taken: set[str]
    layer: Layer
    counts: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def label(self) -> str:
        """The name of the layer being converted, for messages."""
        return self.layer.label

    def bad(self, what: str) -> ModelError:
        """Return the error for an invalid layer."""
        return ModelError(f"{self.label}: {what}")

    def unsupported(self, what: str) -> UnsupportedError:
        """Return the error for something that has no rule."""
        return UnsupportedError(f"{self.label}: {what} is not supported")

    def rank(self, value: str) -> int:
        """Return the number of axes."""
        return len(self.type(value).shape)

    def type(self, value: str) -> Type:
        """Return the type for the sizes that the files state.

        Raises UnsupportedError if only a run gives it.
        """
        if value not in self.types:
            raise self.unsupported("a bottom whose shape hangs on the picture")
        return self.types[value]

    def dims(self, value: str) -> tuple[int, ...]:
        """Return the sizes that the files state."""
        return self.type(value).dims

    def channels(self, value: str) -> int:
        """Return the size of axis 1."""
        if self.rank(value) < 2:
            raise self.bad(f"expected a bottom with channels, got {self.type(value)}")
        return self.dims(value)[1]

    def axis(self, value: str, axis: int, extra: int = 0) -> int:
        """Return an axis counted from the front; `extra` axes may lie past the rank."""
        rank = self.rank(value) + extra
        if not -rank <= axis < rank:
            raise self.bad(f"axis {axis} is outside of {self.type(value)}")
        return axis % rank

    def fresh(self, what: str) -> str:
        """Return a name for a new value of the layer."""
        stem = f"{self.layer.name}/{what}"
        while True:
            count = self.counts.get(stem, 0)
            self.counts[stem] = count + 1
            name = f"{stem}.{count}" if count else stem
            if name not in self.taken:
                self.taken.add(name)
                return name

    def constant(self, value: Any, dtype: str = "float32") -> str:
        """Add a constant and return its name."""
        array = np.asarray(value, dtype, order="C")
        array.flags.writeable = False
        name = self.fresh("constant")
        self.constants[name] = array
        self.types[name] = Known.of(array)
        return name

    def int64(self, *values: int) -> str:
        """Add a constant int64[n] and return its name."""
        return self.constant(values, "int64")

    def blob(self, index: int, *shape: int) -> Array:
        """Return a learned blob as float32 of this shape; raise ModelError if it does not fit.

        Axes of length 1 do not count: old files give each blob four axes.
        """
        blobs = self.layer.blobs or ()
        if index >= len(blobs):
            raise self.bad(f"expected at least {index + 1} learned blobs, got {len(blobs)}")
        blob = blobs[index]
        if _squeezed(blob.shape) != _squeezed(shape):
            raise self.bad(f"blob {index}: expected {list(shape)}, got {list(blob.shape)}")
        return blob.values.reshape(shape)

    def weight(self, index: int, *shape: int) -> str:
        """Add a learned blob as a constant and return its name."""
        return self.constant(self.blob(index, *shape))

    def emit(self, op: str, *inputs: str, **attrs: Attr) -> str:
        """Add a node with one output and return the output's name."""
        return self.emit_all(op, 1, *inputs, **attrs)[0]

    def emit_all(self, op: str, outputs: int, *inputs: str, **attrs: Attr) -> tuple[str, ...]:
        """Add a node with `outputs` outputs and return their names."""
        names = tuple(self.fresh(op) for _ in range(outputs))
        node = Node(op, inputs, names, attrs, self.layer.name)
        self.nodes.append(node)
        known = [self.types.get(name) if name else None for name in inputs]
        if all(
            not name or (type is not None and type.is_static)
            for name, type in zip(inputs, known, strict=True)
        ):
            self.types.update(zip(names, infer_outputs(node, known), strict=False))
        return names

    def shape(self, value: str, start: int = 0, end: int | None = None) -> str:
        """Write the dims of a value as int64[n]."""
        if end is None:
            return self.emit("shape", value, start=start)
        return self.emit("shape", value, start=start, end=end)

    def reshape(self, value: str, dims: Sequence[int | Copy]) -> str:
        """Write a reshape; one of the dims may be -1, which stands for the remaining elements."""
        if all(dim.axis == i for i, dim in enumerate(dims) if isinstance(dim, Copy)):
            plain = [0 if isinstance(dim, Copy) else dim for dim in dims]
            return self.emit("reshape", value, self.int64(*plain))
        pieces = [
            self.shape(value, dim.axis, dim.axis + 1) if isinstance(dim, Copy) else self.int64(dim)
            for dim in dims
        ]
        return self.emit("reshape", value, self.emit("concat", *pieces, axis=0))

    def scaled(self, value: str, factor: float = 1.0, shift: float = 0.0) -> str:
        """Write factor * value + shift."""
        if factor != 1:
            value = self.emit("mul", value, self.constant(factor))
        return self.emit("add", value, self.constant(shift)) if shift else value

    def by_channel(self, value: str, numbers: Array, axis: int = 1) -> str:
        """Add numbers along the axes from `axis` on as a constant that broadcasts to the value."""
        behind = self.rank(value) - axis - numbers.ndim
        return self.constant(numbers.reshape(*numbers.shape, *[1] * behind))


def _squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(dim for dim in shape if dim != 1)


def build(
    inputs: Sequence[tuple[str, tuple[int, ...]]], layers: Sequence[Layer], metadata: dict[str, str]
) -> Graph:
    """Convert the layers in order; the outputs are the blobs that no layer reads."""
    from palmkit.engine.converters.caffe.rules import registry

    tops = {top for layer in layers for top in layer.tops}
    graph_inputs = _graph_inputs(inputs)
    first = Layer("net", "Input", (), (), None, (), None)
    draft = Draft([], {}, {**graph_inputs}, {*graph_inputs, *tops}, first)
    values = {name: name for name in graph_inputs}
    unread = dict.fromkeys(values)
    last_writers = {top: i for i, layer in enumerate(layers) for top in layer.tops}
    for i, layer in enumerate(layers):
        draft.layer = layer
        bottoms = [_bottom(draft, name, values) for name in layer.bottoms]
        start = len(draft.nodes)
        results = _apply(registry()[layer.type], draft, bottoms)
        for name in layer.bottoms:
            unread.pop(name, None)
        written = {name for node in draft.nodes[start:] for name in node.outputs}
        renamed: dict[str, str] = {}
        named: set[str] = set()
        for place, (top, value) in enumerate(zip(layer.tops, results, strict=True)):
            in_place = place < len(layer.bottoms) and layer.bottoms[place] == top
            if (top in values and not in_place) or top in named:
                raise draft.bad(f"blob is written twice: {top}")
            named.add(top)
            unread[top] = None
            values[top] = value
            is_last = last_writers[top] == i and top not in graph_inputs
            if is_last and value in written and value not in renamed:
                renamed[value] = values[top] = top
        _rename(draft, start, renamed)
    outputs: dict[str, Type] = {}
    for name in unread:
        if name in graph_inputs and values[name] == name:
            continue
        outputs[name] = _output(draft, name, values[name], name in graph_inputs)
    if not outputs:
        raise ModelError("no Caffe network: it has no outputs")
    return Graph(graph_inputs, outputs, tuple(draft.nodes), draft.constants, metadata)


def _graph_inputs(inputs: Sequence[tuple[str, tuple[int, ...]]]) -> dict[str, Type]:
    types: dict[str, Type] = {}
    for name, shape in inputs:
        if name in types:
            raise ModelError(f"input is declared twice: {name}")
        types[name] = Type("float32", shape)
    if not types:
        raise ModelError("no Caffe network: it has no inputs")
    return types


def _bottom(draft: Draft, name: str, values: dict[str, str]) -> str:
    if name not in values:
        raise draft.bad(f"reads a blob that no layer before it writes: {name}")
    return values[name]


def _apply(rule: Any, draft: Draft, bottoms: list[str]) -> list[str]:
    """Return the rule's results, one a top; errors name the layer."""
    least, most = rule.bottoms
    if not least <= len(bottoms) <= most:
        wanted = f"{least}" if least == most else f"{least} or more"
        raise draft.bad(f"expected {wanted} bottoms, got {len(bottoms)}")
    try:
        results = rule.convert(draft, *bottoms)
    except PalmError as error:
        if draft.label in str(error):
            raise
        kind = UnsupportedError if isinstance(error, UnsupportedError) else ModelError
        raise kind(f"{draft.label}: {error}") from None
    except DAMAGE as error:
        raise draft.bad(f"damaged: {reason(error)}") from error
    results = [results] if isinstance(results, str) else list(results)
    if len(results) < len(draft.layer.tops):
        raise draft.bad(f"expected {len(results)} tops, got {len(draft.layer.tops)}")
    return results[: len(draft.layer.tops)]


def _rename(draft: Draft, start: int, names: dict[str, str]) -> None:
    """Give values written by the nodes from `start` on the names of their blobs."""
    for i in range(start, len(draft.nodes)):
        node = draft.nodes[i]
        draft.nodes[i] = replace(
            node,
            inputs=tuple(names.get(each, each) for each in node.inputs),
            outputs=tuple(names.get(each, each) for each in node.outputs),
        )
    for value, name in names.items():
        if value in draft.types:
            draft.types[name] = draft.types.pop(value)


def _output(draft: Draft, name: str, value: str, is_input: bool) -> Type:
    """Make a blob an output under its name; an input that was changed in place is renamed."""
    if is_input:
        raise UnsupportedError(f"output {name}: an input that is changed in place")
    if value != name:
        draft.nodes.append(Node("identity", (value,), (name,)))
        if value in draft.types:
            draft.types[name] = draft.types[value]
    found = draft.types.get(name)
    return Type("float32", ("...",)) if found is None else Type(found.dtype, found.shape)
