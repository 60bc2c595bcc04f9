"""A native program and what its callers need: sessions of their own, names, types."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from palmkit.engine.backends.options import PRIORITIES
from palmkit.engine.ir import Array, Type

if TYPE_CHECKING:
    from palmkit.engine import _native
    from palmkit.engine.backends.options import Options
    from palmkit.engine.steps.plan import StepTime


class NativeProgram:
    """A program, and a pool of sessions: one for each caller at a time."""

    devices = ("cpu",)

    def __init__(
        self,
        program: _native.Packed,
        inputs: Sequence[str],
        outputs: Mapping[str, Type],
        options: Options,
        steps: Callable[[], Sequence[tuple[str, str]]],
    ) -> None:
        """Take a program whose inputs and outputs are these, in order.

        options: how a run is done. steps: for each step the node it came from, and its kernel.
        """
        self._outputs = [(name, t.dims, np.dtype(t.dtype)) for name, t in outputs.items()]
        self._program = program
        self._inputs = tuple(inputs)
        self._options = options
        self._steps = steps
        self._start_pool()
        if options.priority != "normal" or options.cores:
            # Whether the system lets threads be placed so is told now.
            self._idle.append(self._take_session())

    def _start_pool(self) -> None:
        self._process = os.getpid()
        # Taking from a list and adding to it are atomic: no lock that a fork could leave locked.
        self._idle: list[_native.Session] = []

    def _take_session(self) -> _native.Session:
        """A session that nobody else uses until it is back among the idle ones."""
        # A fork leaves the sessions' threads behind.
        if self._process != os.getpid():
            self._start_pool()
        try:
            return self._idle.pop()
        except IndexError:
            asked = self._options
            return self._program.session(
                asked.threads, priority=PRIORITIES.index(asked.priority), cores=asked.cores
            )

    def _arguments(self, inputs: Mapping[str, Array]) -> tuple[list[Array], dict[str, Array]]:
        arrays = [np.ascontiguousarray(inputs[name]) for name in self._inputs]
        outputs = {name: np.empty(dims, dtype) for name, dims, dtype in self._outputs}
        return arrays, outputs

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name."""
        return self.run_in_slices(inputs, 0)

    def run_in_slices(self, inputs: Mapping[str, Array], slice_ms: float) -> dict[str, Array]:
        """The same; each thread lets others have its core after so many ms, 0: never."""
        arrays, outputs = self._arguments(inputs)
        session = self._take_session()
        try:
            session.run(arrays, list(outputs.values()), slice_ms)
        finally:
            self._idle.append(session)
        return outputs

    def profile(self, inputs: Mapping[str, Array]) -> list[StepTime]:
        """Run once and time each step."""
        from palmkit.engine.steps.plan import StepTime

        arrays, outputs = self._arguments(inputs)
        session = self._take_session()
        try:
            seconds = session.profile(arrays, list(outputs.values()))
        finally:
            self._idle.append(session)
        return [
            StepTime(node, kernel, time)
            for (node, kernel), time in zip(self._steps(), seconds, strict=True)
        ]
