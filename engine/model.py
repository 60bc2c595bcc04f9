"""A loaded model: shared, thread-safe, planned once for each set of input shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard
from weakref import WeakMethod

import numpy as np

from palmkit.engine.backends import (
    DeviceArray,
    FramesProgram,
    Given,
    LevelsProgram,
    Program,
    chain,
    run_in_slices,
)
from palmkit.engine.backends.latest import Latest
from palmkit.engine.backends.options import Options
from palmkit.engine.errors import ModelError, ShapeError
from palmkit.engine.format.model_file import ModelFile
from palmkit.engine.ir import Array, Graph, Type
from palmkit.engine.levels import Levels

if TYPE_CHECKING:
    from palmkit.engine.frames import Frames
    from palmkit.engine.steps.plan import StepTime


class Model:
    """A graph on a backend. One Model may be run by many threads at the same time.

    Inputs with symbolic dims take any size; each new set of sizes is planned once, and the
    last 32 plans are kept.
    """

    takes_levels: ClassVar[bool] = True

    def __init__(
        self,
        graph: Graph | ModelFile,
        backend: str | Sequence[str] = "cpu",
        threads: int = 1,
        precision: str = "high",
        tune: bool = False,
        verify: bool = False,
        *,
        priority: str = "normal",
        cores: Sequence[int] | None = None,
    ) -> None:
        """Make `graph` ready to run.

        graph: a graph, or a model file that has one, and plans to use without reading it.
        backend: a name in palmkit.engine.backends.BACKENDS, such as "cpu" (native) or "reference"
        (numpy, slow, the definition), or another engine with its device, "onnxruntime:cuda".
        Several make a chain: what one has no kernel for runs on the next, and what none has one for
        in numpy, see `fallbacks` and `devices`.
        threads: how many threads one run uses; 1 starts none.
        precision: "high" computes in float32; so does "normal", with less exact convolutions. "low"
        multiplies in bfloat16 or float16, with sums in float32, where the CPU has it (AVX512_BF16,
        FEAT_FHM); backend "gpu" stores in float16 then; elsewhere it means "normal". Backend
        "reference" is always exact.
        tune: time what may be the fastest algorithm for each convolution, as `engine.load` says.
        verify: compare each plan with the definitions in numpy when it is made, on random numbers.
        priority, cores: of the threads that do a run, as `engine.load` says.
        Raises BackendError for a backend that is unknown or missing, fails or is verified to be
        wrong, UnsupportedError if it cannot run the model, ValueError for other bad options.
        """
        self._backends = chain(backend)
        self._source = graph
        self._options = Options(threads, precision, tune, priority, tuple(cores or ()))
        self._verify = verify
        # It does not refer to itself, so that its memory, also on devices, is freed with it.
        compile_for = WeakMethod(self._compile)

        def compiled(shapes: tuple[tuple[int, ...], ...]) -> Program:
            found = compile_for()
            assert found is not None
            return found(shapes)

        self._programs = Latest[tuple[tuple[int, ...], ...], Program](compiled)
        self._inputs = dict(graph.inputs)
        self._outputs = dict(graph.outputs)
        self._metadata = dict(graph.metadata)
        self._is_static = all(type.is_static for type in self._inputs.values())
        if self._is_static:
            self._programs[tuple(type.dims for type in self._inputs.values())]

    @property
    def inputs(self) -> Mapping[str, Type]:
        """The type of each input by name, in the source's order; named dims take any size."""
        return MappingProxyType(self._inputs)

    @property
    def outputs(self) -> Mapping[str, Type]:
        """The type of each output by name, in the source's order."""
        return MappingProxyType(self._outputs)

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the model file."""
        return MappingProxyType(self._metadata)

    @property
    def graph(self) -> Graph:
        """The graph as it was loaded."""
        return self._source if isinstance(self._source, Graph) else self._source.graph

    @property
    def arena_bytes(self) -> int:
        """Bytes of intermediate values in one run, summed over the sizes planned in this process.

        Plans that the file holds do not count.
        """
        plans = (getattr(program, "plan", None) for program in self._programs.values())
        return sum(plan.arena_bytes for plan in plans if plan is not None)

    @property
    def fallbacks(self) -> Mapping[str, str]:
        """The nodes that the backends leave to numpy, by their first output, each with the reason.

        With symbolic dims, they are the nodes of the sizes that were run so far.
        """
        from palmkit.engine.backends.partition import PartitionedProgram

        found: dict[str, str] = {}
        for program in self._programs.values():
            if isinstance(program, PartitionedProgram):
                found.update(program.fallbacks)
        return MappingProxyType(found)

    @property
    def devices(self) -> tuple[str, ...]:
        """What runs the model, such as ("cpu",) or ("onnxruntime: CUDAExecutionProvider", "numpy").

        Each once, in running order; "numpy" are the nodes of `fallbacks`. With symbolic dims, it is
        what ran the sizes so far.
        """
        found = (each for program in self._programs.values() for each in program.devices)
        return tuple(dict.fromkeys(found))

    def run(
        self, inputs: Mapping[str, Given], *, slice_ms: float | None = None
    ) -> dict[str, Array]:
        """Run the model once.

        inputs: an array for every input, of its dtype and shape, or one that `frames` has on the
        device; Levels for one of float32.
        slice_ms: milliseconds after which each thread of the run lets others that wait have its
        core, once it comes to the end of what it does; left out, as the system decides.
        Returns a new array for every output.
        Raises ShapeError if an input is missing, unknown, or of another dtype or shape,
        BackendError if the backend fails or has no slices, ValueError if slice_ms is not above 0.
        """
        given, shapes = self._checked(inputs)
        program = self._programs[shapes]
        if slice_ms is not None and not 0 < slice_ms < math.inf:
            raise ValueError(f"slice_ms: expected a number above 0, got {slice_ms!r}")
        if _are_arrays(given):
            arrays = given
        elif _takes_levels(program):
            return program.run_levels(given, slice_ms or 0)
        else:
            arrays = _floats(given)
        if slice_ms is None:
            return program.run(arrays)
        return run_in_slices(program, arrays, slice_ms)

    def frames(self, name: str) -> Frames | None:
        """Return what keeps frames of a video where the model runs, for one of its inputs.

        name: of an input float32[1, h, w, 3] of a model without symbolic dims. None: all of it, or
        a part, runs in the memory of this process, or on a device that keeps none.
        Raises ShapeError for a name of no input.
        """
        if name not in self._inputs:
            raise ShapeError(self._unknown(name))
        type = self._inputs[name]
        programs = self._programs.values()
        if len(programs) != 1 or len(type.shape) != 4 or (type.shape[0], type.shape[3]) != (1, 3):
            return None
        program = programs[0]
        if not self._is_static or not isinstance(program, FramesProgram):
            return None
        return program.frames(type.dims[1], type.dims[2])

    def profile(self, inputs: Mapping[str, Given] | None = None, runs: int = 10) -> list[StepTime]:
        """Time every step: the median over `runs` runs after one that warms up.

        inputs: as for run; left out, zeros, which needs a model without symbolic dims.
        Raises ShapeError as run does.
        """
        from dataclasses import replace
        from statistics import median

        if inputs is None:
            inputs = {name: np.zeros(t.dims, t.dtype) for name, t in self.inputs.items()}
        given, shapes = self._checked(inputs)
        program, arrays = self._programs[shapes], _floats(given)
        program.profile(arrays)
        times: Sequence[Sequence[StepTime]] = [program.profile(arrays) for _ in range(max(1, runs))]
        return [
            replace(step[0], seconds=median(each.seconds for each in step))
            for step in zip(*times, strict=True)
        ]

    def _checked(
        self, inputs: Mapping[str, Given]
    ) -> tuple[dict[str, Given], tuple[tuple[int, ...], ...]]:
        expected = self._inputs
        if not isinstance(inputs, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ShapeError(
                f"expected a dict with an array for each of {', '.join(expected)}, "
                f"got {inputs.__class__.__name__}"
            )
        for name in inputs:
            if name not in expected:
                raise ShapeError(self._unknown(name))
        found: dict[str, Given] = {}
        shapes: list[tuple[int, ...]] = []
        sizes: dict[str, int] = {}
        for name, type in expected.items():
            if name not in inputs:
                raise ShapeError(f"input {name}: expected {type}, got nothing")
            given = inputs[name]
            if isinstance(given, Levels):
                dtype, shape = "float32", np.shape(given.array)
            elif _is_on_device(given):
                dtype, shape = given.dtype, given.shape
            else:
                given = np.asarray(given)
                dtype, shape = _name_of(given.dtype), given.shape
            fits = shape == type.shape or type.fits(shape, sizes)
            if not fits or dtype != type.dtype:
                raise ShapeError(f"input {name}: expected {type}, got {_told(given)}")
            found[name] = given
            shapes.append(shape)
        return found, tuple(shapes)

    def _unknown(self, name: str) -> str:
        return f"no input {name!r}; the model's inputs: {', '.join(self._inputs)}"

    def _compile(self, shapes: tuple[tuple[int, ...], ...]) -> Program:
        program = self._stored(shapes)
        program = self._planned(shapes) if program is None else program
        if self._verify:
            from palmkit.engine.verifying import verify

            verify(self._specialised(shapes), program)
        return program

    def _specialised(self, shapes: tuple[tuple[int, ...], ...]) -> Graph:
        from palmkit.engine.backends.partition import specialise

        inputs = {
            name: Type(type.dtype, shape)
            for (name, type), shape in zip(self._inputs.items(), shapes, strict=True)
        }
        return specialise(self.graph, inputs, self._backends[0])

    def _planned(self, shapes: tuple[tuple[int, ...], ...]) -> Program:
        from palmkit.engine.backends.partition import compile_parts

        try:
            with np.errstate(all="ignore"):
                graph = self._specialised(shapes)
                if self._is_static:
                    self._outputs = dict(graph.outputs)
                return compile_parts(graph, self._backends, self._options)
        except MemoryError:
            raise ModelError("the model needs more memory than there is") from None

    def _stored(self, shapes: tuple[tuple[int, ...], ...]) -> Program | None:
        """Return the file's plan for these shapes if it has one that fits the options."""
        if isinstance(self._source, Graph):
            return None
        found = self._backends[0].stored(self._source, shapes, self._options)
        if found is None:
            return None
        program, outputs = found
        if self._is_static:
            self._outputs = outputs
        return program


