"""PalmKit itself, on its own format."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from palmkit.engine.bench.engines.engine import Engine, Job, Run


class PalmKit(Engine):
    """Our engine."""

    name = "palmkit"
    title = "PalmKit"
    modules = ("palmkit",)
    distributions = ("palmkit",)
    forms = ("palm",)
    places = ("cpu", "gpu")

    def import_library(self) -> None:
        """Import the package and its native module."""
        self._engine: Any = import_module("palmkit.engine")
        import_module("palmkit.engine._native")

    def open(self, job: Job) -> Run:
        """Load the model."""
        model = self._engine.load(job.file, job.backend, job.threads, job.precision)
        inputs = dict(job.inputs)
        return lambda: list(model.run(inputs).items())
