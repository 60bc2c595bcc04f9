"""ONNX Runtime on its CPU provider: https://onnxruntime.ai."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from palmkit.engine.bench.engines.engine import Engine, Job, Run


class OnnxRuntime(Engine):
    """ONNX Runtime; float32 at either precision."""

    name = "ort"
    title = "ONNX Runtime"
    modules = ("onnxruntime",)
    distributions = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino")
    forms = ("onnx",)

    def import_library(self) -> None:
        """Import the package."""
        self._library: Any = import_module("onnxruntime")

    def open(self, job: Job) -> Run:
        """Make a session with all graph optimisations, the default."""
        options = self._library.SessionOptions()
        options.intra_op_num_threads = job.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        session = self._library.InferenceSession(
            str(job.file), options, providers=["CPUExecutionProvider"]
        )
        inputs = dict(job.inputs)
        names = [output.name for output in session.get_outputs()]
        return lambda: list(zip(names, session.run(None, inputs), strict=True))
