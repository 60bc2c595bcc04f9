"""ONNX -> IR: an operator keeps its meaning, so a rule is needed only where old opsets differ.

A rule is called like our op of the same name; without one the node is taken as it is.
Tensors that old opsets took as attributes become constants.

One file, over 400 lines: half of it is a flat list of short rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import DTYPES, Array, Attr, Dim, Graph, Node, Type, check, fresh_name
from palmkit.engine.ops import registry

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

OLDEST_OPSET = 7
DOMAINS = ("", "ai.onnx")


def op_name(operator: str) -> str:
    """What we call an ONNX operator: GlobalAveragePool is global_average_pool."""
    if operator == "MatMul":
        return "matmul"
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", operator).lower()


def convert(source: str | PathLike[str] | bytes) -> Graph:
    """Read an .onnx file, or its bytes, as a graph.

    Raises ModelError for what is not a whole ONNX model, UnsupportedError listing every operator
    that has no rule, or saying that the package onnx is missing.
    """
    try:
        import onnx
    except ImportError:
        raise UnsupportedError(
            'reading ONNX models needs the package onnx: pip install "palmkit[onnx]"'
        ) from None
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from onnx.inliner import inline_local_functions

    what = "onnx model in memory" if isinstance(source, bytes) else fspath(source)
    try:
        if isinstance(source, bytes):
            model = onnx.load_model_from_string(source)
        else:
            model = onnx.load(fspath(source))  # pyright: ignore[reportUnknownMemberType]
        if model.functions:
            model = inline_local_functions(model)
    except OSError as error:
        raise ModelError(f"cannot read model {what}: {error.strerror or error}") from None
    except (DecodeError, ValueError, RuntimeError, onnx.checker.ValidationError) as error:
        raise ModelError(f"not an ONNX model, or damaged: {what}: {error}") from None
    if not model.graph.output or not model.opset_import:
        raise ModelError(f"not an ONNX model, or damaged: {what}")
    try:
        return _Converter(model).convert()
    except (ValueError, TypeError, LookupError) as error:
        if isinstance(error, ModelError | UnsupportedError):
            raise
        raise ModelError(f"damaged ONNX model: {what}: {error}") from None


class _Converter:
    """The graph while it grows."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.graph: GraphProto = model.graph
        self.opset = max(
            (each.version for each in model.opset_import if each.domain in DOMAINS), default=0
        )
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.aliases: dict[str, str] = {}
        self.taken = {
            *(value.name for value in self.graph.input),
            *(value.name for value in self.graph.initializer),
            *(name for node in self.graph.node for name in node.output),
        }

    def convert(self) -> Graph:
        """The whole graph, checked."""
        self._check_operators()
        if self.graph.sparse_initializer:
            raise UnsupportedError("sparse initializers are not supported")
        self.constants = {each.name: _array(each) for each in self.graph.initializer}
        inputs = {
            value.name: _type(value, f"input {value.name}")
            for value in self.graph.input
            if value.name not in self.constants
        }
        for node in self.graph.node:
            foreign = _Foreign(self, node)
            rule = RULES.get(foreign.op)
            if rule is None:
                foreign.emit(foreign.op, foreign.inputs, foreign.attrs)
            else:
                rule(foreign)
        outputs = self._outputs()
        for name in outputs:
            if name in self.aliases:
                self.nodes.append(Node("identity", (self.aliases[name],), (name,)))
        graph = Graph(inputs, outputs, tuple(self.nodes), self.constants, self._metadata())
        check(graph)
        return graph

    def _check_operators(self) -> None:
        if self.opset < OLDEST_OPSET:
            raise UnsupportedError(f"opset: expected {OLDEST_OPSET} or newer, got {self.opset}")
        unknown: dict[str, list[str]] = {}
        for node in self.graph.node:
            op = op_name(node.op_type)
            if node.domain not in DOMAINS or (op not in RULES and op not in registry()):
                operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
                unknown.setdefault(operator, []).append(node.name or next(iter(node.output), "?"))
        if unknown:
            listed = (f"{op} ({len(names)}: {', '.join(names)})" for op, names in unknown.items())
            raise UnsupportedError(
                f"{len(unknown)} ONNX operators have no rule: {'; '.join(listed)}"
            )

    def _outputs(self) -> dict[str, Type]:
        """The outputs as the file declares them; where it gives no rank, as ONNX infers them."""
        declared = list(self.graph.output)
        if not all(value.type.tensor_type.HasField("shape") for value in declared):
            from onnx.shape_inference import infer_shapes

            declared = list(infer_shapes(self.model).graph.output)
        return {value.name: _type(value, f"output {value.name}") for value in declared}

    def _metadata(self) -> dict[str, str]:
        producer = f"{self.model.producer_name} {self.model.producer_version}".strip()
        known = {"name": self.graph.name, "producer": producer, "opset": str(self.opset)}
        extra = {each.key: each.value for each in self.model.metadata_props}
        return {key: value for key, value in {**known, **extra}.items() if value}


