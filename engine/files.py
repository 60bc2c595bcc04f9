"""Model files: choosing the reader for a file, and the functions load, convert and save."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from palmkit.engine.backends import BACKENDS
from palmkit.engine.errors import ModelError, ShapeError, UnsupportedError
from palmkit.engine.forks import finished
from palmkit.engine.format.model_file import ModelFile
from palmkit.engine.ir import Graph
from palmkit.engine.model import Model
from palmkit.engine.reading import check_readable

PathLike = str | os.PathLike[str]

IDENTIFIERS = {b"PALM": "palm", b"TFL3": "tflite"}
_START_BYTES = 4096
SUFFIXES = {
    ".palm": "palm",
    ".onnx": "onnx",
    ".tflite": "tflite",
    ".pb": "tensorflow",
    ".pbtxt": "tensorflow",
    ".prototxt": "caffe",
    ".caffemodel": "caffe",
}


@finished
def load(
    path: PathLike,
    backend: str | Sequence[str] = "cpu",
    threads: int = 1,
    precision: str = "high",
    tune: bool = False,
    key: bytes | None = None,
    verify: bool = False,
    *,
    priority: str = "normal",
    cores: Sequence[int] | None = None,
) -> Model:
    """Read a model and make it ready to run.

    path: a .palm file, or a model of another kind as for `convert`.
    backend: a name in palmkit.engine.backends.BACKENDS, such as "cpu" (native code) or "reference"
    (numpy, slow, the definition), "gpu", "auto" for what was timed to be the faster of CPU and GPU,
    or another engine with its device, "onnxruntime:cuda" or "openvino:GPU". Several make a
    chain, ("onnxruntime:cuda", "cpu"): what one has no kernel for runs on the next, and what none
    has one for in numpy.
    threads: how many threads one run uses; 1 starts none.
    precision: "high" computes in float32; so does "normal", with convolutions to 1e-5 of their
    output's range instead of 2e-6, seldom faster. "low" multiplies in bfloat16 (8 bits of each
    factor; sums in float32; denormal numbers count as zero) where the CPU has it (AVX512_BF16), up
    to twice as fast, and in float16 (11 bits; sums in float32; beyond 65504 infinite) on arm64 with
    FEAT_FHM under Linux; backend gpu stores floats so, and computes in float32; elsewhere it means
    "normal". `palmkit check --precision low` tells the error.
    tune: time the candidates for each convolution on this machine where the cost model finds them
    close, and keep the times in the user's cache folder ($PALMKIT_CACHE_HOME moves it); with open
    dims, when sizes first come. What is less exact than `precision` allows is no candidate.
    key: the 32 bytes that a .palm file was encrypted with; it is decrypted in memory only.
    verify: compare the outputs with backend reference, on random numbers, before the model is used;
    with open dims, when sizes first come. It takes seconds for large networks.
    priority, cores: of the threads that do a run, with backend "cpu": "low" lets everything else
    go first, "high" goes before others and may need a right that programs rarely have; cores keeps
    them on those, by the system's numbers (not on macOS). With either, threads of the model do all
    of a run, and who calls waits.
    Raises ModelError if the file is missing, damaged, no model or of another key, UnsupportedError
    if the backend cannot run it, BackendError if there is no such backend or device, if it fails,
    or if it gives other numbers than verify allows.
    """
    file = Path(path)
    source = ModelFile(file, key) if _kind(file) == "palm" else convert(file)
    with _named(file):
        return Model(
            source, backend, threads, precision, tune, verify, priority=priority, cores=cores
        )


@finished
def convert(
    path: PathLike,
    *,
    weights: PathLike | None = None,
    signature: str | None = None,
    key: bytes | None = None,
) -> Graph:
    """Read a model of any known kind as a graph, not yet optimised.

    path: a .palm, .onnx or .tflite file; TensorFlow's frozen .pb or .pbtxt, or the folder of a
    SavedModel; Caffe's .prototxt or .caffemodel; the text that LightGBM's save_model writes. The
    first bytes decide where the format has some of its own, else the name, and for another name the
    first bytes again.
    weights: the .caffemodel of a .prototxt; left out, the one that lies beside it.
    signature: the signature of a SavedModel; left out, serving_default or the only one.
    key: the 32 bytes that an encrypted .palm file was written with.
    Raises ModelError if the file is missing, damaged or no model, UnsupportedError listing
    every operator that has no rule, ValueError for `weights` or `signature` of another kind of
    model.
    """
    file = Path(path)
    kind = _kind(file)
    if weights is not None and kind != "caffe":
        raise ValueError(f"weights: expected with a Caffe model only, got {file}")
    if signature is not None and kind != "tensorflow":
        raise ValueError(f"signature: expected with a TensorFlow model only, got {file}")
    with _named(file):
        if kind == "palm":
            from palmkit.engine.format import reader

            return reader.load(file, key)
        if kind == "caffe":
            from palmkit.engine.converters import caffe

            return caffe.convert(file, weights)
        if kind == "tensorflow":
            from palmkit.engine.converters import tensorflow

            return tensorflow.convert(file, signature)
        if kind == "tflite":
            from palmkit.engine.converters import tflite

            return tflite.convert(file)
        if kind == "lightgbm":
            from palmkit.engine.converters import lightgbm

            return lightgbm.convert(file)
        from palmkit.engine.converters import onnx

        return onnx.convert(file)


def _kind(file: Path) -> str:
    """Return the name of the reader that a file or folder needs."""
    try:
        check_readable(file)
        with file.open("rb", buffering=0) as opened:
            start = opened.read(_START_BYTES)
    except OSError as error:
        if not file.is_dir():
            raise ModelError(f"cannot read model {file}: {error.strerror or error}") from None
        if any((file / f"saved_model.{end}").is_file() for end in ("pb", "pbtxt")):
            return "tensorflow"
        raise ModelError(f"no model: the folder has no saved_model.pb: {file}") from None
    if not start:
        raise ModelError(f"model file is empty: {file}")
    kind = IDENTIFIERS.get(start[4:8]) or SUFFIXES.get(file.suffix.lower())
    if kind is None:
        from palmkit.engine.converters import caffe, lightgbm, tensorflow

        if lightgbm.recognises(start):
            return "lightgbm"
        if tensorflow.recognises(start):
            return "tensorflow"
        if caffe.recognises(start):
            return "caffe"
        expected = ", ".join(SUFFIXES)
        raise ModelError(
            f"expected a model ({expected}, LightGBM's text), got another kind of file: {file}"
        )
    return kind


@contextmanager
def _named(file: Path) -> Generator[None, None, None]:
    """Add the file's name to errors about its model."""
    try:
        yield
    except (ModelError, ShapeError, UnsupportedError) as error:
        if str(file) in str(error):
            raise
        raise type(error)(f"{file}: {error}") from error


