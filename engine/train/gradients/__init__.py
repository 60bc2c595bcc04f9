"""Gradients of graphs: each op's rule writes nodes, so they run on the same kernels as the model.

A rule is an entry of RULES in one of the files of this folder. It gets the tape, the node and the
name of the gradient of its first output, and returns a name for each input, None where nothing
flows back. It need not answer for inputs that `tape.wants` does not hold. Ops of several outputs,
and those whose weights are trained, are first written out as simpler ones: see write_out.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module

from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Graph, Node
from palmkit.engine.train.tape import Tape

Rule = Callable[["Backward", Node, str], "Sequence[str | None]"]

_FILES = ("activations", "arithmetic", "linear", "reductions", "rounding", "shapes")
# Ops that have no slope, or are constant nearly everywhere.
FLAT = frozenset(
    {
        "and", "arg_max", "arg_min", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor",
        "ceil", "equal", "floor", "greater", "greater_or_equal", "is_inf", "is_nan", "less",
        "less_or_equal", "non_zero", "not", "one_hot", "or", "range", "round", "shape", "sign",
        "size", "xor",
    }
)  # fmt: skip


@cache
def rules() -> Mapping[str, Rule]:
    """Return the rule of each op that has one."""
    found: dict[str, Rule] = {}
    for file in _FILES:
        found.update(import_module(f"{__name__}.{file}").RULES)
    return found


class Backward(Tape):
    """A tape for the backward pass; `wants` are the values whose gradients are needed."""

    def __init__(self, graph: Graph, wants: Iterable[str]) -> None:
        """Start behind a graph.

        wants: inputs of the graph; values that depend on them are wanted, too.
        """
        super().__init__(graph)
        self.wants = set(wants)
        for node in graph.nodes:
            if node.op not in FLAT and not self.wants.isdisjoint(node.inputs):
                self.wants.update(name for name in node.outputs if name)


def with_gradients(graph: Graph, of: str, wrt: Sequence[str]) -> tuple[Graph, dict[str, str]]:
    """Return the graph with nodes that compute the gradients of a value.

    graph: a graph of fixed sizes. of: a value of one element. wrt: inputs of the graph, float32 or
    float64.
    Returns the graph, whose outputs are those it had, `of` and the gradients, and the name of each
    gradient; a gradient is zero if `of` does not depend on the input.
    Reverse accumulation, as in Griewank and Walther, Evaluating Derivatives, 2008.
    Raises UnsupportedError for an op that has no rule, naming the node; ShapeError if a size is not
    known; ModelError if `of` has more than one element or a name in `wrt` is no input.
    """
    for name in wrt:
        if name not in graph.inputs:
            raise ModelError(f"no input {name!r}; those there are: {', '.join(graph.inputs)}")
    tape = Backward(graph, wrt)
    if tape.type(of).elements != 1:
        raise ModelError(f"gradients are of one number, {of} is {tape.type(of)}")
    gradients: dict[str, str] = {}
    if of in tape.wants:
        gradients[of] = tape.expand(tape.number(1.0, of), tape.dims(of))
    for node in reversed(graph.nodes):
        _go_back(tape, node, gradients)
    for name in wrt:
        if name not in gradients:
            gradients[name] = tape.expand(tape.number(0.0, name), tape.dims(name))
    wanted = {name: gradients[name] for name in wrt}
    return tape.graph([*graph.outputs, of, *wanted.values()]), wanted


def _go_back(tape: Backward, node: Node, gradients: dict[str, str]) -> None:
    flowing = [name for name in node.outputs if name in gradients]
    if not flowing or node.op in FLAT or tape.wants.isdisjoint(node.inputs):
        return
    rule = rules().get(node.op)
    if rule is None or flowing != [node.outputs[0]]:
        known = ", ".join(sorted(rules()))
        raise UnsupportedError(
            f"node {node.label}: no gradient of {node.op}'s output "
            f"{', '.join(flowing)}; ops that have one: {known}"
        )
    back: Sequence[str | None] = [None] * len(node.inputs)
    # A value without elements has no gradient.
    if tape.type(flowing[0]).elements:
        back = rule(tape, node, gradients[flowing[0]])
    for name, gradient in zip(node.inputs, back, strict=False):
        if name in tape.wants and gradient is not None:
            before = gradients.get(name)
            gradients[name] = gradient if before is None else tape.add("add", before, gradient)
