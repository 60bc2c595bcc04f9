"""The content of a drawing: a card for each node, input and output, and their links."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature

import numpy as np

from palmkit.engine.ir import Array, Attr, Graph, Node, Type
from palmkit.engine.ops import find, traits_of
from palmkit.engine.ops.traits import Family
from palmkit.engine.shapes import symbolic_types

BORDER = "input, output"
ALL_FAMILIES = (*(family.value for family in Family), BORDER)

_MOST_LETTERS = 38
_MOST_LINES = 7


@dataclass(frozen=True)
class Card:
    """A box of the drawing.

    lines: the lines below its title. tooltip: the full text.
    kernel: "native" or "numpy" where it is known what runs the node, else "".
    """

    title: str
    subtitle: str
    lines: tuple[str, ...]
    type: str
    family: str
    tooltip: str
    kernel: str = ""


@dataclass(frozen=True)
class Link:
    """A value between the card that writes it and one that reads it, by their numbers."""

    source: int
    target: int
    value: str
    label: str
    tooltip: str


@dataclass(frozen=True)
class Section:
    """A graph, or a body of a control-flow node in one."""

    title: str
    cards: tuple[Card, ...]
    links: tuple[Link, ...]


def describe(
    graph: Graph, title: str = "", numpy_nodes: Collection[str] | None = None
) -> list[Section]:
    """Return the graph's section, then those of the bodies in it, recursively.

    numpy_nodes: the first outputs of the nodes that no native kernel runs; None if that is not to
    be drawn.
    """
    cards, links = _describe(graph, numpy_nodes)
    sections = [Section(title, tuple(cards), tuple(links))]
    for node in graph.nodes:
        for name, body in node.attrs.items():
            if isinstance(body, Graph):
                label = f"{name} of {node.op} {node.label}"
                sections += describe(body, label)
    return sections


def _describe(graph: Graph, numpy_nodes: Collection[str] | None) -> tuple[list[Card], list[Link]]:
    types = {**graph.outputs, **symbolic_types(graph)}
    cards: list[Card] = []
    links: list[Link] = []
    writers: dict[str, int] = {}

    def read(name: str, target: int) -> None:
        if name in graph.constants and name not in writers:
            writers[name] = len(cards)
            cards.append(_border("constant", name, types.get(name)))
        type = types.get(name)
        links.append(Link(writers[name], target, name, _dims(type), f"{name}: {type or '?'}"))

    for name, type in graph.inputs.items():
        writers[name] = len(cards)
        cards.append(_border("input", name, type))
    for node in graph.nodes:
        number = len(cards)
        kernel = ""
        if numpy_nodes is not None:
            first = next((name for name in node.outputs if name), "")
            kernel = "numpy" if first in numpy_nodes else "native"
        cards.append(_card(node, graph, types, kernel))
        for name in dict.fromkeys(node.inputs):
            if name and name not in graph.constants:
                read(name, number)
        writers.update(dict.fromkeys((name for name in node.outputs if name), number))
    for name in graph.outputs:
        number = len(cards)
        cards.append(_border("output", name, types.get(name)))
        read(name, number)
    return cards, links


def _border(title: str, name: str, type: Type | None) -> Card:
    text = str(type or "?")
    return Card(title, _cut(name), (), text, BORDER, f"{title} {name}: {text}")


def _card(node: Node, graph: Graph, types: Mapping[str, Type], kernel: str) -> Card:
    lines = _wrapped(_attributes(node))
    for role, name in zip(_roles(node), node.inputs, strict=False):
        if name in graph.constants:
            lines.append(_cut(f"{role} {_constant(graph.constants[name])}"))
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"... {len(lines) - _MOST_LINES + 1} more"]
    written = [name for name in node.outputs if name]
    text = str(types.get(written[0], "?")) if len(written) == 1 else f"{len(written)} outputs"
    return Card(
        title=node.op,
        subtitle=_cut(node.name or written[0]),
        lines=tuple(lines),
        type=text,
        family=family(node.op),
        tooltip=_tooltip(node, graph, types, kernel),
        kernel=kernel,
    )


def family(op: str) -> str:
    """Return the name of the op's group."""
    return traits_of(op).kind.value


def _roles(node: Node) -> list[str]:
    """Return the op's names for its inputs."""
    places = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    parameters = signature(find(node.op).reference).parameters.values()
    names = [each.name for each in parameters if each.kind in places]
    return names + [f"input {place}" for place in range(len(names), len(node.inputs))]


def _attributes(node: Node) -> list[str]:
    """Return the attributes that differ from their defaults, in short form."""
    defaults = find(node.op).defaults
    neutral = {"dilations": 1, "group": 1, "strides": 1, "pads": 0, "output_padding": 0}
    texts: list[str] = []
    for name, value in node.attrs.items():
        values = value if isinstance(value, tuple) else (value,)
        if value == defaults.get(name) or (name in neutral and set(values) <= {neutral[name]}):
            continue
        texts.append(f"{name.removesuffix('_shape')} {_value(value)}")
    return texts


def _value(value: Attr) -> str:
    if isinstance(value, Graph):
        return f"{{{len(value.nodes)} nodes}}"
    if not isinstance(value, tuple):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if len(set(value)) == 1 and len(value) > 1 and isinstance(value[0], int):
        return str(value[0])
    return ",".join(f"{each:g}" if isinstance(each, float) else str(each) for each in value)


def _constant(value: Array) -> str:
    """Return a few numbers in full, else the shape and range."""
    if value.size <= 4 and value.dtype.kind in "iufb":
        is_float = value.dtype.kind == "f"
        values = value.ravel().tolist()
        digits = ".4g" if value.size == 1 else ".3g"
        numbers = ", ".join(format(each, digits) if is_float else str(each) for each in values)
        return f"= {numbers}" if value.size == 1 else f"= [{numbers}]"
    return _dims(Type.of(value))


def _dims(type: Type | None) -> str:
    if type is None:
        return "?"
    return "×".join(map(str, type.shape)) if type.shape else type.dtype


def _wrapped(texts: Sequence[str]) -> list[str]:
    """Return the texts joined to as few lines as possible."""
    lines: list[str] = []
    for text in texts:
        if lines and len(lines[-1]) + len(text) + 3 <= _MOST_LETTERS - 6:
            lines[-1] += f" · {text}"
        else:
            lines.append(_cut(text))
    return lines


def _cut(text: str) -> str:
    """Return the text, or its beginning and end if it is long: names differ at their ends."""
    if len(text) <= _MOST_LETTERS:
        return text
    head = _MOST_LETTERS // 3
    return f"{text[:head]}…{text[head + 1 - _MOST_LETTERS :]}"


def _tooltip(node: Node, graph: Graph, types: Mapping[str, Type], kernel: str) -> str:
    lines = [f"{node.op} {node.name}".strip()]
    lines += [f"runs in {kernel} code"] if kernel else []
    lines += [f"{name} = {_value(value)}" for name, value in node.attrs.items()]
    for role, name in zip(_roles(node), node.inputs, strict=False):
        if name:
            lines.append(f"{role}: {name}: {types.get(name, '?')}{_span(graph, name)}")
    lines += [f"writes {name}: {types.get(name, '?')}" for name in node.outputs if name]
    return "\n".join(lines)


def _span(graph: Graph, name: str) -> str:
    value = graph.constants.get(name)
    if value is None or not value.size or value.dtype.kind not in "iuf":
        return ""
    return f", {np.min(value):.4g} to {np.max(value):.4g}"
