"""TensorFlow's graphs as plain data: operations by name, functions inlined where they are called.

A function's body comes out of the library once, with everything that it calls inlined; a call
copies it under the caller's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from palmkit.engine.errors import ModelError

Ref: TypeAlias = tuple[str, int]

CALLS = ("PartitionedCall", "StatefulPartitionedCall")
ARGUMENT = "_Arg"
_COUNTED = {"Split": "num_split", "SplitV": "num_split", "Unpack": "num", "ShapeN": "N"}
_LISTED = (
    *("Case", "IdentityN", "If", "StatelessCase", "StatelessIf", "StatelessWhile", "While"),
    *CALLS,
)
_MOST_OUTPUTS = 1 << 16
_MOST_GROWTH = 4
_MOST_STEPS = 20_000_000
_MOST_COPIES = 64
_FEWEST_ALLOWED = 20_000
_NORM = ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_3")
_LSTM = ("i", "cs", "f", "o", "ci", "co", "h")

# Output names of the operators that have more than one output, each a single tensor.
_OUTPUTS: dict[str, tuple[str, ...]] = {
    "BlockLSTM": _LSTM,
    "BlockLSTMV2": _LSTM,
    "CombinedNonMaxSuppression": (
        "nmsed_boxes",
        "nmsed_scores",
        "nmsed_classes",
        "valid_detections",
    ),
    "FusedBatchNorm": _NORM,
    "FusedBatchNormV2": _NORM,
    "FusedBatchNormV3": (*_NORM[:5], "reserve_space_3"),
    "_FusedBatchNormEx": (*_NORM[:5], "reserve_space_3"),
    "GRUBlockCell": ("r", "u", "c", "h"),
    "ListDiff": ("out", "idx"),
    "LSTMBlockCell": _LSTM,
    "MaxPoolWithArgmax": ("output", "argmax"),
    "Merge": ("output", "value_index"),
    "NonMaxSuppressionV4": ("selected_indices", "valid_outputs"),
    "NonMaxSuppressionV5": ("selected_indices", "selected_scores", "valid_outputs"),
    "QuantizeV2": ("output", "output_min", "output_max"),
    "SoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "SparseSoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "StatelessRandomGetKeyCounter": ("key", "counter"),
    "Switch": ("output_false", "output_true"),
    "TensorArrayConcatV3": ("value", "lengths"),
    "TensorArrayV3": ("handle", "flow"),
    "TensorListConcat": ("tensor", "lengths"),
    "TensorListConcatV2": ("tensor", "lengths"),
    "TensorListPopBack": ("output_handle", "tensor"),
    "TopK": ("values", "indices"),
    "TopKV2": ("values", "indices"),
    "Unique": ("y", "idx"),
    "UniqueV2": ("y", "idx"),
    "UniqueWithCounts": ("y", "idx", "count"),
    "UniqueWithCountsV2": ("y", "idx", "count"),
}


def output_count(operation: Operation) -> int:
    """Return how many outputs an operation has.

    Raises ModelError for more than a file could name.
    """
    attrs, op = operation.attrs, operation.op
    count = len(_OUTPUTS.get(op, ("output",)))
    if op in _COUNTED:
        count = int(attrs[_COUNTED[op]].i) if _COUNTED[op] in attrs else 1
    elif op in _LISTED:
        found = [len(attrs[name].list.type) for name in ("Tout", "T") if name in attrs]
        count = found[0] if found else count
    if not 0 <= count <= _MOST_OUTPUTS:
        raise ModelError(f"node {operation.name}: {op} has {count} outputs")
    return count


@dataclass(frozen=True)
class Operation:
    """One node: what it reads, by the name of the node and the number of its output.

    attrs: AttrValue messages by name.
    controls: nodes that only have to run before.
    bodies: the bodies of control flow that a rewrite has made.
    value: the array of a variable that has been restored, or why there is none.
    """

    name: str
    op: str
    inputs: tuple[Ref, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    controls: tuple[str, ...] = ()
    bodies: Mapping[str, Body] = field(default_factory=dict[str, "Body"])
    value: Any = None

    @property
    def label(self) -> str:
        """The operation's name in messages."""
        return f"{self.op} {self.name}"


@dataclass(frozen=True)
class Body:
    """A graph with arguments: the operations `inputs`, whose op is _Arg."""

    name: str
    inputs: tuple[str, ...]
    operations: Mapping[str, Operation]
    outputs: tuple[Ref, ...]

    def reachable(self) -> Body:
        """Return the body without the operations that no output needs."""
        found = ancestors(self.operations, [name for name, _ in self.outputs])
        kept = {n: o for n, o in self.operations.items() if n in found or n in self.inputs}
        return replace(self, operations=kept)

    def in_order(self) -> list[Operation]:
        """Return what the outputs need, inputs before readers; raise ModelError for a cycle."""
        return in_order(self.operations, [name for name, _ in self.outputs])


