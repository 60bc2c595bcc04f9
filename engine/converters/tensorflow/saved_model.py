"""SavedModels: choosing graph and signature, and reading variables from the checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from palmkit.engine.converters.tensorflow.bundle import Bundle, checkpoint_keys
from palmkit.engine.converters.tensorflow.nodes import (
    Body,
    Library,
    Operation,
    Ref,
    ancestors,
    read_graph,
)
from palmkit.engine.converters.tensorflow.schema import DTYPES, dtype_name
from palmkit.engine.converters.tensorflow.tensors import symbolic_dims
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Type

_TAG = "serve"
_DEFAULT = "serving_default"
_VARIABLES = ("VarHandleOp", "Variable", "VariableV2", "AutoReloadVariable")
_ASSIGNMENTS = ("Assign", "AssignVariableOp")
_RESTORES = ("RestoreV2", "RestoreSlice", "Restore")
_PASSING = ("Identity", "Reshape", "Cast")


@dataclass(frozen=True)
class Signature:
    """One signature: names of its inputs and outputs, in order, and what they stand for.

    outputs: maps names to dtypes.
    """

    inputs: Mapping[str, tuple[Ref, Type]]
    outputs: Mapping[str, str]
    body: Body
    library: Library
    metadata: Mapping[str, str]


def read_saved_model(message: Any, folder: Path, signature: str | None) -> Signature:
    """Read a signature of a SavedModel, variables included.

    folder: where saved_model.pb lies; the checkpoint is in its folder `variables`.
    Raises ModelError if the model is damaged or has no such signature.
    """
    graph = _chosen_graph(message)
    name = _chosen_signature(graph.signature_def, signature)
    chosen = graph.signature_def[name]
    operations = read_graph(graph.graph_def.node)
    library = Library(graph.graph_def.library.function, len(operations), graph.ByteSize())
    inputs: dict[str, tuple[Ref, Type]] = {}
    for key in sorted(chosen.inputs, key=_counted):
        info = chosen.inputs[key]
        inputs[key] = (_ref(info, key, operations), _type(info, key))
    if len({ref for ref, _ in inputs.values()}) != len(inputs):
        raise UnsupportedError(f"signature {name}: two inputs are one tensor")
    outputs = sorted(chosen.outputs, key=_counted)
    if not outputs:
        raise ModelError(f"signature {name} has no outputs")
    refs = tuple(_ref(chosen.outputs[key], key, operations) for key in outputs)
    body = library.inlined(Body(name, (), operations, refs))
    body = replace(body, operations=_with_variables(body, graph, folder))
    arrays = (each.value for each in body.operations.values() if hasattr(each.value, "nbytes"))
    library.room_bytes += sum(int(array.nbytes) for array in arrays)
    dtypes = {key: dtype_name(chosen.outputs[key].dtype) for key in outputs}
    version = graph.meta_info_def.tensorflow_version
    metadata = {"producer": f"TensorFlow {version}".strip(), "signature": name}
    return Signature(inputs, dtypes, body, library, metadata)


def _counted(name: str) -> tuple[str, int, str]:
    """Return a key that orders names by the number at their end: output_2 before output_10."""
    number = re.search(r"\d{1,9}$", name)
    return (name[: number.start()], int(number[0]), name) if number else (name, -1, name)


def _chosen_graph(message: Any) -> Any:
    graphs = list(message.meta_graphs)
    found = [graph for graph in graphs if _TAG in graph.meta_info_def.tags]
    if not found and len(graphs) == 1:
        found = graphs
    if not found:
        listed = "; ".join(", ".join(graph.meta_info_def.tags) or "none" for graph in graphs)
        raise ModelError(f"expected a graph with the tag {_TAG!r}, got {listed or 'no graph'}")
    return found[0]


def _chosen_signature(signatures: Any, wanted: str | None) -> str:
    names: list[str] = sorted(name for name in signatures if not name.startswith("__saved_model"))
    if wanted is None:
        wanted = _DEFAULT if _DEFAULT in names or len(names) != 1 else names[0]
    if wanted not in names:
        raise ModelError(f"no signature {wanted!r}; the model has: {', '.join(names) or 'none'}")
    return wanted


def _ref(info: Any, key: str, operations: Mapping[str, Operation]) -> Ref:
    if info.HasField("coo_sparse") or not info.name:
        raise UnsupportedError(f"{key}: expected a dense tensor")
    name, _, number = info.name.partition(":")
    if name not in operations or not (number or "0").isdecimal():
        raise ModelError(f"{key}: no node of the graph gives it: {info.name}")
    return name, int(number[:9] or 0)


def _type(info: Any, key: str) -> Type:
    dtype = dtype_name(info.dtype)
    if dtype not in DTYPES.values():
        raise UnsupportedError(f"input {key}: dtype {dtype} is not supported")
    return Type(dtype, symbolic_dims(info.tensor_shape, key))


def _with_variables(body: Body, graph: Any, folder: Path) -> dict[str, Operation]:
    """Return the operations, with the values of the variables that the outputs need."""
    operations = dict(body.operations)
    needed = ancestors(operations, [name for name, _ in body.outputs])
    variables = [name for name in operations if name in needed and _is_variable(operations[name])]
    if not variables:
        return operations
    prefix = folder / "variables" / "variables"
    if not prefix.with_name("variables.index").is_file():
        raise ModelError(f"the checkpoint is missing: {prefix}.index")
    bundle = Bundle(prefix)
    keys = _restored(operations)
    named: Mapping[str, str] = {}
    if len(keys) < len(variables):
        named = checkpoint_keys(bundle, graph.object_graph_def)
    for name in variables:
        operation = operations[name]
        shared = name
        if "shared_name" in operation.attrs:
            shared = str(operation.attrs["shared_name"].s.decode()) or name
        candidates = (keys.get(name), named.get(shared), shared)
        key = next((each for each in candidates if each and each in bundle), None)
        if key is None:
            why = f"variable {shared}, which the checkpoint does not have"
            operations[name] = replace(operation, value=why)
        else:
            operations[name] = replace(operation, value=bundle.tensor(key))
    return operations


def _is_variable(operation: Operation) -> bool:
    return operation.op in _VARIABLES


def _restored(operations: Mapping[str, Operation]) -> dict[str, str]:
    """Return the checkpoint's name of each variable: what the graph assigns when it restores."""
    found: dict[str, str] = {}
    for operation in operations.values():
        if operation.op not in _ASSIGNMENTS or len(operation.inputs) < 2:
            continue
        variable, _ = _behind(operation.inputs[0], operations)
        restore, number = _behind(operation.inputs[1], operations)
        if not _is_variable(operations[variable]) or operations[restore].op not in _RESTORES:
            continue
        names, slices = (_texts(operations, restore, index) for index in (1, 2))
        if number < len(names):
            if number < len(slices) and slices[number]:
                raise UnsupportedError(f"variable {variable}: one in several parts")
            found[variable] = names[number]
    return found


def _behind(ref: Ref, operations: Mapping[str, Operation]) -> Ref:
    """Return the value that identities pass on."""
    for _ in range(len(operations)):
        operation = operations[ref[0]]
        if operation.op not in _PASSING or not operation.inputs:
            break
        ref = operation.inputs[0]
    return ref


def _texts(operations: Mapping[str, Operation], restore: str, index: int) -> list[str]:
    """Return an input of a restore operation that is a constant of strings."""
    inputs = operations[restore].inputs
    if index >= len(inputs):
        return []
    operation = operations[_behind(inputs[index], operations)[0]]
    if operation.op != "Const" or "value" not in operation.attrs:
        return []
    return [text.decode("utf-8", "replace") for text in operation.attrs["value"].tensor.string_val]
