"""Writing a Graph as a .palm file."""

# The generated code has no types.
# pyright: reportUnknownMemberType=false

import os
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np

from palmkit.engine.errors import ModelError
from palmkit.engine.format import (
    CHECKSUM_SIZE,
    CODED,
    CONTROL_FLOW,
    ENCRYPTED,
    IDENTIFIER,
    NARROW_TYPES,
    ORDERED,
    PACKED,
    TRAILER,
    VERSION,
    align,
    most_decoded,
)
from palmkit.engine.format.consistency import STORED_DTYPES, verify
from palmkit.engine.format.data import WEIGHTS, Data, rounded_half
from palmkit.engine.format.generated.Attribute import AttributeT
from palmkit.engine.format.generated.AttributeKind import AttributeKind
from palmkit.engine.format.generated.Bytes import BytesT
from palmkit.engine.format.generated.Coding import Coding
from palmkit.engine.format.generated.Constant import ConstantT
from palmkit.engine.format.generated.Dimension import DimensionT
from palmkit.engine.format.generated.Graph import GraphT
from palmkit.engine.format.generated.Model import ModelT
from palmkit.engine.format.generated.Node import NodeT
from palmkit.engine.format.generated.Property import PropertyT
from palmkit.engine.format.generated.Value import ValueT
from palmkit.engine.format.plans import ReadyPlan, section
from palmkit.engine.ir import NARROW_DTYPES, Array, Attr, Graph, Node, Type, dtype_name
from palmkit.engine.replacing import replacing, sync_folder


def save(
    graph: Graph,
    path: str | os.PathLike[str],
    weights: str = "float32",
    plans: Sequence[ReadyPlan] = (),
    key: bytes | None = None,
) -> None:
    """Write the graph to a file; the file is either the old one or the whole new one.

    weights: how float32 constants are stored. "float32": as they are. "auto": as float16 where that
    loses nothing. "float16": as "auto", and matrices and kernels (two dims or more) are rounded to
    float16 unless a number is out of its range. "smallest": constants of any type in the lossless
    form that takes the fewest bytes (`storage`), tables and plans deflated; loading takes longer.
    plans: made from the graph as it is stored (see `stored`), for a loader that then need not make
    them.
    key: 32 bytes that the file is encrypted with.
    Raises ModelError, ShapeError or UnsupportedError if the graph is not one that `load` takes,
    OSError if the file cannot be written.
    """
    content = dumps(graph, weights, plans)
    if key is not None:
        content = _locked(content, key)
    target = Path(path)
    with replacing(target) as part, part.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(target.parent)


