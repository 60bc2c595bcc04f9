"""Run a model file in the engine of its own format, to compare outputs and inner values.

ONNX runs in ONNX Runtime and TFLite in LiteRT, both without their graph optimisations; other
formats have no engine here.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from palmkit.engine.errors import BackendError
from palmkit.engine.ir import Array


class Source(Protocol):
    """A model in another engine; it raises BackendError for what it cannot run."""

    name: str

    def values(self, inputs: Mapping[str, Array], names: Sequence[str] | None) -> dict[str, Array]:
        """Return the outputs, or those of the named values that it has, for the given inputs."""
        ...


def open_source(path: str | os.PathLike[str]) -> Source | None:
    """Open the file in the engine of its format; return None if there is no such engine.

    Raises BackendError if the engine's package is missing or it refuses the model.
    """
    file = Path(path)
    if file.suffix.lower() == ".onnx":
        return OnnxRuntime(file)
    if file.is_file():
        with file.open("rb") as opened:
            if opened.read(8)[4:] == b"TFL3":
                return LiteRt(file)
    return None


class OnnxRuntime:
    """An .onnx file in ONNX Runtime."""

    name = "ONNX Runtime"

    def __init__(self, path: Path) -> None:
        """Read the file; raise BackendError if it cannot be loaded."""
        self._onnx = _package("onnx")
        self._runtime = _package("onnxruntime")
        try:
            self._model: Any = self._onnx.load(str(path))
        except Exception as error:
            raise _refusal(self.name, error) from None

    def values(self, inputs: Mapping[str, Array], names: Sequence[str] | None) -> dict[str, Array]:
        """Return the outputs, or those of the named values that it has."""
        model = self._with_shapes(inputs)
        outputs = [output.name for output in model.graph.output]
        if names is not None:
            written = {name for node in model.graph.node for name in node.output}
            named = [name for name in names if name in written]
            for name in named:
                if name not in outputs:
                    model.graph.output.append(self._onnx.ValueInfoProto(name=name))
            outputs = named
        try:
            options = self._runtime.SessionOptions()
            options.log_severity_level = 4
            levels = self._runtime.GraphOptimizationLevel
            options.graph_optimization_level = levels.ORT_DISABLE_ALL
            session = self._runtime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            results = session.run(outputs, dict(inputs))
        except Exception as error:
            raise _refusal(self.name, error) from None
        pairs = zip(outputs, results, strict=True)
        return {name: value for name, value in pairs if isinstance(value, np.ndarray)}

    def _with_shapes(self, inputs: Mapping[str, Array]) -> Any:
        """Return a copy of the model that takes these shapes, whatever shapes it states."""
        model = self._onnx.ModelProto()
        model.CopyFrom(self._model)
        for value in model.graph.input:
            if value.name in inputs:
                shape = value.type.tensor_type.shape
                shape.ClearField("dim")
                for size in inputs[value.name].shape:
                    shape.dim.add().dim_value = size
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")
        model.graph.ClearField("value_info")
        return model


class LiteRt:
    """A .tflite file in LiteRT."""

    name = "LiteRT"

    def __init__(self, path: Path) -> None:
        """Read the file; raise BackendError if it cannot be loaded."""
        self._litert = _package("ai_edge_litert.interpreter", "ai-edge-litert")
        self._path = path

    def values(self, inputs: Mapping[str, Array], names: Sequence[str] | None) -> dict[str, Array]:
        """Return the outputs, or those of the named values that it has."""
        try:
            resolver = self._litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
            interpreter = self._litert.Interpreter(
                model_path=str(self._path),
                experimental_op_resolver_type=resolver,
                experimental_preserve_all_tensors=names is not None,
            )
            places = {each["name"]: each["index"] for each in interpreter.get_input_details()}
            kept = [name for name in inputs if name not in places]
            if kept:
                raise ValueError(f"it keeps state of its own, our inputs {', '.join(kept)}")
            for name, value in inputs.items():
                interpreter.resize_tensor_input(places[name], value.shape)
            interpreter.allocate_tensors()
            for name, value in inputs.items():
                interpreter.set_tensor(places[name], value)
            interpreter.invoke()
            details = interpreter.get_output_details()
            if names is not None:
                every = interpreter.get_tensor_details()
                # Two tensors may share a name; the converter renames them then.
                counts = Counter(each["name"] for each in every)
                details = [e for e in every if counts[e["name"]] == 1 and e["name"] in names]
            return {each["name"]: each_value for each, each_value in _tensors(interpreter, details)}
        except Exception as error:
            raise _refusal(self.name, error) from None


def _tensors(interpreter: Any, details: Sequence[Any]) -> list[tuple[Any, Array]]:
    """Return the tensors that hold a value: constants and folded tensors may not."""
    found: list[tuple[Any, Array]] = []
    for each in details:
        try:
            found.append((each, np.array(interpreter.get_tensor(each["index"]))))
        except ValueError:
            continue
    return found


def _package(module: str, package: str = "") -> Any:
    try:
        return import_module(module)
    except ImportError:
        name = package or module
        raise BackendError(f"the package {name} is missing: pip install {name}") from None


def _refusal(engine: str, error: Exception) -> BackendError:
    first = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return BackendError(f"{engine} cannot run it: {first}")
