"""What a .tflite file holds, as plain data: graphs, tensors, operators, constants.

The flatbuffer is read by the generated readers of the `tflite` package. A damaged file makes them
raise, or lie about sizes; every such case ends as ModelError, and nothing is allocated by a length
that the file's own size does not bear out.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, cast

import numpy as np

from palmkit.engine.converters.tflite.sparse import dense
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.flatbuffer_tables import indexed
from palmkit.engine.ir import Array

_IDENTIFIER = b"TFL3"
_SCHEMA_VERSION = 3
_MOST_DIMS = 32
_WITHOUT_OUTPUTS = ("ASSIGN_VARIABLE", "CALL_ONCE", "HASHTABLE_IMPORT")

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
    "BFLOAT16": "bfloat16",
    "INT4": "int8",
    "COMPLEX64": "complex64",
}
_DTYPE_NUMBERS_NOT_IN_THE_READERS = {19: "INT2", 20: "UINT4"}
_PACKED = {"INT4": 4}


@dataclass(frozen=True)
class Quantization:
    """real = scale * (stored - zero_point); one of each, or one for each index along `axis`."""

    scale: Array
    zero_point: Array
    axis: int


@dataclass(frozen=True)
class Tensor:
    """One tensor; a dim of -1 is not known before the model runs.

    dtype: "" for a type that the IR lacks; complex64 only lives between operators.
    data: the value of a constant.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    quantization: Quantization | None
    data: Array | None


@dataclass(frozen=True)
class Operator:
    """One operator: tensor numbers (-1 = an optional input left out) and options.

    op: the builtin operator's name, or the name of a custom one.
    intermediates: tensors that give the quantization of intermediate results.
    table: the reader of the builtin options.
    """

    op: str
    is_custom: bool
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...]
    custom_options: bytes
    table: Any

    def option(self, name: str, default: Any) -> Any:
        """Return a builtin option, `default` if the file leaves all options out."""
        return default if self.table is None else getattr(self.table, name)()

    def options(self, name: str) -> tuple[Any, ...]:
        """Return a builtin option that is a list of numbers."""
        if self.table is None or getattr(self.table, f"{name}IsNone")():
            return ()
        return tuple(getattr(self.table, f"{name}AsNumpy")().tolist())

    def has_input(self, place: int) -> bool:
        """Return whether the input exists and is not left out."""
        return place < len(self.inputs) and self.inputs[place] >= 0


@dataclass(frozen=True)
class Subgraph:
    """One graph of the file, its operators in running order."""

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class File:
    """The graphs of a file: the first is the model, control flow calls the others."""

    graphs: tuple[Subgraph, ...]


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
            'reading .tflite models needs the package tflite: pip install "palmkit[tflite]"'
        ) from None
    return _Reader(tflite, data).read()


def numbers(vector: Any) -> tuple[int, ...]:
    """Return a vector of the readers, which give 0 if it is left out."""
    return () if isinstance(vector, int) else tuple(vector.tolist())


