"""A property that is computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class cached(Generic[Value]):
    """A property whose value is computed once and then stored in the instance.

    Before Python 3.12, functools.cached_property holds one lock for all instances while it
    computes: threads wait for one another, and a child that is forked meanwhile waits for ever.
    Here two threads may compute the same value, and one of the results is kept.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        """Make a property of a function.

        compute: called with the instance; its docstring becomes the property's.
        """
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Store values under the name that the property has in its class."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: object | None, owner: type) -> cached[Value] | Value:
        """Compute, store and return the value; later reads find it in the instance."""
        if instance is None:
            return self
        value: Value = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value