@finished
def save(
    graph: Graph,
    path: PathLike,
    weights: str = "auto",
    shapes: Sequence[Mapping[str, Sequence[int]]] | None = None,
    key: bytes | None = None,
) -> None:
    """Write a graph as a .palm file, or as ONNX if the name ends with .onnx, whole or not at all.

    weights: how a .palm file stores constants: float32 ones as "float32"; as "float16", rounding
    them; or "auto", as float16 where that loses nothing. "smallest": all in the fewest bytes that
    lose nothing, coded; they are decoded when the model is loaded.
    shapes: what a .palm file has plans for, so that it loads at once: for each plan the shape of
    every input; left out, the graph's own shapes if all are known. Other sizes are planned
    when they come, from the graph; so is a model that the cpu backend cannot run whole.
    key: 32 secret bytes; the .palm file is encrypted with them (AES-256-GCM), and `load` needs
    them.
    Raises OSError if the file cannot be written, ValueError for another `weights` or `key`,
    ShapeError for shapes that the graph does not take, UnsupportedError listing what ONNX has no
    operator for.
    """
    if Path(path).suffix.lower() == ".onnx":
        if weights in ("float16", "smallest"):
            raise ValueError(f"weights: expected auto or float32 for ONNX, got {weights!r}")
        if key is not None:
            raise ValueError("key: expected for .palm only")
        from palmkit.engine.exporters import onnx
        from palmkit.engine.replacing import replacing

        content = onnx.dumps(graph)
        with replacing(path) as part:
            part.write_bytes(content)
        return
    from palmkit.engine.format import consistency, writer

    if shapes is None:
        dims = {name: type.dims for name, type in graph.inputs.items() if type.is_static}
        shapes = [dims] if graph.is_static else []
    consistency.verify(graph)
    as_read = writer.stored(graph, weights)
    plans = [
        backend.ready_plan(as_read, each, weights)
        for backend in BACKENDS.values()
        if not backend.missing()
        for each in shapes
    ]
    writer.save(as_read, path, weights, [plan for plan in plans if plan is not None], key)
