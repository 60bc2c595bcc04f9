"""Network transform: layers merged, replaced and removed, with a report of the findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from palmkit.engine.compress.cancel_concats import cancel_concats
from palmkit.engine.compress.low_rank import factorize
from palmkit.engine.compress.merge_layers import merge_chains, merge_parallel
from palmkit.engine.compress.pipeline import State
from palmkit.engine.compress.prune_neurons import remove_unread
from palmkit.engine.compress.tuning import within
from palmkit.engine.ir import Graph, check
from palmkit.engine.macs import macs
from palmkit.engine.ops import infer_types
from palmkit.engine.passes.fold_batch_norm import fold_batch_norm
from palmkit.engine.passes.fold_constants import fold_constants
from palmkit.engine.passes.fold_scales import fold_scales
from palmkit.engine.passes.fuse_bias import fuse_bias
from palmkit.engine.passes.merge_common import merge_common
from palmkit.engine.passes.remove_dead_code import remove_dead_code
from palmkit.engine.passes.remove_identities import remove_identities

Rule: TypeAlias = Callable[[Graph], Graph]

# Rules by their names in the report, applied in this order until nothing changes.
RULES: tuple[tuple[str, Rule], ...] = (
    ("what nobody reads", remove_dead_code),
    ("arithmetic on constants", fold_constants),
    ("ops that do nothing", remove_identities),
    ("the same computed twice", merge_common),
    ("concat and split", cancel_concats),
    ("scales into layers", fold_scales),
    ("batch normalization into layers", fold_batch_norm),
    ("additions into biases", fuse_bias),
    ("parallel branches into one convolution", merge_parallel),
    ("convolution of convolution into one", merge_chains),
    ("layers of low rank into two", factorize),
    ("channels that only zeros read", remove_unread),
)
_MOST_ROUNDS = 50


@dataclass(frozen=True)
class Finding:
    """A change by a rule: its name, and sizes of the graph before and after.

    nodes, elements, multiply_adds: pairs of before and after; elements: of constants;
    multiply_adds: of one run, -1 where sizes are open.
    """

    what: str
    nodes: tuple[int, int]
    elements: tuple[int, int]
    multiply_adds: tuple[int, int]

    def __str__(self) -> str:
        """Return one line of a report."""
        text = f"{self.what}: {self.nodes[0]} nodes -> {self.nodes[1]}"
        text += f", {self.elements[0]} weights -> {self.elements[1]}"
        if min(self.multiply_adds) >= 0:
            text += f", {self.multiply_adds[0]} multiply-adds -> {self.multiply_adds[1]}"
        return text


def transform(
    graph: Graph, rules: Sequence[tuple[str, Rule]] = RULES
) -> tuple[Graph, list[Finding]]:
    """Return an equal graph, up to rounding, with fewer or smaller layers; and the findings.

    rules: names and functions. Inputs and outputs keep their names and types.
    """
    findings: dict[str, Finding] = {}
    for _ in range(_MOST_ROUNDS):
        before = graph
        for what, rule in rules:
            changed = rule(graph)
            if changed is graph:
                continue
            check(changed)
            old, new = _sizes(graph), _sizes(changed)
            known = findings.get(what, Finding(what, *((size, size) for size in old)))
            gained = [end - begin for begin, end in zip(old, new, strict=True)]
            findings[what] = Finding(
                what,
                _moved(known.nodes, gained[0]),
                _moved(known.elements, gained[1]),
                _moved(known.multiply_adds, gained[2]),
            )
            graph = changed
        if graph is before:
            break
    return graph, list(findings.values())


def _moved(pair: tuple[int, int], by: int) -> tuple[int, int]:
    """Add a rule's later changes to its first."""
    return pair[0], pair[1] + by


def _sizes(graph: Graph) -> tuple[int, int, int]:
    """Return the numbers of nodes, of elements of constants, and of multiply-adds."""
    types = infer_types(graph)
    counts = [macs(node, types) for node in graph.nodes]
    known = [count for count in counts if count is not None]
    elements = sum(value.size for value in graph.constants.values())
    return len(graph.nodes), elements, sum(known) if len(known) == len(counts) else -1


@dataclass
class NetworkTransform:
    """A step that applies the exact rules, then low-rank layers as far as the metric allows.

    errors: errors of low rank, the largest tried first. steps: fine-tuning steps after them.
    """

    name: str = "network transform"
    share: float = 0.5
    errors: tuple[float, ...] = (0.3, 0.2, 0.1, 0.05)
    steps: int = 120
    rate: float = 3e-4

    def apply(self, state: State) -> State:
        """Return the transformed graph, or the source as long as nothing is gained."""
        graph, findings = transform(state.graph)
        if not state.allows(graph):
            graph, findings = state.graph, []
        notes = [str(finding) for finding in findings]
        for number, error in enumerate(self.errors):
            state.progress(number / len(self.errors), f"low rank at an error of {error:g}")
            thin = factorize(graph, error)
            if thin is graph or not _is_smaller(thin, graph):
                break
            allowed, note = within(thin, state, self.steps, self.rate)
            notes += [note] if note and note not in notes else []
            if allowed is not None:
                more = len(thin.nodes) - len(graph.nodes)
                notes.append(f"{more} layers of low rank into two, at an error of {error:g}")
                return replace(state, graph=allowed).noted(*notes)
        return replace(state, graph=graph).noted(*notes)


def _is_smaller(a: Graph, b: Graph) -> bool:
    return _sizes(a)[1] < _sizes(b)[1]
