"""Counts of a model's content, and of what one run of it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from palmkit.engine.backends import BACKENDS
from palmkit.engine.errors import PalmError
from palmkit.engine.ir import Graph, Type, numpy_dtype
from palmkit.engine.macs import macs
from palmkit.engine.ops import infer_types
from palmkit.engine.passes import optimise


@dataclass(frozen=True)
class Summary:
    """A model in numbers; the last three are of one run at the inputs' sizes.

    ops: how often each op occurs, most first; nodes in bodies of control flow count, too.
    parameters: elements of the weights, which are the constants of a floating-point or quantized
    type with at least one dim.
    weights: bytes of the constants by dtype, most first.
    macs: multiply-accumulates; None where sizes are open.
    uncounted: nodes whose multiply-accumulates only a run can tell, such as control flow.
    integer_macs: the part of `macs` that backend cpu computes with bytes; None where sizes are
    open.
    activation_bytes: the most memory that intermediate values take on backend cpu; None where it is
    not known beforehand.
    """

    inputs: Mapping[str, Type]
    outputs: Mapping[str, Type]
    metadata: Mapping[str, str]
    nodes: int
    ops: Mapping[str, int]
    parameters: int
    weights: Mapping[str, int]
    macs: int | None
    uncounted: int
    integer_macs: int | None
    activation_bytes: int | None


def summarise(graph: Graph) -> Summary:
    """Count what is in a graph, and what a run takes if all inputs have numbers for sizes.

    Raises ModelError or ShapeError if the graph contradicts itself.
    """
    types = infer_types(graph)
    ops = Counter[str]()
    weights = Counter[str]()
    parameters = 0
    for each in _with_bodies(graph):
        ops.update(node.op for node in each.nodes)
        for value in each.constants.values():
            weights[value.dtype.name] += value.size * numpy_dtype(value.dtype.name).itemsize
            if value.ndim and _is_weight(value.dtype.name):
                parameters += value.size
    counts = [macs(node, types) for node in graph.nodes] if graph.is_static else None
    return Summary(
        inputs=graph.inputs,
        outputs=graph.outputs,
        metadata=graph.metadata,
        nodes=sum(ops.values()),
        ops=dict(ops.most_common()),
        parameters=parameters,
        weights=dict(weights.most_common()),
        macs=None if counts is None else sum(count or 0 for count in counts),
        uncounted=0 if counts is None else counts.count(None),
        integer_macs=_integer_macs(graph) if graph.is_static else None,
        activation_bytes=_activation_bytes(graph) if graph.is_static else None,
    )


def is_quantized(graph: Graph) -> bool:
    """Return whether some value is rounded to bytes, so that layers may compute in integers."""
    return any(node.op in ("quantize_linear", "quantized_conv") for node in graph.nodes)


def _integer_macs(graph: Graph) -> int:
    if not is_quantized(graph):
        return 0
    try:
        better = optimise(graph)
        types = infer_types(better)
        layers = [node for node in better.nodes if node.op == "quantized_conv"]
        return sum(macs(node, types) or 0 for node in layers)
    except PalmError:
        return 0


def _with_bodies(graph: Graph) -> list[Graph]:
    """Return the graph and, recursively, the bodies of its control flow."""
    graphs = [graph]
    for each in graphs:
        graphs += [body for node in each.nodes for body in node.bodies]
    return graphs


def _is_weight(dtype: str) -> bool:
    """Return whether the dtype is one of weights.

    int64 constants are shapes and indices, and bool ones masks; int32 may be a bias.
    """
    return dtype not in ("int64", "bool", "uint64")


def _activation_bytes(graph: Graph) -> int | None:
    """Return the arena size of backend cpu's plan; without a plan, the most that lives at once."""
    try:
        optimised = optimise(graph)
        if not BACKENDS["cpu"].missing():
            program = BACKENDS["cpu"].compile(optimised)
            plan = getattr(program, "plan", None)
            if plan is not None:
                return int(plan.arena_bytes)
    except PalmError:
        return None
    return most_live_bytes(optimised)


def most_live_bytes(graph: Graph) -> int | None:
    """Return the largest sum of intermediate values that are needed at the same time.

    Inputs, outputs and constants do not count. Returns None if a type is not known beforehand.
    """
    types = infer_types(graph)
    last_use = {name: i for i, node in enumerate(graph.nodes) for name in node.inputs if name}
    live = most = 0
    freed: dict[int, int] = {}
    for index, node in enumerate(graph.nodes):
        for name in node.outputs:
            if not name or name in graph.outputs:
                continue
            if name not in types or not types[name].is_static:
                return None
            live += types[name].size_bytes
            end = last_use.get(name, index)
            freed[end] = freed.get(end, 0) + types[name].size_bytes
        most = max(most, live)
        live -= freed.get(index, 0)
    return most
