"""What a TensorFlow tensor becomes during conversion: mostly the name of a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Missing:
    """A value that cannot be had; the error where it is read gives the reason `why`."""

    why: str


@dataclass(frozen=True)
class EmptyList:
    """A tensor list before its first element, when even the rank of its elements is unknown."""

    length: str
    dtype: str


@dataclass(frozen=True)
class Complex:
    """Complex numbers as two values: the real and the imaginary parts."""

    real: str
    imaginary: str


Value: TypeAlias = str | Missing | EmptyList | Complex
