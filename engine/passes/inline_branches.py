"""Branches whose condition is known are inlined."""

from dataclasses import replace

from palmkit.engine.ir import Graph, Known, Node
from palmkit.engine.ops.if_ import is_true
from palmkit.engine.passes.rewrite import Change, Draft, rewrite


def inline_branches(graph: Graph) -> Graph:
    """Replace an `if` with a constant condition by the nodes of the branch that it takes."""
    return rewrite(graph, _inline, {"if"})


def _inline(draft: Draft, node: Node) -> Change:
    condition = draft.type(node.inputs[0])
    branches = [node.attrs.get(name) for name in ("then_branch", "else_branch")]
    if not isinstance(condition, Known):
        return None
    branch = branches[0 if is_true(condition.value) else 1]
    if not isinstance(branch, Graph) or len(branch.inputs) != len(node.inputs) - 1:
        return None
    names = dict(zip(branch.inputs, node.inputs[1:], strict=True))
    for name, value in branch.constants.items():
        names[name] = draft.new_constant(f"{node.outputs[0]}.{name}", value)
    results = dict(zip(branch.outputs, node.outputs, strict=False))
    written = {name for each in branch.nodes for name in each.outputs if name}
    for name in written:
        names[name] = results.get(name) or draft.new_value(f"{node.outputs[0]}.{name}")
    names[""] = ""
    nodes = [
        replace(
            each,
            inputs=tuple(names[name] for name in each.inputs),
            outputs=tuple(names[name] for name in each.outputs),
        )
        for each in branch.nodes
    ]
    nodes += [
        Node("identity", (names[inner],), (outer,), name=node.name)
        for inner, outer in results.items()
        if outer and inner not in written
    ]
    return nodes
