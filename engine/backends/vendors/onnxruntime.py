"""ONNX Runtime, on any of its execution providers: https://onnxruntime.ai."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from palmkit.engine.backends.options import Options
from palmkit.engine.backends.vendors.vendor import Run, Vendor
from palmkit.engine.errors import BackendError
from palmkit.engine.ir import Array, Graph


class OnnxRuntime(Vendor):
    """ONNX Runtime. Other devices than the CPU come with other builds of its package."""

    name = "onnxruntime"
    package = "onnxruntime"
    devices = {
        "cpu": "CPUExecutionProvider",
        "cuda": "CUDAExecutionProvider",
        "tensorrt": "TensorrtExecutionProvider",
        "directml": "DmlExecutionProvider",
        "coreml": "CoreMLExecutionProvider",
        "qnn": "QNNExecutionProvider",
        "openvino": "OpenVINOExecutionProvider",
        "webgpu": "WebGpuExecutionProvider",
    }

    def _missing_device(self) -> str:
        library: Any = import_module(self.package)
        there = library.get_available_providers()
        if self._device in there:
            return ""
        return f"this build of it has no {self._device}, it has {', '.join(there)}"

    def _open(self, content: bytes, graph: Graph, options: Options) -> tuple[str, Run]:
        library: Any = import_module(self.package)
        asked = library.SessionOptions()
        asked.intra_op_num_threads = options.threads
        asked.inter_op_num_threads = 1
        asked.log_severity_level = 4
        if self._asked != "cpu":
            # Else what the device cannot do, or all of it, runs on the CPU and nobody is told.
            asked.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        session = library.InferenceSession(content, asked, providers=[self._device])
        used = session.get_providers()
        if not used or used[0] != self._device:
            raise BackendError(
                f"backend {self.name}: asked for {self._device}, it runs on {', '.join(used)}"
            )
        outputs = list(graph.outputs)
        # An input that no node reads may be left out of the session.
        read = {value.name for value in session.get_inputs()}

        def once(inputs: Mapping[str, Array]) -> Sequence[Array]:
            given = {name: value for name, value in inputs.items() if name in read}
            found: Sequence[Array] = session.run(outputs, given)
            return found

        return self._device, once
