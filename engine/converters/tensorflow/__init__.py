"""TensorFlow to IR: frozen GraphDefs and SavedModels, read without TensorFlow.

TensorFlow is NHWC unless a node's data_format says otherwise. Operators whose meaning depends on
the layout become transpose -> NCHW op -> transpose back, weights are transposed at once, everything
else works on the axes as they are; the passes cancel the transposes. Graph inputs and outputs keep
the model's names and layout: those of a signature, else of the nodes (`node`, `node:1`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from palmkit.engine.converters.damage import damage_as_model_error
from palmkit.engine.converters.protobuf import parse, parse_text, read_bytes
from palmkit.engine.converters.tensorflow.building import Building
from palmkit.engine.converters.tensorflow.control_flow import structured
from palmkit.engine.converters.tensorflow.nodes import (
    ARGUMENT,
    Body,
    Library,
    Operation,
    Ref,
    ancestors,
    output_count,
    read_graph,
)
from palmkit.engine.converters.tensorflow.rules import load_rules
from palmkit.engine.converters.tensorflow.saved_model import Signature, read_saved_model
from palmkit.engine.converters.tensorflow.schema import dtype_name, messages
from palmkit.engine.converters.tensorflow.site import COMPLEX_RULES, RULES, run
from palmkit.engine.converters.tensorflow.stand_ins import Missing
from palmkit.engine.converters.tensorflow.tensors import symbolic_dims
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import DTYPES, UNKNOWN, Graph, Type
from palmkit.engine.ops import infer_types

_FILE = "saved_model.pb"
_TEXT_FILE = "saved_model.pbtxt"
_NOT_OUTPUTS = (
    "Assert",
    "Const",
    "NoOp",
    "Placeholder",
    "PlaceholderV2",
    "PlaceholderWithDefault",
    "Print",
    "PrintV2",
    "VarHandleOp",
)
_HEAD = 4096
_SAVED_MODEL = b"\x08\x01\x12"


def convert(source: str | PathLike[str] | bytes, signature: str | None = None) -> Graph:
    """Read a TensorFlow model as a graph.

    source: a frozen GraphDef (.pb, or .pbtxt in text), the folder of a SavedModel, the
    saved_model.pb in it, or the bytes of a frozen GraphDef.
    signature: the signature of a SavedModel; left out, serving_default or the only one.
    Raises ModelError for what is not a whole TensorFlow model or has no such signature,
    UnsupportedError listing every operator that has no rule, or saying that the package protobuf is
    missing.
    """
    what = "TensorFlow model in memory" if isinstance(source, bytes) else str(source)
    with damage_as_model_error("TensorFlow", what):
        return _convert(source, signature, what)


def recognises(start: bytes) -> bool:
    """Return whether these are the first bytes of a GraphDef or a SavedModel, binary or text.

    start: 64 bytes or more; if a text begins with comments, the whole of them.
    """
    if start.startswith(_SAVED_MODEL) or _is_text(start):
        return True
    # A GraphDef begins with a node, and a node with its name, followed by its operator.
    found = re.match(rb"\n[\x80-\xff]{0,4}[\x01-\x7f]\n([\x01-\x7f])", start)
    if found is None:
        return False
    name, rest = start[found.end() :][: found[1][0]], start[found.end() + found[1][0] :]
    return name.isascii() and name.decode("ascii").isprintable() and rest[:1] in (b"", b"\x12")


def _is_text(start: bytes) -> bool:
    text = re.sub(rb"#[^\n]*\n|\s+", b" ", start).lstrip()
    fields = rb"(node|library|versions|meta_graphs) ?\{|saved_model_schema_version ?:"
    return re.match(fields, text) is not None


def _convert(source: str | PathLike[str] | bytes, signature: str | None, what: str) -> Graph:
    if isinstance(source, bytes):
        return _convert_graph(parse(messages()["GraphDef"], source, what))
    path = Path(source)
    if path.is_dir():
        found = [path / name for name in (_FILE, _TEXT_FILE) if (path / name).is_file()]
        if not found:
            raise ModelError(f"expected {_FILE} in the folder of a SavedModel: {path}")
        path = found[0]
    data = read_bytes(path)
    if not data:
        raise ModelError(f"model file is empty: {path}")
    if path.suffix == ".pbtxt" or _is_text(data[:_HEAD]):
        text = data.decode("utf-8", "replace")
        is_saved = "meta_graphs" in text
        kind = messages()["SavedModel" if is_saved else "GraphDef"]
        message = parse_text(kind, text, what)
    else:
        is_saved = data.startswith(_SAVED_MODEL)
        message = parse(messages()["SavedModel" if is_saved else "GraphDef"], data, what)
    if not is_saved:
        return _convert_graph(message)
    return _convert_saved_model(message, path.parent, signature)


def _convert_graph(graph: Any) -> Graph:
    """Convert a frozen GraphDef: placeholders are inputs, unread results outputs.

    A placeholder that has a default and is one number or a flag is that default.
    """
    operations = read_graph(graph.node)
    library = Library(graph.library.function, len(operations), graph.ByteSize())
    refs = _outputs(operations)
    body = library.inlined(Body("graph", (), operations, tuple(refs)))
    body = structured(body)
    needed = ancestors(body.operations, [name for name, _ in body.outputs])
    building = Building(library)
    names = [_tensor_name(ref) for ref in refs]
    building.taken.update(names)
    arguments: dict[str, str] = {}
    for operation in body.operations.values():
        if operation.op.startswith("Placeholder"):
            building.taken.discard(operation.name)
            type = _placeholder_type(operation)
            is_option = operation.op == "PlaceholderWithDefault" and _is_option(type)
            if operation.name in needed and not is_option:
                arguments[operation.name] = building.add_input(operation.name, type)
    dtypes = {name: _dtype(operations[ref[0]]) for name, ref in zip(names, refs, strict=True)}
    return _build(building, body, arguments, dict(zip(names, body.outputs, strict=True)), dtypes)


def _dtype(operation: Operation) -> str:
    """Return the dtype of an operation's first output as its attributes give it."""
    for name in ("T", "dtype", "DstT", "out_type", "output_type"):
        dtype = dtype_name(operation.attrs[name].type) if name in operation.attrs else ""
        if dtype in DTYPES:
            return dtype
    return UNKNOWN.dtype


