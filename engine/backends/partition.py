"""Run a graph by parts: each goes to the first backend of a chain that takes it, else to numpy.

The type of some values is known only when the model runs (how many boxes are left, say). The
nodes behind them are made ready when they are first reached, once for each set of shapes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from palmkit.engine.backends import (
    BACKENDS,
    OF_NUMPY,
    Backend,
    DeviceProgram,
    Program,
    Value,
    again_if_lost,
    host,
    run_in_slices,
)
from palmkit.engine.backends.latest import Latest
from palmkit.engine.backends.options import Options
from palmkit.engine.ir import UNKNOWN, Array, Attr, Graph, Known, Node, Type
from palmkit.engine.ops import find, infer_types, run_reference
from palmkit.engine.ops.bodies import PreparedBody
from palmkit.engine.steps.plan import StepTime, last_uses
from palmkit.engine.steps.refusal import RefusedError, first_output

_log = logging.getLogger("palmkit.engine")


def specialise(
    graph: Graph, inputs: Mapping[str, Type], backend: Backend = BACKENDS["cpu"]
) -> Graph:
    """The graph for inputs of these types, as a backend wants it, its outputs typed."""
    graph = backend.prepared(replace(graph, inputs=dict(inputs)))
    types = infer_types(graph)
    outputs = {
        name: Type(types[name].dtype, types[name].shape) if name in types else declared
        for name, declared in graph.outputs.items()
    }
    return replace(graph, outputs=outputs)


def compile_parts(graph: Graph, chain: Sequence[Backend], options: Options) -> Program:
    """Make a graph ready: on the first backend as a whole if it can run it, else by parts."""
    try:
        return chain[0].compile(graph, options)
    except RefusedError as refused:
        return PartitionedProgram(graph, chain, options, refused)


class _Part(Protocol):
    """Some nodes that run together."""

    @property
    def reads(self) -> tuple[str, ...]: ...

    @property
    def writes(self) -> tuple[str, ...]: ...

    @property
    def devices(self) -> tuple[str, ...]: ...

    def run(self, values: Mapping[str, Value], slice_ms: float = 0) -> Mapping[str, Value]: ...

    def profile(self, values: Mapping[str, Value]) -> Sequence[StepTime]: ...


def _outputs(program: Program, inputs: Mapping[str, Array], slice_ms: float) -> dict[str, Array]:
    return run_in_slices(program, inputs, slice_ms) if slice_ms else program.run(inputs)


@dataclass(frozen=True)
class _NumpyPart:
    """One node, by its definition."""

    node: Node
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    devices: tuple[str, ...] = ("numpy",)

    def run(self, values: Mapping[str, Value], slice_ms: float = 0) -> Mapping[str, Value]:
        """A node is too short to be cut."""
        inputs = [host(values[name]) if name else None for name in self.node.inputs]
        results = run_reference(self.node, inputs)
        return dict(zip(self.node.outputs, results, strict=False))

    def profile(self, values: Mapping[str, Value]) -> Sequence[StepTime]:
        start = time.perf_counter()
        self.run(values)
        seconds = time.perf_counter() - start
        return [StepTime(self.node.label, self.node.op, seconds)]


@dataclass(frozen=True)
class _ProgramPart:
    """Nodes of known types that one backend runs as one program, or the rest of the chain."""

    program: Program
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        return self.program.devices

    def run(self, values: Mapping[str, Value], slice_ms: float = 0) -> Mapping[str, Value]:
        return _outputs(self.program, self._inputs(values), slice_ms)

    def profile(self, values: Mapping[str, Value]) -> Sequence[StepTime]:
        return self.program.profile(self._inputs(values))

    def _inputs(self, values: Mapping[str, Value]) -> dict[str, Array]:
        return {name: host(values[name]) for name in self.reads}


@dataclass(frozen=True)
class _DevicePart:
    """Nodes of known types that one backend runs on a device of its own."""

    program: DeviceProgram
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        return self.program.devices

    def run(self, values: Mapping[str, Value], slice_ms: float = 0) -> Mapping[str, Value]:
        """Values of the program's own device are handed on as they are."""
        if slice_ms:
            inputs = {name: host(values[name]) for name in self.reads}
            return run_in_slices(self.program, inputs, slice_ms)
        return self.program.run_on_device({name: self._near(values[name]) for name in self.reads})

    def _near(self, value: Value) -> Value:
        if not isinstance(value, OF_NUMPY) and value.backend == self.program.backend:
            return value
        return host(value)

    def profile(self, values: Mapping[str, Value]) -> Sequence[StepTime]:
        return self.program.profile({name: host(values[name]) for name in self.reads})


