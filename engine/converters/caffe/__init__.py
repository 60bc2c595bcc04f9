"""Caffe -> IR: a .prototxt, which says what the layers are, and a .caffemodel with their weights.

What is read: the format of BVLC/caffe in all its ages (`layer`, the V1 `layers { type: ... }` with
blobs of four sizes, the V0 `layers { layer { type: "conv" } }`), its SSD branch, 16-bit and 64-bit
blobs, and layers that well-known forks added (see `rules`). A network is taken in the phase TEST:
layers for training only, losses and accuracies drop out.

A field that our schema lacks is skipped where it cannot change the result: outside of layers, in
layers that drop out, of training (fillers, learning rates), of the engine. Inside of the
parameters of any other layer, and as a `..._param` of such a layer that we do not know, it is an
UnsupportedError that names it: a fork gave the layer another meaning there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from palmkit.engine.converters.caffe.graph import build
from palmkit.engine.converters.caffe.network import (
    Layer,
    Network,
    network,
    read_binary,
    read_definition,
    read_weights,
    shape_of,
)
from palmkit.engine.converters.caffe.rules import registry
from palmkit.engine.converters.damage import damage_as_model_error
from palmkit.engine.converters.protobuf import read_bytes
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Graph, check
from palmkit.engine.ops import infer_types

_DEFINITION, _WEIGHTS = ".prototxt", ".caffemodel"
_TEXT = re.compile(
    rb"\s*(#[^\n]*\n\s*)*"
    rb"(name|input|input_shape|input_dim|layers?|state|force_backward|debug_info)\s*[:{<]"
)
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f]")
_INPUT_TYPES = ("Input", "MemoryData")
_DATA_TYPES = (
    "AnnotatedData",
    "Data",
    "HDF5Data",
    "ImageData",
    "VideoData",
    "WindowData",
)
_TRAINING_TYPES = ("Accuracy", "DetectionEvaluate", "HDF5Output", "SoftmaxWithLoss")


def recognises(start: bytes) -> bool:
    """Return whether a file that begins like this is a Caffe network, as text or binary.

    start: at least the first 8 bytes; if a text begins with comments, the whole of them.
    """
    if _TEXT.match(start.removeprefix(b"\xef\xbb\xbf")):
        return True
    if start[:1] == b"\n":
        # A name; a GraphDef of TensorFlow has the same first tag, but a message inside.
        name = start[2:8]
        return len(name) == 6 and name.isascii() and name.decode("ascii").isprintable()
    return start[:2] == b"\xa2\x06" or (start[:1] == b"\x12" and b"\x12" in start[2:8])


def convert(source: str | PathLike[str], weights: str | PathLike[str] | None = None) -> Graph:
    """Read a Caffe network as a graph.

    source: the .prototxt or the .caffemodel; its content decides, not its name. The other file is
    looked for beside it: under the same name, else the only one there, of several definitions the
    only one called deploy. A .caffemodel alone will do if it has the network's inputs.
    weights: the .caffemodel, if it lies elsewhere.
    Raises ModelError if a file is missing, damaged or no network, and for layers without weights;
    UnsupportedError that lists every layer without a rule, or says that protobuf is missing.
    """
    with damage_as_model_error("Caffe", str(source)):
        return _read(Path(source), weights)


def _read(path: Path, weights: str | PathLike[str] | None) -> Graph:
    data = read_bytes(path)
    lacking = alone = ""
    if not _CONTROL.search(data):
        defined: Path | None = path
        message, unknown = read_definition(data, str(path))
        other = _beside(path, _WEIGHTS) if weights is None else Path(weights)
        learned = None if other is None else read_weights(read_bytes(other), str(other))
        if other is None:
            lacking = f"; looked for {_wanted(path, _WEIGHTS)}"
    elif weights is not None:
        raise ModelError(f"{path}: expected a network as text (.prototxt), got binary data")
    else:
        learned = read_weights(data, str(path))
        defined = _beside(path, _DEFINITION)
        if defined is None:
            alone = f"; looked for {_wanted(path, _DEFINITION)}"
            message, unknown = read_binary(data, str(path))
        else:
            message, unknown = read_definition(read_bytes(defined), str(defined))
    what = str(defined or path)
    net = network(message, unknown, learned, what)
    try:
        graph = _convert(net, lacking)
        check(graph)
        infer_types(graph)
    except (ModelError, UnsupportedError) as error:
        raise type(error)(f"{what}: {error}{alone}") from None
    return graph


def _beside(path: Path, suffix: str) -> Path | None:
    """Return the file of the other kind that lies beside `path`, or None."""
    same = path.with_suffix(suffix)
    if same.is_file() and same != path:
        return same
    others = _others(path, suffix)
    if len(others) > 1 and suffix == _DEFINITION:
        others = [each for each in others if "deploy" in each.stem.lower()]
    return others[0] if len(others) == 1 else None


def _others(path: Path, suffix: str) -> list[Path]:
    return [each for each in sorted(path.parent.glob(f"*{suffix}")) if each != path]


def _wanted(path: Path, suffix: str) -> str:
    """Return what was looked for in vain, for messages."""
    several = len(_others(path, suffix)) > 1
    also = f", and there are several other *{suffix}" if several else ""
    return f"{path.with_suffix(suffix).name} beside it{also}"


def _convert(net: Network, lacking: str) -> Graph:
    layers = [layer for layer in net.layers if not _is_for_training(layer)]
    inputs = [*net.inputs]
    read = {bottom for layer in layers for bottom in layer.bottoms}
    kept: list[Layer] = []
    for layer in layers:
        if layer.type in _INPUT_TYPES:
            inputs += _layer_inputs(layer)
        elif layer.type not in _DATA_TYPES or read.intersection(layer.tops):
            kept.append(layer)
    _refuse_unknown(kept)
    _refuse_missing(kept, lacking)
    metadata = {"name": net.name} if net.name else {}
    return build(inputs, kept, metadata)


def _is_for_training(layer: Layer) -> bool:
    return layer.type in _TRAINING_TYPES or layer.type.endswith("Loss")


def _layer_inputs(layer: Layer) -> Iterable[tuple[str, tuple[int, ...]]]:
    if layer.type == "MemoryData":
        options = layer.message.memory_data_param
        shape = (options.batch_size, options.channels, options.height, options.width)
        if not all(shape):
            raise ModelError(f"{layer.label}: expected dims above 0, got {list(shape)}")
        return [(layer.tops[0], shape)] if layer.tops else []
    shapes = [shape_of(shape, layer.label) for shape in layer.message.input_param.shape]
    if len(shapes) == 1:
        shapes *= len(layer.tops)
    if len(shapes) != len(layer.tops):
        raise ModelError(f"{layer.label}: {len(layer.tops)} tops, but {len(shapes)} shapes")
    return zip(layer.tops, shapes, strict=True)


def _refuse_unknown(layers: Iterable[Layer]) -> None:
    """Raise one error that lists every layer without a rule, and every field that may matter."""
    types: dict[str, list[str]] = {}
    fields: list[str] = []
    for layer in layers:
        if layer.type not in registry():
            types.setdefault(layer.type, []).append(layer.name)
        elif layer.unknown:
            fields.append(f"{layer.label}: {', '.join(layer.unknown)}")
    problems: list[str] = []
    if types:
        listed = (
            f"{type or '?'} ({len(names)}: {', '.join(names)}{_advice(type)})"
            for type, names in types.items()
        )
        problems.append(f"{len(types)} Caffe layer types have no rule: {'; '.join(listed)}")
    if fields:
        problems.append(f"parameters that only a fork of Caffe has: {'; '.join(fields)}")
    if problems:
        raise UnsupportedError(
            f"{'. '.join(problems)}. Cut the network before these layers, or express them by others"
        )


def _advice(type: str) -> str:
    if type in _DATA_TYPES:
        return "; reads a training set: take the deploy .prototxt, which has inputs instead"
    return ""


def _refuse_missing(layers: Iterable[Layer], lacking: str) -> None:
    """Raise one error that names the layers without weights.

    lacking: which file is missing.
    """
    missing = [
        layer.name
        for layer in layers
        if len(layer.blobs or ()) < registry()[layer.type].blobs(layer)
    ]
    if missing:
        names = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
        raise ModelError(f"{len(missing)} layers lack weights: {names}{lacking}")