def dumps(
    graph: Graph,
    weights: str = "float32",
    plans: Sequence[ReadyPlan] = (),
    deflated: bool | None = None,
) -> bytes:
    """Return the bytes that `save` writes; the same graph gives the same bytes.

    deflated: whether tables and plans are deflated; left out, they are with "smallest" weights.
    """
    _check_weights(weights)
    verify(graph)
    data = Data(weights, [value for ready in plans for value in ready.plan.constants])
    model: Any = ModelT()
    model.metadata = [_property(key, value) for key, value in graph.metadata.items()]
    _fill(model, graph, data)
    places = [[data.place(value) for value in ready.plan.constants] for ready in plans]
    features = {ORDERED: data.ordered, CODED: data.coded}
    model.features = [*_features(graph), *(name for name, used in features.items() if used)]
    tables = _finished(model)
    is_packed = weights == "smallest" if deflated is None else deflated
    if is_packed:
        tables = _finished(_packed(tables, data))
    if data.decoded_bytes > most_decoded(len(data.content)):
        data.content += bytes(data.decoded_bytes // 1000 - len(data.content) + 1)
    data.content += bytes(align(len(data.content)) - len(data.content))
    content = bytearray(tables)
    content += bytes(align(len(tables)) - len(tables))
    content += data.content
    if plans:
        content += section(graph, plans, lambda plan, constant: places[plan][constant], is_packed)
    return sealed(content, len(tables))


def sealed(content: bytearray, tables_bytes: int) -> bytes:
    """Return a whole file: tables, padding, data and the trailer."""
    size = len(content) + TRAILER.size
    content += TRAILER.pack(tables_bytes, size, VERSION, 0)[:-CHECKSUM_SIZE]
    content += zlib.crc32(content).to_bytes(CHECKSUM_SIZE, "little")
    return bytes(content)


def _finished(model: Any) -> bytes:
    """Return the model as a flatbuffer."""
    builder: Any = flatbuffers.Builder(1024)
    try:
        builder.Finish(model.Pack(builder), file_identifier=IDENTIFIER)
    except UnicodeEncodeError as error:
        raise ModelError(f"a name is not text: {error.object!r}") from None
    return bytes(builder.Output())


def _locked(content: bytes, key: bytes) -> bytes:
    """Return a file that only says that it is encrypted, with the encrypted one in it."""
    from palmkit.engine.format.encryption import encrypted

    model: Any = ModelT()
    model.features = [ENCRYPTED]
    tables = _finished(model)
    outer = bytearray(tables) + bytes(align(len(tables)) - len(tables))
    return sealed(outer + encrypted(content, key), len(tables))


def _packed(tables: bytes, data: Data) -> Any:
    """Return a model that only says where the real one lies, deflated."""
    model: Any = ModelT()
    model.features, model.packed = [PACKED], BytesT()
    content = zlib.compress(tables, 9)
    model.packed.offset, model.packed.size = len(data.content), len(content)
    model.packed.coding, model.packed.decodedSize = Coding.Deflate, len(tables)
    data.content += content
    return model


def stored(graph: Graph, weights: str) -> Graph:
    """Return the graph as it will be read again, with its constants rounded as `weights` says."""
    _check_weights(weights)
    if weights != "float16":
        return graph
    return replace(
        graph,
        constants={
            name: value if (half := rounded_half(value)) is None else half.astype(np.float32)
            for name, value in graph.constants.items()
        },
    )


def _check_weights(weights: str) -> None:
    if weights not in WEIGHTS:
        raise ValueError(f"weights: expected one of {', '.join(WEIGHTS)}, got {weights!r}")


def _features(graph: Graph) -> list[str]:
    """Return the names of the features that a reader of the file needs."""
    graphs = [graph]
    for each in graphs:
        graphs += [body for node in each.nodes for body in node.bodies]
    types = [type for each in graphs for type in (*each.inputs.values(), *each.outputs.values())]
    dtypes = {type.dtype for type in types}
    for each in graphs:
        dtypes.update(dtype_name(value.dtype) for value in each.constants.values())
        dtypes.update(str(node.attrs.get("to")) for node in each.nodes)
    needed = {CONTROL_FLOW: len(graphs) > 1, NARROW_TYPES: bool(dtypes & {*NARROW_DTYPES})}
    return [feature for feature, is_needed in needed.items() if is_needed]


def _fill(table: Any, graph: Graph, data: Data) -> None:
    """Write a model or a body to its table; the constants' bytes are added to `data`."""
    table.inputs = [_value(name, type) for name, type in graph.inputs.items()]
    table.outputs = [_value(name, type) for name, type in graph.outputs.items()]
    table.constants = [_constant(name, value, data) for name, value in graph.constants.items()]
    table.nodes = [_node(node, data) for node in graph.nodes]


def _property(key: str, value: str) -> Any:
    table: Any = PropertyT()
    table.key, table.value = key, value
    return table


def _value(name: str, type: Type) -> Any:
    table: Any = ValueT()
    table.name, table.type, table.shape = name, STORED_DTYPES.index(type.dtype), []
    for dim in type.shape:
        entry: Any = DimensionT()
        if isinstance(dim, str):
            entry.name = dim
        else:
            entry.size = dim
        table.shape.append(entry)
    return table


def _constant(name: str, value: Array, data: Data) -> Any:
    """Return the constant's table, and add its bytes to `data`."""
    table: Any = ConstantT()
    table.name, table.type, table.shape = (
        name,
        STORED_DTYPES.index(dtype_name(value.dtype)),
        value.shape,
    )
    table.storage, _ = data.constant(value)
    return table


def _node(node: Node, data: Data) -> Any:
    table: Any = NodeT()
    table.op, table.name = node.op, node.name
    table.inputs, table.outputs = list(node.inputs), list(node.outputs)
    table.attributes = [
        _body(name, value, data) if isinstance(value, Graph) else _attribute(node, name, value)
        for name, value in node.attrs.items()
    ]
    return table


def _body(name: str, graph: Graph, data: Data) -> Any:
    table: Any = AttributeT()
    table.name, table.kind, table.graph = name, AttributeKind.Graph, GraphT()
    _fill(table.graph, graph, data)
    return table


def _attribute(node: Node, name: str, value: Attr) -> Any:
    values: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
    table: Any = AttributeT()
    table.name = name
    if all(isinstance(each, int) and -(2**63) <= each < 2**63 for each in values):
        table.kind, table.ints = AttributeKind.Int, [int(each) for each in values]
    elif all(isinstance(each, float) for each in values):
        table.kind, table.floats = AttributeKind.Float, list(values)
    elif all(isinstance(each, str) for each in values):
        table.kind, table.strings = AttributeKind.String, list(values)
    else:
        raise ModelError(
            f"node {node.name}: attribute {name}: expected int64, float or str, or a tuple of one "
            f"of them, got {value!r}"
        )
    if isinstance(value, tuple):
        table.kind += AttributeKind.Ints - AttributeKind.Int
    return table
