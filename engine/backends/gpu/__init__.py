"""PalmKit's own GPU backend: WebGPU compute shaders, by Vulkan, Metal or Direct3D 12."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from palmkit.engine.backends.options import DEFAULTS, Options
from palmkit.engine.errors import BackendError
from palmkit.engine.ir import Graph, Node

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palmkit.engine.backends.gpu.program import GpuProgram
    from palmkit.engine.format.model_file import ModelFile, Shapes

_KINDS = ("hardware", "software")


class Gpu:
    """A GPU; "gpu:software" is Vulkan on the CPU, as lavapipe has it, for tests."""

    def __init__(self, kind: str = _KINDS[0]) -> None:
        """Stand for the best adapter of a kind."""
        self._kind = kind

    def on(self, device: str) -> Gpu:
        """Return the backend for "hardware", the default, or "software"; else BackendError."""
        if device not in _KINDS:
            raise BackendError(f"backend gpu: no device {device!r}; known: {', '.join(_KINDS)}")
        return Gpu(device)

    def there(self) -> list[str]:
        """Return the kinds of adapters that this machine has."""
        return [kind for kind in _KINDS if not Gpu(kind).missing()]

    def missing(self) -> str:
        """Return why it cannot run on this machine; "" if it can."""
        from palmkit.engine.backends.gpu.device import missing

        return missing(self._kind)

    def supports(self, node: Node) -> bool:
        """Whether there are kernels for the op; compile may still refuse shapes and dtypes."""
        from palmkit.engine.backends.gpu.lowering import rules

        return node.op in rules()

    def prepared(self, graph: Graph) -> Graph:
        """All passes but those that make integer ops: levels are rounded to in floats."""
        from palmkit.engine.passes import PIPELINE, steps

        for _, changed in steps(graph, PIPELINE):
            graph = changed
        return graph

    def compile(self, graph: Graph, options: Options = DEFAULTS) -> GpuProgram:
        """Make a static graph ready.

        Raises RefusedError, which names every node that it cannot run, and BackendError, which
        names the kernel, if the device fails.
        """
        from palmkit.engine.backends import again_if_lost
        from palmkit.engine.backends.gpu.device import device
        from palmkit.engine.backends.gpu.lowering import NAME, lower
        from palmkit.engine.backends.gpu.program import GpuProgram

        def made() -> GpuProgram:
            opened = device(self._kind)
            target = replace(opened.target, half=options.precision == "low")
            dispatches, plan, _ = lower(graph, target)
            return GpuProgram(opened, dispatches, plan, NAME)

        return again_if_lost(made)

    def stored(self, file: ModelFile, shapes: Shapes, options: Options) -> None:
        """It has no plans in files."""

    def ready_plan(self, graph: Graph, shapes: Mapping[str, Sequence[int]], weights: str) -> None:
        """It has no plans in files."""