class _Foreign:
    """One node of the ONNX graph: what rules read, and how they write."""

    def __init__(self, converter: _Converter, node: NodeProto) -> None:
        self.converter = converter
        self.opset = converter.opset
        self.op = op_name(node.op_type)
        self.name = node.name
        aliases = converter.aliases
        self.inputs = [aliases.get(name, name) for name in node.input]
        self.outputs = list(node.output)
        self.protos = {each.name: each for each in node.attribute}

    @property
    def label(self) -> str:
        """What messages call the node."""
        return f"{self.op} {self.name or next(iter(self.outputs), '')}"

    @property
    def attrs(self) -> dict[str, Attr]:
        """Every attribute as the IR has it."""
        return {name: _attr(each, self.label) for name, each in self.protos.items()}

    def integer(self, name: str, default: int) -> int:
        """An attribute that is one integer."""
        return int(self.protos[name].i) if name in self.protos else default

    def input(self, index: int) -> str:
        """The input's name; "" if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def known(self, index: int) -> Array | None:
        """The input's value if it is a constant."""
        return self.converter.constants.get(self.input(index))

    def constant(self, value: Array, stem: str = "") -> str:
        """A new constant; returns its name."""
        name = fresh_name(self.converter.taken, stem or f"{self.outputs[0]}.constant")
        self.converter.constants[name] = value
        return name

    def value(self, stem: str) -> str:
        """A name for a new value."""
        return fresh_name(self.converter.taken, f"{self.outputs[0]}.{stem}")

    def emit(
        self,
        op: str,
        inputs: Sequence[str],
        attrs: Mapping[str, Attr] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> None:
        """Write a node; its outputs are those of the foreign node unless given."""
        inputs, outputs = list(inputs), list(self.outputs if outputs is None else outputs)
        for names in (inputs, outputs):
            while names and not names[-1]:
                names.pop()
        self.converter.nodes.append(
            Node(op, tuple(inputs), tuple(outputs), dict(attrs or {}), self.name)
        )

    def alias(self) -> None:
        """The first output is the first input."""
        self.converter.aliases[self.outputs[0]] = self.inputs[0]

    def unsupported(self, what: str) -> UnsupportedError:
        """The error that says what of this node has no rule."""
        return UnsupportedError(f"{self.label}: {what} is not supported")


Rule: TypeAlias = Callable[[_Foreign], None]
RULES: dict[str, Rule] = {}


def _rule(*ops: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops or (function.__name__.strip("_"),), function))
        return function

    return register


def _attrs_to_inputs(node: _Foreign, *names: str) -> None:
    """Write the node with these attributes, integers, as its inputs from the second on."""
    attrs = node.attrs
    values = [attrs.pop(name, None) for name in names]
    inputs = [
        "" if value is None else node.constant(np.array(value, np.int64).reshape(-1))
        for value in values
    ]
    node.emit(node.op, [node.input(0), *inputs], attrs)


