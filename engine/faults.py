"""Search the first wrong node of a model that does not give the numbers of its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from palmkit.engine import passes
from palmkit.engine.backends import BACKENDS, chain
from palmkit.engine.backends.options import Options
from palmkit.engine.backends.partition import compile_parts
from palmkit.engine.errors import BackendError, PalmError
from palmkit.engine.ir import Array, Attr, Graph, Node, Type
from palmkit.engine.model import Model
from palmkit.engine.ops import run_reference
from palmkit.engine.passes import optimise
from palmkit.engine.sources import Source
from palmkit.engine.steps.refusal import first_output

Values = Mapping[str, Array]
Report = Callable[[str], None]

_FEW = 16

STAGES = ("plain", "file", "optimised", "cpu")
BLAMED = {
    "plain": "the converter, or the meaning of the op",
    "file": "the file: it holds something else than its source",
    "optimised": "a graph pass",
    "cpu": "a kernel of backend cpu",
}


@dataclass(frozen=True)
class Operand:
    """An input of a node: its type, and the minimum and maximum of its finite numbers.

    error: its distance from the expected value; None if that is not known.
    """

    name: str
    type: str
    low: float
    high: float
    is_constant: bool
    error: float | None = None


@dataclass(frozen=True)
class Fault:
    """The place where a model goes wrong.

    stage: the first of STAGES whose outputs differ from those before; blamed: what is at fault, in
    words.
    graph_pass: for stage "optimised", the pass after which the outputs differ.
    grows: on right inputs no node exceeds the tolerance: errors of its inputs, such as rounding,
    add up or are amplified.
    node: as text, the first node whose result is wrong though its inputs are right; of an error
    that grows, the first whose result is beyond the tolerance.
    nodes: the nodes that are under suspicion together, the last being `node`: those between two
    values that both sides have.
    value: what the node writes; error: the error of that value.
    """

    stage: str
    blamed: str
    graph_pass: str
    grows: bool
    op: str
    name: str
    node: str
    nodes: tuple[str, ...]
    value: str
    type: str
    error: float
    operands: tuple[Operand, ...]


def difference(expected: Array, actual: Array, absolute: float = 0.0) -> float:
    """Return the largest difference over the range of `expected`; inf for other shapes.

    The range is that of the finite numbers, from minimum to maximum. The range of a few numbers
    says little: for fewer than 16, and for numbers that are all the same, it is their magnitude if
    that is larger. NaN and infinities have to be in the same places.
    absolute: differences up to this count as none.
    """
    if expected.shape != actual.shape:
        return np.inf
    if not expected.size:
        return 0.0
    wanted, got = expected.astype(np.float64), actual.astype(np.float64)
    finite = np.isfinite(wanted)
    if not np.array_equal(wanted[~finite], got[~finite], equal_nan=True):
        return np.inf
    wanted, got = wanted[finite], got[finite]
    if not wanted.size:
        return 0.0
    if not np.isfinite(got).all():
        return np.inf
    largest = float(np.abs(wanted - got).max())
    if largest <= absolute:
        return 0.0
    return largest / _range(wanted)


def _range(wanted: Array) -> float:
    span, magnitude = float(wanted.max() - wanted.min()), float(np.abs(wanted).max())
    if not span or wanted.size < _FEW:
        span = max(span, magnitude)
    return span or 1.0


def specialised(graph: Graph, inputs: Values) -> Graph:
    """Return the graph with the shapes of these inputs."""
    return replace(graph, inputs={name: Type.of(inputs[name]) for name in graph.inputs})


def reference_outputs(graph: Graph, inputs: Values) -> Values:
    """Return the outputs on backend reference; open dims take the inputs' sizes."""
    return BACKENDS["reference"].compile(specialised(graph, inputs)).run(inputs)


def rms_difference(expected: Array, actual: Array) -> float:
    """Return the root mean square of the differences over the range that `difference` uses.

    Elements that are not finite on either side do not count.
    """
    wanted, got = expected.astype(np.float64), actual.astype(np.float64)
    finite = np.isfinite(wanted) & np.isfinite(got)
    if not finite.any():
        return 0.0
    mean = np.sqrt(np.mean((wanted[finite] - got[finite]) ** 2))
    return float(mean) / _range(wanted[finite])


def output_errors(expected: Values, actual: Values, absolute: float) -> dict[str, float]:
    """Return the difference of each expected value; infinite for one that is missing."""
    return {
        name: difference(value, actual[name], absolute) if name in actual else np.inf
        for name, value in expected.items()
    }


def _walk(graph: Graph, values: dict[str, Array]) -> Iterator[Node]:
    """Run the nodes in numpy, one by one; `values` holds the inputs and gets every result."""
    values.update(graph.constants)
    for node in graph.nodes:
        results = run_reference(node, [values[name] if name else None for name in node.inputs])
        values.update(zip(node.outputs, results, strict=False))
        yield node


