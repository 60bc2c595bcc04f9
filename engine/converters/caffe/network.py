"""The layers of a Caffe network as its files give them: one form for every age of the format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from palmkit.engine.converters.caffe import fields, schema
from palmkit.engine.converters.protobuf import parse, parse_text
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array

# V1 types whose names are not simply the newer ones in capital letters.
_V1_TYPES = {
    "ABSVAL": "AbsVal",
    "ARGMAX": "ArgMax",
    "BN": "BN",
    "BNLL": "BNLL",
    "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output",
    "IM2COL": "Im2col",
    "LRN": "LRN",
    "MVN": "MVN",
    "PRELU": "PReLU",
    "RELU": "ReLU",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "TANH": "TanH",
}
_V0_TYPES = {
    "bnll": "BNLL",
    "concat": "Concat",
    "conv": "Convolution",
    "data": "Data",
    "dropout": "Dropout",
    "euclidean_loss": "EuclideanLoss",
    "flatten": "Flatten",
    "hdf5_data": "HDF5Data",
    "images": "ImageData",
    "innerproduct": "InnerProduct",
    "lrn": "LRN",
    "multinomial_logistic_loss": "MultinomialLogisticLoss",
    "padding": "Padding",
    "pool": "Pooling",
    "relu": "ReLU",
    "sigmoid": "Sigmoid",
    "softmax": "Softmax",
    "softmax_loss": "SoftmaxWithLoss",
    "split": "Split",
    "tanh": "TanH",
    "window_data": "WindowData",
}
_HDF5 = b"\x89HDF\r\n"
_RAW_DTYPES: Mapping[int, np.dtype[Any]] = {
    0: np.dtype("<f8"),
    1: np.dtype("<f4"),
    2: np.dtype("<f2"),
}


@dataclass(frozen=True)
class Blob:
    """Learned numbers: float32, flat, with the shape that the file states."""

    shape: tuple[int, ...]
    values: Array


Weights: TypeAlias = dict[str, tuple[Blob, ...]]


@dataclass(frozen=True)
class Layer:
    """One layer; `message` has its parameters, all under the names of the newest format."""

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    message: Any
    unknown: tuple[str, ...]
    blobs: tuple[Blob, ...] | None

    @property
    def label(self) -> str:
        """The layer's name in messages."""
        return f"layer {self.name or '?'} ({self.type})"


@dataclass(frozen=True)
class Network:
    """The layers of the phase TEST in running order, and the inputs defined outside of layers."""

    name: str
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    layers: tuple[Layer, ...]


def read_definition(text: bytes, what: str) -> tuple[Any, dict[str, list[list[str]]]]:
    """Return the message of a .prototxt, and the unknown fields of each layer."""
    decoded = text.decode("utf-8-sig", errors="replace")
    net_type = schema.messages(schema.DEFINITION)["Net"]
    try:
        message = parse_text(net_type, decoded, what)
    except ModelError as error:
        if "has no value named" in str(error):
            raise UnsupportedError(f"{what}: only a fork of Caffe has this: {error}") from None
        raise
    return message, fields.unknown_in_text(decoded, net_type)


def read_binary(data: bytes, what: str) -> tuple[Any, dict[str, list[list[str]]]]:
    """Return the message of a .caffemodel as a network definition, with its unknown fields."""
    message = parse(schema.messages(schema.DEFINITION)["Net"], data, what)
    unknown = {
        key: [fields.unknown_in_binary(layer) for layer in getattr(message, key)]
        for key in ("layer", "layers")
    }
    return message, unknown


def read_weights(data: bytes, what: str) -> Weights:
    """Return the learned numbers of a .caffemodel by layer name; ignore everything else."""
    if data.startswith(_HDF5):
        raise UnsupportedError(f"{what}: weights as HDF5: let Caffe save them as a .caffemodel")
    net = parse(schema.messages(schema.WEIGHTS)["Net"], data, what)
    if not net.layer and not net.layers:
        raise ModelError(f"{what}: no Caffe network, or damaged: it has no layers")
    weights: Weights = {}
    for layer in (*net.layers, *net.layer):
        old = layer.layer if _has(layer, "layer") else layer
        if old.blobs:
            name = _string(old.name)
            where = f"{what}: layer {name}"
            weights[name] = tuple(
                _blob(blob, f"{where}: blob {i}") for i, blob in enumerate(old.blobs)
            )
    return weights


def network(
    message: Any,
    unknown: dict[str, list[list[str]]],
    weights: Weights | None,
    what: str,
) -> Network:
    """Convert a definition of any age to one form.

    weights: by layer name; None if there is no file that could have them.
    """
    if not message.layer and not message.layers:
        raise ModelError(f"{what}: no Caffe network: it has no layers")
    if message.layer and message.layers:
        raise ModelError(f"{what}: has layers of two ages of the format: `layer` and `layers`")
    layers: list[Layer] = []
    key = "layer" if message.layer else "layers"
    for each, names in zip(getattr(message, key), unknown[key], strict=True):
        if not _is_included(each, message.state):
            continue
        bottoms, tops = (tuple(map(_string, ends)) for ends in (each.bottom, each.top))
        old = each.layer if _has(each, "layer") else None
        name = _string(each.name if old is None else old.name)
        if old is not None:
            type, parameters = _V0_TYPES.get(old.type, _string(old.type)), _from_v0(old)
        elif key == "layers":
            type, parameters = _v1_type(each), _from_v1(each)
        else:
            type, parameters = _string(each.type), each
        blobs = None if weights is None else weights.get(name)
        layers.append(Layer(name, type, bottoms, tops, parameters, tuple(names), blobs))
    return Network(_string(message.name), tuple(_net_inputs(message, what)), tuple(layers))


