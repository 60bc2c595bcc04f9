"""From a graph to a list of dispatches: by the rules of the CPU, whose steps have kernels here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module

from palmkit.engine.backends.cpu.passes.copies import view_copies
from palmkit.engine.backends.cpu.passes.gates import join_gates
from palmkit.engine.backends.cpu.passes.interleaves import join_interleaves
from palmkit.engine.backends.cpu.passes.sums import join_clamps
from palmkit.engine.backends.cpu.rules import RULES as CPU_RULES
from palmkit.engine.backends.gpu.dispatches import (
    ELEMENT_BYTES,
    FLOATS,
    INTEGERS,
    DispatchList,
)
from palmkit.engine.backends.gpu.emission import Emission, GpuKernels, Target
from palmkit.engine.ir import Graph, Type
from palmkit.engine.steps.lowering import Lowering, Rules
from palmkit.engine.steps.plan import Plan
from palmkit.engine.steps.rewriting import Purpose, StepPass
from palmkit.engine.steps.step import Step

NAME = "gpu"
# Those of the CPU's passes that leave fewer steps, in its order.
STEP_PASSES: tuple[StepPass, ...] = (join_interleaves, join_gates, join_clamps, view_copies)

# Ops whose steps have no kernels here: of bytes, in order, one after another, or of trees.
LACKING = frozenset(
    {
        "gru",
        "lookup",
        "lstm",
        "max_unpool",
        "quantized_add",
        "quantized_average_pool",
        "quantized_conv",
        "quantized_mul",
        "quantized_resize",
        "rnn",
        "roi_align",
        "scatter_elements",
        "scatter_nd",
        "top_k",
        "tree_ensemble",
    }
)


@cache
def rules() -> Rules:
    """The rules of the ops that there are kernels for."""
    found = Rules()
    found.update({op: rule for op, rule in CPU_RULES.items() if op not in LACKING})
    return found


@cache
def kernels() -> GpuKernels:
    """All kernels."""
    import_module("palmkit.engine.backends.gpu.kernels")
    return GpuKernels((*FLOATS, *INTEGERS))


def _a_launch(step: Step) -> float:
    """What a step costs, if it is small: none is cheaper, whatever it does."""
    return 1.0


def lower(graph: Graph, target: Target) -> tuple[DispatchList, Plan, Mapping[str, Type]]:
    """The dispatches of a static graph, the plan that they follow, and its outputs' types.

    Raises RefusedError, which names every node that there are no dispatches for.
    """
    lowering = Lowering(NAME, graph, rules(), kernels())
    outputs = {name: lowering.declared[name] for name in graph.outputs}
    lowered = replace(lowering.result(Purpose(threads=1)), cost=_a_launch)
    for each in STEP_PASSES:
        lowered = each(lowered)
    for step in lowered.steps:
        for view in (*step.reads, *step.writes):
            # Elements of any dtype take as much there.
            size = view.ends[1] * ELEMENT_BYTES
            view.buffer.size_bytes = max(view.buffer.size_bytes, size)
    plan = lowered.placed()
    emission = Emission(plan, target)
    for planned in plan.steps:
        emission.emit(planned)
    return emission.result(tuple(graph.inputs), tuple(outputs)), plan, outputs
