"""How invalid files are reported: one error of ours, whatever error reading it ran into."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from struct import error as StructError

import numpy as np

from palmkit.engine.errors import ModelError, PalmError, UnsupportedError

# What readers and rules raise on damaged bytes; numpy and foreign code raise RuntimeError.
DAMAGE = (
    StructError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)


@contextmanager
def damage_as_model_error(kind: str, what: str) -> Generator[None]:
    """Turn DAMAGE into ModelError, and every PalmError but UnsupportedError as well.

    kind: the format. what: the file, which all errors then name.
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except (ModelError, UnsupportedError) as error:
        if what in str(error):
            raise
        raise type(error)(f"{what}: {error}") from error
    except PalmError as error:
        raise ModelError(f"{what}: the model contradicts itself: {error}") from error
    except DAMAGE as error:
        raise ModelError(f"damaged {kind} model: {what}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """Return what went wrong, for a message."""
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return f"{type(error).__name__}: {error}"
