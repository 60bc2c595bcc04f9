"""What a result keeps of its picture: where the pixels can be read from again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from palmkit.engine.errors import ImageError
from palmkit.kits.image import bytes_of, read_image

if TYPE_CHECKING:
    from palmkit.kits.image import Flip, Format, Image, Rotation, Source


class Original:
    """A picture as it was given to a kit, without the pixels that were decoded from it.

    It keeps a path, the bytes of a file, or the very array or PIL.Image that was given; pixels are
    read from these when they are asked for. Of these only a path is pickled.
    """

    def __init__(
        self,
        source: Source,
        format: Format | None = None,
        rotation: Rotation = 0,
        flip: Flip | None = None,
        stamp: tuple[int, int] | None = None,
    ) -> None:
        """Keep a picture.

        source: what was given; of an open file its bytes, of a path the absolute one.
        format, rotation, flip: those of read_image.
        stamp: of a path, the time and the size by which another file there is noticed.
        """
        self.source = source
        self.format: Format | None = format
        self.rotation: Rotation = rotation
        self.flip: Flip | None = flip
        self.stamp = stamp

    @classmethod
    def of(
        cls,
        source: Source,
        format: Format | None = None,
        rotation: Rotation = 0,
        flip: Flip | None = None,
    ) -> Original:
        """Return what to keep of a picture that is about to be read; an open file is read here.

        Raises ImageError if an open file cannot be read.
        """
        if isinstance(source, str | os.PathLike):
            path = os.path.abspath(os.fsdecode(source))
            return cls(path, format, rotation, flip, _stamp(path))
        if hasattr(source, "read") and not isinstance(source, bytes | np.ndarray):
            return cls(bytes_of(source), format, rotation, flip)
        return cls(source, format, rotation, flip)

    def read(self) -> Image:
        """Return the upright picture, uint8[h, w, 3]; it may be the array that was given.

        Raises ImageError if it cannot be read any more, or if the file has changed.
        """
        if isinstance(self.source, np.ndarray):
            return self._read()
        global _latest
        found = _latest.get(self)
        if found is None:
            found = self._read()
            _latest = WeakKeyDictionary({self: found})
        return found

    def _read(self) -> Image:
        if isinstance(self.source, str) and self.stamp != _stamp(self.source):
            raise ImageError(f"the picture has changed, or is gone, since it was read: {self.name}")
        return read_image(self.source, format=self.format, rotation=self.rotation, flip=self.flip)

    @property
    def name(self) -> str:
        """The path, or the kind of what was given."""
        source = self.source
        return str(source) if isinstance(source, str) else type(source).__name__

    def __repr__(self) -> str:
        """Return a line without pixels."""
        return f"<Original: {self.name}>"

    def __copy__(self) -> Original:
        """Return itself: nothing changes it."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Original:
        """Return itself: nothing changes it."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a path; of anything else nothing is left, None."""
        if isinstance(self.source, str):
            fields = (self.source, self.format, self.rotation, self.flip, self.stamp)
            return type(self), fields
        return _nothing, ()


# The picture that was decoded last, while a result has it: who cuts out face by face reads it once.
_latest: WeakKeyDictionary[Original, Image] = WeakKeyDictionary()


def _nothing() -> None:
    """Return None."""


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size
