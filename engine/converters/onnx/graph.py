"""Conversion of an ONNX graph and the bodies in it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from palmkit.engine.converters.onnx.node import Foreign, Scope
from palmkit.engine.converters.onnx.rules import registry as rules
from palmkit.engine.converters.onnx.tensors import read_array, read_type
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import MOST_NESTED, UNKNOWN, Graph, Node, Type, check
from palmkit.engine.ops import infer_types
from palmkit.engine.ops import registry as ops

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

OLDEST_OPSET = 1
NEWEST_OPSET = 28
DOMAINS = ("", "ai.onnx")
_log = logging.getLogger("palmkit.engine")
_COPIED_BYTES = 1 << 16
_NAMES = {
    "QLinearMatMul": "qlinear_matmul",
    "MatMul": "matmul",
    "MatMulInteger": "matmul_integer",
    "Col2Im": "col2im",
    "IsNaN": "is_nan",
    "RMSNormalization": "rms_normalization",
}


def op_name(operator: str, domain: str = "") -> str:
    """Return our name of an ONNX operator: GlobalAveragePool is global_average_pool.

    An operator of another domain, which we only have a rule for, keeps its name:
    com.microsoft.FusedConv.
    """
    if domain not in DOMAINS:
        return f"{domain}.{operator}"
    return _NAMES.get(operator) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", operator).lower()


def convert_model(model: ModelProto) -> Graph:
    """Convert the whole model, and check it."""
    # A model of other domains' operators alone need not say which opset of ONNX's own it is of.
    versions = (each.version for each in model.opset_import if each.domain in DOMAINS)
    opset = max(versions, default=NEWEST_OPSET)
    if opset < OLDEST_OPSET:
        raise UnsupportedError(f"opset: expected {OLDEST_OPSET} or newer, got {opset}")
    if opset > NEWEST_OPSET:
        _log.warning("opset %d is newer than the rules, which are of %d", opset, NEWEST_OPSET)
    _check_operators(model.graph)
    _check_inputs(model.graph)
    scope = _scope(model.graph, opset)
    inputs = {
        value.name: read_type(value, f"input {value.name}")
        for value in model.graph.input
        if value.name not in scope.constants
    }
    _convert_nodes(model.graph, scope)
    outputs = {value.name: read_type(value, f"output {value.name}") for value in model.graph.output}
    _write_aliases(outputs, scope)
    graph = Graph(inputs, outputs, tuple(scope.nodes), scope.constants, _metadata(model, opset))
    check(graph)
    return _with_known_outputs(graph)


def _with_known_outputs(graph: Graph) -> Graph:
    """Return the graph with the types that follow for outputs that are declared without a rank.

    Raises ModelError if an output's dtype is not the declared one; shapes are often wrong.
    """
    types = infer_types(graph)
    outputs: dict[str, Type] = {}
    for name, declared in graph.outputs.items():
        found = types.get(name)
        if found is not None and declared.dtype not in (found.dtype, UNKNOWN.dtype):
            raise ModelError(f"output {name} is declared as {declared}, but it is {found}")
        follows = found is not None and not declared.has_rank
        outputs[name] = Type(found.dtype, found.shape) if found and follows else declared
    return replace(graph, outputs=outputs)


def _check_inputs(graph: GraphProto) -> None:
    seen: set[str] = set()
    for value in graph.input:
        if value.name in seen:
            raise ModelError(f"two inputs are called {value.name!r}")
        seen.add(value.name)


def _scope(graph: GraphProto, opset: int) -> Scope:
    if graph.sparse_initializer:
        raise UnsupportedError("sparse initializers are not supported")
    taken = {
        *(value.name for value in graph.input),
        *(value.name for value in graph.initializer),
        *(name for node in graph.node for name in node.output),
    }
    constants = {each.name: read_array(each) for each in graph.initializer}
    return Scope(opset, _convert_body, taken, constants=constants)


def _convert_nodes(graph: GraphProto, scope: Scope) -> None:
    for node in _sorted_nodes(graph):
        foreign = Foreign(scope, node, op_name(node.op_type, node.domain))
        rule = rules().get(foreign.op)
        if rule is None:
            foreign.emit(foreign.op, foreign.inputs, foreign.attrs)
        else:
            rule(foreign)


def _write_aliases(outputs: dict[str, Type], scope: Scope) -> None:
    """Write an identity for each output that is another value."""
    for name in outputs:
        if name in scope.aliases:
            scope.nodes.append(Node("identity", (scope.aliases[name],), (name,)))


def _convert_body(graph: GraphProto, outer: Scope) -> tuple[Graph, list[str]]:
    """Return the graph, and the values of the outer scope that it reads: its last inputs."""
    scope = _scope(graph, outer.opset)
    captured: list[str] = []
    for name in _free_names(graph):
        source = outer.aliases.get(name, name)
        constant = outer.constants.get(source)
        if constant is not None and constant.nbytes <= _COPIED_BYTES:
            scope.constants[name] = constant
        else:
            captured.append(name)
    inputs = {
        value.name: read_type(value, f"body input {value.name}")
        for value in graph.input
        if value.name not in scope.constants
    }
    inputs.update(dict.fromkeys(captured, UNKNOWN))
    scope.taken.update(captured, scope.constants)
    _convert_nodes(graph, scope)
    outputs: dict[str, Type] = {}
    for value in graph.output:
        name = value.name
        # A body may return one value twice, or an input unchanged.
        if name in outputs or name in inputs or name in scope.constants:
            twin = f"{name}.{len(outputs)}"
            scope.aliases[twin] = scope.aliases.get(name, name)
            name = twin
        outputs[name] = read_type(value, f"body output {value.name}")
    _write_aliases(outputs, scope)
    return Graph(inputs, outputs, tuple(scope.nodes), scope.constants), captured


def _free_names(graph: GraphProto) -> list[str]:
    """Return the values of the scope around it that the graph reads, in order."""
    made = {
        "",
        *(value.name for value in graph.input),
        *(value.name for value in graph.initializer),
        *(name for node in graph.node for name in node.output),
    }
    read = [name for node in graph.node for name in _reads(node)]
    read += [value.name for value in graph.output]
    return list(dict.fromkeys(name for name in read if name not in made))


def _reads(node: NodeProto) -> list[str]:
    return [*node.input, *(name for body in _bodies(node) for name in _free_names(body))]


def _bodies(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _sorted_nodes(graph: GraphProto) -> list[NodeProto]:
    """Return the nodes in running order; raise ModelError for a cycle."""
    makers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    needs = [{makers[name] for name in _reads(node) if name in makers} for node in graph.node]
    if all(need < place for place, each in enumerate(needs) for need in each):
        return list(graph.node)
    readers: list[list[int]] = [[] for _ in needs]
    for place, each in enumerate(needs):
        for need in each:
            readers[need].append(place)
    left = [len(each) for each in needs]
    order = [place for place, count in enumerate(left) if not count]
    for place in order:
        for reader in readers[place]:
            left[reader] -= 1
            if not left[reader]:
                order.append(reader)
    if len(order) < len(needs):
        name = next(
            node.name or node.op_type for node, n in zip(graph.node, left, strict=True) if n
        )
        raise ModelError(f"the graph goes in a circle, through node {name}")
    return [graph.node[place] for place in order]


def is_known(node: NodeProto) -> bool:
    """Return whether there is a rule for the operator, or an op of its name."""
    op = op_name(node.op_type, node.domain)
    return op in rules() or op in ops()


def _check_operators(graph: GraphProto) -> None:
    unknown: dict[str, list[str]] = {}
    for node in all_nodes(graph):
        if not is_known(node):
            operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            unknown.setdefault(operator, []).append(node.name or next(iter(node.output), "?"))
    if unknown:
        listed = (f"{op} ({len(names)}: {', '.join(names)})" for op, names in unknown.items())
        raise UnsupportedError(f"{len(unknown)} ONNX operators have no rule: {'; '.join(listed)}")


def all_nodes(graph: GraphProto, depth: int = 0) -> Iterator[NodeProto]:
    """Yield the nodes of the graph and of the bodies in it."""
    if depth > MOST_NESTED:
        raise ModelError(f"bodies of control flow are nested over {MOST_NESTED} deep")
    for node in graph.node:
        _check_names(node)
        yield node
        for body in _bodies(node):
            yield from all_nodes(body, depth + 1)


def _check_names(node: NodeProto) -> None:
    """Raise ModelError for names that are not text, which protobuf hands out as bytes."""
    names: list[object] = [node.op_type, node.domain, node.name, *node.input, *node.output]
    for name in names:
        if not isinstance(name, str):
            raise ModelError(f"a name in a node is not UTF-8 text: {name!r}")


def _metadata(model: ModelProto, opset: int) -> dict[str, str]:
    producer = f"{model.producer_name} {model.producer_version}".strip()
    known = {"name": model.graph.name, "producer": producer, "opset": str(opset)}
    extra = {each.key: each.value for each in model.metadata_props}
    return {key: value for key, value in {**known, **extra}.items() if value}