def ancestors(
    operations: Mapping[str, Operation], names: Iterable[str], controls: bool = False
) -> set[str]:
    """Return `names` and the operations they read; with `controls`, also those they wait for."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found and name in operations:
            found.add(name)
            waiting += [each for each, _ in operations[name].inputs]
            waiting += operations[name].controls if controls else ()
    return found


def in_order(operations: Mapping[str, Operation], names: Iterable[str]) -> list[Operation]:
    """Return these operations and what they read, readers last; raise ModelError for a cycle."""
    done: dict[str, Operation] = {}
    open_: set[str] = set()
    waiting = list(names)[::-1]
    while waiting:
        name = waiting[-1]
        operation = operations[name]
        if name in done or name in open_:
            waiting.pop()
            if name in open_:
                open_.discard(name)
                done[name] = operation
            continue
        open_.add(name)
        for each, _ in reversed(operation.inputs):
            if each in open_:
                raise ModelError(f"the graph has a cycle through node {each}")
            if each not in done:
                waiting.append(each)
    return list(done.values())


class Steps:
    """A bound on the work of a search, so that no file keeps a reader busy for ever."""

    def __init__(self) -> None:
        """Start with the full budget."""
        self._left = _MOST_STEPS

    def take(self, count: int = 1) -> None:
        """Count steps; raise ModelError if they are too many."""
        self._left -= count
        if self._left < 0:
            raise ModelError("the control flow is too tangled: it takes too many steps to follow")


def read_graph(nodes: Iterable[Any]) -> dict[str, Operation]:
    """Return the operations of a GraphDef; raise ModelError for missing or duplicate names."""
    found: dict[str, Operation] = {}
    for node in nodes:
        refs = [_graph_ref(text, node.name) for text in node.input if not text.startswith("^")]
        _add(found, node, tuple(refs))
    _check_refs(found)
    return found


def _graph_ref(text: str, reader: str) -> Ref:
    name, colon, number = text.partition(":")
    if colon and not number.isdecimal():
        raise ModelError(f"node {reader}: cannot read the input {text!r}")
    return name, int(number[:9]) if colon else 0


def _add(found: dict[str, Operation], node: Any, inputs: tuple[Ref, ...]) -> None:
    if not node.name or node.name in found:
        raise ModelError(f"two nodes are called {node.name!r}" if node.name else "a nameless node")
    controls = tuple(text[1:] for text in node.input if text.startswith("^"))
    found[node.name] = Operation(node.name, node.op, inputs, dict(node.attr), controls)


def _check_refs(operations: Mapping[str, Operation]) -> None:
    for operation in operations.values():
        for name, _ in operation.inputs:
            if name not in operations:
                raise ModelError(f"node {operation.name}: reads a node that is not there: {name}")


class Library:
    """The functions of a model, with a budget for inlined nodes and for computed constants."""

    def __init__(self, functions: Iterable[Any], nodes: int, size_bytes: int = 0) -> None:
        """Start with the budget that the file's size gives.

        nodes: number of nodes in the graph itself; inlining may make 64 times what the file holds.
        size_bytes: size of the file; computed constants may take 4 times as much.
        """
        self.room_bytes = _MOST_GROWTH * size_bytes
        self._functions = {each.signature.name: each for each in functions}
        held = nodes + sum(len(each.node_def) for each in self._functions.values())
        self._left = max(_FEWEST_ALLOWED, _MOST_COPIES * held)
        self._bodies: dict[str, Body] = {}
        self._open: list[str] = []

    def __contains__(self, name: str) -> bool:
        """Return whether there is a function of this name."""
        return name in self._functions

    def body(self, name: str, reader: str) -> Body:
        """Return a function with all calls inlined; raise ModelError if missing or recursive."""
        if name in self._bodies:
            return self._bodies[name]
        if name not in self._functions:
            raise ModelError(f"node {reader}: calls a function that is not there: {name}")
        if name in self._open:
            raise ModelError(f"functions call each other: {' -> '.join([*self._open, name])}")
        self._open.append(name)
        body = _read_function(self._functions[name])
        self._bodies[name] = self.inlined(body)
        self._open.pop()
        return self._bodies[name]

    def inlined(self, body: Body) -> Body:
        """Return the body with every call replaced by the operations of the called function."""
        found: dict[str, Operation] = {}
        results: dict[Ref, Ref] = {}
        for operation in body.operations.values():
            called = self._called(operation)
            if not called:
                found[operation.name] = operation
                continue
            inner = self.body(called, operation.name)
            self.spend(len(inner.operations))
            if len(inner.inputs) != len(operation.inputs):
                raise ModelError(
                    f"node {operation.name}: {called} takes {len(inner.inputs)} inputs, "
                    f"got {len(operation.inputs)}"
                )
            _copy(operation, inner, found, results, body.operations)
        if not results:
            return body
        operations = {
            name: replace(each, inputs=tuple(_final(ref, results) for ref in each.inputs))
            for name, each in found.items()
        }
        outputs = tuple(_final(ref, results) for ref in body.outputs)
        _check_refs(operations)
        return replace(body, operations=operations, outputs=outputs)

    def _called(self, operation: Operation) -> str:
        if operation.op in CALLS:
            return str(operation.attrs["f"].func.name) if "f" in operation.attrs else "?"
        return operation.op if operation.op in self._functions else ""

    def spend(self, nodes: int) -> None:
        """Count nodes that are made; raise ModelError if they far exceed what the file holds."""
        self._left -= nodes
        if self._left < 0:
            raise ModelError("the functions call each other too often: too many nodes to inline")


def _copy(
    call: Operation,
    inner: Body,
    found: dict[str, Operation],
    results: dict[Ref, Ref],
    taken: Mapping[str, Operation],
) -> None:
    """Add the called operations under the call's name; their outputs replace the call's."""
    arguments = dict(zip(inner.inputs, call.inputs, strict=True))
    prefix = call.name
    while any(
        f"{prefix}/{name}" in found or f"{prefix}/{name}" in taken for name in inner.operations
    ):
        prefix += "_"

    def outer(ref: Ref) -> Ref:
        return arguments.get(ref[0]) or (f"{prefix}/{ref[0]}", ref[1])

    given = call.attrs["f"].func.attr if "f" in call.attrs else call.attrs
    for operation in inner.operations.values():
        if operation.op != ARGUMENT:
            name = f"{prefix}/{operation.name}"
            found[name] = replace(
                operation,
                name=name,
                inputs=tuple(map(outer, operation.inputs)),
                controls=tuple(f"{prefix}/{each}" for each in operation.controls),
                attrs={key: _given(given, value) for key, value in operation.attrs.items()},
            )
    for number, ref in enumerate(inner.outputs):
        results[call.name, number] = outer(ref)


def _given(given: Any, value: Any) -> Any:
    """Resolve a function's attribute, which may stand for one of the call."""
    return given[value.placeholder] if value.placeholder in given else value  # noqa: SIM401