def _is_on_device(given: object) -> TypeGuard[DeviceArray]:
    return not isinstance(given, np.ndarray) and isinstance(given, DeviceArray)


def _takes_levels(program: Program) -> TypeGuard[LevelsProgram]:
    # In a run: isinstance with a protocol looks at every attribute, for 20 µs.
    return hasattr(program, "run_levels")


def _are_arrays(inputs: dict[str, Given]) -> TypeGuard[dict[str, Array]]:
    return all(isinstance(each, np.ndarray) for each in inputs.values())


def _floats(inputs: Mapping[str, Given]) -> dict[str, Array]:
    """Return all inputs as arrays of their types."""
    return {name: _host(each) for name, each in inputs.items()}


def _host(given: Given) -> Array:
    if isinstance(given, np.ndarray):
        return given
    return np.asarray(given) if isinstance(given, Levels) else given.host()


def _told(given: Given) -> str:
    """Return what was given, for messages."""
    if isinstance(given, Levels):
        return f"levels of {Type.of(given.array)}"
    return str(Type.of(given) if isinstance(given, np.ndarray) else Type(given.dtype, given.shape))


@cache
def _name_of(dtype: np.dtype[Any]) -> str:
    """Return the dtype's name, which numpy would build anew each time."""
    return dtype.name
