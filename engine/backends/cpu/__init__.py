"""The native backend: a static graph becomes a plan, and C++ runs it without asking Python."""

from __future__ import annotations

import os
from collections.abc import Mapping
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

        narrow = options.precision == "low" and "avx512bf16" in _native.isas()
        lowering = Lowering(graph, narrow)
        self.plan: Plan = allocate(lowering.steps, lowering.constants, lowering.borders)
        if options.tune:
            from palmkit.engine.backends.cpu.search import tuned

            self.plan = tuned(self.plan, options.threads)
        self._inputs = tuple(graph.inputs)
        declared = [(name, lowering.declared[name]) for name in graph.outputs]
        self._outputs = [(name, type.dims, np.dtype(type.dtype)) for name, type in declared]
        self._threads = options.threads
        self._program = _native.Program(
            self.plan.tensors, self.plan.steps, self.plan.constants, self.plan.arena_bytes
        )
        self._start_pool()

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
            return self._program.session(self._threads)

    def _arguments(self, inputs: Mapping[str, Array]) -> tuple[list[Array], dict[str, Array]]:
        arrays = [np.ascontiguousarray(inputs[name]) for name in self._inputs]
        outputs = {name: np.empty(dims, dtype) for name, dims, dtype in self._outputs}
        return arrays, outputs

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name."""
        arrays, outputs = self._arguments(inputs)
        session = self._take_session()
        try:
            session.run(arrays, list(outputs.values()))
        finally:
            self._idle.append(session)
        return outputs

    def profile(self, inputs: Mapping[str, Array]) -> list[StepTime]:
        """Run once and time each step."""
        arrays, outputs = self._arguments(inputs)
        session = self._take_session()
        try:
            seconds = session.profile(arrays, list(outputs.values()))
        finally:
            self._idle.append(session)
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