def _final(ref: Ref, results: Mapping[Ref, Ref]) -> Ref:
    """Resolve the output of a call, which may be that of another call."""
    seen = 0
    while ref in results:
        ref = results[ref]
        seen += 1
        if seen > len(results):
            raise ModelError(f"the graph has a cycle through node {ref[0]}")
    return ref


def _read_function(function: Any) -> Body:
    """Read a FunctionDef, without inlining."""
    name = function.signature.name
    operations: dict[str, Operation] = {}
    inputs: list[str] = []
    for number, argument in enumerate(function.signature.input_arg):
        attrs = dict(function.arg_attr[number].attr) if number in function.arg_attr else {}
        if argument.name in operations:
            raise ModelError(f"function {name}: two arguments are called {argument.name}")
        operations[argument.name] = Operation(argument.name, ARGUMENT, (), attrs)
        inputs.append(argument.name)
    for node in function.node_def:
        _add(operations, node, ())
    for node in function.node_def:
        refs = [
            _function_ref(text, node.name, operations)
            for text in node.input
            if not text.startswith("^")
        ]
        operations[node.name] = replace(operations[node.name], inputs=tuple(refs))
    outputs: list[Ref] = []
    for result in function.signature.output_arg:
        if result.name not in function.ret:
            raise ModelError(f"function {name}: does not say what it returns as {result.name}")
        outputs.append(_function_ref(function.ret[result.name], name, operations))
    return Body(name, tuple(inputs), operations, tuple(outputs))


def _function_ref(text: str, reader: str, operations: Mapping[str, Operation]) -> Ref:
    """Parse an input as functions write it: argument, or node:output:number."""
    name, *rest = text.split(":")
    if name not in operations:
        raise ModelError(f"node {reader}: reads a node that is not there: {name}")
    number = int(rest[-1][:9]) if rest and rest[-1].isdecimal() else 0
    names = _OUTPUTS.get(operations[name].op, ())
    if rest and rest[0] in names:
        number += names.index(rest[0])
    return name, number
