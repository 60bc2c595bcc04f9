"""TFLite to IR.

file.py reads the flatbuffer; builder.py walks a graph of it, operator by operator; rules/ holds
what each operator becomes.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from palmkit.engine.converters.damage import damage_as_model_error
from palmkit.engine.converters.tflite.builder import RULES, Builder
from palmkit.engine.converters.tflite.file import File, read
from palmkit.engine.converters.tflite.refusals import Refusals
from palmkit.engine.converters.tflite.rules import load_rules
from palmkit.engine.ir import Graph, check
from palmkit.engine.ops import infer_types

__all__ = ["RULES", "convert"]

load_rules()


def convert(source: str | PathLike[str] | bytes) -> Graph:
    """Read a .tflite file, or its bytes, as a graph.

    A quantized model becomes float ops between dequantize_linear and quantize_linear; recurrent
    cells of integers also round where LiteRT does. Where only the weights are quantized,
    activations stay float: LiteRT rounds each row of them to 8 bits on its way (measured: 4e-4 to
    1.1e-2 of the outputs' range). A variable that a run assigns becomes an
    input, and an output "<input>/next" to give to the next run; the metadata says where it starts.
    Variable tensors of recurrent cells start at zero in every run, as in LiteRT after
    reset_all_variables.

    Raises OSError if the file cannot be read, ModelError for what is not a whole .tflite model,
    UnsupportedError for what has no rule here: it lists it all.
    """
    in_memory = isinstance(source, bytes)
    data = source if isinstance(source, bytes) else Path(source).read_bytes()
    with damage_as_model_error("TFLite", ".tflite model in memory" if in_memory else str(source)):
        return _graph(read(data))


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
    infer_types(graph)
    return graph
