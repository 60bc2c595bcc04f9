"""Gradients of sums, means and global pools."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Node
from palmkit.engine.train.gradients import Backward, Rule

Back = Sequence["str | None"]


def _axes(tape: Backward, node: Node) -> tuple[int, ...]:
    rank = len(tape.dims(node.inputs[0]))
    if len(node.inputs) > 1 and node.inputs[1]:
        axes = tape.value(node.inputs[1])
        if axes is None:
            raise UnsupportedError(f"node {node.label}: axes are not constant")
        if axes.size:
            return tuple(int(axis) % rank for axis in axes.reshape(-1))
    return () if node.integer("noop_with_empty_axes") else tuple(range(rank))


def _kept(tape: Backward, node: Node, value: str) -> str:
    """Return a value of the output's shape with the reduced axes in place, of size 1."""
    dims = tape.dims(node.inputs[0])
    axes = _axes(tape, node)
    return tape.reshape(value, [1 if axis in axes else dim for axis, dim in enumerate(dims)])


def _spread(tape: Backward, node: Node, dy: str) -> str:
    return tape.expand(_kept(tape, node, dy), tape.dims(node.inputs[0]))


def _sum(tape: Backward, node: Node, dy: str) -> Back:
    return [_spread(tape, node, dy), None]


def _mean(tape: Backward, node: Node, dy: str) -> Back:
    dims = tape.dims(node.inputs[0])
    share = tape.number(1 / max(1, prod(dims[axis] for axis in _axes(tape, node))), dy)
    return [_spread(tape, node, tape.add("mul", dy, share)), None]


def _sum_square(tape: Backward, node: Node, dy: str) -> Back:
    twice = tape.add("mul", _kept(tape, node, dy), tape.number(2.0, dy))
    return [tape.add("mul", node.inputs[0], twice), None]


def _l1(tape: Backward, node: Node, dy: str) -> Back:
    return [tape.add("mul", tape.add("sign", node.inputs[0]), _kept(tape, node, dy)), None]


def _l2(tape: Backward, node: Node, dy: str) -> Back:
    share = _kept(tape, node, tape.add("div", dy, node.outputs[0]))
    return [tape.add("mul", node.inputs[0], share), None]


def _log_sum_exp(tape: Backward, node: Node, dy: str) -> Back:
    share = tape.add("exp", tape.add("sub", node.inputs[0], _kept(tape, node, node.outputs[0])))
    return [tape.add("mul", share, _kept(tape, node, dy)), None]


def _global_mean(tape: Backward, node: Node, dy: str) -> Back:
    dims = tape.dims(node.inputs[0])
    share = tape.number(1 / max(1, prod(dims[2:])), dy)
    return [tape.expand(tape.add("mul", dy, share), dims)]


RULES: dict[str, Rule] = {
    "global_average_pool": _global_mean,
    "reduce_l1": _l1,
    "reduce_l2": _l2,
    "reduce_log_sum_exp": _log_sum_exp,
    "reduce_mean": _mean,
    "reduce_sum": _sum,
    "reduce_sum_square": _sum_square,
}