@_rule()
def _constant(node: _Foreign) -> None:
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32)):
        if name in node.protos:
            node.converter.constants[node.outputs[0]] = np.array(node.attrs[name], dtype)
            return
    for name in ("value_int", "value_ints"):
        if name in node.protos:
            node.converter.constants[node.outputs[0]] = np.array(node.attrs[name], np.int64)
            return
    if "value" not in node.protos:
        raise node.unsupported(f"attribute {', '.join(node.protos)}")
    node.converter.constants[node.outputs[0]] = _array(node.protos["value"].t)


@_rule()
def _constant_of_shape(node: _Foreign) -> None:
    value = np.zeros(1, np.float32)
    if "value" in node.protos:
        value = _array(node.protos["value"].t)
    node.emit("expand", [node.constant(value.reshape(())), node.input(0)])


@_rule()
def _identity(node: _Foreign) -> None:
    node.alias()


@_rule()
def _dropout(node: _Foreign) -> None:
    training = node.known(2)
    if training is not None and training.any():
        raise node.unsupported("training_mode")
    node.alias()


@_rule()
def _cast(node: _Foreign) -> None:
    node.emit("cast", node.inputs, {"to": _dtype(node.integer("to", 0), node.label)})


@_rule("reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_l2", "reduce_sum")
def _reduce(node: _Foreign) -> None:
    if node.opset >= (13 if node.op == "reduce_sum" else 18):
        node.emit(node.op, node.inputs, node.attrs)
    else:
        _attrs_to_inputs(node, "axes")


@_rule("squeeze", "unsqueeze")
def _squeeze(node: _Foreign) -> None:
    if node.opset >= 13:
        node.emit(node.op, node.inputs, node.attrs)
    else:
        _attrs_to_inputs(node, "axes")


@_rule()
def _slice(node: _Foreign) -> None:
    if node.opset >= 10:
        node.emit("slice", node.inputs, node.attrs)
    else:
        _attrs_to_inputs(node, "starts", "ends", "axes")


@_rule()
def _split(node: _Foreign) -> None:
    attrs = node.attrs
    if node.opset >= 13:
        if not node.input(1):
            attrs.setdefault("num_outputs", len(node.outputs))
        node.emit("split", node.inputs, attrs)
    elif "split" in attrs:
        _attrs_to_inputs(node, "split")
    else:
        node.emit("split", node.inputs, {**attrs, "num_outputs": len(node.outputs)})


@_rule()
def _pad(node: _Foreign) -> None:
    attrs = node.attrs
    if node.opset >= 11:
        node.emit("pad", node.inputs, attrs)
        return
    pads = node.constant(np.array(attrs.pop("pads", ()), np.int64))
    fill = node.constant(np.array(attrs.pop("value", 0.0), np.float32))
    node.emit("pad", [node.input(0), pads, fill], attrs)


@_rule()
def _clip(node: _Foreign) -> None:
    if node.opset >= 11:
        node.emit("clip", node.inputs, node.attrs)
        return
    attrs = node.attrs
    bounds = [
        node.constant(np.array(attrs[name], np.float32)) if name in attrs else ""
        for name in ("min", "max")
    ]
    node.emit("clip", [node.input(0), *bounds])


@_rule("softmax", "log_softmax")
def _softmax(node: _Foreign) -> None:
    """Before opset 13 all axes from `axis` on are one: flatten, softmax, reshape back."""
    axis = node.integer("axis", -1 if node.opset >= 13 else 1)
    if node.opset >= 13 or axis == -1:
        node.emit(node.op, node.inputs, {"axis": axis})
        return
    shape, matrix, result = node.value("shape"), node.value("matrix"), node.value("softmax")
    node.emit("shape", node.inputs, outputs=[shape])
    node.emit("flatten", node.inputs, {"axis": axis}, [matrix])
    node.emit(node.op, [matrix], {"axis": -1}, [result])
    node.emit("reshape", [result, shape])


@_rule()
def _batch_normalization(node: _Foreign) -> None:
    if not node.integer("spatial", 1):
        raise node.unsupported("spatial=0")
    if node.integer("training_mode", 0):
        raise node.unsupported("training_mode")
    node.emit("batch_normalization", node.inputs, _only(node, "epsilon"), node.outputs[:1])


