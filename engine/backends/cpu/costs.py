"""What the native library's cost model says of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from palmkit.engine.ir import Array
from palmkit.engine.steps.plan import Plan, unplaced
from palmkit.engine.steps.rewriting import Lowered
from palmkit.engine.steps.step import Step, View, view_bytes

_CONSTANT = "constant"


@dataclass(frozen=True)
class Candidate:
    """A way of doing a step, a value of the attribute `algorithm`.

    seconds: what one run is expected to take with one thread, on the machine that the cost model
    was measured on. terms: what is done how often (native/kernels/conv/cost.cc).
    """

    algorithm: str
    seconds: float
    terms: tuple[float, ...]


def ranked(plan: Plan, isa: str = "") -> list[list[Candidate]]:
    """For each step of a plan its candidates, the one that the kernel itself would choose first.

    A plan's constants may be left out; then no weight counts as zero. Steps of kernels with one
    way alone have none. isa: the instruction set; left out, the best one here.
    """
    from palmkit.engine import _native

    tensors, steps, constants, _ = plan.native()
    # A few steps of many read few of the constants.
    used = {slot: i for i, slot in enumerate(sorted({t[1] for t in tensors if t[0] == _CONSTANT}))}
    read = [constants[slot] for slot in used] if constants else []
    tensors = [(t[0], used[t[1]], *t[2:]) if t[0] == _CONSTANT else t for t in tensors]
    found = _native.candidates(tensors, steps, isa, read)
    return [[Candidate(name, s, tuple(terms)) for name, s, terms in each] for each in found]


def expected_s(lowered: Lowered, steps: Sequence[Step]) -> list[float | None]:
    """Return the seconds that each step is expected to take by the way that its kernel chooses.

    None: the cost model has no way of doing it, or nothing for its kernel.
    """
    if lowered.cost is not None:
        return [lowered.cost(step) for step in steps]
    candidates = ranked_steps(steps, lowered.constants)
    return [each[0].seconds if each else None for each in candidates]


def seconds_alone(lowered: Lowered) -> list[float]:
    """Return what each step is expected to take with one thread.

    A step that the cost model has nothing for is counted as one that writes its output once.
    """
    from palmkit.engine import _native

    def touching_s(y: View) -> float:
        return _native.touching_seconds(view_bytes(y.dtype, y.dims))

    expected = zip(lowered.steps, expected_s(lowered, lowered.steps), strict=True)
    return [touching_s(step.y) if seconds is None else seconds for step, seconds in expected]


def pays(lowered: Lowered, new: Step, old: Sequence[Step]) -> bool:
    """Return whether a step is expected to take no longer than those that it would stand for.

    It does not if the cost model has no way of doing it.
    """
    after, *before = expected_s(lowered, [new, *old])
    return after is not None and after <= sum(each or 0.0 for each in before)


def ranked_steps(
    steps: Sequence[Step], constants: Sequence[Array], isa: str = ""
) -> list[list[Candidate]]:
    """The same of steps that have no plan yet."""
    return ranked(unplaced(steps, constants), isa)
