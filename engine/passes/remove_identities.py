"""Nodes that change nothing are removed."""

from collections.abc import Callable

import numpy as np

from palmkit.engine.ir import Graph, Node
from palmkit.engine.ops import traits_of
from palmkit.engine.ops.traits import Movement
from palmkit.engine.passes.rewrite import Change, Draft, input_at, ops_among, rewrite


def remove_identities(graph: Graph) -> Graph:
    """Remove a node whose first output equals its first input.

    At a graph output the value before takes the output's name; a graph input or a constant that is
    also an output keeps its identity node.
    """
    known = {name for name in ops_among(graph, lambda traits: True) if _check_of(name)}
    return rewrite(graph, _remove, known)


def _remove(draft: Draft, node: Node) -> Change:
    check = _check_of(node.op)
    if check is None or not check(draft, node):
        return None
    if any(draft.reads(name) for name in node.outputs[1:]):
        return None
    source, output = node.inputs[0], node.outputs[0]
    if node.op == "identity" and draft.is_output(output):
        before = draft.producer(source)
        if before is None or draft.is_output(source):
            return None
    return {output: source}


def _always(draft: Draft, node: Node) -> bool:
    return True


def _is_alone(draft: Draft, node: Node) -> bool:
    return len(node.inputs) == 1


def _keeps_type(draft: Draft, node: Node) -> bool:
    before, after = draft.type(node.inputs[0]), draft.type(node.outputs[0])
    return (
        before is not None
        and after is not None
        and (before.dtype, before.shape) == (after.dtype, after.shape)
    )


def _keeps_dtype(draft: Draft, node: Node) -> bool:
    before = draft.type(node.inputs[0])
    return before is not None and before.dtype == node.text("to")


def _keeps_order(draft: Draft, node: Node) -> bool:
    perm = node.integers("perm")
    return bool(perm) and perm == tuple(range(len(perm)))


def _pads_nothing(draft: Draft, node: Node) -> bool:
    pads = draft.constant(node.inputs[1])
    return pads is not None and not pads.any()


def _takes_all(draft: Draft, node: Node) -> bool:
    steps = draft.constant(input_at(node, 4))
    forwards = not input_at(node, 4) or (steps is not None and bool((steps > 0).all()))
    return forwards and _keeps_type(draft, node)


def _samples_itself(draft: Draft, node: Node) -> bool:
    mode = node.text("coordinate_transformation_mode")
    sampled = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    return mode in sampled and node.text("mode") != "cubic" and _keeps_type(draft, node)


def _looks_at_one(draft: Draft, node: Node) -> bool:
    return all(size == 1 for size in node.integers("kernel_shape")) and _keeps_type(draft, node)


def _has_no_bounds(draft: Draft, node: Node) -> bool:
    bounds = zip(node.inputs[1:], (-np.inf, np.inf), strict=False)
    values = [(draft.constant(name), unbounded) for name, unbounded in bounds if name]
    return all(value is not None and bool((value == none).all()) for value, none in values)


def _by_neutral(neutral: float) -> Callable[[Draft, Node], bool]:
    def check(draft: Draft, node: Node) -> bool:
        value = draft.constant(input_at(node, 1))
        return value is not None and bool((value == neutral).all()) and _keeps_type(draft, node)

    return check


_CHECKS: dict[str, Callable[[Draft, Node], bool]] = {
    "identity": _always,
    "concat": _is_alone,
    "sum": _is_alone,
    "max": _is_alone,
    "min": _is_alone,
    "cast": _keeps_dtype,
    "transpose": _keeps_order,
    "expand": _keeps_type,
    "tile": _keeps_type,
    "pad": _pads_nothing,
    "slice": _takes_all,
    "resize": _samples_itself,
    "max_pool": _looks_at_one,
    "average_pool": _looks_at_one,
    "clip": _has_no_bounds,
    "add": _by_neutral(0),
    "sub": _by_neutral(0),
    "mul": _by_neutral(1),
    "div": _by_neutral(1),
}


def _check_of(op: str) -> Callable[[Draft, Node], bool] | None:
    """Return the condition under which a node changes nothing; None if there is no condition."""
    reshapes = traits_of(op).movement is Movement.RESHAPES
    return _keeps_type if reshapes else _CHECKS.get(op)