@dataclass
class _Reader:
    """Reads each table of the file once, however often it is referenced."""

    tflite: Any
    data: bytes
    constants: dict[tuple[int, str], Array] = field(default_factory=dict[tuple[int, str], Array])
    read_tensors: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    read_codes: dict[int, tuple[str, bool, int]] = field(
        default_factory=dict[int, tuple[str, bool, int]]
    )

    def read(self) -> File:
        model = indexed(self.tflite.Model.GetRootAs(self.data, 0))
        if model.Version() != _SCHEMA_VERSION:
            raise ModelError(f".tflite schema: expected version 3, got {model.Version()}")
        count = self.length("subgraphs", model.SubgraphsLength())
        if count < 1:
            raise ModelError("the .tflite file holds no graph")
        self.model = model
        self.dtypes = {
            **_DTYPE_NUMBERS_NOT_IN_THE_READERS,
            **_names(self.tflite.TensorType),
        }
        self.option_tables = _names(self.tflite.BuiltinOptions)
        self.second_option_tables = _names(self.tflite.BuiltinOptions2)
        graphs = tuple(self.graph(i) for i in range(count))
        if not graphs[0].inputs or not graphs[0].outputs:
            raise ModelError("the .tflite file has no inputs or no outputs")
        return File(graphs)

    def length(self, what: str, count: int) -> int:
        """Return a vector's length, if a vector of offsets that long fits into the file."""
        if 4 * count > len(self.data):
            raise ModelError(f"{what}: {count} of them do not fit into {len(self.data)} bytes")
        return int(count)

    def graph(self, number: int) -> Subgraph:
        graph = indexed(self.model.Subgraphs(number))
        tensors = tuple(
            self.tensor(graph.Tensors(i), i)
            for i in range(self.length("tensors", graph.TensorsLength()))
        )
        written: set[int] = set()
        operators: list[Operator] = []
        for i in range(self.length("operators", graph.OperatorsLength())):
            operator = self.operator(indexed(graph.Operators(i)))
            where = f"graph {number}, operator {i} ({operator.op})"
            _check_numbers(where, operator.inputs, -1, len(tensors))
            _check_numbers(where, operator.outputs, 0, len(tensors))
            _check_numbers(where, operator.intermediates, 0, len(tensors))
            if not operator.outputs and operator.op not in _WITHOUT_OUTPUTS:
                raise ModelError(f"{where}: no outputs")
            for index in operator.outputs:
                if index in written:
                    raise ModelError(f"{where}: tensor is written twice: {tensors[index].name}")
                written.add(index)
            operators.append(operator)
        inputs, outputs = numbers(graph.InputsAsNumpy()), numbers(graph.OutputsAsNumpy())
        _check_numbers(f"graph {number}, inputs", inputs, 0, len(tensors))
        _check_numbers(f"graph {number}, outputs", outputs, 0, len(tensors))
        return Subgraph(tensors, tuple(operators), inputs, outputs)

    def tensor(self, tensor: Any, number: int) -> Tensor:
        position = tensor._tab.Pos
        if position not in self.read_tensors:
            self.read_tensors[position] = self.new_tensor(indexed(tensor), number)
        return self.read_tensors[position]

    def new_tensor(self, tensor: Any, number: int) -> Tensor:
        name = (tensor.Name() or b"").decode(errors="replace")
        where = f"tensor {number} ({name})"
        kind = self.dtypes.get(tensor.Type(), "")
        dtype = _DTYPES.get(kind, "")
        declared, signature = _dims(where, tensor, "Shape"), _dims(where, tensor, "ShapeSignature")
        shape = signature if len(signature) == len(declared) else declared
        stored = self.stored(where, tensor.Buffer())
        quantization = _quantization(
            where, tensor.Quantization(), dtype, shape, is_constant=stored is not None
        )
        data = None
        if stored is not None:
            if not dtype or dtype == "complex64":
                raise UnsupportedError(
                    f"{where}: constant of type {kind or tensor.Type()} is not supported"
                )
            key = (tensor.Buffer(), kind)
            if key not in self.constants:
                self.constants[key] = _elements(where, stored, kind, dtype, prod(declared))
            data = self.constants[key]
            sparsity = tensor.Sparsity()
            data = (
                self.shaped(where, data, declared)
                if sparsity is None
                else dense(sparsity, data, declared, where)
            )
            data.flags.writeable = False
            shape = declared
        return Tensor(name, dtype, shape, quantization, data)

    def shaped(self, where: str, data: Array, shape: tuple[int, ...]) -> Array:
        if data.size != prod(shape):
            raise ModelError(
                f"{where}: {list(shape)} needs {prod(shape)} elements, the buffer has {data.size}"
            )
        return data.reshape(shape)

    def stored(self, where: str, number: int) -> memoryview | None:
        """Return the bytes of a buffer; None if the tensor is computed."""
        if not 0 <= number < self.model.BuffersLength():
            raise ModelError(f"{where}: no buffer of number {number}")
        buffer = indexed(self.model.Buffers(number))
        if number and buffer.DataLength():
            start = buffer._tab.Vector(buffer._tab.Offset(4))
            return self.part(where, start, buffer.DataLength())
        if number and buffer.Offset() > 1:
            return self.part(where, buffer.Offset(), buffer.Size())
        return None

    def part(self, where: str, start: int, length: int) -> memoryview:
        if start + length > len(self.data):
            raise ModelError(
                f"{where}: bytes {start}..{start + length} of a file of {len(self.data)}"
            )
        return memoryview(self.data)[start : start + length]

    def operator(self, operator: Any) -> Operator:
        op, is_custom, version = self.code(operator.OpcodeIndex())
        custom = (
            b"" if operator.CustomOptionsIsNone() else operator.CustomOptionsAsNumpy().tobytes()
        )
        if not custom and operator.LargeCustomOptionsOffset() > 1:
            start, size = operator.LargeCustomOptionsOffset(), operator.LargeCustomOptionsSize()
            custom = bytes(self.part(op, start, size))
        return Operator(
            op,
            is_custom,
            version,
            numbers(operator.InputsAsNumpy()),
            numbers(operator.OutputsAsNumpy()),
            numbers(operator.IntermediatesAsNumpy()),
            custom,
            self.options(operator),
        )

    def code(self, number: int) -> tuple[str, bool, int]:
        """Return an operator's name, whether it is a custom one, and its version."""
        if number not in self.read_codes:
            self.read_codes[number] = self.new_code(number)
        return self.read_codes[number]

    def new_code(self, number: int) -> tuple[str, bool, int]:
        if not 0 <= number < self.model.OperatorCodesLength():
            raise ModelError(f"operator code {number} is not in the file's list")
        code = self.model.OperatorCodes(number)
        builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        try:
            op = str(self.tflite.opcode2name(builtin))
        except (ValueError, KeyError):
            op = f"operator {builtin}"
        is_custom = op == "CUSTOM"
        if is_custom:
            op = (code.CustomCode() or b"").decode(errors="replace")
        return op, is_custom, int(code.Version())

    def options(self, operator: Any) -> Any:
        for table, kind, known in (
            (operator.BuiltinOptions(), operator.BuiltinOptionsType(), self.option_tables),
            (operator.BuiltinOptions2(), operator.BuiltinOptions2Type(), self.second_option_tables),
        ):
            if table is not None and kind:
                reader = getattr(self.tflite, known[kind])()
                reader.Init(table.Bytes, table.Pos)
                return indexed(reader)
        return None


