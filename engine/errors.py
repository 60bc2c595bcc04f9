"""Every error that palmkit raises on purpose.

PalmError
  ModelError          the file is not a model, is damaged, or is of a newer format
  UnsupportedError    the converter or the backend has no rule for something in the model
  ShapeError          a tensor is not what the op or the model takes
  ImageError          the picture cannot be read, or is not a picture
  TableError          a table has a row or a column that is not what it should be
  QuantizationError   a model cannot be quantized with what was given
  CompressionError    a model cannot be made as small as asked with the loss allowed
  BackendError        the device is missing, or it failed
    DeviceLostError   the device is gone with all that was on it; the next run opens it again
  TryOnError          a file does not hold a look for try-on
  DeliveryError       a model could not be fetched, believed or kept; says why by a code
  RepositoryError     a repository of releases cannot do what it was asked to
"""

from __future__ import annotations

from typing import Any

_FORMER = {"LookError": "TryOnError"}
_MOST_LETTERS = 16_000


def __getattr__(name: str) -> Any:
    if name not in _FORMER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from palmkit.engine.forks import importing

    with importing:
        from palmkit.engine import deprecated
    deprecated.warn(f"{__name__}.{name}", f"it is {__name__}.{_FORMER[name]} now")
    return globals()[_FORMER[name]]


def why(error: BaseException) -> str:
    """Return what went wrong, in lower case: the system's words for it without their number."""
    return str(getattr(error, "strerror", None) or error).lower()


class PalmError(Exception):
    """Base of all errors below: catch it to catch them all.

    Its text is one line of at most 16000 letters, whatever names a file brings into it.
    """

    def __str__(self) -> str:
        """Return the message, shortened in the middle if it is too long."""
        text = " ".join(super().__str__().splitlines())
        if len(text) > _MOST_LETTERS:
            half = _MOST_LETTERS // 2 - len(" ... ")
            text = f"{text[:half]} ... {text[-half:]}"
        return text


class ModelError(PalmError):
    """The file is not a model, is damaged, or is of a newer format."""


class UnsupportedError(PalmError):
    """The converter or the backend has no rule; the text names the op, the node and what exists."""


class ShapeError(PalmError, ValueError):
    """A tensor's shape or dtype is not one that the op or the model takes."""


class ImageError(PalmError, ValueError):
    """A picture cannot be read, or an array is not a picture."""


class TableError(PalmError, ValueError):
    """A row or a column of a table is missing or not what it should be; the text names both."""


class QuantizationError(PalmError, ValueError):
    """A model cannot be quantized with these pictures or weights; the text says which and why."""


class CompressionError(PalmError, ValueError):
    """A model cannot be made as small as asked at the loss allowed; or the loss is unknown."""


class TryOnError(PalmError, ValueError):
    """A file does not hold a look for try-on; the text says where and why."""


class BackendError(PalmError):
    """The device is missing, or it failed."""


class DeviceLostError(BackendError):
    """A device is gone with all that was on it, also after a second try; see BackendError."""


class RepositoryError(PalmError):
    """A repository of releases cannot do what it was asked to."""


class DeliveryError(PalmError):
    """A model could not be fetched, believed or kept."""

    def __init__(self, code: str, message: str) -> None:
        """Make an error with a code and a message.

        code: one of palmkit.delivery.codes.CODES.
        """
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[DeliveryError], tuple[str, str]]:
        """Pickle the error by its code and message, so that it passes between processes."""
        return type(self), (self.code, str(self))
