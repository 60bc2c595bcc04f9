"""What stands for a TensorFlow tensor in the graph that is built: mostly the name of a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Missing:
    """What stands for a value that cannot be had; `why` is said where it is read."""

    why: str


@dataclass(frozen=True)
class EmptyList:
    """A tensor list before its first element: not even the rank of its elements is known."""

    length: str
    dtype: str


@dataclass(frozen=True)
class Complex:
    """Complex numbers, as two values: the real and the imaginary parts."""

    real: str
    imaginary: str


Value: TypeAlias = str | Missing | EmptyList | Complex
