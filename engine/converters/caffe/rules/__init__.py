"""The rules by layer type; every file of this folder registers its own."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from palmkit.engine.converters.caffe.network import Layer

Convert: TypeAlias = Callable[..., str | Sequence[str]]

MANY = 1 << 16


@dataclass(frozen=True)
class Rule:
    """How layers of one type are converted.

    convert: called with the draft and the values of the bottoms; returns the values of the tops.
    bottoms: the minimum and maximum number of bottoms.
    blobs: the minimum number of learned blobs, which may depend on the layer's parameters.
    """

    convert: Convert
    bottoms: tuple[int, int]
    blobs: Callable[[Layer], int]


_rules: dict[str, Rule] = {}


def rule(
    *types: str,
    bottoms: int | tuple[int, int] = 1,
    blobs: int | Callable[[Layer], int] = 0,
) -> Callable[[Convert], Convert]:
    """Register the decorated function for these layer types."""

    def needed(layer: Layer) -> int:
        return blobs(layer) if callable(blobs) else blobs

    def register(function: Convert) -> Convert:
        count = bottoms if isinstance(bottoms, tuple) else (bottoms, bottoms)
        for type in types:
            if type in _rules:
                raise ValueError(f"two rules for Caffe layer {type!r}")
            _rules[type] = Rule(function, count, needed)
        return function

    return register


@cache
def registry() -> dict[str, Rule]:
    """Return every rule by the type of layer."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _rules
