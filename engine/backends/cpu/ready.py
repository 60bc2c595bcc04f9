"""Plans that are made before a model is loaded, to lie in its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from palmkit.engine.backends.cpu import NAME, plan
from palmkit.engine.backends.partition import specialise
from palmkit.engine.errors import ShapeError
from palmkit.engine.format.plans import ReadyPlan
from palmkit.engine.ir import Graph, Type
from palmkit.engine.steps.refusal import RefusedError
from palmkit.engine.steps.rewriting import Purpose


def ready_plan(
    graph: Graph, shapes: Mapping[str, Sequence[int]], weights: str = "auto", threads: int = 2
) -> ReadyPlan | None:
    """The plan for inputs of these shapes; None if the backend cannot run the model whole.

    weights: how the file will store constants, as for `save`. threads: the most that will run it.
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
        made, outputs = plan(specialise(graph, inputs), purpose=Purpose(threads, weights=weights))
    except RefusedError:
        return None
    shapes_of_all = tuple(each.dims for each in inputs.values())
    return ReadyPlan(NAME, shapes_of_all, tuple(outputs.values()), made)
