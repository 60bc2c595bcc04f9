"""The native backend: a static graph becomes a plan, and C++ runs it without asking Python."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from palmkit.engine.backends.cpu.lowering import RULES, Lowering
from palmkit.engine.backends.cpu.rules import (
    convolution,
    elementwise,
    indexing,
    movement,
    normalization,
    quantization,
    recurrent,
    reduction,
    sampling,
    spectrum,
)
from palmkit.engine.backends.options import DEFAULTS, Options
from palmkit.engine.errors import BackendError
from palmkit.engine.ir import Array, Graph, Node
from palmkit.engine.plan import Plan, StepTime, allocate

if TYPE_CHECKING:
    from palmkit.engine import _native

RULE_FILES = (
    convolution,
    elementwise,
    indexing,
    movement,
    normalization,
    quantization,
    recurrent,
    reduction,
    sampling,
    spectrum,
)


class CpuProgram:
    """A plan, packed weights, and a pool of sessions: one for each caller at a time."""

    def __init__(self, graph: Graph, options: Options) -> None:
        """Lower, plan and pack `graph`."""
        from palmkit.engine import _native

        lowering = Lowering(graph)
        self.plan: Plan = allocate(lowering.steps, lowering.constants, lowering.borders)
        if options.tune:
            from palmkit.engine.backends.cpu.search import tuned

            self.plan = tuned(self.plan, options.threads)
        self._inputs = tuple(graph.inputs)
        self._outputs = {name: lowering.declared[name] for name in graph.outputs}
        self._threads = options.threads
        self._program = _native.Program(
            self.plan.tensors, self.plan.steps, self.plan.constants, self.plan.arena_bytes
        )
        self._start_pool()

    def _start_pool(self) -> None:
        self._process = os.getpid()
        self._idle: list[_native.Session] = []
        self._lock = threading.Lock()

    @contextmanager
    def _session(self) -> Generator[_native.Session, None, None]:
        """A session that nobody else uses meanwhile."""
        # A fork leaves the sessions' threads behind, and may leave the lock locked.
        if self._process != os.getpid():
            self._start_pool()
        with self._lock:
            session = self._idle.pop() if self._idle else None
        if session is None:
            session = self._program.session(self._threads)
        try:
            yield session
        finally:
            with self._lock:
                self._idle.append(session)

    def _arguments(self, inputs: Mapping[str, Array]) -> tuple[list[Array], dict[str, Array]]:
        arrays = [np.ascontiguousarray(inputs[name]) for name in self._inputs]
        outputs = {name: np.empty(t.dims, t.dtype) for name, t in self._outputs.items()}
        return arrays, outputs

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name."""
        arrays, outputs = self._arguments(inputs)
        with self._session() as session:
            session.run(arrays, list(outputs.values()))
        return outputs

    def profile(self, inputs: Mapping[str, Array]) -> list[StepTime]:
        """Run once and time each step."""
        arrays, outputs = self._arguments(inputs)
        with self._session() as session:
            seconds = session.profile(arrays, list(outputs.values()))
        return [
            StepTime(node, step[0], time)
            for node, step, time in zip(self.plan.nodes, self.plan.steps, seconds, strict=True)
        ]


class Cpu:
    """SIMD kernels: scalar, AVX2 or AVX-512, chosen when the model is loaded."""

    def available(self) -> bool:
        """Wherever the extension loads."""
        try:
            import_module("palmkit.engine._native")
        except ImportError:
            return False
        return True

    def supports(self, node: Node) -> bool:
        """It has a rule for the op; shapes and dtypes may still be refused by compile."""
        return node.op in RULES

    def compile(self, graph: Graph, options: Options = DEFAULTS) -> CpuProgram:
        """Make a static graph ready; one UnsupportedError names every node it cannot run."""
        if not self.available():
            raise BackendError("backend cpu: the native module is missing, reinstall palmkit")
        return CpuProgram(graph, options)
