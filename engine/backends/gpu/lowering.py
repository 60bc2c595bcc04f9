"""From a graph to a list of dispatches: by the rules of the CPU, whose steps have kernels here."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Set
from dataclasses import replace
from functools import cache
from importlib import import_module

from palmkit.engine.backends.cpu.passes.copies import view_copies
from palmkit.engine.backends.cpu.passes.gates import join_gates
from palmkit.engine.backends.cpu.passes.interleaves import join_interleaves
from palmkit.engine.backends.cpu.passes.sums import join_clamps
from palmkit.engine.backends.cpu.rules import RULES as CPU_RULES
from palmkit.engine.backends.gpu.dispatches import FLOATS, INTEGERS, DispatchList
from palmkit.engine.backends.gpu.emission import Emission, GpuKernels, Target
from palmkit.engine.backends.gpu.storage import HALF, element_bytes
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Graph, Type
from palmkit.engine.steps.lowering import Lowering, Rules
from palmkit.engine.steps.plan import Plan
from palmkit.engine.steps.refusal import RefusedError, first_output
from palmkit.engine.steps.rewriting import Lowered, Purpose, StepPass
from palmkit.engine.steps.step import JOINED, Step, View

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
    halves: set[int] = set()
    _size(lowered, halves)
    if target.half:
        # In halves more will fit into a binding.
        trial = replace(target, binding_bytes=sys.maxsize)
        lowered, halves = _in_halves(lowered, *_emitted(lowered, trial, graph, halves, True))
    plan, emission = _emitted(lowered, target, graph, halves)
    return emission.result(tuple(graph.inputs), tuple(outputs)), plan, outputs


def _size(lowered: Lowered, halves: Set[int]) -> None:
    """Have each buffer be of the size that its elements take on the device.

    halves: the ids of those in half precision.
    """
    sizes: dict[int, int] = {}
    for step in lowered.steps:
        for view in (*step.reads, *step.writes):
            # Elements of any dtype take as much there, but for those in half precision.
            size = view.ends[1] * element_bytes(id(view.buffer) in halves)
            sizes[id(view.buffer)] = max(sizes.get(id(view.buffer), 0), size)
            view.buffer.size_bytes = sizes[id(view.buffer)]


def _emitted(
    lowered: Lowered, target: Target, graph: Graph, halves: Set[int], is_trial: bool = False
) -> tuple[Plan, Emission]:
    """The plan and all of its dispatches; RefusedError names the steps that the device has not."""
    plan = lowered.placed()
    numbers: set[int] = set()
    for step, planned in zip(lowered.steps, plan.steps, strict=True):
        views = (*step.inputs.values(), *step.outputs.values())
        places = (*planned.inputs.values(), *planned.outputs.values())
        for view, number in zip(views, places, strict=True):
            if view is not None and id(view.buffer) in halves:
                numbers.add(number)
    emission = Emission(plan, target, numbers, is_trial)
    refused: dict[str, str] = {}
    nodes = {name: node for node in graph.nodes for name in (*node.outputs, node.label)}
    for planned in plan.steps:
        try:
            emission.emit(planned)
        except UnsupportedError as error:
            reason = f"{planned.node} ({planned.kernel}): {error}"
            joined = [planned.node] if planned.node in nodes else planned.node.split(JOINED)
            found = [first_output(nodes[label]) for label in joined if label in nodes]
            if not found:
                raise UnsupportedError(f"backend {NAME}: {reason}") from None
            refused |= dict.fromkeys(found, reason)
    if refused:
        reasons = "; ".join(dict.fromkeys(refused.values()))
        raise RefusedError(
            f"backend {NAME} cannot run {len(refused)} of {len(graph.nodes)} nodes on this device: "
            f"{reasons}",
            refused,
        )
    return plan, emission


def _in_halves(lowered: Lowered, plan: Plan, emission: Emission) -> tuple[Lowered, set[int]]:
    """The same with floats between steps in half precision, and the ids of buffers that are so.

    Not those written one by one: two of them share a word, which two threads cannot write at a
    time.
    """
    halves: set[int] = set()
    whole: set[int] = set()
    for step, planned in zip(lowered.steps, plan.steps, strict=True):
        for name, view in step.outputs.items():
            if planned.outputs[name] in emission.written_singly:
                whole.add(id(view.buffer))

    def stored(view: View | None) -> View | None:
        if view is None or view.buffer.place != "arena" or view.dtype not in FLOATS:
            return view
        if id(view.buffer) in whole:
            return view
        halves.add(id(view.buffer))
        return replace(view, dtype=HALF)

    steps = [
        replace(
            step,
            inputs={name: stored(view) for name, view in step.inputs.items()},
            outputs={name: stored(view) or view for name, view in step.outputs.items()},
        )
        for step in lowered.steps
    ]
    found = replace(lowered, steps=steps)
    _size(found, halves)
    return found, halves
