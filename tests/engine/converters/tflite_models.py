"""Small TFLite models, written operator by operator, and LiteRT to run them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest

from palmkit.engine.backends.reference import Reference
from palmkit.engine.ir import Array, Graph, Type

pytest.importorskip("tflite")
interpreter_module: Any = pytest.importorskip("ai_edge_litert.interpreter")
schema: Any = pytest.importorskip("ai_edge_litert.schema_py_generated")
flatbuffers: Any = pytest.importorskip("flatbuffers")
flexbuffers: Any = pytest.importorskip("flatbuffers.flexbuffers")

RANDOM = np.random.default_rng(5)
RELU, RELU_N1_TO_1, RELU6, TANH = 1, 2, 3, 4
SAME, VALID = 0, 1


def floats(*dims: int) -> Array:
    return RANDOM.normal(size=dims).astype(np.float32)


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)


def litert(
    model: bytes, inputs: dict[str, Array], reference: bool = False, resize: bool = False
) -> dict[str, Array]:
    """Run LiteRT; reference: by its plain kernels; resize: to the inputs' own sizes."""
    kind = interpreter_module.OpResolverType
    interpreter = interpreter_module.Interpreter(
        model_content=model,
        num_threads=1,
        experimental_op_resolver_type=kind.BUILTIN_REF if reference else kind.AUTO,
    )
    if resize:
        for detail in interpreter.get_input_details():
            interpreter.resize_tensor_input(detail["index"], inputs[detail["name"]].shape)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], inputs[detail["name"]])
    interpreter.reset_all_variables()
    interpreter.invoke()
    return {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()}


