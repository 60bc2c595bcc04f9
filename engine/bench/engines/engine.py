"""The interface of an engine to compare: one file a peer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from palmkit.engine.errors import PalmError
from palmkit.engine.ir import Array

Run: TypeAlias = Callable[[], list[tuple[str, Array]]]
Place: TypeAlias = Literal["cpu", "gpu"]


def place_of(backend: str) -> Place:
    """Return where the peers of one of our backends run."""
    return "gpu" if backend.partition(":")[0] == "gpu" else "cpu"


class Refusal(PalmError):
    """An engine cannot run a model; the message is the reason, on one line."""


@dataclass(frozen=True)
class Job:
    """A run for an engine.

    file: the model, in one of the formats that the engine reads; form: its format.
    inputs: by name, in the model's order, C-contiguous; outputs: the names, in the model's order.
    precision: "high" is float32 everywhere; "low" allows an engine its lowest precision.
    cache: folder for the results of the engine's own converter.
    backend: ours, of palmkit.engine.load; it says where the others run, too.
    """

    file: Path
    form: str
    inputs: Mapping[str, Array]
    outputs: tuple[str, ...]
    threads: int
    precision: str
    cache: Path
    backend: str = "cpu"

    @property
    def is_on_gpu(self) -> bool:
        """Whether it is to run on the machine's GPU."""
        return place_of(self.backend) == "gpu"


class Engine:
    """One engine, made and used in a process of its own.

    name: its name on the command line; title: its name in tables.
    modules: modules that must be importable; distributions: the package, whichever of these is
    installed.
    forms: the formats it reads, best first: "palm", "onnx", "tflite", "pt2".
    converts: whether it has a converter of its own, for `prepare`.
    places: where it is compared. installed_by: what installs it.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    modules: ClassVar[tuple[str, ...]]
    distributions: ClassVar[tuple[str, ...]]
    forms: ClassVar[tuple[str, ...]]
    converts: ClassVar[bool] = False
    places: ClassVar[tuple[Place, ...]] = ("cpu",)
    installed_by: ClassVar[str] = 'pip install "palmkit[bench]"'

    def missing(self) -> str:
        """Return which package is not installed; "" if none. Imports nothing."""
        for module in self.modules:
            if find_spec(module) is None:
                return module
        return ""

    def version(self) -> str:
        """Return the version of the installed package."""
        for distribution in self.distributions:
            try:
                return metadata.version(distribution)
            except metadata.PackageNotFoundError:
                continue
        return ""

    def prepare(self, job: Job) -> Path:
        """Return the file to open: the job's, or what the engine's own converter makes of it.

        Raises Refusal if the converter cannot convert it.
        """
        return job.file

    def import_library(self) -> None:
        """Import all that opening a model needs; this counts neither as time nor as memory."""
        raise NotImplementedError

    def open(self, job: Job) -> Run:
        """Make the model ready; each call of the result writes inputs and reads outputs.

        job: its file is what `prepare` returned. The outputs come with their names.
        """
        raise NotImplementedError
