"""The plans of a library, with the algorithm of each convolution."""

from __future__ import annotations

from dataclasses import replace

from palmkit.engine.backends.cpu.c_library.targets import Target
from palmkit.engine.steps.plan import Plan, PlannedStep
from palmkit.engine.steps.step import BRANCH


def chosen(plan: Plan, target: Target) -> Plan:
    """Return the plan with the algorithm of each convolution written down, for one thread."""
    from palmkit.engine import _native
    from palmkit.engine.backends.cpu.costs import ranked

    isa = target.simd if target.simd in _native.isas() else target.ranked_as
    steps: list[PlannedStep] = []
    for step, candidates in zip(plan.steps, ranked(plan, isa), strict=True):
        attrs = {key: value for key, value in step.attrs.items() if key != BRANCH}
        if step.kernel == "conv":
            attrs.setdefault("algorithm", candidates[0].algorithm)
        steps.append(replace(step, attrs=attrs))
    return replace(plan, steps=tuple(steps))
