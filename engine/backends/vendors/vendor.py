"""What backends of other engines share: the graph as ONNX, what they refuse, and a program."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from palmkit.engine.backends.options import DEFAULTS, Options
from palmkit.engine.errors import BackendError, UnsupportedError
from palmkit.engine.ir import Array, Graph, Node, Type, numpy_dtype

if TYPE_CHECKING:
    from typing_extensions import Self

    from palmkit.engine.format.model_file import ModelFile, Shapes
    from palmkit.engine.format.plans import ReadyPlan
    from palmkit.engine.steps.plan import StepTime

# Runs once: arrays by the names of the graph's inputs; outputs in the graph's order.
Run = Callable[[Mapping[str, Array]], Sequence[Array]]


@dataclass(frozen=True)
class VendorProgram:
    """A graph in another engine.

    devices: where it runs, the backend first. dtypes: of the outputs, by name.
    """

    devices: tuple[str, ...]
    dtypes: Mapping[str, np.dtype[np.generic]]
    once: Run

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, each an array of its own."""
        arrays = {name: np.ascontiguousarray(value) for name, value in inputs.items()}
        return {
            name: np.array(value, dtype)
            for (name, dtype), value in zip(self.dtypes.items(), self.once(arrays), strict=True)
        }

    def profile(self, inputs: Mapping[str, Array]) -> list[StepTime]:
        """Run once; all steps are one to the clock."""
        from palmkit.engine.steps.plan import StepTime

        start = time.perf_counter()
        self.run(inputs)
        return [StepTime("all", self.devices[0], time.perf_counter() - start)]


class Vendor(ABC):
    """A backend that hands the whole of a graph to another engine.

    name: of the backend, and of its extra. package: what is imported. devices: what may stand
    behind the name, for what the engine calls it; the first is the default.
    """

    name: ClassVar[str]
    package: ClassVar[str]
    devices: ClassVar[Mapping[str, str]]

    def __init__(self, device: str = "") -> None:
        """Stand for one device; the default one if left out."""
        self._asked = device or next(iter(self.devices))

    def on(self, device: str) -> Self:
        """Return the backend for a device; BackendError if the engine has none of that name."""
        if device not in self.devices:
            known = ", ".join(self.devices)
            raise BackendError(f"backend {self.name}: no device {device!r}; known: {known}")
        return self.__class__(device)

    def there(self) -> list[str]:
        """Return the devices that can be used on this machine."""
        return [device for device in self.devices if not self.on(device).missing()]

    @property
    def _device(self) -> str:
        return self.devices[self._asked]

    def missing(self) -> str:
        """Return why it cannot run on this machine; "" if it can."""
        lacking = [each for each in (self.package, "onnx") if find_spec(each) is None]
        if lacking:
            return f'it needs {" and ".join(lacking)}: pip install "palmkit[{self.name}]"'
        return self._missing_device()

    def supports(self, node: Node) -> bool:
        """Whether ONNX has an operator for it; the engine may still refuse it."""
        from palmkit.engine.exporters.onnx import operators

        return find_spec("onnx") is not None and node.op in operators() and not node.bodies

    def prepared(self, graph: Graph) -> Graph:
        """What ONNX can still say: engines fuse by themselves."""
        from palmkit.engine.exporters.onnx import PIPELINE
        from palmkit.engine.passes import steps
        from palmkit.engine.passes.inline_branches import inline_branches

        for _, changed in steps(graph, (*PIPELINE, inline_branches)):
            graph = changed
        return graph

    def compile(self, graph: Graph, options: Options = DEFAULTS) -> VendorProgram:
        """Make a graph ready.

        Raises RefusedError, which names every node that ONNX has no operator for, and BackendError
        with the engine's words if it fails.
        """
        content = self._as_onnx(graph)
        try:
            device, once = self._open(content, graph, options)
        except BackendError:
            raise
        except Exception as error:  # of whatever type the engine has for it
            raise BackendError(f"backend {self.name}: {self._asked}: {_line(error)}") from None
        dtypes = {name: numpy_dtype(type.dtype) for name, type in graph.outputs.items()}
        return VendorProgram((f"{self.name}: {device}",), dtypes, self._guarded(once))

    def stored(
        self, file: ModelFile, shapes: Shapes, options: Options
    ) -> tuple[VendorProgram, dict[str, Type]] | None:
        """It has no plans in files."""
        return None

    def ready_plan(
        self, graph: Graph, shapes: Mapping[str, Sequence[int]], weights: str
    ) -> ReadyPlan | None:
        """It has no plans in files."""
        return None

    @abstractmethod
    def _missing_device(self) -> str:
        """Why the device cannot be used, where the package is installed; "" if it can."""

    @abstractmethod
    def _open(self, content: bytes, graph: Graph, options: Options) -> tuple[str, Run]:
        """Open an ONNX file, and return the device that runs it and what runs it once.

        Raises whatever the engine raises; that, too, is raised by the runs.
        """

    def _guarded(self, once: Run) -> Run:
        process = os.getpid()

        def run(inputs: Mapping[str, Array]) -> Sequence[Array]:
            if process != os.getpid():
                raise BackendError(f"backend {self.name}: its models do not survive a fork")
            try:
                return once(inputs)
            except Exception as error:  # as above
                raise BackendError(f"backend {self.name}: {self._asked}: {_line(error)}") from None

        return run

    def _as_onnx(self, graph: Graph) -> bytes:
        from palmkit.engine.exporters.onnx import dumps
        from palmkit.engine.steps.refusal import RefusedError, first_output

        reasons = {
            first_output(node): f"{node.label}: backend {self.name}: ONNX has no {node.op}"
            for node in graph.nodes
            if not self.supports(node)
        }
        if not reasons:
            try:
                return dumps(graph)
            except UnsupportedError as error:
                why = f"backend {self.name}: {error}"
                reasons = {first_output(node): why for node in graph.nodes}
        raise RefusedError("; ".join(dict.fromkeys(reasons.values())), reasons)


def _line(error: BaseException) -> str:
    return " ".join(f"{error}".split()) or error.__class__.__name__
