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
    """Warn that a name has changed.

    level: the frame of the caller that uses the old name, as `stacklevel` of warnings.warn.
    """
    warnings.warn(f"{old} is deprecated: {new}", DeprecationWarning, stacklevel=level)


def names(module: str, moved: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module some of whose names have changed.

    module: the module's name. moved: maps an old name to the new one, "package.module:name".
    """

    def found(name: str) -> Any:
        if name not in moved:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, new = moved[name].partition(":")
        warn(f"{module}.{name}", f"it is {home}.{new} now")
        return getattr(import_module(home), new)

    return found


def module(old: str, new: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module all of whose names have moved to another one."""

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
    """Return the keyword arguments of a call under their new names.

    changed: maps old names to new ones. where: the name of what was called. level: as in `warn`.
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
    """Return a read-only property that stands for an attribute whose name has changed."""
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
    """Decorate a method so that it still takes a path, with a warning, and returns it in its dict.

    old: the argument's name. key: the path's key in the dict that the method returns.
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
