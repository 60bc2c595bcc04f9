"""What a file has that no rule converts."""

from __future__ import annotations

from dataclasses import dataclass, field

from palmkit.engine.errors import UnsupportedError


@dataclass
class Refusals:
    """Operators and special cases without a rule, collected over all graphs of a file."""

    operators: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    cases: list[str] = field(default_factory=list[str])
    bodies: int = 0

    def error(self) -> UnsupportedError | None:
        """Return one error that lists everything, or None."""
        parts: list[str] = []
        if self.operators:
            listed = "; ".join(
                f"{op} ({len(names)}: {', '.join(names)})"
                for op, names in sorted(self.operators.items())
            )
            parts.append(
                f"no rule for these .tflite operators (count: tensors they write): {listed}; "
                "leave them out of the exported model, or export with TFLite's builtin operators "
                "alone"
            )
        parts += self.cases
        return UnsupportedError("; ".join(parts)) if parts else None
