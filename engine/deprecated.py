"""Names that have changed: the old ones work for one more release, with a DeprecationWarning."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

Owner = TypeVar("Owner")


def warn(old: str, new: str, level: int = 3) -> None:
    """Say that a name has changed.

    level: of the caller that uses the old name, as in warnings.warn.
    """
    warnings.warn(f"{old} is deprecated: {new}", DeprecationWarning, stacklevel=level)


def names(module: str, moved: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module some of whose names have changed.

    module: its name. moved: from an old name to the new one, "package.module:name".
    """

    def found(name: str) -> Any:
        if name not in moved:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, new = moved[name].partition(":")
        warn(f"{module}.{name}", f"it is {home}.{new} now")
        return getattr(import_module(home), new)

    return found


def module(old: str, new: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module all of whose names are in another one now."""

    def found(name: str) -> Any:
        home = import_module(new)
        if name.startswith("__") or not hasattr(home, name):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        warn(f"{old}.{name}", f"it is {new}.{name} now")
        return getattr(home, name)

    return found


def keywords(
    given: Mapping[str, Any], changed: Mapping[str, str], where: str, level: int = 3
) -> dict[str, Any]:
    """The keyword arguments of a call by their new names.

    changed: from old names to new ones. where: what was called. level: as in `warn`.
    Raises TypeError if an argument is given by both of its names.
    """
    found = dict(given)
    for old in changed.keys() & given.keys():
        new = changed[old]
        if new in given:
            raise TypeError(f"{where}: expected {new}, got {new} and {old}")
        warn(f"{where}: {old}", f"it is {new} now", level + 1)
        found[new] = found.pop(old)
    return found


def attribute(new: str) -> Any:
    """An attribute of a class whose name has changed, as a property; it cannot be assigned."""
    return _Attribute(new)


class _Attribute:
    """A descriptor that reads another attribute."""

    def __init__(self, new: str) -> None:
        self._new = new
        self._old = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._old = f"{owner.__name__}.{name}"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        warn(self._old, f"it is {self._new} now")
        return getattr(instance, self._new)


def path_argument(
    old: str, key: str
) -> Callable[[Callable[[Owner], dict[str, Any]]], Callable[[Owner], dict[str, Any]]]:
    """A method without arguments that took the path of a file, and told of it in what it returns.

    old: the argument's name. key: where the path stands in what is returned.
    """

    def decorated(method: Callable[[Owner], dict[str, Any]]) -> Callable[[Owner], dict[str, Any]]:
        @wraps(method)
        def called(self: Owner, *places: Any, **named: Any) -> dict[str, Any]:
            found = method(self)
            if places or named:
                paths = [*places, *named.values()]
                if len(paths) != 1 or named.keys() - {old}:
                    raise TypeError(f"{method.__qualname__}: expected no arguments")
                warn(f"{method.__qualname__}: {old}", f"set [{key!r}] of what it returns")
                found[key] = None if paths[0] is None else os.fspath(paths[0])
            return found

        return called

    return decorated
