"""OpenCV's dnn module: https://docs.opencv.org."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from palmkit.engine.bench.engines.engine import Engine, Job, Run
from palmkit.engine.ir import Array


class OpenCv(Engine):
    """OpenCV; float32 at either precision."""

    name = "opencv"
    title = "OpenCV"
    modules = ("cv2",)
    distributions = (
        "opencv-python-headless",
        "opencv-python",
        "opencv-contrib-python-headless",
        "opencv-contrib-python",
    )
    forms = ("onnx", "tflite")

    def import_library(self) -> None:
        """Import the package."""
        self._library: Any = import_module("cv2")

    def open(self, job: Job) -> Run:
        """Read the network."""
        cv2 = self._library
        cv2.setNumThreads(job.threads)
        read = cv2.dnn.readNetFromTFLite if job.form == "tflite" else cv2.dnn.readNetFromONNX
        net = read(str(job.file))
        net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
        net.setPreferableTarget(cv2.dnn.DNN_TARGET_CPU)
        names = list(net.getUnconnectedOutLayersNames())
        inputs = list(job.inputs.items())

        def run() -> list[tuple[str, Array]]:
            for name, value in inputs:
                net.setInput(value, name)
            return list(zip(names, net.forward(names), strict=True))

        return run
