"""OpenVINO on its CPU device: https://docs.openvino.ai."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from palmkit.engine.bench.engines.engine import Engine, Job, Run
from palmkit.engine.ir import Array


class OpenVino(Engine):
    """OpenVINO; by default it would compute in bf16 where the CPU can."""

    name = "openvino"
    title = "OpenVINO"
    modules = ("openvino",)
    distributions = ("openvino",)
    forms = ("tflite", "onnx")

    def import_library(self) -> None:
        """Import the package."""
        self._library: Any = import_module("openvino")

    def open(self, job: Job) -> Run:
        """Compile for the shapes of the inputs."""
        core = self._library.Core()
        network = core.read_model(str(job.file))
        if any(port.partial_shape.is_dynamic for port in network.inputs):
            network.reshape({port: job.inputs[port.any_name].shape for port in network.inputs})
        options = {
            "INFERENCE_PRECISION_HINT": "bf16" if job.precision == "low" else "f32",
            "INFERENCE_NUM_THREADS": job.threads,
            "PERFORMANCE_HINT": "LATENCY",
        }
        compiled = core.compile_model(network, "CPU", options)
        request = compiled.create_infer_request()
        arguments = [job.inputs[port.any_name] for port in network.inputs]
        names = [port.any_name if port.names else "" for port in compiled.outputs]

        def run() -> list[tuple[str, Array]]:
            values = request.infer(arguments).values()
            return [(name, np.array(value)) for name, value in zip(names, values, strict=True)]

        return run