class Search:
    """The search for the first wrong node, on one set of inputs."""

    def __init__(
        self,
        file: Graph,
        plain: Graph,
        source: Source | None,
        inputs: Values,
        tolerance: float,
        absolute: float,
        report: Report,
        precision: str = "high",
    ) -> None:
        """Prepare a search with the parameters of `compare` and one set of inputs."""
        self.plain = specialised(plain, inputs)
        self.file = specialised(file, inputs)
        self.source = source
        self.inputs = inputs
        self.tolerance = tolerance
        self.absolute = absolute
        self.report = report
        self.precision = precision

    def stages(self) -> dict[str, float]:
        """Return the largest error that each stage adds; the first stage needs a source."""
        errors: dict[str, float] = {}
        before: Values | None = None
        if self.source is not None:
            before = self.source.values(self.inputs, None)
        for stage in STAGES:
            self.report(f"compare {stage}")
            after = self._run(stage)
            if before is not None:
                errors[stage] = max(
                    output_errors(before, after, self.absolute).values(), default=0.0
                )
            before = after
        return errors

    def fault(self, errors: Mapping[str, float]) -> Fault:
        """Search the first stage whose outputs differ, or else the stage that adds most."""
        searches = {
            "plain": self._plain,
            "file": self._file,
            "optimised": self._optimised,
            "cpu": self._cpu,
        }
        wrong = [stage for stage, error in errors.items() if error > self.tolerance]
        return searches[wrong[0] if wrong else max(errors, key=lambda stage: errors[stage])]()

    def _run(self, stage: str) -> Values:
        if stage == "plain":
            return reference_outputs(self.plain, self.inputs)
        if stage == "file":
            return reference_outputs(self.file, self.inputs)
        if stage == "optimised":
            return reference_outputs(optimise(self.file), self.inputs)
        return Model(self.file, precision=self.precision).run(self.inputs)

    def _plain(self) -> Fault:
        assert self.source is not None
        names = [name for node in self.plain.nodes for name in node.outputs if name]
        self.report("inner values of the source")
        try:
            expected = self.source.values(self.inputs, names)
        except BackendError:
            expected = self.source.values(self.inputs, None)
        return self._between("plain", self.plain, expected)

    def _file(self) -> Fault:
        values = dict(self.inputs)
        for _ in _walk(self.plain, values):
            pass
        return self._between("file", self.file, values)

    def _optimised(self) -> Fault:
        """Bisect the passes; then search between the graph before the wrong one and after it."""
        steps = [("", self.file)]
        steps += [(getattr(each, "__name__", "pass"), g) for each, g in passes.steps(self.file)]
        right, wrong = 0, len(steps) - 1
        wanted = reference_outputs(self.file, self.inputs)
        while wrong - right > 1:
            middle = (right + wrong) // 2
            self.report(f"pass {steps[middle][0]}")
            found = output_errors(
                wanted, reference_outputs(steps[middle][1], self.inputs), self.absolute
            )
            if max(found.values()) > self.tolerance:
                wrong = middle
            else:
                right = middle
        values = dict(self.inputs)
        for _ in _walk(steps[right][1], values):
            pass
        fault = self._between("optimised", steps[wrong][1], values)
        name = steps[wrong][0]
        return replace(fault, graph_pass=name, blamed=f"the graph pass {name}")

    def _cpu(self) -> Fault:
        """Run each node alone on the right inputs; if all are right, the plan is at fault."""
        graph = optimise(self.file)
        values = dict(self.inputs)
        for node in _walk(graph, values):
            self.report(f"node {node.op}")
            actual = _alone(node, values, graph, self.precision)
            written = [name for name in node.outputs if name and name in actual]
            if not written:
                continue
            errors = output_errors({name: values[name] for name in written}, actual, self.absolute)
            value = max(errors, key=lambda name: errors[name])
            if errors[value] > self.tolerance:
                return self._named("cpu", graph, (node,), value, errors[value], values, values)
        return self._planned(graph, values) or self._grown("cpu", graph, values)

    def _planned(self, graph: Graph, values: Values) -> Fault | None:
        """Return the first node that is wrong in one plan with others, bisecting inner outputs."""
        named = [node for node in graph.nodes if any(node.outputs)]
        right, wrong = -1, len(named)
        while wrong - right > 1:
            middle = (right + wrong) // 2
            self.report(f"node {named[middle].op}")
            name = first_output(named[middle])
            actual = self._in_company(graph, named[middle], [name], values)
            if difference(values[name], actual[name], self.absolute) > self.tolerance:
                wrong = middle
            else:
                right = middle
        if wrong == len(named):
            return None
        node, name = named[wrong], first_output(named[wrong])
        read = [each for each in node.inputs if each and each not in graph.constants]
        actual = {**self.inputs, **graph.constants}
        actual |= self._in_company(graph, node, [*read, name], values)
        again = run_reference(node, [actual[each] if each else None for each in node.inputs])
        alone = difference(again[node.outputs.index(name)], actual[name], self.absolute)
        error = difference(values[name], actual[name], self.absolute)
        fault = self._named("cpu", graph, (node,), name, error, actual, values)
        if alone <= self.tolerance:
            return replace(fault, grows=True)
        return replace(fault, blamed="the memory plan of backend cpu: alone the node is right")

    def _in_company(
        self, graph: Graph, node: Node, names: Sequence[str], values: Values
    ) -> dict[str, Array]:
        """Compute values up to a node's own on backend cpu, in one plan with all earlier nodes."""
        cut = replace(
            graph,
            nodes=graph.nodes[: graph.nodes.index(node) + 1],
            outputs={name: Type.of(values[name]) for name in names if name not in graph.inputs},
        )
        options = Options(precision=self.precision)
        return compile_parts(cut, chain("cpu"), options).run(self.inputs)

    def _between(self, stage: str, graph: Graph, expected: Values) -> Fault:
        """Return the first node that is wrong on right inputs, which `expected` holds.

        If there is none, return the place where the error has grown beyond the tolerance.
        """
        values = dict(self.inputs)
        unsure: dict[str, tuple[Node, ...]] = {}
        for node in _walk(graph, values):
            before: list[Node] = []
            for name in node.inputs:
                before += [each for each in unsure.get(name, ()) if each not in before]
            region = (*before, node)
            for name in node.outputs:
                if not name or not _is_known(name, expected, values):
                    unsure[name] = region
                    continue
                error = difference(expected[name], values[name], self.absolute)
                if error > self.tolerance:
                    return self._named(stage, graph, region, name, error, values, expected)
                values[name] = expected[name]
        return self._grown(stage, graph, expected)

    def _grown(self, stage: str, graph: Graph, expected: Values) -> Fault:
        """Return the first value beyond the tolerance, if errors go on from node to node."""
        run = dict(self.inputs)
        worst: tuple[float, str, Node] | None = None
        for node in _walk(graph, run):
            for name in node.outputs:
                if name and _is_known(name, expected, run):
                    error = difference(expected[name], run[name], self.absolute)
                    if worst is None or worst[0] <= self.tolerance and error > worst[0]:
                        worst = error, name, node
        if worst is None:
            node = graph.nodes[-1]
            worst = np.inf, first_output(node), node
        error, name, node = worst
        fault = self._named(stage, graph, (node,), name, error, run, expected)
        return replace(fault, grows=True)

    def _named(
        self,
        stage: str,
        graph: Graph,
        region: tuple[Node, ...],
        value: str,
        error: float,
        values: Values,
        expected: Values,
    ) -> Fault:
        node = region[-1]
        names = dict.fromkeys(name for each in region for name in each.inputs if name)
        inside = {name for each in region for name in each.outputs}
        operands = [
            _operand(name, values[name], name in graph.constants, expected.get(name))
            for name in names
            if name not in inside
        ]
        return Fault(
            stage=stage,
            blamed=BLAMED[stage],
            graph_pass="",
            grows=False,
            op=node.op,
            name=node.name,
            node=str(replace(node, attrs={k: _short(v) for k, v in node.attrs.items()})),
            nodes=tuple(f"{each.op} {each.label}" for each in region),
            value=value,
            type=str(Type.of(values[value])),
            error=error,
            operands=tuple(operands),
        )


