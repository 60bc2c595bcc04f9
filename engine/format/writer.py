"""Graph to .palm."""

# The generated code has no types.
# pyright: reportUnknownMemberType=false

import hashlib
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
    CONTROL_FLOW,
    IDENTIFIER,
    NARROW_TYPES,
    ORDERED,
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
from palmkit.engine.format.plans import ReadyPlan, Stored, section
from palmkit.engine.ir import NARROW_DTYPES, Array, Attr, Graph, Node, Type
from palmkit.engine.replacing import replacing


def save(
    graph: Graph,
    path: str | os.PathLike[str],
    weights: str = "float32",
    plans: Sequence[ReadyPlan] = (),
) -> None:
    """Write the graph to a file; the file is either the old one or the whole new one.

    weights: how float32 constants are stored. "float32": as they are. "auto": as float16 where
    that loses nothing. "float16": as "auto", and matrices and kernels (two dims or more) are
    rounded to float16 unless a number is out of its range.
    plans: made from the graph as it is stored (see `stored`), for a loader that need not make
    them.
    Raises ModelError, ShapeError or UnsupportedError if the graph is not one that `load` takes,
    OSError if the file cannot be written.
    """
    content = dumps(graph, weights, plans)
    target = Path(path)
    with replacing(target) as part, part.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(target.parent)


def dumps(graph: Graph, weights: str = "float32", plans: Sequence[ReadyPlan] = ()) -> bytes:
    """What `save` writes; the same graph gives the same bytes."""
    _check_weights(weights)
    verify(graph)
    data = _Data(weights, [value for ready in plans for value in ready.plan.constants])
    model: Any = ModelT()
    model.metadata = [_property(key, value) for key, value in graph.metadata.items()]
    _fill(model, graph, data)
    model.features = [*_features(graph), *([ORDERED] if data.ordered else [])]
    builder: Any = flatbuffers.Builder(1024)
    try:
        builder.Finish(model.Pack(builder), file_identifier=IDENTIFIER)
    except UnicodeEncodeError as error:
        raise ModelError(f"a name is not text: {error.object!r}") from None
    content = bytearray(builder.Output())
    graph_size = len(content)
    content += bytes(align(graph_size) - graph_size)
    places = [[data.place(value) for value in ready.plan.constants] for ready in plans]
    content += data.content
    if plans:
        content += section(graph, plans, lambda plan, constant: places[plan][constant])
    size = len(content) + TRAILER.size
    content += TRAILER.pack(graph_size, size, VERSION, 0)[:-CHECKSUM_SIZE]
    content += zlib.crc32(content).to_bytes(CHECKSUM_SIZE, "little")
    return bytes(content)


def stored(graph: Graph, weights: str) -> Graph:
    """The graph as it will be read again: with the constants rounded that `weights` rounds."""
    _check_weights(weights)
    if weights != "float16":
        return graph
    return replace(
        graph,
        constants={
            name: value.astype(np.float16).astype(np.float32)
            if _fits_float16(value, lossy=True)
            else value
            for name, value in graph.constants.items()
        },
    )


def _check_weights(weights: str) -> None:
    if weights not in ("auto", "float16", "float32"):
        raise ValueError(f"weights: expected float32, float16 or auto, got {weights!r}")


class _Data:
    """The data section while it grows, and where the constants of plans lie in it."""

    def __init__(self, weights: str, wanted: Sequence[Array]) -> None:
        self.content = bytearray()
        self.ordered = False
        self._weights = weights
        self._wanted = {_digest(value) for value in wanted}
        self._places: dict[bytes, Stored] = {}

    def constant(self, value: Array) -> tuple[bool, Any, Sequence[int]]:
        """Add a graph's constant: is it stored as float16, where, and in which order of axes."""
        order: tuple[int, ...] = ()
        computed = value.astype(np.float32) if value.dtype == np.float16 else value
        digest = _digest(computed) if self._wanted else b""
        if self._wanted and digest not in self._wanted and 3 <= value.ndim <= 5:
            last = (0, *range(2, value.ndim), 1)
            transposed = _digest(computed.transpose(last))
            if transposed in self._wanted:
                order, digest, value = last, transposed, value.transpose(last)
                self.ordered = True
        half = self._weights != "float32" and _fits_float16(value, self._weights == "float16")
        in_file = value.astype("<f2") if half else value
        run = self._append(in_file)
        if digest in self._wanted:
            # What is stored as float16 is widened when it is read, whatever the graph calls it.
            self._places.setdefault(digest, Stored(run.offset, half or value.dtype == np.float16))
        return half, run, order

    def place(self, value: Array) -> Stored:
        """Where a plan's constant lies; it is added if no constant of the graph is the same."""
        digest = _digest(value)
        if digest not in self._places:
            self._places[digest] = Stored(self._append(value).offset, half=False)
        return self._places[digest]

    def _append(self, value: Array) -> Any:
        run: Any = BytesT()
        run.offset, run.size = len(self.content), value.nbytes
        self.content += value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
        self.content += bytes(align(len(self.content)) - len(self.content))
        return run


def _digest(value: Array) -> bytes:
    """Stands for the numbers in running order, and their type."""
    return hashlib.sha256(value.dtype.name.encode() + value.tobytes()).digest()


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


def _fill(table: Any, graph: Graph, data: _Data) -> None:
    """Write a model or a body to its table; the constants' bytes are added to `data`."""
    table.inputs = [_value(name, type) for name, type in graph.inputs.items()]
    table.outputs = [_value(name, type) for name, type in graph.outputs.items()]
    table.constants = [_constant(name, value, data) for name, value in graph.constants.items()]
    table.nodes = [_node(node, data) for node in graph.nodes]


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


def _constant(name: str, value: Array, data: _Data) -> Any:
    """The constant's table; its bytes are added to `data`."""
    half, run, order = data.constant(value)
    storage: Any = StorageT()
    storage.encodingType = Encoding.Half if half else Encoding.Raw
    storage.encoding = HalfT() if half else RawT()
    storage.encoding.bytes, storage.encoding.order = run, list(order)
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


def _node(node: Node, data: _Data) -> Any:
    table: Any = NodeT()
    table.op, table.name = node.op, node.name
    table.inputs, table.outputs = list(node.inputs), list(node.outputs)
    table.attributes = [
        _body(name, value, data) if isinstance(value, Graph) else _attribute(node, name, value)
        for name, value in node.attrs.items()
    ]
    return table


def _body(name: str, graph: Graph, data: _Data) -> Any:
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
