"""TFLite -> IR."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from palmkit.engine.converters.tflite import (
    activations,
    arithmetic,
    control_flow,
    convolution,
    detection,
    indexing,
    matrices,
    mediapipe,
    movement,
    pooling,
    quantization,
    recurrent,
    reductions,
    resampling,
    shapes,
    spectra,
)
from palmkit.engine.converters.tflite.builder import RULES, Builder
from palmkit.engine.converters.tflite.file import File, damage_as_model_error, read
from palmkit.engine.converters.tflite.refusals import Refusals
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Graph, check

__all__ = ["RULES", "convert"]

# Each of these registers the rules of its family.
FAMILIES = (
    activations,
    arithmetic,
    control_flow,
    convolution,
    detection,
    indexing,
    matrices,
    mediapipe,
    movement,
    pooling,
    quantization,
    recurrent,
    reductions,
    resampling,
    shapes,
    spectra,
)


def convert(source: str | PathLike[str] | bytes) -> Graph:
    """Read a .tflite file, or its bytes, as a graph.

    A quantized model becomes float ops between dequantize_linear and quantize_linear. Tensors that
    keep a state from run to run (recurrent cells) start at zero in every run, as in LiteRT after
    reset_all_variables.

    Raises OSError if the file cannot be read, ModelError for what is not a whole .tflite model,
    UnsupportedError for what has no rule here: it lists it all.
    """
    if isinstance(source, bytes):
        return _convert(source)
    try:
        return _convert(Path(source).read_bytes())
    except (ModelError, UnsupportedError) as error:
        raise type(error)(f"{source}: {error}") from error


def _convert(data: bytes) -> Graph:
    file = read(data)
    with damage_as_model_error():
        return _graph(file)


def _graph(file: File) -> Graph:
    refusals = Refusals()
    builder = Builder(file, file.graphs[0], refusals, (0,))
    indices = file.graphs[0].inputs
    types = [builder.declared_type(index) for index in indices]
    builder.begin(types)
    builder.convert(RULES)
    error = refusals.error()
    if error is not None:
        raise error
    names = [builder.name(index) for index in indices]
    graph = builder.finished(dict(zip(names, types, strict=True)))
    check(graph)
    return graph
