"""What results have in common, and what their texts and JSON are made with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image

Thing = TypeVar("Thing")


class Result(ABC):
    """What a kit makes of a picture, or of a page of items."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The JSON of the command line: nested dicts and lists of numbers and text."""

    @abstractmethod
    def words(self) -> list[str]:
        """Lines for people: a headline, the same for results alike, then a line a thing found."""


class PictureResult(Result):
    """What a kit makes of a picture."""

    # Name of the picture that the result is, such as a mask; "": it is none.
    picture_name: ClassVar[str] = ""

    @abstractmethod
    def drawn(self, image: Image) -> Image:
        """What was found on the picture that it was found in: uint8[h, w, 3]."""

    def as_picture(self) -> Image:
        """The picture called `picture_name`: uint8[h, w] or uint8[h, w, 3].

        Raises TypeError if the result is none.
        """
        raise TypeError(f"{type(self).__name__} is not a picture")


class Things(PictureResult, Generic[Thing]):
    """Things of one kind found in a picture, best score first; as a sequence, one at a time."""

    boxes: NDArray[np.float32]

    def __len__(self) -> int:
        """How many things there are."""
        return len(self.boxes)

    @abstractmethod
    def __getitem__(self, index: int) -> Thing:
        """The thing at `index`, best score first; negative indices count from the end."""

    def __iter__(self) -> Iterator[Thing]:
        """The things, one at a time."""
        return (self[index] for index in range(len(self)))


def counted(count: int, thing: str) -> str:
    """How many things there are, for people: "no faces", "1 face"."""
    return f"{count or 'no'} {thing}{'' if count == 1 else 's'}"


def place(box: NDArray[np.float32]) -> str:
    """Where a box lies, and its size, for people."""
    x, y, width, height = box
    return f"at {x:.0f},{y:.0f} size {width:.0f}x{height:.0f}"


def rounded(values: NDArray[Any] | None, digits: int) -> Any:
    """Nested lists; rounded in float64, so that 0.1 stays 0.1."""
    return None if values is None else np.round(values.astype(np.float64), digits).tolist()


def named(names: tuple[str, ...], values: Any) -> dict[str, Any] | None:
    """Values by their names; None if there are no values."""
    return None if values is None else dict(zip(names, values, strict=True))