def _is_known(name: str, expected: Values, values: Values) -> bool:
    return name in expected and expected[name].dtype == values[name].dtype


def _short(value: Attr) -> Attr:
    text = str(value)
    return value if len(text) <= 60 else f"{text[:57]}..."


def _operand(name: str, value: Array, is_constant: bool, expected: Array | None) -> Operand:
    numbers = value.astype(np.float64) if value.dtype != bool else value.astype(np.int8)
    finite = numbers[np.isfinite(numbers)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (np.nan, np.nan)
    error = None if expected is None else difference(expected, value)
    return Operand(name, str(Type.of(value)), low, high, is_constant, error)


def _alone(node: Node, values: Values, graph: Graph, precision: str) -> Values:
    """Return the node's outputs as a graph of its own on backend cpu; {} if it cannot run there."""
    inputs = dict.fromkeys(n for n in node.inputs if n and n not in graph.constants)
    single = Graph(
        {name: Type.of(values[name]) for name in inputs},
        {name: Type.of(values[name]) for name in node.outputs if name},
        (node,),
        {name: graph.constants[name] for name in node.inputs if name in graph.constants},
    )
    try:
        program = BACKENDS["cpu"].compile(single, Options(precision=precision))
        return program.run({name: values[name] for name in inputs})
    except PalmError:
        return {}