def _tensor_name(ref: Ref) -> str:
    return f"{ref[0]}:{ref[1]}" if ref[1] else ref[0]


def _outputs(operations: Mapping[str, Operation]) -> list[Ref]:
    read = {name for each in operations.values() for name, _ in each.inputs}
    read.update(name for each in operations.values() for name in each.controls)
    found = [
        (each.name, number)
        for each in operations.values()
        if each.name not in read and each.op not in _NOT_OUTPUTS
        for number in range(output_count(each))
    ]
    if not found:
        raise ModelError("not a TensorFlow model, or one without outputs")
    return found


def _placeholder_type(operation: Operation) -> Type:
    dtype = dtype_name(operation.attrs["dtype"].type) if "dtype" in operation.attrs else "none"
    if dtype not in DTYPES:
        raise UnsupportedError(f"input {operation.name}: dtype {dtype} is not supported")
    if "shape" not in operation.attrs:
        return Type(dtype, ("...",))
    return Type(dtype, symbolic_dims(operation.attrs["shape"].shape, operation.name))


def _is_option(type: Type) -> bool:
    """Return whether a placeholder is a flag or number with a default, such as is_training."""
    return not type.shape or type.dtype == "bool"


def _convert_saved_model(message: Any, folder: Path, signature: str | None) -> Graph:
    found: Signature = read_saved_model(message, folder, signature)
    body = structured(found.body)
    building = Building(found.library)
    building.taken.update(found.outputs)
    arguments: dict[str, str] = {}
    for name, (ref, type) in found.inputs.items():
        building.taken.discard(name)
        arguments[ref[0]] = building.add_input(name, type)
    outputs = dict(zip(found.outputs, body.outputs, strict=True))
    graph = _build(building, body, arguments, outputs, found.outputs)
    return replace(graph, metadata=found.metadata)


def _build(
    building: Building,
    body: Body,
    arguments: Mapping[str, str],
    outputs: Mapping[str, Ref],
    dtypes: Mapping[str, str],
) -> Graph:
    """dtypes: of the outputs, for those of which nothing else tells it."""
    load_rules()
    _refuse_unknown(body, building.library, set(arguments))
    values = run(building, body, arguments)
    named: dict[str, str] = {}
    for (name, ref), value in zip(outputs.items(), values, strict=True):
        if isinstance(value, str):
            named[name] = value
        elif ref[1] == 0 or not isinstance(value, Missing):
            why = value.why if isinstance(value, Missing) else "not a tensor of real numbers"
            raise UnsupportedError(f"output {name}: {why}")
    building.taken.difference_update(named)
    graph = building.graph(named)
    types = {
        name: type if type.dtype != UNKNOWN.dtype else Type(dtypes[name], type.shape)
        for name, type in graph.outputs.items()
    }
    infer_types(graph)
    return replace(graph, outputs=types)


def _refuse_unknown(body: Body, library: Library, inputs: set[str]) -> None:
    """Raise UnsupportedError listing every operator without a rule, in bodies too."""
    unknown: dict[str, list[str]] = {}
    seen: set[str] = set()
    waiting = [body]
    while waiting:
        current = waiting.pop()
        for operation in current.in_order():
            waiting += _bodies_of(operation, library, seen)
            known = operation.op in RULES or operation.op in COMPLEX_RULES
            known = known or operation.op == ARGUMENT or operation.value is not None
            if not known and operation.name not in inputs:
                unknown.setdefault(operation.op, []).append(operation.name)
    if unknown:
        listed = "; ".join(
            f"{op} ({len(names)}: {', '.join(names)})" for op, names in sorted(unknown.items())
        )
        raise UnsupportedError(
            f"{len(unknown)} TensorFlow operators have no rule: {listed}; write the model without "
            f"them, or cut it off before them (tf.compat.v1.graph_util.extract_sub_graph)"
        )


def _bodies_of(operation: Operation, library: Library, seen: set[str]) -> Iterable[Body]:
    for body in operation.bodies.values():
        yield structured(body)
    for value in operation.attrs.values():
        functions = [value.func] if value.WhichOneof("value") == "func" else value.list.func
        for function in functions:
            if function.name not in seen and function.name in library:
                seen.add(function.name)
                yield structured(library.body(function.name, operation.name))