def _names(enum: Any) -> dict[int, str]:
    members = cast("Mapping[str, Any]", vars(enum))
    return {number: name for name, number in members.items() if isinstance(number, int)}


def _check_numbers(where: str, indices: tuple[int, ...], least: int, tensors: int) -> None:
    for index in indices:
        if not least <= index < tensors:
            raise ModelError(f"{where}: no tensor of number {index}")


def _dims(where: str, tensor: Any, field: str) -> tuple[int, ...]:
    vector = getattr(tensor, f"{field}AsNumpy")()
    if not isinstance(vector, int) and len(vector) > _MOST_DIMS:
        raise ModelError(f"{where}: more than {_MOST_DIMS} dims")
    dims = numbers(vector)
    if min(dims, default=0) < -1:
        raise ModelError(f"{where}: shape {list(dims)}")
    return dims


def _elements(where: str, stored: memoryview, kind: str, dtype: str, count: int) -> Array:
    """Return the stored numbers as an aligned array; narrow ones are widened to a byte each."""
    if kind in _PACKED:
        pairs = np.frombuffer(stored, np.uint8)
        both = np.stack([pairs << 4, pairs], 1).reshape(-1).view(np.int8) >> 4
        return both[:count] if 0 <= count <= both.size else both
    if kind == "BFLOAT16":
        return (np.frombuffer(stored, np.uint16).astype(np.uint32) << 16).view(np.float32)
    itemsize = np.dtype(dtype).itemsize
    if len(stored) % itemsize:
        raise ModelError(f"{where}: {len(stored)} bytes are no whole number of {dtype}")
    return np.frombuffer(stored, dtype).copy()


def _quantization(
    where: str, table: Any, dtype: str, shape: tuple[int, ...], is_constant: bool
) -> Quantization | None:
    """Return the parameters of a quantized tensor of integers; None for all others.

    A constant of zeros may have a scale of zero.
    """
    is_integer = "int" in dtype and dtype not in ("uint32", "uint64", "uint16")
    if table is None or not is_integer or indexed(table).ScaleLength() < 1:
        return None
    if table.DetailsType():
        raise UnsupportedError(f"{where}: quantization of custom kind {table.DetailsType()}")
    scale = np.array(table.ScaleAsNumpy(), np.float32)
    count, axis = len(scale), int(table.QuantizedDimension())
    zero_point = np.zeros(count, np.int64)
    if table.ZeroPointLength():
        zero_point = np.array(table.ZeroPointAsNumpy(), np.int64)
    if len(zero_point) == 1:
        zero_point = np.repeat(zero_point, count)
    if len(zero_point) != count:
        raise ModelError(f"{where}: {count} scales, but {len(zero_point)} zero points")
    if len(shape) == 1:
        # A bias may state the axis of its weights, though it has only one axis itself.
        axis = 0
    if count > 1 and (not 0 <= axis < len(shape) or shape[axis] != count):
        raise ModelError(f"{where}: {count} scales along axis {axis} of {list(shape)}")
    if not np.isfinite(scale).all() or scale.min() < 0 or (scale.min() == 0 and not is_constant):
        raise ModelError(f"{where}: expected scales above 0, got {scale.min()}")
    limits = np.iinfo(dtype)
    if limits.bits <= 16 and float(scale.max()) * 2**limits.bits > float(np.finfo(np.float32).max):
        raise ModelError(f"{where}: a scale of {scale.max()} stands for more than float32 has")
    if zero_point.min() < limits.min or zero_point.max() > limits.max:
        raise ModelError(f"{where}: zero point {int(zero_point[0])} is no {dtype}")
    if count == 1:
        return Quantization(scale.reshape(()), zero_point.astype(dtype).reshape(()), 0)
    return Quantization(scale, zero_point.astype(dtype), axis)
