"""Multiply-accumulates of what multiplies matrices and kernels, from the types of a node's values.

Biases count nothing, and a convolution's padding counts as if it were picture, as in the published
numbers of the well-known networks.
"""

from collections.abc import Sequence
from math import prod

from palmkit.engine.ir import Node, Type

Types = Sequence[Type | None]


def dims_of(type: Type | None) -> tuple[int, ...]:
    """The dims of an input that must be there."""
    assert type is not None
    return type.dims


def macs_of_kernel(node: Node, inputs: Types, outputs: Types) -> int:
    """Each output is a sum over its group's channels and the kernel, the second input."""
    return prod(dims_of(outputs[0])) * prod(dims_of(inputs[1])[1:])


def macs_of_transposed_kernel(node: Node, inputs: Types, outputs: Types) -> int:
    """Each element of the input goes to its group's channels over the kernel."""
    return prod(dims_of(inputs[0])) * prod(dims_of(inputs[1])[1:])


def macs_of_matrix(node: Node, inputs: Types, outputs: Types) -> int:
    """Each output is a sum over the last axis of the first input."""
    return prod(dims_of(outputs[0])) * dims_of(inputs[0])[-1]


def macs_of_gates(node: Node, inputs: Types, outputs: Types) -> int:
    """For each step of each sequence the input's weights and the state's, of each direction."""
    steps, batch = dims_of(inputs[0])[:2]
    return steps * batch * (prod(dims_of(inputs[1])) + prod(dims_of(inputs[2])))
