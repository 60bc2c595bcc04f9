"""Whole models of each foreign format, mostly small ones, for the fuzzer to damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

SHARED = Path(__file__).parents[4] / "shared"
MOST_BYTES = 1 << 24

Kind: TypeAlias = Literal["protobuf", "flatbuffer", "text", "other"]


@dataclass(frozen=True)
class Part:
    """One file of a model.

    kind: how it is written. message: the protobuf class, or the class of the flatbuffer's root;
    None for a text of another kind.
    """

    data: bytes
    kind: Kind = "other"
    message: Any = None


@dataclass(frozen=True)
class Seed:
    """A model: its files by name, and the one given to the converter ("": the folder)."""

    name: str
    parts: dict[str, Part]
    main: str

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(len(part.data) for part in self.parts.values())


def onnx_seeds(with_nodes: bool = True) -> Iterator[Seed]:
    """Yield operators of onnxruntime, sequences, networks, trees, and node tests of onnx."""
    from onnx import ModelProto

    from tests.engine.converters import test_onnx_runtime, test_onnx_sequences, test_onnx_trees
    from tests.engine.converters.onnx_suite import suite

    def seed(name: str, data: bytes) -> Seed:
        return Seed(name, {"model.onnx": Part(data, "protobuf", ModelProto)}, "model.onnx")

    for name, case in sorted(suite("node").items()) if with_nodes else ():
        yield seed(name, case.model.SerializeToString())
    for name, text in test_onnx_sequences.CASES.items():
        yield seed(f"sequences/{name}", test_onnx_sequences.model(text))
    for place, (operator, inputs, constants, attrs) in enumerate(test_onnx_runtime.NODES):
        name = f"microsoft/{operator}{place}"
        model = test_onnx_runtime.model_of_node(operator, inputs, constants, **attrs)
        yield seed(name, model.SerializeToString())
    for name, tree in test_onnx_trees.samples().items():
        yield seed(f"trees/{name}", tree.SerializeToString())
    for path in _shared("teachers", ".onnx"):
        yield seed(path.stem, path.read_bytes())


def tflite_seeds() -> Iterator[Seed]:
    """Yield the operators of the tests, and published networks."""
    from tests.engine.converters import (
        test_tflite_control_flow,
        test_tflite_hostile,
        test_tflite_operators,
        test_tflite_quantized,
        test_tflite_recurrent,
        test_tflite_spectra,
    )
    from tests.engine.converters.tflite_models import schema

    def seed(name: str, data: bytes) -> Seed:
        parts = {"model.tflite": Part(data, "flatbuffer", schema.ModelT)}
        return Seed(name, parts, "model.tflite")

    yield seed("small", test_tflite_hostile.small().pack(["d"]))
    yield seed("sparse", test_tflite_hostile.sparse().pack(["d"]))
    for param in test_tflite_operators.CASES:
        yield seed(f"operators/{param.id}", param.values[0].pack()[0])
    for place, case in enumerate(test_tflite_quantized.CASES):
        name = f"quantized/{case.op}{place}"
        yield seed(name, case.pack(case.dtypes[0]))
    for op in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        for dtype in ("int8", "uint8", "int16"):
            layer = test_tflite_quantized.layer(op, dtype, dtype != "uint8", 1)
            yield seed(f"quantized/{op} {dtype}", layer)
    flow = test_tflite_control_flow
    yield seed("branches", flow.branches().pack(["y"]))
    yield seed("loop", flow.loop(3.0, grows=True).pack(["count", "y"]))
    yield seed("variable", flow.variable(b"weight", changes=True).pack(["y"]))
    yield seed("lstm", test_tflite_recurrent.both_ways().pack(["y", "back"]))
    yield seed("spectrum", test_tflite_spectra.transform((2, 4, 8), (4, 8)).pack(["real", "size"]))
    for folder in ("teachers", "foreign"):
        for path in _shared(folder, ".tflite"):
            yield seed(path.stem, path.read_bytes())


def tensorflow_seeds() -> Iterator[Seed]:
    """Yield the recorded graphs of operators and networks, and SavedModels."""
    from palmkit.engine.converters.tensorflow.schema import messages
    from tests.engine.converters.tensorflow_graphs import archive, named, with_shapes

    for name, arrays in archive("operators.npz.xz").items():
        # Where an operator is tried with several sizes it has open dims: those of the first.
        graph = with_shapes(arrays["graph"].tobytes(), named(arrays, "in:"))
        part = Part(graph, "protobuf", messages()["GraphDef"])
        yield Seed(name, {"graph.pb": part}, "graph.pb")
    for name, arrays in archive("models.npz.xz").items():
        files = {
            key.removeprefix("file:"): Part(value.tobytes())
            for key, value in arrays.items()
            if key.startswith("file:")
        }
        saved = files["saved_model.pb"]
        files["saved_model.pb"] = replace(saved, kind="protobuf", message=messages()["SavedModel"])
        yield Seed(f"saved/{name}", files, "")
        part = Part(arrays["graph"].tobytes(), "protobuf", messages()["GraphDef"])
        yield Seed(f"frozen/{name}", {"graph.pb": part}, "graph.pb")


def caffe_seeds() -> Iterator[Seed]:
    """Yield one network a layer, and whole ones; each also as one binary file."""
    from palmkit.engine.converters.caffe import schema
    from tests.engine.converters import test_caffe_layers
    from tests.engine.converters.caffe_samples import SAMPLES, Sample

    definition = schema.messages(schema.DEFINITION)["Net"]

    def seed(name: str, sample: Sample, age: str = "layer") -> Iterator[Seed]:
        text = sample.prototxt(age).encode()
        weights = sample.caffemodel(age)
        parts = {
            "net.prototxt": Part(text, "text", definition),
            "net.caffemodel": Part(weights, "protobuf", definition),
        }
        yield Seed(name, parts, "net.prototxt")
        yield Seed(
            f"{name} alone",
            {"net.caffemodel": _joined(definition, text, weights)},
            "net.caffemodel",
        )

    for place, case in enumerate(test_caffe_layers.CASES):
        yield from seed(f"layers/{case[0]}{place}", test_caffe_layers.one_layer(case))
    for name, (make, age) in SAMPLES.items():
        yield from seed(name, make(), age)
    for path in _shared("teachers", ".prototxt"):
        parts = {
            "net.prototxt": Part(path.read_bytes(), "text", definition),
            "net.caffemodel": Part(
                path.with_suffix(".caffemodel").read_bytes(), "protobuf", definition
            ),
        }
        yield Seed(path.stem, parts, "net.prototxt")


def _joined(definition: Any, text: bytes, weights: bytes) -> Part:
    """Return definition and weights in one message, as Caffe saves a trained network."""
    from google.protobuf import text_format  # type: ignore[import-untyped]

    whole = definition()
    text_format.Parse(text.decode(), whole)
    learned = definition.FromString(weights)
    age = "layer" if whole.layer else "layers"
    named = {layer.name: layer for layer in getattr(learned, age)}
    joined = definition()
    joined.CopyFrom(whole)
    joined.ClearField(age)
    for layer in getattr(whole, age):
        # What a definition skips of a layer, its blobs, is carried along as it was read.
        data = layer.SerializeToString()
        if layer.name in named:
            data += named[layer.name].SerializeToString()
        getattr(joined, age).add().MergeFromString(data)
    return Part(joined.SerializeToString(), "protobuf", definition)


def _shared(folder: str, suffix: str) -> list[Path]:
    found = sorted((SHARED / folder).rglob(f"*{suffix}"))
    return [path for path in found if path.stat().st_size <= MOST_BYTES]


def lightgbm_seeds() -> Iterator[Seed]:
    """Yield the recorded models."""
    from tests.engine.converters.test_lightgbm import models

    for name, arrays in models().items():
        parts = {"booster.txt": Part(arrays["text"].tobytes(), "text")}
        yield Seed(name, parts, "booster.txt")


SEEDS: dict[str, Callable[[], Iterator[Seed]]] = {
    "caffe": caffe_seeds,
    "lightgbm": lightgbm_seeds,
    "onnx": onnx_seeds,
    "tensorflow": tensorflow_seeds,
    "tflite": tflite_seeds,
}


@cache
def seeds(format: str) -> tuple[Seed, ...]:
    """Return all models of a format, in the same order each time."""
    with np.errstate(all="ignore"):
        return tuple(SEEDS[format]())
