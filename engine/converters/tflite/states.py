"""The states that a model keeps from run to run."""

from __future__ import annotations

from dataclasses import dataclass

from palmkit.engine.ir import Array, Type


@dataclass(frozen=True)
class State:
    """A variable that a run changes.

    input: the graph input that gives it. first: the value the file sets it to. now: its latest
    value.
    """

    input: str
    type: Type
    first: Array | None
    now: str

    def described(self, after: str) -> str:
        """Return where it starts if that is one number, and the output that is its next value."""
        if self.first is None or (self.first != self.first.reshape(-1)[:1]).any():
            return f"then {after}"
        return f"first {self.first.reshape(-1)[:1].tolist()}, then {after}"
