"""What backend cpu does, step by step: kernels, algorithms and who chose them, places in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from palmkit.engine.backends import Program, chain
from palmkit.engine.backends.options import DEFAULTS, Options
from palmkit.engine.backends.partition import PartitionedProgram, compile_parts, specialise
from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Graph
from palmkit.engine.steps.plan import PlacedBuffer, Plan, PlannedStep
from palmkit.engine.steps.step import view_bytes

ONLY_ONE, COST_MODEL, TUNED = "only one", "cost model", "tuned"


@dataclass(frozen=True)
class Place:
    """Where a tensor lies.

    place: "arena" (at: byte offset), "constant", "input" or "output" (at: which one).
    """

    place: str
    at: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """The bytes of the array."""
        return view_bytes(self.dtype, self.shape)


@dataclass(frozen=True)
class StepSummary:
    """One call of a kernel.

    algorithm: the kernel's way of doing it where there are several kinds of it, else "".
    chosen_by: "only one" (nothing else suits), "cost model" or "tuned" (timed on this machine).
    flop: two for each multiply-add of convolutions and matrix products.
    expected_s: what the cost model says for one thread; None for kernels without one.
    in_place: index of the input that the output is written over, if one is.
    branch: 1 or 2, of steps in a row that two threads share out; else 0.
    """

    node: str
    kernel: str
    algorithm: str
    chosen_by: str
    inputs: tuple[Place | None, ...]
    outputs: tuple[Place, ...]
    flop: int
    expected_s: float | None
    in_place: int | None
    branch: int = 0


@dataclass(frozen=True)
class PlanSummary:
    """A plan: all of a model, or one of the parts that run natively.

    lower_bound_bytes: the most bytes that are live at once; no arena can be smaller.
    buffers: what lies in the arena, by offset.
    """

    steps: tuple[StepSummary, ...]
    arena_bytes: int
    lower_bound_bytes: int
    buffers: tuple[PlacedBuffer, ...]

    @property
    def flop(self) -> int:
        """Of all steps."""
        return sum(step.flop for step in self.steps)


def plan_summaries(graph: Graph, options: Options = DEFAULTS) -> list[PlanSummary]:
    """The plans of backend cpu for a graph, one unless parts of it run in numpy.

    Raises ShapeError if sizes are open, BackendError if the native library is missing.
    """
    if not graph.is_static:
        inputs = ", ".join(f"{name} {type}" for name, type in graph.inputs.items())
        raise ShapeError(f"a plan needs a size for every dim, got {inputs}")
    program = compile_parts(specialise(graph, graph.inputs), chain("cpu"), options)
    return [_summary(plan) for plan in _plans(program)]


def _plans(program: Program) -> list[Plan]:
    if isinstance(program, PartitionedProgram):
        return [plan for part in program.programs for plan in _plans(part)]
    plan = getattr(program, "plan", None)
    return [plan] if isinstance(plan, Plan) else []


def _summary(plan: Plan) -> PlanSummary:
    from palmkit.engine.backends.cpu.costs import ranked

    places = [Place(each.place, each.slot, each.dtype, each.dims) for each in plan.tensors]
    steps: list[StepSummary] = []
    for step, candidates in zip(plan.steps, ranked(plan), strict=True):
        inputs = tuple(places[i] if i >= 0 else None for i in step.inputs.values())
        outputs = tuple(places[i] for i in step.outputs.values())
        asked = str(step.attrs.get("algorithm", ""))
        algorithm = asked or (candidates[0].algorithm if candidates else "")
        expected = (each.seconds for each in candidates if each.algorithm == algorithm)
        steps.append(
            StepSummary(
                node=step.node,
                kernel=step.kernel,
                algorithm=algorithm,
                chosen_by=TUNED if asked else COST_MODEL if len(candidates) > 1 else ONLY_ONE,
                inputs=inputs,
                outputs=outputs,
                flop=2 * _macs(plan, step),
                expected_s=next(expected, None),
                in_place=_overwritten(inputs, outputs),
                branch=step.branch,
            )
        )
    return PlanSummary(tuple(steps), plan.arena_bytes, plan.lower_bound_bytes, plan.buffers)


def _overwritten(inputs: Sequence[Place | None], outputs: Sequence[Place]) -> int | None:
    for i, x in enumerate(inputs):
        if x and outputs and x.place == outputs[0].place == "arena" and x.at == outputs[0].at:
            return i
    return None


def _macs(plan: Plan, step: PlannedStep) -> int:
    """Multiply-adds; a convolution's padding counts as if it were picture."""

    def dims(name: str) -> tuple[int, ...]:
        return plan.tensors[{**step.inputs, **step.outputs}[name]].dims

    match step.kernel:
        case "conv" | "volume_conv":
            # y may be a part of wider pixels.
            return prod(dims("y")[:-1]) * prod(dims("weights"))
        case "separable_conv":
            # For each pixel all taps of the depthwise convolution, then all weights of the other.
            taps = prod(dims("depthwise_weights"))
            return prod(dims("y")[:3]) * (taps + prod(dims("weights")))
        case "conv_transpose":
            return prod(dims("image")) * prod(dims("weights")[1:])
        case "matmul":
            return prod(dims("y")) * dims("a")[-1]
        case _:
            return 0
