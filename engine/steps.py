"""What backend cpu does, step by step: kernels, algorithms and who chose them, places in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from palmkit.engine.backends import BACKENDS, Program
from palmkit.engine.backends.options import DEFAULTS, Options
from palmkit.engine.backends.partition import PartitionedProgram, compile_parts, specialise
from palmkit.engine.errors import BackendError, ShapeError
from palmkit.engine.ir import Graph
from palmkit.engine.plan import BRANCH, Plan, StepAttr, view_bytes

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
        """Of the array."""
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
    buffers: (byte offset, bytes, first step, last step) of what lies in the arena.
    """

    steps: tuple[StepSummary, ...]
    arena_bytes: int
    lower_bound_bytes: int
    buffers: tuple[tuple[int, int, int, int], ...]

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
    backend = BACKENDS["cpu"]
    if not backend.available():
        raise BackendError("backend is not available on this machine: cpu")
    program = compile_parts(specialise(graph, graph.inputs), backend, options)
    return [_summary(plan) for plan in _plans(program)]


def _plans(program: Program) -> list[Plan]:
    if isinstance(program, PartitionedProgram):
        return [plan for part in program.native_programs for plan in _plans(part)]
    plan = getattr(program, "plan", None)
    return [plan] if isinstance(plan, Plan) else []


def _summary(plan: Plan) -> PlanSummary:
    from palmkit.engine import _native

    candidates = _native.conv_algorithms(plan.tensors, plan.steps, "", plan.constants)
    tensors = [Place(place, at, dtype, tuple(dims)) for place, at, dtype, dims in plan.tensors]
    steps: list[StepSummary] = []
    for node, (kernel, reads, writes, attrs), suit in zip(
        plan.nodes, plan.steps, candidates, strict=True
    ):
        inputs = tuple(tensors[i] if i >= 0 else None for i in reads)
        outputs = tuple(tensors[i] for i in writes)
        asked = str(attrs.get("algorithm", ""))
        algorithm = asked or (suit[0][0] if suit else "")
        steps.append(
            StepSummary(
                node=node,
                kernel=kernel,
                algorithm=algorithm,
                chosen_by=TUNED if asked else COST_MODEL if len(suit) > 1 else ONLY_ONE,
                inputs=inputs,
                outputs=outputs,
                flop=2 * _macs(kernel, inputs, outputs, attrs),
                expected_s=next((s for name, s, _ in suit if name == algorithm), None),
                in_place=_overwritten(inputs, outputs),
                branch=int(attrs.get(BRANCH, 0)),  # type: ignore[arg-type]
            )
        )
    return PlanSummary(tuple(steps), plan.arena_bytes, plan.lower_bound_bytes, tuple(plan.buffers))


def _overwritten(inputs: Sequence[Place | None], outputs: Sequence[Place]) -> int | None:
    for i, x in enumerate(inputs):
        if x and outputs and x.place == outputs[0].place == "arena" and x.at == outputs[0].at:
            return i
    return None


def _macs(
    kernel: str,
    inputs: Sequence[Place | None],
    outputs: Sequence[Place],
    attrs: dict[str, StepAttr],
) -> int:
    """Multiply-adds; a convolution's padding counts as if it were picture."""
    shapes = [x.shape if x else () for x in inputs]
    if kernel in ("conv", "volume_conv"):
        # y may be a part of wider pixels.
        return prod(outputs[0].shape[:-1]) * prod(shapes[1])
    if kernel == "separable_conv":
        # For each pixel all taps of the depthwise convolution, then all weights of the other one.
        return prod(outputs[0].shape[:3]) * (prod(shapes[1]) + prod(shapes[4]))
    if kernel == "conv_transpose":
        return prod(shapes[0]) * prod(shapes[1][1:])
    if kernel == "matmul" and isinstance(k := attrs.get("k"), int):
        return prod(outputs[0].shape) * k
    return 0