def run(graph: Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    return Reference().compile(graph).run(inputs)


def assert_agrees(graph: Graph, inputs: dict[str, Array], wanted: dict[str, Array]) -> None:
    """Check the reference backend's results, and the types that the graph states."""
    assert_same(run(graph, inputs), wanted)
    for name, value in wanted.items():
        stated = graph.outputs[name]
        assert stated == Type.of(value) or not stated.is_static


def assert_same(got: dict[str, Array], wanted: dict[str, Array]) -> None:
    """Check floats to 1e-4 of their range, everything else exactly."""
    assert sorted(got) == sorted(wanted)
    for name, value in wanted.items():
        assert got[name].dtype == value.dtype
        assert got[name].shape == value.shape
        if value.dtype.kind == "f":
            spread = np.ptp(value) if value.size > 1 else np.abs(value).max(initial=0)
            worst = np.abs(got[name] - value).max(initial=0)
            assert worst <= 1e-4 * spread, f"{name}: off by {worst}, range {spread}"
        else:
            np.testing.assert_array_equal(got[name], value)


@dataclass
class ModelFile:
    """A TFLite model under construction: tensors by name, operators in order."""

    names: list[str] = field(default_factory=list[str])
    tensors: list[Any] = field(default_factory=list[Any])
    buffers: list[Any] = field(default_factory=list[Any])
    codes: list[Any] = field(default_factory=list[Any])
    operators: list[Any] = field(default_factory=list[Any])
    inputs: list[int] = field(default_factory=list[int])
    graphs: list[ModelFile] = field(default_factory=list["ModelFile"])
    outputs: list[str] = field(default_factory=list[str])

    def tensor(
        self,
        name: str,
        value: Array | tuple[int, ...],
        dtype: str = "float32",
        scale: float | list[float] = 0,
        zero_point: int | list[int] = 0,
        axis: int = 0,
        variable: bool = False,
    ) -> str:
        tensor = schema.TensorT()
        if not self.buffers:
            self.buffers.append(schema.BufferT())
        dims = value
        if isinstance(value, np.ndarray):
            dims, dtype, buffer = value.shape, value.dtype.name, schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
            tensor.buffer = len(self.buffers)
            self.buffers.append(buffer)
        tensor.name, tensor.shape = name.encode(), np.array(dims, np.int32)
        tensor.type = getattr(schema.TensorType, dtype.upper())
        tensor.isVariable = variable
        if scale:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = np.atleast_1d(np.array(scale, np.float32))
            points = np.atleast_1d(np.array(zero_point, np.int64))
            tensor.quantization.zeroPoint = np.resize(points, len(tensor.quantization.scale))
            tensor.quantization.quantizedDimension = axis
        self.names.append(name)
        self.tensors.append(tensor)
        return name

    def input(self, name: str, dims: tuple[int, ...], dtype: str = "float32", **more: Any) -> str:
        self.inputs.append(len(self.tensors))
        return self.tensor(name, dims, dtype, **more)

    def operator(
        self, op: str, inputs: list[str], outputs: list[str], options: str = "", **values: Any
    ) -> None:
        """Add an operator; options: the name of its table; custom: a custom one's bytes."""
        code = schema.OperatorCodeT()
        operator = schema.OperatorT()
        custom = values.pop("custom", None)
        code.builtinCode = getattr(schema.BuiltinOperator, "CUSTOM" if custom is not None else op)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = values.pop("version", 1)
        if custom is not None:
            code.customCode = op.encode()
            operator.customOptions = np.frombuffer(custom, np.uint8) if custom else None
        operator.opcodeIndex = len(self.codes)
        self.codes.append(code)
        operator.inputs = np.array([self.names.index(n) if n else -1 for n in inputs], np.int32)
        operator.outputs = np.array([self.names.index(name) for name in outputs], np.int32)
        if options:
            second = not hasattr(schema.BuiltinOptions, options)
            kinds = schema.BuiltinOptions2 if second else schema.BuiltinOptions
            table = getattr(schema, f"{options}T")()
            for name, value in values.items():
                assert hasattr(table, name), name
                setattr(table, name, value)
            kind = getattr(kinds, options)
            if second:
                operator.builtinOptions2Type, operator.builtinOptions2 = kind, table
            else:
                operator.builtinOptionsType, operator.builtinOptions = kind, table
        self.operators.append(operator)

    def graph(self) -> ModelFile:
        """Return another graph of the same file; the number of the first one is 1."""
        other = ModelFile(buffers=self.buffers, codes=self.codes)
        self.graphs.append(other)
        return other

    def _packed(self) -> Any:
        graph = schema.SubGraphT()
        graph.tensors, graph.operators = self.tensors, self.operators
        graph.inputs = np.array(self.inputs, np.int32)
        graph.outputs = np.array([self.names.index(name) for name in self.outputs], np.int32)
        return graph

    def pack(self, outputs: list[str], version: int = 3) -> bytes:
        self.outputs = outputs
        model = schema.ModelT()
        model.version = version
        model.subgraphs = [self._packed(), *(each._packed() for each in self.graphs)]
        model.operatorCodes, model.buffers = self.codes, self.buffers
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


@dataclass
class One:
    """A model of one operator: a shape is an input of random numbers, the rest are constants.

    Values with `feed` are given at run time, too.
    """

    op: str
    inputs: tuple[Any, ...]
    options: str = ""
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    outputs: tuple[str, ...] = ("float32",)

    def pack(self) -> tuple[bytes, dict[str, Array]]:
        file = ModelFile()
        names: list[str] = []
        arrays: dict[str, Array] = {}
        for place, value in enumerate(self.inputs):
            name = f"t{place}"
            if value is None:
                names.append("")
                continue
            if isinstance(value, Fed):
                arrays[name] = value.value
                names.append(file.input(name, value.value.shape, value.value.dtype.name))
            elif isinstance(value, tuple):
                arrays[name] = floats(*cast("tuple[int, ...]", value))
                names.append(file.input(name, arrays[name].shape))
            else:
                names.append(file.tensor(name, value))
        values = dict(self.values)
        dims = values.pop("dims", (1,) * values.pop("rank", 4))
        outputs = [file.tensor(f"y{i}", dims, dtype) for i, dtype in enumerate(self.outputs)]
        file.operator(self.op, names, outputs, self.options, **values)
        return file.pack(outputs), arrays


@dataclass
class Fed:
    """A value that is an input of the model."""

    value: Array


def one(
    op: str, *inputs: Any, options: str = "", outputs: tuple[str, ...] = ("float32",), **values: Any
) -> Any:
    """Return a case for parametrize."""
    shown = " ".join(f"{key}={value}" for key, value in values.items() if key != "custom")
    return pytest.param(One(op, inputs, options, values, outputs), id=f"{op} {shown}")
