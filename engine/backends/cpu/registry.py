"""The rules and kernels of backend cpu."""

from functools import cache

from palmkit.engine.steps.lowering import Rules
from palmkit.engine.steps.step import Kernels

# Importing `rules` fills it.
RULES = Rules()
rule = RULES.rule


@cache
def kernels() -> Kernels:
    """The native library's kernels. ImportError if the library is missing."""
    from palmkit.engine import _native

    return Kernels(_native.kernels())


@cache
def functions() -> tuple[str, ...]:
    """The native library's functions of one float; none if the library is missing."""
    try:
        from palmkit.engine import _native
    except ImportError:
        return ()
    return tuple(_native.functions())
