"""Graph to .palm."""

# The generated code has no types.
# pyright: reportUnknownMemberType=false

import os
import secrets
import zlib
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np

from palmkit.engine.errors import ModelError
from palmkit.engine.format import (
    CHECKSUM_SIZE,
    CONTROL_FLOW,
    IDENTIFIER,
    NARROW_TYPES,
    TRAILER,
    VERSION,
    align,
)
from palmkit.engine.format.consistency import STORED_DTYPES, verify
from palmkit.engine.format.generated.Attribute import AttributeT
from palmkit.engine.format.generated.AttributeKind import AttributeKind
from palmkit.engine.format.generated.Bytes import BytesT
from palmkit.engine.format.generated.Constant import ConstantT
from palmkit.engine.format.generated.Dimension import DimensionT
from palmkit.engine.format.generated.Encoding import Encoding
from palmkit.engine.format.generated.Graph import GraphT
from palmkit.engine.format.generated.Half import HalfT
from palmkit.engine.format.generated.Model import ModelT
from palmkit.engine.format.generated.Node import NodeT
from palmkit.engine.format.generated.Property import PropertyT
from palmkit.engine.format.generated.Raw import RawT
from palmkit.engine.format.generated.Storage import StorageT
from palmkit.engine.format.generated.Value import ValueT
from palmkit.engine.ir import NARROW_DTYPES, Array, Attr, Graph, Node, Type


def save(graph: Graph, path: str | os.PathLike[str], weights: str = "float32") -> None:
    """Write the graph to a file; the file is either the old one or the whole new one.

    weights: how float32 constants are stored. "float32": as they are. "auto": as float16 where
    that loses nothing. "float16": as "auto", and matrices and kernels (two dims or more) are
    rounded to float16 unless a number is out of its range.
    Raises ModelError, ShapeError or UnsupportedError if the graph is not one that `load` takes,
    OSError if the file cannot be written.
    """
    content = dumps(graph, weights)
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def dumps(graph: Graph, weights: str = "float32") -> bytes:
    """What `save` writes; the same graph gives the same bytes."""
    if weights not in ("float32", "float16", "auto"):
        raise ValueError(f"weights: expected float32, float16 or auto, got {weights!r}")
    verify(graph)
    data = bytearray()
    model: Any = ModelT()
    model.metadata = [_property(key, value) for key, value in graph.metadata.items()]
    model.features = _features(graph)
    _fill(model, graph, weights, data)
    builder: Any = flatbuffers.Builder(1024)
    try:
        builder.Finish(model.Pack(builder), file_identifier=IDENTIFIER)
    except UnicodeEncodeError as error:
        raise ModelError(f"a name is not text: {error.object!r}") from None
    content = bytearray(builder.Output())
    graph_size = len(content)
    content += bytes(align(graph_size) - graph_size)
    content += data
    size = len(content) + TRAILER.size
    content += TRAILER.pack(graph_size, size, VERSION, 0)[:-CHECKSUM_SIZE]
    content += zlib.crc32(content).to_bytes(CHECKSUM_SIZE, "little")
    return bytes(content)


def _features(graph: Graph) -> list[str]:
    """What the file needs of its reader."""
    graphs = [graph]
    for each in graphs:
        graphs += [body for node in each.nodes for body in node.bodies]
    types = [type for each in graphs for type in (*each.inputs.values(), *each.outputs.values())]
    dtypes = {type.dtype for type in types}
    for each in graphs:
        dtypes.update(value.dtype.name for value in each.constants.values())
        dtypes.update(str(node.attrs.get("to")) for node in each.nodes)
    needed = {CONTROL_FLOW: len(graphs) > 1, NARROW_TYPES: bool(dtypes & {*NARROW_DTYPES})}
    return [feature for feature, is_needed in needed.items() if is_needed]


def _fill(table: Any, graph: Graph, weights: str, data: bytearray) -> None:
    """Write a model or a body to its table; the constants' bytes are added to `data`."""
    table.inputs = [_value(name, type) for name, type in graph.inputs.items()]
    table.outputs = [_value(name, type) for name, type in graph.outputs.items()]
    table.constants = [
        _constant(name, value, weights, data) for name, value in graph.constants.items()
    ]
    table.nodes = [_node(node, weights, data) for node in graph.nodes]


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power loss; not every system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


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


def _constant(name: str, value: Array, weights: str, data: bytearray) -> Any:
    """The constant's table; its bytes are added to `data`."""
    storage: Any = StorageT()
    if weights != "float32" and _fits_float16(value, lossy=weights == "float16"):
        stored = value.astype("<f2")
        storage.encodingType, storage.encoding = Encoding.Half, HalfT()
    else:
        stored = value.astype(value.dtype.newbyteorder("<"), copy=False)
        storage.encodingType, storage.encoding = Encoding.Raw, RawT()
    run: Any = BytesT()
    run.offset, run.size = len(data), stored.nbytes
    data += stored.tobytes()
    data += bytes(align(len(data)) - len(data))
    storage.encoding.bytes = run
    table: Any = ConstantT()
    table.name, table.type, table.shape = name, STORED_DTYPES.index(value.dtype.name), value.shape
    table.storage = storage
    return table


def _fits_float16(value: Array, lossy: bool) -> bool:
    """Whether float16 holds the constant: to the bit, or rounded where `lossy` allows it."""
    if value.dtype != np.float32:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        back = value.astype(np.float16).astype(np.float32)
    if lossy and value.ndim >= 2:
        return bool(np.array_equal(np.isfinite(back), np.isfinite(value)))
    return back.tobytes() == value.tobytes()


def _node(node: Node, weights: str, data: bytearray) -> Any:
    table: Any = NodeT()
    table.op, table.name = node.op, node.name
    table.inputs, table.outputs = list(node.inputs), list(node.outputs)
    table.attributes = [
        _body(name, value, weights, data)
        if isinstance(value, Graph)
        else _attribute(node, name, value)
        for name, value in node.attrs.items()
    ]
    return table


def _body(name: str, graph: Graph, weights: str, data: bytearray) -> Any:
    table: Any = AttributeT()
    table.name, table.kind, table.graph = name, AttributeKind.Graph, GraphT()
    _fill(table.graph, graph, weights, data)
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
