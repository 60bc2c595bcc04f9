"""Plans as their steps come, and runs of any plan."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from palmkit.engine.backends import BACKENDS
from palmkit.engine.backends.cpu import lower
from palmkit.engine.ir import Array, Graph
from palmkit.engine.steps.plan import Plan, PlannedStep
from palmkit.engine.steps.step import StepAttr

native = pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")


def apart(graph: Graph) -> Plan:
    """The plan with a step for each of what may be joined."""
    lowered, _ = lower(graph)
    return lowered.placed()


def step_of(plan: Plan, kernel: str) -> PlannedStep:
    """The first step of a kernel."""
    return next(step for step in plan.steps if step.kernel == kernel)


def with_step(
    plan: Plan,
    kernel: str,
    attrs: Mapping[str, StepAttr] | None = None,
    inputs: Mapping[str, int] | None = None,
) -> Plan:
    """The plan with some attributes and inputs of the first step of a kernel changed."""
    old = step_of(plan, kernel)
    new = replace(
        old, attrs={**old.attrs, **(attrs or {})}, inputs={**old.inputs, **(inputs or {})}
    )
    return replace(plan, steps=tuple(new if step is old else step for step in plan.steps))


def run(plan: Plan, graph: Graph, feed: Mapping[str, Array], threads: int) -> dict[str, Array]:
    """The outputs of the graph by a plan of it, shared out as far as can be."""
    program = native.Program(*plan.native())
    outputs = {name: np.empty(type.dims, np.float32) for name, type in graph.outputs.items()}
    program.session(threads, True).run([feed[name] for name in graph.inputs], [*outputs.values()])
    return outputs


def feed_of(graph: Graph) -> dict[str, Array]:
    """Normal numbers for its inputs, always the same."""
    rng = np.random.default_rng(1)
    return {name: rng.normal(size=t.dims).astype(np.float32) for name, t in graph.inputs.items()}


def check_joined(plan: Plan, graph: Graph) -> None:
    """It gives what the plan of steps apart and the reference give, whatever the threads."""
    feed = feed_of(graph)
    wanted, first = run(apart(graph), graph, feed, 1), run(plan, graph, feed, 1)
    reference = BACKENDS["reference"].compile(graph).run(feed)
    for name, value in first.items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-5, atol=5e-6)
        np.testing.assert_allclose(value, reference[name], rtol=1e-5, atol=5e-6)
        for threads in (1, 2, 3):
            np.testing.assert_array_equal(run(plan, graph, feed, threads)[name], value)
