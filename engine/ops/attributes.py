"""The attributes of ops: their kinds and defaults are in the numpy function's signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from palmkit.engine.ir import Attr, Graph

_KINDS = {int: "an integer", float: "a number", str: "text"}
# What is above it no kernel takes: of strides, dilations, padding and most kernels.
MOST = 1 << 20
# Attributes of which no value may be below 1, or above that.
_BOUNDS: dict[str, int | None] = {"strides": MOST, "dilations": MOST, "kernel_shape": None}
_MANY = {int: "integers", float: "numbers", str: "texts"}


@dataclass(frozen=True)
class Attribute:
    """One attribute of an op.

    kind: its type annotation. default: its value where a node leaves it out; None for no value.
    required: whether a node must have it.
    """

    kind: Any
    default: Attr | None = None
    required: bool = False

    def takes(self, value: Attr) -> bool:
        """Return whether the value is of the kind."""
        return _is_a(self.kind, value)

    def __str__(self) -> str:
        """Return the kind as messages write it."""
        origin, args = parts_of(self.kind)
        if origin is tuple:
            return _MANY[args[0]]
        if args:
            return " or ".join(str(Attribute(each)) for each in args if each is not type(None))
        return _KINDS.get(self.kind, "a graph")


def declared(meaning: Callable[..., object]) -> dict[str, Attribute]:
    """Return the attributes that a numpy function takes as keywords, by name."""
    hints = hints_of(meaning)
    parameters = inspect.signature(meaning).parameters.values()
    return {
        each.name: Attribute(hints[each.name], required=True)
        if each.default is each.empty
        else Attribute(hints[each.name], each.default)
        for each in parameters
        if each.kind is each.KEYWORD_ONLY
    }


def check_attrs(attrs: Mapping[str, Attr], known: Mapping[str, Attribute]) -> None:
    """Raise TypeError for an attribute that is unknown, of another kind or missing.

    Raises ValueError for strides, dilations and kernels that no sizes fit.
    """
    for name, value in attrs.items():
        if name not in known:
            raise TypeError(f"no attribute {name} among {', '.join(known) or 'none'}")
        if not known[name].takes(value):
            raise TypeError(f"attribute {name}: expected {known[name]}, got {value!r}")
        if name in _BOUNDS and isinstance(value, tuple):
            _check_bounds(name, [int(each) for each in value])
    for name, each in known.items():
        if each.required and name not in attrs:
            raise TypeError(f"attribute {name}: expected {each}, got none")


def _check_bounds(name: str, values: Sequence[int]) -> None:
    if min(values, default=1) < 1:
        raise ValueError(f"attribute {name}: expected at least 1, got {min(values)}")
    most = _BOUNDS[name]
    if most is not None and max(values, default=0) > most:
        raise ValueError(f"attribute {name}: expected at most {most}, got {max(values)}")


@cache
def hints_of(function: Callable[..., object]) -> dict[str, Any]:
    """Return the annotations of a function's parameters, resolved."""
    # Attr refers to the class Graph, which an op's own file need not import.
    return get_type_hints(function, localns={"Graph": Graph})


def _is_a(kind: Any, value: Attr) -> bool:
    origin, args = parts_of(kind)
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_a(args[0], each) for each in value)
    if args:
        return any(_is_a(each, value) for each in args)
    return isinstance(value, (int, float) if kind is float else kind)


@cache
def parts_of(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the origin of a generic annotation, and its arguments."""
    return get_origin(kind), get_args(kind)
