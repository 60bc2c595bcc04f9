"""Caffe networks written here: files, inputs, and the results that Caffe would give."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.converters.caffe import schema
from palmkit.engine.ir import Graph
from palmkit.engine.model import Model
from tests.engine.converters.caffe_forward_detectors import FORWARD, listed

Array = NDArray[Any]

PARAMETERS = {
    "BN": "bn_param",
    "ConvolutionDepthwise": "convolution_param",
    "Deconvolution": "convolution_param",
    "DepthwiseConvolution": "convolution_param",
    "InnerProduct": "inner_product_param",
    "ArgMax": "argmax_param",
    "BatchNorm": "batch_norm_param",
    "PReLU": "prelu_param",
    "Normalize": "norm_param",
    "PriorBox": "prior_box_param",
    "DetectionOutput": "detection_output_param",
    "ShuffleChannel": "shuffle_channel_param",
    "LSTM": "recurrent_param",
    "RNN": "recurrent_param",
    "ROIPooling": "roi_pooling_param",
    "PSROIPooling": "psroi_pooling_param",
}
INPUT = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: [1, 2, 4, 4] } } }
"""
SHARED = Path(__file__).parents[4] / "shared"
RFB = SHARED / "teachers" / "ultraface_rfb320"
STRINGS = ("name", "type", "bottom", "top", "input")
V1_TYPES = {"InnerProduct": "INNER_PRODUCT", "ReLU": "RELU"}


class Word(str):
    """A value of an enum where a string could stand, too."""


def parameter(type: str) -> str:
    return PARAMETERS.get(type, f"{type.lower()}_param")


def text(params: dict[str, Any], indent: str) -> str:
    """Return a message in protobuf's text format."""
    lines: list[str] = []
    for name, value in params.items():
        for each in listed(value):
            if isinstance(each, dict):
                inner = text(cast(dict[str, Any], each), f"{indent}  ")
                lines.append(f"{indent}{name} {{\n{inner}{indent}}}\n")
            elif isinstance(each, bool):
                lines.append(f"{indent}{name}: {str(each).lower()}\n")
            elif name in STRINGS and not isinstance(each, Word):
                lines.append(f'{indent}{name}: "{each}"\n')
            else:
                lines.append(f"{indent}{name}: {each}\n")
    return "".join(lines)


@dataclass
class Layer:
    type: str
    name: str
    bottoms: list[str]
    tops: list[str]
    params: dict[str, Any]
    blobs: list[Array]


