"""MNN: https://github.com/alibaba/MNN.

Its converter is called as the function in its native module. The scripts of the wheel, and whatever
imports MNN.tools, would install a package that reports each conversion to its maker: that module
is never imported here, and made impossible to import.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from palmkit.engine.bench.conversions import cached
from palmkit.engine.bench.engines.engine import Engine, Job, Refusal, Run
from palmkit.engine.ir import Array

_FRAMEWORKS = {"onnx": "ONNX", "tflite": "TFLITE"}


class Mnn(Engine):
    """MNN; precision is an option of its sessions."""

    name = "mnn"
    title = "MNN"
    modules = ("MNN",)
    distributions = ("MNN",)
    forms = ("onnx", "tflite")
    converts = True

    def prepare(self, job: Job) -> Path:
        """Convert the model."""
        forbid_reports()
        converter: Any = import_module("_tools")

        def convert(folder: Path) -> None:
            target = folder / "model.mnn"
            command = ["mnnconvert", "-f", _FRAMEWORKS[job.form], "--modelFile", str(job.file)]
            converter.mnnconvert([*command, "--MNNModel", str(target), "--bizCode", "bench"])
            if not target.is_file():
                raise Refusal("MNN's converter cannot convert it")

        return cached(job, f"mnn-{self.version()}", convert) / "model.mnn"

    def import_library(self) -> None:
        """Import the package."""
        forbid_reports()
        self._library: Any = import_module("MNN")

    def open(self, job: Job) -> Run:
        """Make a session at the shapes of the inputs."""
        mnn = self._library
        interpreter = mnn.Interpreter(str(job.file))
        precision = "low" if job.precision == "low" else "high"
        config = {"backend": "CPU", "numThread": job.threads, "precision": precision}
        session = interpreter.createSession(config)
        tensors: dict[str, Any] = interpreter.getSessionInputAll(session)
        if set(tensors) != set(job.inputs):
            raise Refusal(f"inputs: expected {', '.join(job.inputs)}, got {', '.join(tensors)}")
        for name, value in job.inputs.items():
            if tuple(tensors[name].getShape()) != value.shape:
                interpreter.resizeTensor(tensors[name], value.shape)
        interpreter.resizeSession(session)
        inputs = [(tensors[name], value) for name, value in job.inputs.items()]
        outputs: dict[str, Any] = interpreter.getSessionOutputAll(session)

        def run() -> list[tuple[str, Array]]:
            for tensor, value in inputs:
                order = tensor.getDimensionType()
                tensor.copyFrom(mnn.Tensor(value.shape, tensor.getDataType(), value, order))
            interpreter.runSession(session)
            return [(name, _read(mnn, tensor)) for name, tensor in outputs.items()]

        return run


def _read(mnn: Any, tensor: Any) -> Array:
    """Return a copy in the source's order: the tensor itself may lie in blocks of channels."""
    shape, order = tensor.getShape(), tensor.getDimensionType()
    if order == mnn.Tensor_DimensionType_Caffe_C4:
        order = mnn.Tensor_DimensionType_Caffe
    dtype = np.float32 if tensor.getDataType() == mnn.Halide_Type_Float else np.int32
    host = np.empty(shape, dtype)
    target = mnn.Tensor(shape, tensor.getDataType(), host, order)
    tensor.copyToHostTensor(target)
    return np.array(target.getNumpyData()).reshape(shape)


def forbid_reports() -> None:
    """Make the modules that report conversions impossible to import in this process."""
    sys.modules["MNN.tools"] = None  # type: ignore[assignment]
