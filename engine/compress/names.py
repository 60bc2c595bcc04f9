"""Removing the maker's names from a graph."""

from __future__ import annotations

from dataclasses import replace

from palmkit.engine.ir import Graph, Node

_DIGITS = "abcdefghijklmnopqrstuvwxyz"


def strip_names(graph: Graph) -> Graph:
    """Return the graph with short value names and without node names, also in bodies.

    The names of inputs and outputs stay, and so do ops and metadata: callers need them.
    """
    taken = {*graph.inputs, *graph.outputs}
    names = {name: name for name in taken}
    count = 0

    def short(name: str) -> str:
        nonlocal count
        if not name:
            return ""
        while name not in names:
            candidate = _short(count)
            count += 1
            if candidate not in taken:
                names[name] = candidate
        return names[name]

    constants = {short(name): value for name, value in graph.constants.items()}
    nodes = tuple(
        Node(
            node.op,
            tuple(map(short, node.inputs)),
            tuple(map(short, node.outputs)),
            {
                key: strip_names(value) if isinstance(value, Graph) else value
                for key, value in node.attrs.items()
            },
        )
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes, constants=constants)


def _short(number: int) -> str:
    """Return a, b, ... z, aa, ab, ... by number."""
    text = ""
    while number >= 0:
        text = _DIGITS[number % len(_DIGITS)] + text
        number = number // len(_DIGITS) - 1
    return text