class _LatePart:
    """Nodes whose types are known when their inputs are there.

    Making them ready takes longer than running a few small ones in numpy, so that waits until
    shapes come a second time; where there is much to compute it does not.
    """

    def __init__(self, graph: Graph, chain: Sequence[Backend], options: Options) -> None:
        self.reads: tuple[str, ...] = tuple(graph.inputs)
        self.writes: tuple[str, ...] = tuple(graph.outputs)
        self._plain = BACKENDS["reference"].compile(graph)
        waits = all(find(node.op).macs is None for node in graph.nodes)
        # Shapes may be new at every run: no time to try things out.
        options = replace(options, tune=False)
        self._seen = Latest[tuple[Type, ...], list[bool]](lambda types: [waits])

        def make(types: tuple[Type, ...]) -> Program:
            inputs = dict(zip(self.reads, types, strict=True))
            return compile_parts(specialise(graph, inputs, chain[0]), chain, options)

        self._programs = Latest[tuple[Type, ...], Program](make)

    @property
    def devices(self) -> tuple[str, ...]:
        """What runs the nodes for the shapes that came so far."""
        found = (each for program in self._programs.values() for each in program.devices)
        return tuple(found) or ("numpy",)

    def _program(self, values: Mapping[str, Value]) -> tuple[Program, dict[str, Array]]:
        inputs = {name: host(values[name]) for name in self.reads}
        types = tuple(map(Type.of, inputs.values()))
        first_time = self._seen[types]
        if first_time[0]:
            first_time[0] = False
            return self._plain, inputs
        return self._programs[types], inputs

    def run(self, values: Mapping[str, Value], slice_ms: float = 0) -> dict[str, Array]:
        program, inputs = self._program(values)
        return _outputs(program, inputs, slice_ms)

    def profile(self, values: Mapping[str, Value]) -> Sequence[StepTime]:
        program, inputs = self._program(values)
        return program.profile(inputs)


