"""Operators that run other graphs of the file."""

from __future__ import annotations

from palmkit.engine.converters.tflite.builder import Builder, rule
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Graph, Node, Type


def _types(b: Builder, indices: tuple[int, ...]) -> list[Type]:
    """Return what is known of the types of the stored values."""
    types: list[Type] = []
    for index in indices:
        type = b.types.get(b.value(index, real=False), b.declared_type(index))
        types.append(Type(type.dtype, type.shape))
    return types


def _stored(b: Builder, indices: tuple[int, ...]) -> list[str]:
    return [b.value(index, real=False) for index in indices]


def _finish(b: Builder, o: Operator, values: tuple[str, ...]) -> None:
    if len(values) != len(o.outputs):
        raise ModelError(
            f"node {b.current}: {o.op}: expected {len(o.outputs)} values, got {len(values)}"
        )
    for place, value in enumerate(values):
        b.finish_stored(o, value, place)


def inlined(b: Builder, graph: Graph, inputs: list[str]) -> tuple[str, ...]:
    """Write the graph's nodes as nodes of this one, and return its outputs."""
    renamed = dict(zip(graph.inputs, inputs, strict=True))
    for name, value in graph.constants.items():
        renamed[name] = b.array(value)
    for node in graph.nodes:
        names = [renamed[name] if name else "" for name in node.inputs]
        outputs = b.emit_many(node.op, len(node.outputs), *names, **node.attrs)
        renamed.update(zip(node.outputs, outputs, strict=True))
    return tuple(renamed[name] for name in graph.outputs)


@rule("CALL", "STABLEHLO_COMPOSITE")
def _call(b: Builder, o: Operator) -> None:
    option = "Subgraph" if o.op == "CALL" else "DecompositionSubgraphIndex"
    body = b.body(o.option(option, 0), _types(b, o.inputs))
    _finish(b, o, inlined(b, body, _stored(b, o.inputs)))


@rule("IF")
def _if(b: Builder, o: Operator) -> None:
    condition, *captured = _stored(b, o.inputs)
    types = _types(b, o.inputs)[1:]
    branches = [b.body(o.option(f"{name}SubgraphIndex", 0), types) for name in ("Then", "Else")]
    results = b.emit_many(
        "if",
        len(o.outputs),
        condition,
        *captured,
        then_branch=branches[0],
        else_branch=branches[1],
        captures=len(captured),
    )
    _finish(b, o, results)


@rule("WHILE")
def _while(b: Builder, o: Operator) -> None:
    """Write a while as ONNX's loop, which tests at the end of a turn.

    The condition is therefore evaluated before the loop, and in its body. A carried value may
    change its shape from turn to turn: in the body only its dtype and rank are known.
    """
    carried, types = _stored(b, o.inputs), _types(b, o.inputs)
    open_types = _open_types(b, o, types)
    condition = b.body(o.option("CondSubgraphIndex", 0), open_types)
    body = b.body(o.option("BodySubgraphIndex", 0), open_types)
    if len(condition.outputs) != 1 or len(body.outputs) != len(carried):
        raise ModelError(f"node {b.current}: {o.op}: the graphs' outputs do not fit")
    (going,) = inlined(b, condition, carried)
    results = b.emit_many(
        "loop", len(carried), "", going, *carried, body=_turn(body, condition), captures=0
    )
    _finish(b, o, results)


def _open_types(b: Builder, o: Operator, types: list[Type]) -> list[Type]:
    """Return types with open dims where the body's graph leaves them open or changes them."""
    number = int(o.option("BodySubgraphIndex", 0))
    if not 0 <= number < len(b.file.graphs):
        raise ModelError(f"node {b.current}: no graph of number {number} in the file")
    graph = b.file.graphs[number]
    found: list[Type] = []
    for place, (type, index) in enumerate(zip(types, graph.outputs, strict=True)):
        declared = graph.tensors[index].shape
        if len(declared) != len(type.shape):
            declared = (-1,) * len(type.shape)
        dims = (
            dim if dim == stated else f"carried_{place}_{axis}"
            for axis, (dim, stated) in enumerate(zip(type.shape, declared, strict=True))
        )
        found.append(Type(type.dtype, tuple(dims)))
    return found


def _turn(body: Graph, condition: Graph) -> Graph:
    """Return one turn as a graph: (turn, going, *carried) -> (going, *carried)."""
    prefix = "condition/"
    inputs = {"loop/turn": Type("int64", ()), "loop/going": Type("bool", ()), **body.inputs}
    renamed = dict(zip(condition.inputs, body.outputs, strict=True))
    nodes = list(body.nodes)
    constants = dict(body.constants)
    for name, value in condition.constants.items():
        renamed[name] = prefix + name
        constants[prefix + name] = value
    for node in condition.nodes:
        renamed.update({name: prefix + name for name in node.outputs})
        nodes.append(
            Node(
                node.op,
                tuple(renamed[name] if name else "" for name in node.inputs),
                tuple(prefix + name for name in node.outputs),
                node.attrs,
                node.name,
            )
        )
    (going,) = condition.outputs
    nodes.append(Node("identity", (renamed[going],), ("loop/go_on",), {}))
    outputs = {"loop/go_on": Type("bool", ())}
    for place, (name, type) in enumerate(body.outputs.items()):
        nodes.append(Node("identity", (name,), (f"loop/carried_{place}",), {}))
        outputs[f"loop/carried_{place}"] = type
    return Graph(inputs, outputs, tuple(nodes), constants)