@dataclass
class Sample:
    """A network that is computed while it is written.

    inputs: float32 by name. values: every blob so far, the newest of its name, in float64.
    """

    inputs: dict[str, Array]
    seed: int = 0
    layers: list[Layer] = field(default_factory=list[Layer])
    values: dict[str, Array] = field(default_factory=dict[str, Array])
    unread: dict[str, None] = field(default_factory=dict[str, None])

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.values.update({name: x.astype(np.float64) for name, x in self.inputs.items()})

    def random(self, *shape: int, scale: float = 1.0) -> Array:
        return (self.rng.normal(size=shape) * scale).astype(np.float32)

    def add(
        self,
        type: str,
        *bottoms: str,
        blobs: list[Array] | None = None,
        tops: int = 1,
        name: str = "",
        in_place: bool = False,
        **params: Any,
    ) -> Any:
        """Add a layer; returns the name of its top, or of all of them."""
        name = name or f"{type.lower()}{len(self.layers) + 1}"
        names = [bottoms[0]] if in_place else [name, *(f"{name}_{i}" for i in range(1, tops))]
        blobs = blobs or []
        read = [self.values[bottom] for bottom in bottoms]
        extra = {"tops": tops} if type == "Slice" else {}
        wide = [blob.astype(np.float64) for blob in blobs]
        results = listed(FORWARD[type](params, wide, *read, **extra))
        for bottom in bottoms:
            self.unread.pop(bottom, None)
        self.values.update(zip(names, results, strict=False))
        self.unread.update(dict.fromkeys(names))
        self.layers.append(Layer(type, name, [*bottoms], names, params, blobs))
        return names[0] if tops == 1 else names

    def conv(self, x: str, num_output: int, kernel_size: int, **more: Any) -> str:
        """Add a convolution with weights that keep the numbers near 1."""
        type, bias = more.pop("type", "Convolution"), more.get("bias_term", True)
        inputs = self.values[x].shape[1] // more.get("group", 1)
        inputs = 1 if "epthwise" in type else inputs
        scale = (inputs * kernel_size**2) ** -0.5
        blobs = [self.random(num_output, inputs, kernel_size, kernel_size, scale=scale)]
        blobs += [self.random(num_output)] if bias else []
        more = {"num_output": num_output, "kernel_size": kernel_size, **more}
        result: str = self.add(type, x, blobs=blobs, **more)
        return result

    def dense(self, x: str, num_output: int, **more: Any) -> str:
        """Add an inner product."""
        inputs = int(np.prod(self.values[x].shape[1:]))
        blobs = [self.random(num_output, inputs, scale=inputs**-0.5), self.random(num_output)]
        result: str = self.add("InnerProduct", x, blobs=blobs, num_output=num_output, **more)
        return result

    def batch_norm(self, x: str, **more: Any) -> str:
        """Add BatchNorm and Scale, in place as in ResNet."""
        channels = self.values[x].shape[1]
        weight = np.array([7.5], np.float32)
        variance = np.asarray(self.rng.uniform(0.5, 2, channels), np.float32)
        blobs = [self.random(channels) * weight, variance * weight, weight]
        x = self.add("BatchNorm", x, blobs=blobs, in_place=True, **more)
        blobs = [variance, self.random(channels)]
        result: str = self.add("Scale", x, blobs=blobs, in_place=True, bias_term=True)
        return result

    @property
    def outputs(self) -> dict[str, Array]:
        return {name: self.values[name] for name in self.unread}

    def prototxt(self, age: str = "layer", inputs: str = "") -> str:
        """The definition as text; age: layer or layers; inputs: another way to declare them."""
        lines = ['name: "sample"\n']
        for name, x in self.inputs.items():
            shape = {"dim": list(x.shape)}
            if inputs == "input_dim":
                lines.append(text({"input": name, "input_dim": list(x.shape)}, ""))
            elif inputs == "input_shape" or age == "layers":
                lines.append(text({"input": name, "input_shape": shape}, ""))
            else:
                params = {"shape": shape}
                head = {"name": name, "type": "Input", "top": name, "input_param": params}
                lines.append(text({"layer": head}, ""))
        for layer in self.layers:
            body: dict[str, Any] = {"name": layer.name, "type": layer.type}
            if age == "layers":
                body["type"] = Word(V1_TYPES.get(layer.type, layer.type.upper()))
            body |= {"bottom": layer.bottoms, "top": layer.tops}
            if layer.params:
                body[parameter(layer.type)] = layer.params
            lines.append(text({age: body}, ""))
        return "".join(lines)

    def caffemodel(self, age: str = "layer", kind: str = "float") -> bytes:
        """Return the weights; kind: storage as float, double, half or legacy (four dims)."""
        net = schema.messages(schema.DEFINITION)["Net"](name="sample")
        for layer in self.layers:
            written = getattr(net, age).add(name=layer.name)
            for blob in layer.blobs:
                write(written.blobs.add(), np.asarray(blob, np.float32), kind)
        data: bytes = net.SerializeToString()
        return data

    def save(
        self, folder: Path, stem: str = "net", age: str = "layer", kind: str = "float"
    ) -> Path:
        """Write both files; returns the .prototxt."""
        path = folder / f"{stem}.prototxt"
        path.write_text(self.prototxt(age))
        path.with_suffix(".caffemodel").write_bytes(self.caffemodel(age, kind))
        return path


def write(message: Any, blob: Array, kind: str) -> None:
    if kind == "legacy":
        shape = (*[1] * (4 - blob.ndim), *blob.shape)
        message.num, message.channels, message.height, message.width = shape
    else:
        message.shape.dim.extend(blob.shape)
    if kind == "double":
        message.double_data.append(blob.astype("<f8").tobytes())
    elif kind == "half":
        message.raw_data_type, message.raw_data = 2, blob.astype("<f2").tobytes()
    else:
        message.data.append(blob.astype("<f4").tobytes())


def assert_agrees(got: dict[str, Array], wanted: dict[str, Array]) -> None:
    assert list(got) == list(wanted)
    for name, value in wanted.items():
        assert got[name].shape == value.shape
        scale = np.abs(value).max()
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-5 * scale)


def run(graph: Graph, **inputs: Array) -> dict[str, Array]:
    return Model(graph, "reference").run(inputs)