class PartitionedProgram:
    """Parts in running order."""

    def __init__(
        self, graph: Graph, chain: Sequence[Backend], options: Options, refused: RefusedError
    ) -> None:
        """Split `graph` where the first backend of the chain has no rule."""
        others = chain[1:]
        reasons = {n: why for n, why in refused.reasons.items() if n not in refused.untyped}
        self.fallbacks: dict[str, str] = {} if others else reasons
        for why in self.fallbacks.values():
            _log.info("runs in numpy: %s", why)
        self._graph = graph
        self._parts: list[_Part] = []
        groups = _schedule(graph, refused)
        types = infer_types(graph)
        for place, (kind, nodes) in enumerate(groups):
            later = {name for _, rest in groups[place + 1 :] for n in rest for name in n.inputs}
            if kind == "refused" and not others:
                self._parts.extend(_numpy_part(node, chain, options) for node in nodes)
                continue
            part = _part_graph(graph, nodes, types, later | set(graph.outputs))
            if kind == "late":
                self._parts.append(_LatePart(part, chain, options))
                continue
            # Cut off from the rest, a part may need what no kernel of its backend does, such as a
            # copy of what others read now.
            rest = chain if kind == "taken" else others
            program = compile_parts(
                part if rest is chain else rest[0].prepared(part), rest, options
            )
            self.fallbacks |= getattr(program, "fallbacks", {})
            self._parts.append(_program_part(program, tuple(part.inputs), tuple(part.outputs)))
        names = [(*part.reads, *part.writes) for part in self._parts]
        self._freed = last_uses(names, graph.outputs)

    @property
    def programs(self) -> list[Program]:
        """The parts whose types are known before anything runs."""
        return [
            part.program for part in self._parts if isinstance(part, _ProgramPart | _DevicePart)
        ]

    @property
    def devices(self) -> tuple[str, ...]:
        """What runs the parts, each once, in running order."""
        return tuple(dict.fromkeys(each for part in self._parts for each in part.devices))

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, each an array of its own."""
        return self.run_in_slices(inputs, 0)

    def run_in_slices(self, inputs: Mapping[str, Array], slice_ms: float) -> dict[str, Array]:
        """The same, the parts in slices of so many ms, 0: without.

        Raises BackendError if one of them cannot run so.
        """
        return again_if_lost(lambda: self._run(inputs, slice_ms))

    def _run(self, inputs: Mapping[str, Array], slice_ms: float) -> dict[str, Array]:
        values: dict[str, Value] = {**self._graph.constants, **inputs}
        for part, freed in zip(self._parts, self._freed, strict=True):
            values.update(part.run(values, slice_ms))
            for name in freed:
                values.pop(name, None)
        return {name: np.array(host(values[name])) for name in self._graph.outputs}

    def profile(self, inputs: Mapping[str, Array]) -> list[StepTime]:
        """Run once and time each step; the parts run a second time, for what they write."""
        values: dict[str, Value] = {**self._graph.constants, **inputs}
        times: list[StepTime] = []
        for part in self._parts:
            times += part.profile(values)
            values.update(part.run(values))
        return times


def _program_part(program: Program, reads: tuple[str, ...], writes: tuple[str, ...]) -> _Part:
    """The part that a program is, told once: asking takes as long as a small step."""
    if isinstance(program, DeviceProgram):
        return _DevicePart(program, reads, writes)
    return _ProgramPart(program, reads, writes)


def _numpy_part(node: Node, chain: Sequence[Backend], options: Options) -> _NumpyPart:
    """The node; its bodies, if it has some, run on the backends as far as they can."""
    bodies: dict[str, Attr] = {
        name: PreparedBody(
            body.inputs,
            body.outputs,
            body.nodes,
            body.constants,
            execute=_LatePart(body, chain, options).run,
        )
        for name, body in node.attrs.items()
        if isinstance(body, Graph)
    }
    if bodies:
        node = replace(node, attrs={**node.attrs, **bodies})
    reads = tuple(dict.fromkeys(name for name in node.inputs if name))
    return _NumpyPart(node, reads, tuple(name for name in node.outputs if name))


def _kind(node: Node, refused: RefusedError) -> str:
    name = first_output(node)
    if name not in refused.reasons:
        return "taken"
    return "late" if name in refused.untyped else "refused"


def _schedule(graph: Graph, refused: RefusedError) -> list[tuple[str, list[Node]]]:
    """The nodes in an order that seldom changes kinds; each takes all that is ready."""
    there = {"", *graph.inputs, *graph.constants}
    left = [(_kind(node, refused), node) for node in graph.nodes]
    groups: list[tuple[str, list[Node]]] = []
    while left:
        kind = next(kind for kind, node in left if there.issuperset(node.inputs))
        taken: list[Node] = []
        waiting: list[tuple[str, Node]] = []
        for each, node in left:
            if each == kind and there.issuperset(node.inputs):
                taken.append(node)
                there.update(node.outputs)
            else:
                waiting.append((each, node))
        groups.append((kind, taken))
        left = waiting
    return groups


def _part_graph(
    graph: Graph, nodes: Sequence[Node], types: Mapping[str, Type], wanted: set[str]
) -> Graph:
    """The nodes as a graph: its inputs are what they read, its outputs what is wanted of them."""
    written = {name for node in nodes for name in node.outputs if name}
    read = {name for node in nodes for name in node.inputs if name} - written
    constants = {
        name: type.value for name in sorted(read) if isinstance(type := types.get(name), Known)
    }

    def type_of(name: str) -> Type:
        type = types.get(name, graph.outputs.get(name, UNKNOWN))
        return Type(type.dtype, type.shape)

    return Graph(
        {name: type_of(name) for name in sorted(read - set(constants))},
        {name: type_of(name) for name in sorted(written & wanted)},
        tuple(nodes),
        constants,
    )
