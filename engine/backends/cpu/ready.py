"""Plans that are made before a model is loaded, to lie in its file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from palmkit.engine.backends.cpu import plan
from palmkit.engine.backends.partition import specialise
from palmkit.engine.backends.refusal import RefusedError
from palmkit.engine.errors import ShapeError
from palmkit.engine.format.plans import ReadyPlan
from palmkit.engine.format.storage import half_of
from palmkit.engine.ir import Array, Graph, Type
from palmkit.engine.plan import Plan

# Smaller weights are copied, and longer rows of them are read more slowly than packed ones.
_LEAST_BYTES = 4096
_MOST_OUTPUTS = 256
# More than that in small pages, as files have them, is read more slowly than in huge ones.
_MOST_BYTES = 4 << 20
_VECTOR = 8
# The 1x1 convolution's, among the inputs of separable_conv.
_SECOND_WEIGHTS = 4


def ready_plan(
    graph: Graph, shapes: Mapping[str, Sequence[int]], weights: str = "auto"
) -> ReadyPlan | None:
    """The plan for inputs of these shapes; None if the backend cannot run the model whole.

    weights: how the file will store constants, as for `save`.
    Raises ShapeError if the graph does not take the shapes.
    """
    if set(shapes) != set(graph.inputs):
        expected, got = ", ".join(graph.inputs), ", ".join(shapes)
        raise ShapeError(f"shapes: expected one for each of {expected}, got {got}")
    sizes: dict[str, int] = {}
    inputs: dict[str, Type] = {}
    for name, type in graph.inputs.items():
        shape = tuple(shapes[name])
        if not type.fits(shape, sizes):
            raise ShapeError(f"shapes: input {name}: expected {type}, got {list(shape)}")
        inputs[name] = Type(type.dtype, shape)
    try:
        made, outputs = plan(specialise(graph, inputs))
    except RefusedError:
        return None
    made = _read_in_place(made, weights)
    return ReadyPlan(tuple(each.dims for each in inputs.values()), tuple(outputs.values()), made)


def _read_in_place(plan: Plan, weights: str) -> Plan:
    """The plan with the weights of matrix products as kernels read them where they lie.

    They need no packing when it is loaded, nor memory of their own.
    """
    from palmkit.engine import _native

    algorithms = _native.conv_algorithms(plan.tensors, plan.steps, constants=plan.constants)
    if weights == "smallest" or sum(value.nbytes for value in plan.constants) > _MOST_BYTES:
        return plan
    uses = Counter(tensor for _, inputs, _, _ in plan.steps for tensor in inputs)
    tensors, steps, constants = list(plan.tensors), list(plan.steps), list(plan.constants)
    for index, (kernel, inputs, outputs, attrs) in enumerate(plan.steps):
        names = {name for name, _, _ in algorithms[index]}
        if kernel == "separable_conv":
            read = inputs[_SECOND_WEIGHTS]
        elif names and names <= {"gemm", "rows"} and attrs["group"] == 1:
            read = inputs[1]
        else:
            continue
        _, slot, dtype, dims = tensors[read]
        if uses[read] > 1 or not _is_worth(constants[slot], weights):
            continue
        constants[slot] = np.ascontiguousarray(np.moveaxis(constants[slot], 0, -1))
        tensors[read] = "constant", slot, dtype, [*dims[1:], dims[0]]
        steps[index] = kernel, inputs, outputs, {**attrs, "outputs_last": 1}
    return replace(plan, tensors=tensors, steps=steps, constants=constants)


def _is_worth(value: Array, weights: str) -> bool:
    """It suits the kernels, and lies in the file as it is."""
    if value.nbytes < _LEAST_BYTES or len(value) > _MOST_OUTPUTS or len(value) % _VECTOR:
        return False
    return weights == "float32" or half_of(value) is None
