"""How many multiply-accumulates a node takes.

Counted are the products of what multiplies matrices and kernels; what works element by element, and
biases, count nothing, as in the published numbers of the well-known networks. A convolution's
padding counts as if it were picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TypeAlias

from palmkit.engine.ir import Node, Type

Rule: TypeAlias = Callable[[Node, Sequence[Type | None], Sequence[Type | None]], int]


def macs(node: Node, types: Mapping[str, Type]) -> int | None:
    """Multiply-accumulates of one run of the node; None if they hang on what only a run gives.

    types: of the values, as infer_types gives them.
    """
    if node.bodies:
        return None
    rule = RULES.get(node.op)
    if rule is None:
        return 0
    named = [name for name in (*node.inputs, *node.outputs) if name]
    if any(name not in types or not types[name].is_static for name in named):
        return None
    return rule(
        node,
        [types[name] if name else None for name in node.inputs],
        [types[name] if name else None for name in node.outputs],
    )


def _dims(type: Type | None) -> tuple[int, ...]:
    assert type is not None
    return type.dims


def _conv(node: Node, inputs: Sequence[Type | None], outputs: Sequence[Type | None]) -> int:
    """Each output is a sum over its group's channels and the kernel."""
    return prod(_dims(outputs[0])) * prod(_dims(inputs[1])[1:])


def _integer_conv(node: Node, inputs: Sequence[Type | None], outputs: Sequence[Type | None]) -> int:
    """As conv; the weight is where qlinear_conv has it."""
    weight = inputs[3] if node.op == "qlinear_conv" else inputs[1]
    return prod(_dims(outputs[0])) * prod(_dims(weight)[1:])


def _conv_transpose(
    node: Node, inputs: Sequence[Type | None], outputs: Sequence[Type | None]
) -> int:
    """Each input goes to its group's channels over the kernel."""
    return prod(_dims(inputs[0])) * prod(_dims(inputs[1])[1:])


def _gemm(node: Node, inputs: Sequence[Type | None], outputs: Sequence[Type | None]) -> int:
    rows, columns = _dims(inputs[0])
    return prod(_dims(outputs[0])) * (rows if node.attrs.get("transA", 0) else columns)


def _matmul(node: Node, inputs: Sequence[Type | None], outputs: Sequence[Type | None]) -> int:
    """Each output is a sum over the last axis of the first input."""
    return prod(_dims(outputs[0])) * _dims(inputs[0])[-1]


def _einsum(node: Node, inputs: Sequence[Type | None], outputs: Sequence[Type | None]) -> int:
    """The product of all the letters' sizes, once for each product of two inputs."""
    equation = str(node.attrs.get("equation", "")).replace(" ", "")
    terms = equation.split("->")[0].split(",")
    sizes: dict[str, int] = {}
    batch = 1
    for term, type in zip(terms, inputs, strict=False):
        dims = _dims(type)
        head, dots, tail = term.partition("...")
        covered = len(dims) - len(head) - len(tail) if dots else 0
        sizes.update(zip(head, dims, strict=False))
        sizes.update(zip(tail, dims[len(dims) - len(tail) :], strict=False))
        batch = max(batch, prod(dims[len(head) : len(head) + covered]))
    return batch * prod(sizes.values()) * max(0, len(terms) - 1)


def _recurrent(node: Node, inputs: Sequence[Type | None], outputs: Sequence[Type | None]) -> int:
    """For each step of each sequence the input's weights and the state's, of each direction."""
    steps, batch = _dims(inputs[0])[:2]
    return steps * batch * (prod(_dims(inputs[1])) + prod(_dims(inputs[2])))


def _attention(node: Node, inputs: Sequence[Type | None], outputs: Sequence[Type | None]) -> int:
    """Queries by keys, then their weights by values; heads are an axis, or part of the last."""
    q, k, v = (_dims(each) for each in inputs[:3])
    queries, keys = prod(q[:-1]), k[-2]
    if len(q) == 3:
        return queries * keys * (q[-1] + _dims(outputs[0])[-1])
    return queries * keys * (q[-1] + v[-1])


RULES: dict[str, Rule] = {
    "attention": _attention,
    "conv": _conv,
    "conv_integer": _integer_conv,
    "conv_transpose": _conv_transpose,
    "deform_conv": _conv,
    "einsum": _einsum,
    "fused_conv": _conv,
    "fused_conv_transpose": _conv_transpose,
    "gemm": _gemm,
    "gru": _recurrent,
    "lstm": _recurrent,
    "matmul": _matmul,
    "matmul_integer": _matmul,
    "quantized_conv": _conv,
    "qlinear_conv": _integer_conv,
    "qlinear_matmul": _matmul,
    "rnn": _recurrent,
}
