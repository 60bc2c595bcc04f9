"""Variables, which TFLite keeps from run to run.

One that the file sets once and then only reads is a constant. One that a run assigns is a state:
it becomes an input of the graph, and an output called "<input>/next" for the next run.
"""

from __future__ import annotations

from palmkit.engine.converters.tflite.builder import Builder, rule
from palmkit.engine.converters.tflite.file import Operator, Subgraph
from palmkit.engine.converters.tflite.states import State
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array, Known, Type


def _handles(graph: Subgraph) -> dict[int, str]:
    """Return the variable of each handle's tensor, by its container and its name."""
    found: dict[int, str] = {}
    for operator in graph.operators:
        if operator.op == "VAR_HANDLE":
            parts = (operator.option("Container", b""), operator.option("SharedName", b""))
            name = "/".join(part.decode(errors="replace") for part in parts if part)
            found[operator.outputs[0]] = name or "variable"
    return found


def _assigned(graph: Subgraph) -> dict[str, int]:
    """Return the tensor that each variable is set to in a graph."""
    handles = _handles(graph)
    return {
        handles[operator.inputs[0]]: operator.inputs[1]
        for operator in graph.operators
        if operator.op == "ASSIGN_VARIABLE" and operator.inputs[0] in handles
    }


def _first_values(b: Builder) -> dict[str, Array]:
    """Return the constants that variables are set to by graphs which run once."""
    values: dict[str, Array] = {}
    for operator in b.file.graphs[0].operators:
        if operator.op == "CALL_ONCE":
            graph = b.file.graphs[_initial_graph(b, operator)]
            for variable, index in _assigned(graph).items():
                data = graph.tensors[index].data
                if data is not None:
                    values[variable] = data
    return values


def _initial_graph(b: Builder, o: Operator) -> int:
    number = int(o.option("InitSubgraphIndex", 0))
    if not 0 < number < len(b.file.graphs):
        raise ModelError(f"node {b.current}: no graph of number {number} to call once")
    return number


@rule("CALL_ONCE")
def _call_once(b: Builder, o: Operator) -> None:
    """Check that the graph does nothing but set variables to constants."""
    graph = b.file.graphs[_initial_graph(b, o)]
    others = {operator.op for operator in graph.operators} - {"VAR_HANDLE", "ASSIGN_VARIABLE"}
    if others:
        raise UnsupportedError(f"node {b.current}: {o.op} of a graph with {', '.join(others)}")


@rule("VAR_HANDLE")
def _var_handle(b: Builder, o: Operator) -> None:
    """Do nothing: readers of a handle look up its name."""


def _variable(b: Builder, o: Operator) -> str:
    """Return the variable of the operator's handle, which only the main graph may change."""
    variable = _handles(b.graph).get(o.inputs[0])
    if variable is None or len(b.callers) > 1:
        raise UnsupportedError(f"node {b.current}: {o.op} of a handle from elsewhere")
    return variable


@rule("READ_VARIABLE")
def _read_variable(b: Builder, o: Operator) -> None:
    variable, first = _variable(b, o), _first_values(b).get(_variable(b, o))
    if variable not in _assigned(b.graph):
        if first is None:
            raise UnsupportedError(f"node {b.current}: variable {variable} is never set")
        b.known[o.outputs[0]] = first
        return
    if variable not in b.states:
        declared = b.declared_type(o.outputs[0])
        type = declared if first is None else Type.of(first)
        if type.dtype != declared.dtype:
            raise ModelError(f"variable {variable}: expected {declared}, is set to {type}")
        name = b.name(o.inputs[0])
        b.types[name] = type
        b.states[variable] = State(name, type, first, name)
    b.finish_stored(o, b.emit("identity", b.states[variable].now))


@rule("ASSIGN_VARIABLE")
def _assign_variable(b: Builder, o: Operator) -> None:
    variable, value = _variable(b, o), b.value(o.inputs[1], real=False)
    state = b.states.get(variable)
    if state is None:
        raise UnsupportedError(f"node {b.current}: variable {variable} is set before it is read")
    type = b.types.get(value)
    if isinstance(type, Known) or type is None or Type(type.dtype, type.shape) != state.type:
        raise UnsupportedError(f"variable {variable}: {state.type} is set to {type}")
    b.states[variable] = State(state.input, state.type, state.first, value)
