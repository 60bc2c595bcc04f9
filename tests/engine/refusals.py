"""Which cases of which ops a backend is expected to refuse, and why.

The lists are refused/<backend>.txt, the backend without its device: `op | case | reason` a line,
the case as `label` writes it. A backend without a file takes every case of the ops that it
supports; which these are for the one that runs natively stands in engine/OPS.md.
"""

from functools import cache
from pathlib import Path

from palmkit.engine.backends import BACKENDS, DEVICES, Backend, Program
from palmkit.engine.ir import Graph, Node
from palmkit.engine.steps.refusal import RefusedError, first_output

NO_KERNEL = "no kernel"
_FOLDER = Path(__file__).parent / "refused"


@cache
def find(name: str) -> Backend:
    """Return the backend of a name, which may have a device behind a colon."""
    kind, colon, device = name.partition(":")
    return DEVICES[kind].on(device) if colon else BACKENDS[kind]


@cache
def expected(backend: str) -> dict[tuple[str, str], str]:
    """Return the reason for each (op, case) that the backend refuses of ops that it supports."""
    file = _FOLDER / f"{backend.partition(':')[0]}.txt"
    found: dict[tuple[str, str], str] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        op, case, reason = line.split(" | ")
        assert (op, case) not in found, f"{file.name} has it twice: {line}"
        found[op, case] = reason
    return found


def expected_reason(backend: str, op: str, case: str) -> str:
    """Return why the backend should refuse the case; "" if it should take it."""
    if not supports(backend, op):
        return NO_KERNEL
    return expected(backend).get((op, case), "")


def supports(backend: str, op: str) -> bool:
    """Return whether the backend has a rule for the op."""
    return find(backend).supports(Node(op, (), ("y",)))


def attempt(backend: str, graph: Graph) -> tuple[Program | None, str]:
    """Return the backend's program for a graph of one node; or None, and its refusal."""
    (node,) = graph.nodes
    if not find(backend).supports(node):
        return None, NO_KERNEL
    try:
        return find(backend).compile(graph), ""
    except RefusedError as refused:
        return None, refused.reasons[first_output(node)].partition("): ")[2]
