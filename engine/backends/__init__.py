"""The backends: each turns a graph into something that runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from palmkit.engine.backends.auto import Auto
from palmkit.engine.backends.cpu import Cpu
from palmkit.engine.backends.gpu import Gpu
from palmkit.engine.backends.options import DEFAULTS, Options
from palmkit.engine.backends.reference import Reference
from palmkit.engine.backends.vendors.onnxruntime import OnnxRuntime
from palmkit.engine.backends.vendors.openvino import OpenVino
from palmkit.engine.errors import BackendError, DeviceLostError
from palmkit.engine.frames import Frames
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.engine.levels import Levels

if TYPE_CHECKING:
    from palmkit.engine.format.model_file import ModelFile, Shapes
    from palmkit.engine.format.plans import ReadyPlan
    from palmkit.engine.steps.plan import StepTime

Result = TypeVar("Result")

_log = logging.getLogger("palmkit.engine")


class Program(Protocol):
    """A graph made ready for one backend; safe to use from many threads."""

    @property
    def devices(self) -> tuple[str, ...]:
        """What runs it, the backend first: ("cpu",), ("onnxruntime: CUDAExecutionProvider",)."""
        ...

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name; inputs have the graph's types."""
        ...

    def profile(self, inputs: Mapping[str, Array]) -> Sequence[StepTime]:
        """Run once and time each step."""
        ...


@runtime_checkable
class DeviceArray(Protocol):
    """An array in the memory of a device."""

    @property
    def backend(self) -> str:
        """The name of the backend whose programs take it as it is."""
        ...

    @property
    def dtype(self) -> str:
        """The dtype that `host` gives it."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dims."""
        ...

    def host(self) -> Array:
        """The same numbers in the memory of this process."""
        ...


Value: TypeAlias = Array | DeviceArray
# Ops give numbers of numpy as well as arrays.
OF_NUMPY = (np.ndarray, np.generic)
# What a run is given for an input.
Given: TypeAlias = Value | Levels


def host(value: Value) -> Array:
    """Return a value in the memory of this process."""
    return value if isinstance(value, OF_NUMPY) else value.host()


@runtime_checkable
class DeviceProgram(Program, Protocol):
    """A program whose values may stay on its device from one part of a model to the next."""

    @property
    def backend(self) -> str:
        """The name of the backend, as its arrays have it."""
        ...

    def run_on_device(self, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
        """Outputs by name, on the device; inputs are there or in the memory of this process."""
        ...


@runtime_checkable
class SlicedProgram(Program, Protocol):
    """A program that can let others have the processor within a run."""

    def run_in_slices(self, inputs: Mapping[str, Array], slice_ms: float) -> dict[str, Array]:
        """Do as `run` does, and let other threads go first about every slice_ms milliseconds."""
        ...


@runtime_checkable
class LevelsProgram(Program, Protocol):
    """A program whose device makes floats of bytes, and takes what it has already."""

    def run_levels(self, inputs: Mapping[str, Given], slice_ms: float) -> dict[str, Array]:
        """Do as `run` does, 0, or as `run_in_slices`, with levels or device arrays as inputs."""
        ...


@runtime_checkable
class FramesProgram(LevelsProgram, Protocol):
    """A program whose device keeps frames, of which it is given parts."""

    def frames(self, rows: int, columns: int) -> Frames:
        """Something that keeps frames there, for inputs of one size."""
        ...


def run_in_slices(
    program: Program, inputs: Mapping[str, Array], slice_ms: float
) -> dict[str, Array]:
    """Run a program so; BackendError if it cannot."""
    if not isinstance(program, SlicedProgram):
        raise BackendError(f"slice_ms: {', '.join(program.devices)} runs a model in one go")
    return program.run_in_slices(inputs, slice_ms)


def again_if_lost(run: Callable[[], Result]) -> Result:
    """Do a run; once more if its device is lost, as programs then open theirs again."""
    try:
        return run()
    except DeviceLostError as error:
        # Its traceback would hold what there was on the device.
        said = str(error)
    _log.warning("%s; trying again", said)
    return run()


class Backend(Protocol):
    """One way of running graphs."""

    def missing(self) -> str:
        """Why it cannot run on this machine; "" if it can."""
        ...

    def supports(self, node: Node) -> bool:
        """Has it a rule for the node's op?"""
        ...

    def prepared(self, graph: Graph) -> Graph:
        """The graph as it compiles it best: the passes over it that this backend wants."""
        ...

    def compile(self, graph: Graph, options: Options = DEFAULTS) -> Program:
        """Make a static graph ready; one UnsupportedError names every node it cannot run."""
        ...

    def stored(
        self, file: ModelFile, shapes: Shapes, options: Options
    ) -> tuple[Program, dict[str, Type]] | None:
        """A plan in a file, for inputs of these shapes, made ready, and its outputs' types.

        None if the file has none that does what the options ask for.
        """
        ...

    def ready_plan(
        self, graph: Graph, shapes: Mapping[str, Sequence[int]], weights: str
    ) -> ReadyPlan | None:
        """A plan for inputs of these shapes, to lie in a file; None if there can be none.

        weights: how the file will store constants, as for `engine.save`.
        Raises ShapeError if the graph does not take the shapes.
        """
        ...


@runtime_checkable
class DeviceBackend(Backend, Protocol):
    """A backend with several devices, named "backend:device"."""

    def on(self, device: str) -> Backend:
        """The backend for one of its devices; BackendError for a name that it does not know."""
        ...

    def there(self) -> list[str]:
        """The devices that can be used on this machine."""
        ...


BACKENDS: dict[str, Backend] = {"reference": Reference(), "cpu": Cpu()}
# Other engines, each an extra.
VENDORS: dict[str, DeviceBackend] = {"onnxruntime": OnnxRuntime(), "openvino": OpenVino()}
# All that have devices to choose from; none is taken without being asked for.
DEVICES: dict[str, DeviceBackend] = {"gpu": Gpu(), **VENDORS}
# What chooses among others.
CHOICES: dict[str, Backend] = {"auto": Auto()}
_NAMES = (*BACKENDS, *DEVICES, *CHOICES)


def chain(names: str | Sequence[str]) -> tuple[Backend, ...]:
    """The backends of these names, of which each takes what those before it have no kernel for.

    names: of BACKENDS, DEVICES or CHOICES; "backend:device" as well, if it has devices.
    Raises BackendError for a name that is unknown or named twice, and with the reason for what is
    not available on this machine.
    """
    each = (names,) if isinstance(names, str) else tuple(names)
    if not each:
        raise BackendError(f"expected a backend; known: {', '.join(_NAMES)}")
    found: list[Backend] = []
    for place, name in enumerate(each):
        if name in each[:place]:
            raise BackendError(f"backend is named twice: {name}")
        backend = _named(name)
        missing = backend.missing()
        if missing:
            raise BackendError(f"backend {name} is not available on this machine: {missing}")
        found.append(backend)
    return tuple(found)


def _named(name: str) -> Backend:
    kind, colon, device = name.partition(":")
    backend = BACKENDS.get(kind) or DEVICES.get(kind) or CHOICES.get(kind)
    if backend is None:
        raise BackendError(f"no backend {name!r}; known: {', '.join(_NAMES)}")
    if not colon:
        return backend
    if not isinstance(backend, DeviceBackend):
        raise BackendError(f"backend {kind} has no devices to choose from, got {name!r}")
    return backend.on(device)
