"""LiteRT, once TensorFlow Lite, with its XNNPACK delegate: https://ai.google.dev/edge/litert."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from palmkit.engine.bench.engines.engine import Engine, Job, Run
from palmkit.engine.ir import Array


class LiteRt(Engine):
    """LiteRT; float32 at either precision."""

    name = "litert"
    title = "LiteRT"
    modules = ("ai_edge_litert",)
    distributions = ("ai-edge-litert", "ai-edge-litert-nightly")
    forms = ("tflite",)

    def import_library(self) -> None:
        """Import the interpreter."""
        self._library: Any = import_module("ai_edge_litert.interpreter")

    def open(self, job: Job) -> Run:
        """Make interpreter and delegate at the shapes of the inputs."""
        interpreter = self._library.Interpreter(model_path=str(job.file), num_threads=job.threads)
        details = {each["name"]: each for each in interpreter.get_input_details()}
        for name, value in job.inputs.items():
            if tuple(details[name]["shape"]) != value.shape:
                interpreter.resize_tensor_input(details[name]["index"], value.shape)
        interpreter.allocate_tensors()
        inputs = [(details[name]["index"], value) for name, value in job.inputs.items()]
        outputs = [(each["name"], each["index"]) for each in interpreter.get_output_details()]

        def run() -> list[tuple[str, Array]]:
            for index, value in inputs:
                interpreter.set_tensor(index, value)
            interpreter.invoke()
            return [(name, interpreter.get_tensor(index)) for name, index in outputs]

        return run
