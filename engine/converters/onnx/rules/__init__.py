"""The rules by op name; every file of this folder registers its own."""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from palmkit.engine.converters.onnx.node import Foreign

Rule: TypeAlias = Callable[[Foreign], None]

_rules: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Register the decorated function for these ops; by default for the op of the same name."""

    def register(function: Rule) -> Rule:
        for op in ops or (function.__name__.strip("_"),):
            if op in _rules:
                raise ValueError(f"two rules for ONNX operator {op!r}")
            _rules[op] = function
        return function

    return register


@cache
def registry() -> dict[str, Rule]:
    """Return every rule by the name that `op_name` gives the operator."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _rules
