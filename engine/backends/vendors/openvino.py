"""OpenVINO, on CPUs, Intel's GPUs and NPUs: https://docs.openvino.ai."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from palmkit.engine.backends.options import Options
from palmkit.engine.backends.vendors.vendor import Run, Vendor
from palmkit.engine.ir import Array, Graph


class OpenVino(Vendor):
    """OpenVINO."""

    name = "openvino"
    package = "openvino"
    devices = {"CPU": "CPU", "GPU": "GPU", "NPU": "NPU"}

    def _missing_device(self) -> str:
        there = self._core().available_devices
        # A machine with two has GPU.0 and GPU.1.
        if any(each.partition(".")[0] == self._device for each in there):
            return ""
        return f"it finds no {self._device} here, only {', '.join(there) or 'nothing'}"

    def _core(self) -> Any:
        library: Any = import_module(self.package)
        return library.Core()

    def _open(self, content: bytes, graph: Graph, options: Options) -> tuple[str, Run]:
        core = self._core()
        network = core.read_model(content)
        settings: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY"}
        if options.precision != "low":
            settings["INFERENCE_PRECISION_HINT"] = "f32"
        if self._asked == "CPU":
            settings["INFERENCE_NUM_THREADS"] = options.threads
        compiled = core.compile_model(network, self._device, settings)
        inputs = [sorted(port.names) for port in compiled.inputs]
        ports = [compiled.output(name) for name in graph.outputs]
        # A request serves one caller at a time. Taking from a list and adding to it are atomic.
        idle: list[Any] = []

        def once(given: Mapping[str, Array]) -> Sequence[Array]:
            try:
                request = idle.pop()
            except IndexError:
                request = compiled.create_infer_request()
            named = {name: given[name] for names in inputs for name in names if name in given}
            found = request.infer(named)
            outputs = [np.array(found[port]) for port in ports]
            idle.append(request)
            return outputs

        return ", ".join(compiled.get_property("EXECUTION_DEVICES")), once
