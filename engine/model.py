"""A loaded model: shared, thread-safe, planned once for each set of input shapes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from types import MappingProxyType

import numpy as np

from palmkit.engine.backends import BACKENDS, Backend, Program
from palmkit.engine.errors import BackendError, ShapeError
from palmkit.engine.ir import Array, Graph, Type
from palmkit.engine.ops import infer_types
from palmkit.engine.passes import optimise
from palmkit.engine.plan import StepTime

PRECISIONS = ("high", "normal", "low")
PLANS_KEPT = 32


class Model:
    """A graph on a backend. One Model may be run by many threads at the same time.

    Inputs with symbolic dims take any size; each new set of sizes is planned once, and the
    last 32 plans are kept.
    """

    def __init__(
        self, graph: Graph, backend: str = "cpu", threads: int = 1, precision: str = "high"
    ) -> None:
        """Make `graph` ready to run.

        backend: "cpu" (native) or "reference" (numpy, slow, the definition).
        threads: how many threads one run uses; 1 starts none.
        precision: "high" computes in float32; "normal" and "low" allow a backend to compute in
        less where it has such kernels, else they mean "high".
        Raises BackendError for a backend that is unknown or missing, UnsupportedError if it
        cannot run the model, ValueError for other bad options.
        """
        if backend not in BACKENDS:
            raise BackendError(f"no backend {backend!r}; known: {', '.join(BACKENDS)}")
        if not BACKENDS[backend].available():
            raise BackendError(f"backend is not available on this machine: {backend}")
        if threads < 1:
            raise ValueError(f"threads: expected at least 1, got {threads}")
        if precision not in PRECISIONS:
            raise ValueError(f"precision: expected one of {PRECISIONS}, got {precision!r}")
        self._backend: Backend = BACKENDS[backend]
        self._graph = graph
        self._threads = threads
        self._programs: OrderedDict[tuple[tuple[int, ...], ...], Program] = OrderedDict()
        self._lock = threading.Lock()
        self._outputs = dict(graph.outputs)
        if graph.is_static:
            self._program(tuple(type.dims for type in graph.inputs.values()))

    @property
    def inputs(self) -> Mapping[str, Type]:
        """Name to Type, in the source's order; dims that are names take any size."""
        return MappingProxyType(dict(self._graph.inputs))

    @property
    def outputs(self) -> Mapping[str, Type]:
        """Name to Type, in the source's order."""
        return MappingProxyType(self._outputs)

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the model file says of the model."""
        return MappingProxyType(dict(self._graph.metadata))

    @property
    def graph(self) -> Graph:
        """The graph as it was loaded."""
        return self._graph

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run once.

        inputs: an array for every input, of its dtype and shape.
        Returns a new array for every output.
        Raises ShapeError if an input is missing, unknown, or of another dtype or shape.
        """
        arrays, shapes = self._checked(inputs)
        return self._program(shapes).run(arrays)

    def profile(self, inputs: Mapping[str, Array] | None = None, runs: int = 10) -> list[StepTime]:
        """Time every step: the median over `runs` runs after one that warms up.

        inputs: as for run; left out, zeros (symbolic dims cannot be left out).
        Raises ShapeError as run does.
        """
        if inputs is None:
            inputs = {name: np.zeros(t.dims, t.dtype) for name, t in self.inputs.items()}
        arrays, shapes = self._checked(inputs)
        program = self._program(shapes)
        program.profile(arrays)
        times: Sequence[Sequence[StepTime]] = [program.profile(arrays) for _ in range(max(1, runs))]
        return [
            replace(step[0], seconds=median(each.seconds for each in step))
            for step in zip(*times, strict=True)
        ]

    def _checked(
        self, inputs: Mapping[str, Array]
    ) -> tuple[dict[str, Array], tuple[tuple[int, ...], ...]]:
        expected = self._graph.inputs
        for name in inputs:
            if name not in expected:
                raise ShapeError(f"no input {name!r}; the model's inputs: {', '.join(expected)}")
        arrays: dict[str, Array] = {}
        sizes: dict[str, int] = {}
        for name, type in expected.items():
            if name not in inputs:
                raise ShapeError(f"input {name}: expected {type}, got nothing")
            array = np.asarray(inputs[name])
            if array.dtype.name != type.dtype or not _fits(array.shape, type, sizes):
                raise ShapeError(f"input {name}: expected {type}, got {Type.of(array)}")
            arrays[name] = array
        return arrays, tuple(array.shape for array in arrays.values())

    def _program(self, shapes: tuple[tuple[int, ...], ...]) -> Program:
        with self._lock:
            program = self._programs.get(shapes)
            if program is None:
                program = self._backend.compile(self._specialised(shapes), self._threads)
                self._programs[shapes] = program
                if len(self._programs) > PLANS_KEPT:
                    self._programs.popitem(last=False)
            self._programs.move_to_end(shapes)
            return program

    def _specialised(self, shapes: tuple[tuple[int, ...], ...]) -> Graph:
        inputs = {
            name: Type(type.dtype, shape)
            for (name, type), shape in zip(self._graph.inputs.items(), shapes, strict=True)
        }
        graph = optimise(replace(self._graph, inputs=inputs))
        types = infer_types(graph)
        outputs = {name: Type(types[name].dtype, types[name].shape) for name in graph.outputs}
        if self._graph.is_static:
            self._outputs = outputs
        return replace(graph, outputs=outputs)


def _fits(shape: Sequence[int], type: Type, sizes: dict[str, int]) -> bool:
    """The shape has the type's dims; the same name always stands for the same size."""
    return len(shape) == len(type.shape) and all(
        size == (dim if isinstance(dim, int) else sizes.setdefault(dim, size))
        for size, dim in zip(shape, type.shape, strict=True)
    )
