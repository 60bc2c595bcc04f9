"""Does a model give the numbers of its source, and if not, which node is the first wrong one.

Between the source's engine and our native one lie four stages, and each can be at fault:

    source -> plain       the converter, or the meaning of an op (on backend reference)
    plain -> file         the .palm file holds something else than its source
    file -> optimised     a graph pass
    optimised -> cpu      a kernel

The outputs are compared from end to end for all inputs, the stages for those inputs that come out
worst; the first stage that differs is searched for the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from palmkit.engine.errors import BackendError, UnsupportedError
from palmkit.engine.faults import (
    STAGES,
    Fault,
    Report,
    Search,
    Values,
    difference,
    output_errors,
    reference_outputs,
    rms_difference,
)
from palmkit.engine.ir import Graph
from palmkit.engine.model import Model
from palmkit.engine.ops import find
from palmkit.engine.sources import Source

__all__ = ["STAGES", "Comparison", "Fault", "compare", "difference"]


@dataclass(frozen=True)
class Comparison:
    """The result of comparing a model with its source.

    source: what the model was compared with; notes: what could not be done.
    errors: for each output, the largest error over all runs, as a fraction of the output's range;
    rms: the largest root mean square of a run's errors, in the same unit.
    stages: the largest error that each of STAGES adds, on the inputs with the largest errors.
    """

    source: str
    runs: int
    tolerance: float
    errors: Mapping[str, float]
    rms: Mapping[str, float]
    stages: Mapping[str, float]
    notes: tuple[str, ...]
    fault: Fault | None

    @property
    def agrees(self) -> bool:
        """Whether every output is within the tolerance, and every stage within ten times as much.

        Where two stages round, one may cancel the error of the other, so a stage is allowed more.
        """
        return (
            max(self.errors.values(), default=0.0) <= self.tolerance
            and max(self.stages.values(), default=0.0) <= 10 * self.tolerance
        )


def compare(
    file: Graph,
    plain: Graph,
    source: Source | None,
    runs: Sequence[Values],
    tolerance: float = 1e-4,
    absolute: float = 5e-7,
    report: Report = lambda step: None,
    precision: str = "high",
) -> Comparison:
    """Run a model and its source on the same inputs, and find what is wrong.

    file: the model as it was stored; plain: its source, converted just now.
    source: the source in its own engine; without one, or if it cannot run it, `plain` on backend
    reference stands for it.
    runs: the inputs of each run. report: is told of each step.
    tolerance: the largest difference over the range of what was expected.
    absolute: differences up to this count as none: the step of float32 numbers near 4 to 8, which
    is where sums and sigmoids end that are to come out as zero.
    precision: of the model, as in `engine.load`; "low" needs another tolerance.
    Raises UnsupportedError for a model that draws random numbers, and what Model.run raises.
    """
    _refuse_random(plain)
    notes: list[str] = []
    model = Model(file, precision=precision)
    errors, rms = dict.fromkeys(file.outputs, 0.0), dict.fromkeys(file.outputs, 0.0)
    worst, worst_inputs = -1.0, runs[0]
    for number, inputs in enumerate(runs, 1):
        report(f"run {number}")
        expected: Values | None = None
        if source is not None:
            try:
                expected = source.values(inputs, None)
            except BackendError as error:
                notes.append(f"{error}; compared with our own reference instead")
                source = None
        if expected is None:
            expected = reference_outputs(plain, inputs)
        actual = model.run(inputs)
        found = output_errors(expected, actual, absolute)
        for name, value in expected.items():
            if name in actual and value.shape == actual[name].shape:
                rms[name] = max(rms[name], rms_difference(value, actual[name]))
        errors = {name: max(error, found.get(name, np.inf)) for name, error in errors.items()}
        if max(found.values(), default=0.0) > worst:
            worst, worst_inputs = max(found.values(), default=0.0), inputs
    compared_with = source.name if source is not None else "reference"
    search = Search(file, plain, source, worst_inputs, tolerance, absolute, report, precision)
    stages = search.stages()
    result = Comparison(
        compared_with, len(runs), tolerance, errors, rms, stages, tuple(notes), None
    )
    return result if result.agrees else replace(result, fault=search.fault(stages))


def _refuse_random(graph: Graph) -> None:
    drawing = sorted({node.op for node in graph.nodes if not find(node.op).pure})
    if drawing:
        raise UnsupportedError(
            f"cannot compare a model that draws random numbers: {', '.join(drawing)}"
        )
