"""What a .tflite file holds, as plain data: tensors, operators, constants.

The flatbuffer is read by the generated readers of the `tflite` package. A damaged file makes them
raise, or lie about sizes; every such case ends as ModelError.
"""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from struct import error as StructError
from typing import Any, cast

import numpy as np

from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array

_IDENTIFIER = b"TFL3"
_SCHEMA_VERSION = 3
_MOST_SPARSE_ELEMENTS = 1 << 28

_DTYPES = {
    "FLOAT32": "float32",
    "FLOAT16": "float16",
    "FLOAT64": "float64",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT16": "int16",
    "UINT16": "uint16",
    "INT32": "int32",
    "UINT32": "uint32",
    "INT64": "int64",
    "UINT64": "uint64",
    "BOOL": "bool",
}


@dataclass(frozen=True)
class Tensor:
    """One tensor; a dim of -1 is not known before the model runs.

    dtype: "" where the IR has none such.
    data: the value of a constant.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_quantized: bool
    data: Array | None


@dataclass(frozen=True)
class Operator:
    """One operator: tensor numbers (-1 = an optional input left out) and options.

    op: the builtin operator's name, or the name of a custom one.
    """

    op: str
    is_custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    custom_options: bytes
    table: Any

    def option(self, name: str, default: Any) -> Any:
        """A builtin option, `default` if the file leaves all options out."""
        return default if self.table is None else getattr(self.table, name)()

    def options(self, name: str) -> tuple[int, ...]:
        """A builtin option that is a list of numbers."""
        if self.table is None or getattr(self.table, f"{name}IsNone")():
            return ()
        return tuple(map(int, getattr(self.table, f"{name}AsNumpy")()))


@dataclass(frozen=True)
class File:
    """The first subgraph, in running order."""

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@contextmanager
def damage_as_model_error() -> Generator[None]:
    """What readers raise on damaged bytes becomes ModelError."""
    try:
        yield
    except (
        StructError,
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        TypeError,
        ValueError,
    ) as error:
        if isinstance(error, ModelError | UnsupportedError):
            raise
        raise ModelError(f"not a readable .tflite file: {error}") from error


def read(data: bytes) -> File:
    """Parse a file's bytes.

    Raises ModelError for anything that is not a whole .tflite file, UnsupportedError if the
    `tflite` package is missing.
    """
    if len(data) < 8 or data[4:8] != _IDENTIFIER:
        raise ModelError(f"not a .tflite file: expected {_IDENTIFIER!r} at 4, got {data[4:8]!r}")
    try:
        tflite: Any = importlib.import_module("tflite")
    except ImportError:
        raise UnsupportedError(
            'reading .tflite needs the tflite package: pip install "palmkit[tflite]"'
        ) from None
    with damage_as_model_error():
        return _read(tflite, data)


def _read(tflite: Any, data: bytes) -> File:
    model = tflite.Model.GetRootAs(data, 0)
    if model.Version() != _SCHEMA_VERSION:
        raise ModelError(f".tflite schema: expected version 3, got {model.Version()}")
    if model.SubgraphsLength() < 1:
        raise ModelError("the .tflite file holds no graph")
    graph = model.Subgraphs(0)
    if graph.InputsLength() < 1 or graph.OutputsLength() < 1:
        raise ModelError("the .tflite file has no inputs or no outputs")
    dtypes = {number: _DTYPES.get(name, "") for number, name in _names(tflite.TensorType).items()}
    return File(
        tuple(_tensor(model, graph.Tensors(i), dtypes) for i in range(graph.TensorsLength())),
        tuple(_operator(tflite, model, graph.Operators(i)) for i in range(graph.OperatorsLength())),
        _numbers(graph.InputsAsNumpy()),
        _numbers(graph.OutputsAsNumpy()),
    )


def _numbers(vector: Any) -> tuple[int, ...]:
    return () if isinstance(vector, int) else tuple(map(int, vector))


def _names(enum: Any) -> dict[int, str]:
    members = cast("dict[str, Any]", vars(enum))
    return {number: name for name, number in members.items() if isinstance(number, int)}


def _tensor(model: Any, tensor: Any, dtypes: dict[int, str]) -> Tensor:
    name = (tensor.Name() or b"").decode()
    dtype = dtypes.get(tensor.Type(), "")
    declared = () if tensor.ShapeIsNone() else _numbers(tensor.ShapeAsNumpy())
    signature = () if tensor.ShapeSignatureIsNone() else _numbers(tensor.ShapeSignatureAsNumpy())
    shape = signature if len(signature) == len(declared) else declared
    quantization = tensor.Quantization()
    is_quantized = (
        quantization is not None
        and quantization.ScaleLength() > 0
        and np.issubdtype(np.dtype(dtype or "float32"), np.integer)
    )
    data = None
    buffer = model.Buffers(tensor.Buffer())
    if tensor.Buffer() and buffer.DataLength():
        if not dtype:
            raise UnsupportedError(f"constant {name}: unknown dtype number: {tensor.Type()}")
        stored = np.frombuffer(buffer.DataAsNumpy().tobytes(), dtype)
        sparsity = tensor.Sparsity()
        data = stored.reshape(declared) if sparsity is None else _dense(sparsity, stored, declared)
        data.flags.writeable = False
    return Tensor(name, dtype, shape, is_quantized, data)


def _dense(sparsity: Any, stored: Array, shape: tuple[int, ...]) -> Array:
    """The dense array of a sparse constant: TFLite's format, after TACO's level formats.

    Levels are the dims in traversal order, then the blocks' dims; each is dense, or compressed
    with segments and indices. Coordinates are grown one level at a time, all elements at once.
    """
    order = _numbers(sparsity.TraversalOrderAsNumpy())
    blocks = () if sparsity.BlockMapIsNone() else _numbers(sparsity.BlockMapAsNumpy())
    levels = sparsity.DimMetadataLength()
    if sorted(order) != list(range(levels)) or levels != len(shape) + len(blocks):
        raise ModelError(f"sparse constant: {levels} levels do not fit the shape: {list(shape)}")
    if not 0 < prod(shape) <= _MOST_SPARSE_ELEMENTS:
        raise ModelError(f"sparse constant: unreasonable shape: {list(shape)}")
    coordinates: list[Array] = []
    position = np.zeros(1, np.int64)
    block_sizes: list[int] = []
    for level in range(levels):
        metadata = sparsity.DimMetadata(level)
        if metadata.Format() == 0:
            size = int(metadata.DenseSize())
            if not 0 < size * len(position) <= _MOST_SPARSE_ELEMENTS:
                raise ModelError(f"sparse constant: unreasonable size of level {level}: {size}")
            coordinate: Array = np.tile(np.arange(size), len(position))
            coordinates = [np.repeat(each, size) for each in coordinates]
            position = np.repeat(position, size) * size + coordinate
            if level >= len(shape):
                block_sizes.append(size)
        else:
            segments = _index_vector(metadata.ArraySegmentsType(), metadata.ArraySegments())
            indices = _index_vector(metadata.ArrayIndicesType(), metadata.ArrayIndices())
            starts, counts = segments[position], segments[position + 1] - segments[position]
            total = int(counts.sum())
            if counts.min(initial=0) < 0 or total > _MOST_SPARSE_ELEMENTS:
                raise ModelError(f"sparse constant: segments of level {level} do not grow")
            coordinates = [np.repeat(each, counts) for each in coordinates]
            within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
            position = np.repeat(starts, counts) + within
            coordinate = indices[position]
            if level >= len(shape):
                raise ModelError("sparse constant: a compressed block")
        coordinates.append(coordinate)
    place = [np.zeros(0, np.int64)] * len(shape)
    for level, dim in enumerate(order[: len(shape)]):
        place[dim] = coordinates[level]
    for level in range(len(shape), levels):
        block = order[level] - len(shape)
        dim = blocks[block]
        place[dim] = place[dim] * block_sizes[level - len(shape)] + coordinates[level]
    dense = np.zeros(shape, stored.dtype)
    dense[tuple(place)] = stored[: len(position)]
    return dense


def _index_vector(kind: int, table: Any) -> Array:
    """A SparseIndexVector: its reader is chosen by `kind`."""
    if table is None or kind not in (1, 2, 3):
        raise ModelError("sparse constant: a level has no segments or indices")
    tflite: Any = importlib.import_module("tflite")
    names = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}
    vector = getattr(tflite, names[kind])()
    vector.Init(table.Bytes, table.Pos)
    return np.asarray(_numbers(vector.ValuesAsNumpy()), np.int64)


def _operator(tflite: Any, model: Any, operator: Any) -> Operator:
    code = model.OperatorCodes(operator.OpcodeIndex())
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    try:
        op = tflite.opcode2name(number)
    except ValueError:
        op = f"operator {number}"
    is_custom = op == "CUSTOM"
    if is_custom:
        op = (code.CustomCode() or b"").decode()
    custom = b"" if operator.CustomOptionsIsNone() else operator.CustomOptionsAsNumpy().tobytes()
    return Operator(
        op,
        is_custom,
        _numbers(operator.InputsAsNumpy()),
        _numbers(operator.OutputsAsNumpy()),
        custom,
        _options(tflite, operator),
    )


def _options(tflite: Any, operator: Any) -> Any:
    table = operator.BuiltinOptions()
    if table is None or not operator.BuiltinOptionsType():
        return None
    reader = getattr(tflite, _names(tflite.BuiltinOptions)[operator.BuiltinOptionsType()])()
    reader.Init(table.Bytes, table.Pos)
    return reader
