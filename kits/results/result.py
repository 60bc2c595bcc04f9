"""Common base of results, and helpers for their texts and JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image

Thing = TypeVar("Thing")


class Result(ABC):
    """A kit's result for a picture, or for a page of items."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the command line: nested dicts and lists of numbers and text."""

    @abstractmethod
    def words(self) -> list[str]:
        """Return lines for people: a headline, equal for similar results, then a line a thing."""


class PictureResult(Result):
    """A kit's result for a picture."""

    # Name of the picture that the result is, such as a mask; "": it is none.
    picture_name: ClassVar[str] = ""

    @abstractmethod
    def drawn(self, image: Image) -> Image:
        """Draw the result on its picture: uint8[h, w, 3]."""

    def as_picture(self) -> Image:
        """Return the picture called `picture_name`: uint8[h, w] or uint8[h, w, 3].

        Raises TypeError if the result is no picture.
        """
        raise TypeError(f"{type(self).__name__} is not a picture")


class Things(PictureResult, Generic[Thing]):
    """Things of one kind found in a picture, best score first; as a sequence, one at a time."""

    boxes: NDArray[np.float32]

    def __len__(self) -> int:
        """Return how many things there are."""
        return len(self.boxes)

    @abstractmethod
    def __getitem__(self, index: int) -> Thing:
        """Return the thing at `index`, best score first; negative indices count from the end."""

    def __iter__(self) -> Iterator[Thing]:
        """Yield the things, one at a time."""
        return (self[index] for index in range(len(self)))


def counted(count: int, thing: str) -> str:
    """Return how many things there are, for people: "no faces", "1 face"."""
    return f"{count or 'no'} {thing}{'' if count == 1 else 's'}"


def place(box: NDArray[np.float32]) -> str:
    """Return a box's place and size, for people."""
    x, y, width, height = box
    return f"at {x:.0f},{y:.0f} size {width:.0f}x{height:.0f}"


def rounded(values: NDArray[Any] | None, digits: int) -> Any:
    """Return nested lists, rounded in float64, so that 0.1 stays 0.1."""
    return None if values is None else np.round(values.astype(np.float64), digits).tolist()


def named(names: tuple[str, ...], values: Any) -> dict[str, Any] | None:
    """Return values by their names; None if there are no values."""
    return None if values is None else dict(zip(names, values, strict=True))