def save_text(folder: Path, prototxt: str, weights: dict[str, list[Array]] | None = None) -> Path:
    """Write a definition, and the weights by layer if there are any."""
    path = folder / "net.prototxt"
    path.write_text(prototxt)
    if weights:
        net = schema.messages(schema.WEIGHTS)["Net"]()
        for name, blobs in weights.items():
            layer = net.layer.add(name=name)
            for blob in blobs:
                write(layer.blobs.add(), blob, "float")
        path.with_suffix(".caffemodel").write_bytes(net.SerializeToString())
    return path


def picture(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def squeeze_net() -> Sample:
    s = Sample({"data": picture(1, 3, 33, 35)})
    x = s.conv("data", 8, 3, stride=2)
    x = s.add("ReLU", x, in_place=True)
    x = s.add("Pooling", x, pool="MAX", kernel_size=3, stride=2)
    for squeeze, expand in ((4, 8), (6, 10)):
        x = s.add("ReLU", s.conv(x, squeeze, 1), in_place=True)
        left = s.add("ReLU", s.conv(x, expand, 1), in_place=True)
        right = s.add("ReLU", s.conv(x, expand, 3, pad=1), in_place=True)
        x = s.add("Concat", left, right)
    x = s.add("Dropout", x, in_place=True, dropout_ratio=0.5)
    x = s.conv(x, 11, 1)
    x = s.add("Pooling", x, pool="AVE", global_pooling=True)
    s.add("Softmax", x, name="prob")
    return s


def google_net() -> Sample:
    s = Sample({"data": picture(2, 3, 32, 30, seed=2)})
    x = s.add("ReLU", s.conv("data", 8, 5, stride=2, pad=2), in_place=True)
    x = s.add("Pooling", x, pool="MAX", kernel_size=3, stride=2)
    x = s.add("LRN", x, local_size=5, alpha=0.01, beta=0.75)
    x = s.add("ReLU", s.conv(x, 12, 3, pad=1), in_place=True)
    x = s.add("LRN", x, local_size=3, alpha=0.5, beta=0.6)
    one = s.add("ReLU", s.conv(x, 6, 1), in_place=True)
    three = s.add("ReLU", s.conv(s.conv(x, 4, 1), 8, 3, pad=1), in_place=True)
    five = s.add("ReLU", s.conv(s.conv(x, 2, 1), 4, 5, pad=2), in_place=True)
    pooled = s.add("Pooling", x, pool="MAX", kernel_size=3, stride=1, pad=1)
    x = s.add("Concat", one, three, five, s.conv(pooled, 4, 1))
    x = s.add("Pooling", x, pool="AVE", kernel_size=5, stride=3)
    x = s.add("Dropout", x, dropout_ratio=0.4)
    s.add("Softmax", s.dense(x, 9), name="prob")
    return s


def res_net() -> Sample:
    s = Sample({"data": picture(1, 3, 24, 24, seed=3)})
    x = s.conv("data", 8, 7, stride=2, pad=3, bias_term=False)
    x = s.add("ReLU", s.batch_norm(x), in_place=True)
    x = s.add("Pooling", x, pool="MAX", kernel_size=3, stride=2)
    for channels, stride in ((8, 1), (12, 2)):
        y = s.batch_norm(s.conv(x, channels, 1, stride=stride, bias_term=False), eps=0.001)
        z = s.conv(x, channels, 3, stride=stride, pad=1, bias_term=False)
        z = s.add("ReLU", s.batch_norm(z, use_global_stats=True), in_place=True)
        z = s.batch_norm(s.conv(z, channels, 3, pad=1, bias_term=False))
        x = s.add("ReLU", s.add("Eltwise", y, z), in_place=True)
    x = s.add("Pooling", x, pool="AVE", kernel_size=3, stride=1)
    s.add("Softmax", s.dense(x, 10), name="prob")
    return s


def mobile_ssd() -> Sample:
    s = Sample({"data": picture(1, 3, 48, 64, seed=4)})
    x = s.add("ReLU", s.batch_norm(s.conv("data", 8, 3, stride=2, pad=1)), in_place=True)
    sources: list[str] = []
    for i in range(3):
        x = s.conv(x, 8, 3, pad=1, stride=2, group=8, bias_term=False)
        x = s.add("ReLU", s.batch_norm(x), in_place=True)
        x = s.add("ReLU6" if i == 1 else "ReLU", s.conv(x, 8, 1), in_place=True)
        sources.append(x)
    scale = [np.full(8, 3, np.float32)]
    sources[0] = s.add(
        "Normalize", sources[0], blobs=scale, across_spatial=False, channel_shared=False
    )
    parts: tuple[list[str], list[str], list[str]] = ([], [], [])
    options: tuple[dict[str, Any], ...] = (
        {"min_size": [10.0], "aspect_ratio": [2.0]},
        {"min_size": [20.0], "max_size": [30.0], "aspect_ratio": [2.0, 3.0]},
        {"min_size": [35.0], "max_size": [50.0], "aspect_ratio": [2.0], "step": 16.0},
    )
    variance = [0.1, 0.1, 0.2, 0.2]
    for source, option in zip(sources, options, strict=True):
        count = 1 + 2 * len(option["aspect_ratio"]) + len(option.get("max_size", []))
        for part, per in ((parts[0], 4), (parts[1], 4)):
            y = s.conv(source, count * per, 3, pad=1)
            y = s.add("Permute", y, order=[0, 2, 3, 1])
            part.append(s.add("Flatten", y, axis=1))
        more: dict[str, Any] = {"flip": True, "clip": False, "variance": variance, "offset": 0.5}
        parts[2].append(s.add("PriorBox", source, "data", **option, **more))
    loc, conf = (s.add("Concat", *part, axis=1) for part in parts[:2])
    priors = s.add("Concat", *parts[2], axis=2)
    conf = s.add("Reshape", conf, shape={"dim": [0, -1, 4]})
    conf = s.add("Flatten", s.add("Softmax", conf, axis=2), axis=1)
    s.add(
        "DetectionOutput",
        loc,
        conf,
        priors,
        name="detection_out",
        num_classes=4,
        share_location=True,
        background_label_id=0,
        nms_param={"nms_threshold": 0.45, "top_k": 50},
        code_type="CENTER_SIZE",
        keep_top_k=20,
        confidence_threshold=0.3,
    )
    return s


def fully_convolutional() -> Sample:
    s = Sample({"data": picture(1, 3, 21, 27, seed=5)})
    x = s.add("ReLU", s.conv("data", 6, 3, pad=8), in_place=True)
    x = s.add("Pooling", x, pool="MAX", kernel_size=2, stride=2)
    skip = s.conv(x, 4, 1)
    x = s.add("ReLU", s.conv(x, 8, 3, pad=1), in_place=True)
    x = s.add("Pooling", x, pool="MAX", kernel_size=2, stride=2)
    x = s.conv(x, 4, 1)
    blobs = [s.random(4, 4, 4, 4, scale=0.2)]
    up: dict[str, Any] = {"num_output": 4, "kernel_size": 4, "stride": 2, "bias_term": False}
    x = s.add("Deconvolution", x, blobs=blobs, **up)
    x = s.add("Eltwise", s.add("Crop", x, skip, axis=2, offset=1), skip)
    blobs = [s.random(4, 1, 4, 4, scale=0.4)]
    x = s.add("Deconvolution", x, blobs=blobs, group=4, **up)
    x = s.add("Crop", x, "data", axis=-2, offset=[3, 5])
    s.add("ArgMax", x, name="label", axis=1)
    return s


def alex_net() -> Sample:
    s = Sample({"data": picture(2, 3, 39, 35, seed=6)})
    x = s.add("ReLU", s.conv("data", 8, 7, stride=2), in_place=True)
    x = s.add("LRN", x, local_size=5, alpha=0.0001, beta=0.75)
    x = s.add("Pooling", x, pool="MAX", kernel_size=3, stride=2)
    x = s.add("ReLU", s.conv(x, 12, 5, pad=2, group=2), in_place=True)
    x = s.add("Pooling", x, pool="MAX", kernel_size=3, stride=2)
    x = s.add("ReLU", s.dense(x, 16), in_place=True)
    x = s.add("Dropout", x, in_place=True, dropout_ratio=0.5)
    s.add("Softmax", s.dense(x, 10), name="prob")
    return s


SAMPLES = {
    "alex_net": (alex_net, "layers"),
    "fully_convolutional": (fully_convolutional, "layer"),
    "google_net": (google_net, "layer"),
    "mobile_ssd": (mobile_ssd, "layer"),
    "res_net": (res_net, "layer"),
    "squeeze_net": (squeeze_net, "layer"),
}
