"""Model files: which reader a file needs, and the three calls people use."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from palmkit.engine.errors import ModelError, ShapeError, UnsupportedError
from palmkit.engine.format import reader, writer
from palmkit.engine.ir import Graph
from palmkit.engine.model import Model

PathLike = str | os.PathLike[str]


def load(
    path: PathLike,
    backend: str = "cpu",
    threads: int = 1,
    precision: str = "high",
    tune: bool = False,
) -> Model:
    """Read a model and make it ready to run.

    path: a .palm, .onnx or .tflite file.
    backend: "cpu" (native code) or "reference" (numpy, slow, the definition).
    threads: how many threads one run uses; 1 starts none.
    precision: "high" computes in float32; "normal" and "low" allow less where a backend has it.
    tune: time the candidates for each convolution instead of choosing by rule; a backend with
    one candidate has nothing to time.
    Raises ModelError if the file is missing, damaged or no model, UnsupportedError if the
    backend cannot run it, BackendError if there is no such backend.
    """
    graph = convert(path)
    with _named(Path(path)):
        return Model(graph, backend, threads, precision)


def convert(path: PathLike) -> Graph:
    """Read a model file of any known kind as a graph, not yet optimised.

    path: a .palm, .onnx or .tflite file; its content decides, not its name.
    Raises ModelError if the file is missing, damaged or no model, UnsupportedError listing
    every operator that has no rule.
    """
    file = Path(path)
    try:
        with file.open("rb") as opened:
            start = opened.read(8)
    except OSError as error:
        raise ModelError(f"cannot read model {file}: {error.strerror or error}") from None
    if not start:
        raise ModelError(f"model file is empty: {file}")
    with _named(file):
        if start[4:8] == b"PALM":
            return reader.load(file)
        if start[4:8] == b"TFL3":
            from palmkit.engine.converters import tflite

            return tflite.convert(file)
        if file.suffix.lower() == ".onnx":
            from palmkit.engine.converters import onnx

            return onnx.convert(file)
    raise ModelError(f"expected a .palm, .onnx or .tflite model, got another kind of file: {file}")


@contextmanager
def _named(file: Path) -> Generator[None, None, None]:
    """Errors about a model say which file it is."""
    try:
        yield
    except (ModelError, ShapeError, UnsupportedError) as error:
        if str(file) in str(error):
            raise
        raise type(error)(f"{file}: {error}") from error


def save(graph: Graph, path: PathLike, weights: str = "auto") -> None:
    """Write a graph as a .palm file, whole or not at all.

    weights: how float32 constants are stored: "float32"; "float16", rounding them; or "auto",
    float16 where that loses nothing.
    Raises OSError if the file cannot be written, ValueError for another `weights`.
    """
    writer.save(graph, path, weights)
