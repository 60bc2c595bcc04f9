"""The attributes and operands of planned steps, by kind."""

from __future__ import annotations

from collections.abc import Sequence

from palmkit.engine.steps.plan import PlannedStep


def integer(step: PlannedStep, name: str, default: int = 0) -> int:
    """An attribute that is an integer."""
    value = step.attrs.get(name, default)
    assert isinstance(value, int)
    return value


def number(step: PlannedStep, name: str, default: float = 0.0) -> float:
    """An attribute that is a number."""
    value = step.attrs.get(name, default)
    assert isinstance(value, int | float)
    return float(value)


def text(step: PlannedStep, name: str) -> str:
    """An attribute that is a text; "" if it is left out."""
    value = step.attrs.get(name, "")
    assert isinstance(value, str)
    return value


def integers(step: PlannedStep, name: str, default: Sequence[int] = ()) -> list[int]:
    """An attribute that is a list of integers."""
    value = step.attrs.get(name)
    return [int(each) for each in value] if isinstance(value, list) else list(default)


def numbers(step: PlannedStep, name: str) -> list[float]:
    """An attribute that is a list of numbers; empty if it is left out."""
    value = step.attrs.get(name)
    return [float(each) for each in value] if isinstance(value, list) else []


def has(step: PlannedStep, name: str) -> bool:
    """Whether the step has the input of that name."""
    return step.inputs.get(name, -1) >= 0