def shape_of(message: Any, what: str) -> tuple[int, ...]:
    """Return the dims of a BlobShape that gives the shape of an input."""
    dims = tuple(message.dim)
    if not all(0 < dim < 1 << 31 for dim in dims):
        raise ModelError(f"{what}: expected dims above 0, got {list(dims)}")
    return dims


def _net_inputs(message: Any, what: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    names, dims = list(map(_string, message.input)), list(message.input_dim)
    shapes: list[Sequence[int]] = [shape.dim for shape in message.input_shape]
    if dims and not shapes:
        shapes = [dims[i : i + 4] for i in range(0, len(dims), 4)]
    if len(shapes) == 1:
        shapes *= len(names)
    if len(shapes) != len(names):
        raise ModelError(f"{what}: {len(names)} inputs, but {len(shapes)} shapes of inputs")
    for name, shape in zip(names, shapes, strict=True):
        if not all(0 < dim < 1 << 31 for dim in shape):
            raise ModelError(f"{what}: input {name}: expected dims above 0, got {list(shape)}")
        yield name, tuple(shape)


def _string(value: str | bytes) -> str:
    """Return a string field as text; protobuf gives text that is not UTF-8 as bytes."""
    return value if isinstance(value, str) else value.decode("utf-8", errors="replace")


def _has(message: Any, field: str) -> bool:
    return field in message.DESCRIPTOR.fields_by_name and message.HasField(field)


def _is_included(layer: Any, state: Any) -> bool:
    """Return whether the layer's rules admit it in the phase TEST at the net's level and stages."""
    if layer.include:
        return any(_is_met(rule, state) for rule in layer.include)
    return not any(_is_met(rule, state) for rule in layer.exclude)


def _is_met(rule: Any, state: Any) -> bool:
    return (
        (not rule.HasField("phase") or rule.phase == 1)
        and (not rule.HasField("min_level") or state.level >= rule.min_level)
        and (not rule.HasField("max_level") or state.level <= rule.max_level)
        and set(rule.stage) <= set(state.stage)
        and not set(rule.not_stage) & set(state.stage)
    )


def _v1_type(layer: Any) -> str:
    name: str = layer.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number[layer.type].name
    return _V1_TYPES.get(name, "".join(map(str.capitalize, name.split("_"))))


def _from_v1(old: Any) -> Any:
    """Return a V1 layer, whose parameters have the same names, as a newer layer."""
    layer = schema.messages(schema.DEFINITION)["Layer"]()
    for field, value in old.ListFields():
        if field.name.endswith("_param"):
            getattr(layer, field.name).CopyFrom(value)
    return layer


def _from_v0(old: Any) -> Any:
    """Return a V0 layer, whose parameters are fields of the layer itself, as a newer layer."""
    layer = schema.messages(schema.DEFINITION)["Layer"]()
    convolution = layer.convolution_param
    if old.type == "conv":
        convolution.num_output, convolution.bias_term = old.num_output, old.biasterm
        convolution.kernel_size.append(old.kernelsize)
        convolution.stride.append(old.stride)
        convolution.group = old.group
    if old.type in ("conv", "padding"):
        convolution.pad.append(old.pad)
    if old.type == "pool":
        layer.pooling_param.pool = old.pool
        layer.pooling_param.kernel_size = old.kernelsize
        layer.pooling_param.stride = old.stride
        layer.pooling_param.pad = old.pad
    if old.type == "innerproduct":
        layer.inner_product_param.num_output = old.num_output
        layer.inner_product_param.bias_term = old.biasterm
    if old.type == "lrn":
        for name in ("local_size", "alpha", "beta", "k"):
            setattr(layer.lrn_param, name, getattr(old, name))
    if old.type == "concat":
        layer.concat_param.concat_dim = old.concat_dim
    return layer


def _blob(message: Any, what: str) -> Blob:
    """Return a blob as float32; raise ModelError if its numbers do not fill its shape."""
    if message.HasField("shape"):
        shape = tuple(message.shape.dim)
    else:
        shape = (message.num, message.channels, message.height, message.width)
    values = _numbers(message, what)
    if any(dim < 0 for dim in shape) or prod(shape) != values.size:
        raise ModelError(f"{what}: expected {list(shape)} numbers, got {values.size}")
    values.flags.writeable = False
    return Blob(shape, values)


def _numbers(message: Any, what: str) -> Array:
    if message.HasField("raw_data"):
        dtype = _RAW_DTYPES.get(message.raw_data_type)
        if dtype is None:
            raise UnsupportedError(f"{what}: numbers of kind {message.raw_data_type}")
        return _from_bytes([message.raw_data], dtype, what)
    if message.data:
        return _from_bytes(message.data, np.dtype("<f4"), what)
    if message.double_data:
        return _from_bytes(message.double_data, np.dtype("<f8"), what)
    plain = parse(
        schema.messages(schema.UNPACKED_BLOB)["BlobProto"], message.SerializeToString(), what
    )
    return np.array(plain.data or plain.double_data, np.float32)


def _from_bytes(pieces: Iterable[bytes], dtype: np.dtype[Any], what: str) -> Array:
    data = b"".join(pieces)
    if len(data) % dtype.itemsize:
        raise ModelError(f"{what}: damaged: {len(data)} bytes are no whole count of {dtype}")
    return np.frombuffer(data, dtype).astype(np.float32, copy=False)