def _only(node: _Foreign, *names: str) -> dict[str, Attr]:
    return {name: value for name, value in node.attrs.items() if name in names}


@_rule()
def _upsample(node: _Foreign) -> None:
    scales = node.input(1)
    if node.opset < 9:
        scales = node.constant(np.array(node.attrs["scales"], np.float32))
    _resize_from_the_corner(node, scales, "floor")


@_rule()
def _resize(node: _Foreign) -> None:
    if node.opset < 11:
        scales = node.known(1)
        shrinks = scales is not None and bool((scales < 1).any())
        if shrinks and scales is not None and (scales > 1).any():
            raise node.unsupported("stretching one axis and shrinking another in opset 10")
        _resize_from_the_corner(node, node.input(1), "ceil" if shrinks else "floor")
        return
    inputs = [
        "" if name in node.converter.constants and not node.converter.constants[name].size else name
        for name in node.inputs
    ]
    attrs = node.attrs
    if attrs.get("coordinate_transformation_mode") == "tf_half_pixel_for_nn":
        if attrs.get("mode", "nearest") != "nearest" or attrs.get("nearest_mode") != "floor":
            raise node.unsupported("tf_half_pixel_for_nn without nearest_mode=floor")
        # floor((y + 1/2) / scale) is half_pixel, rounded to the nearest, ties up.
        attrs.update(coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil")
    node.emit("resize", inputs, attrs)


def _resize_from_the_corner(node: _Foreign, scales: str, nearest_mode: str) -> None:
    """Resize as it was before opset 11."""
    attrs: dict[str, Attr] = {
        "mode": node.attrs.get("mode", "nearest"),
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": nearest_mode,
    }
    node.emit("resize", [node.input(0), "", scales], attrs)


def _attr(proto: AttributeProto, label: str) -> Attr:
    """The value of an attribute."""
    from onnx import AttributeProto, helper

    plain = (
        AttributeProto.INT,
        AttributeProto.FLOAT,
        AttributeProto.STRING,
        AttributeProto.INTS,
        AttributeProto.FLOATS,
        AttributeProto.STRINGS,
    )
    if proto.type not in plain:
        raise UnsupportedError(f"{label}: attribute {proto.name} is not a number or a string")
    value: Any = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, int | float):
        return value
    return tuple(each.decode() if isinstance(each, bytes) else each for each in value)


def _array(tensor: TensorProto) -> Array:
    """The tensor, read-only."""
    from onnx import numpy_helper

    _dtype(tensor.data_type, f"tensor {tensor.name}")
    if tensor.data_location == tensor.EXTERNAL:
        raise ModelError(f"weights lie in another file, give the model's path: {tensor.name}")
    array = numpy_helper.to_array(tensor)
    array.flags.writeable = False
    return array


def _dtype(number: int, what: str) -> str:
    """Our name of an ONNX element type."""
    from onnx import TensorProto, helper

    if number not in TensorProto.DataType.values() or number == TensorProto.UNDEFINED:
        raise ModelError(f"{what}: unknown element type: {number}")
    name = TensorProto.DataType.Name(number).lower()
    dtype = helper.tensor_dtype_to_np_dtype(number).name if name in ("float", "double") else name
    if dtype not in DTYPES:
        raise UnsupportedError(f"{what}: element type {name} is not supported")
    return dtype


def _type(value: ValueInfoProto, what: str) -> Type:
    """The declared type; a dim without a size or a name gets one."""
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        raise UnsupportedError(f"{what}: expected a tensor, got {value.type.WhichOneof('value')}")
    if not tensor.HasField("shape"):
        raise UnsupportedError(f"{what}: the model does not say its rank")
    dims: list[Dim] = []
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            dims.append(dim.dim_value)
        else:
            dims.append(dim.dim_param or f"{value.name}.{axis}")
    return Type(_dtype(tensor.elem_type, what), tuple(dims))
