"""The bodies of control-flow ops: graphs that run as a part of a node."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Graph, Type
from palmkit.engine.ops import infer_types, run_reference

Execute: TypeAlias = Callable[[Mapping[str, Array]], Mapping[str, Array]]


@dataclass(frozen=True)
class PreparedBody(Graph):
    """A body that a backend has made ready: `execute` computes its outputs."""

    execute: Execute | None = None


def run_body(body: Graph, inputs: Sequence[Array]) -> list[Array]:
    """Return the body's outputs for its inputs, both in order."""
    if len(inputs) != len(body.inputs):
        raise ShapeError(f"body: expected {len(body.inputs)} inputs, got {len(inputs)}")
    values: dict[str, Array] = dict(zip(body.inputs, inputs, strict=True))
    if isinstance(body, PreparedBody) and body.execute is not None:
        made = body.execute(values)
        return [made[name] for name in body.outputs]
    values |= body.constants
    for node in body.nodes:
        results = run_reference(node, [values[name] if name else None for name in node.inputs])
        values.update(zip(node.outputs, results, strict=False))
    return [values[name] for name in body.outputs]


def infer_body(body: Graph, inputs: Sequence[Type]) -> list[Type | None]:
    """Return the types of the body's outputs; None where only a run gives them."""
    if len(inputs) != len(body.inputs):
        raise ShapeError(f"body: expected {len(body.inputs)} inputs, got {len(inputs)}")
    given: Mapping[str, Type] = dict(zip(body.inputs, inputs, strict=True))
    types = infer_types(replace(body, inputs=given))
    found = (types.get(name) for name in body.outputs)
    return [Type(each.dtype, each.shape) if each is not None else None for each in found]
