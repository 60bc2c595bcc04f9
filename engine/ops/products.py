"""Multiply-accumulates of ops that multiply matrices and kernels, from a node's types.

Biases count nothing, and a convolution's padding counts as if it were picture, as in the published
numbers of the well-known networks.
"""

from collections.abc import Sequence
from math import prod

from palmkit.engine.ir import Node, Type

Types = Sequence[Type | None]


def dims_of(type: Type | None) -> tuple[int, ...]:
    """Return the dims of a required input."""
    assert type is not None
    return type.dims


def macs_of_kernel(node: Node, inputs: Types, outputs: Types) -> int:
    """Count a sum over the group's channels and the kernel, the second input, for each output."""
    return prod(dims_of(outputs[0])) * prod(dims_of(inputs[1])[1:])


def macs_of_transposed_kernel(node: Node, inputs: Types, outputs: Types) -> int:
    """Count the group's output channels times the kernel for each element of the input."""
    return prod(dims_of(inputs[0])) * prod(dims_of(inputs[1])[1:])


def macs_of_matrix(node: Node, inputs: Types, outputs: Types) -> int:
    """Count a sum over the last axis of the first input for each output."""
    return prod(dims_of(outputs[0])) * dims_of(inputs[0])[-1]


def macs_of_gates(node: Node, inputs: Types, outputs: Types) -> int:
    """Count the input's and the state's weights for each step, sequence and direction."""
    steps, batch = dims_of(inputs[0])[:2]
    return steps * batch * (prod(dims_of(inputs[1])) + prod(dims_of(inputs[2])))
