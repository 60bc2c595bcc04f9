"""Things found in a picture, such as faces: rows of arrays, and one at a time."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import fields, replace
from operator import index as as_index
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import ImageError
from palmkit.kits.image import Image
from palmkit.kits.results.result import PictureResult, Shown, check_margin, cut

if TYPE_CHECKING:
    from palmkit.kits.camera_motion import Similarity
    from palmkit.kits.original import Original

AnyThing = TypeVar("AnyThing", bound="Thing")
AnyThings = TypeVar("AnyThings", bound="Things[Any]")
Rows: TypeAlias = "slice | NDArray[Any] | list[int] | list[bool]"

# The longest side of what a notebook shows of one thing, in pixels, and how much round its box.
SHOWN_SIDE, SHOWN_MARGIN = 320, 0.3


class HasOriginal:
    """What keeps where its picture can be read from again, if it was not a frame of a video."""

    original: Original | None

    @property
    def image(self) -> Image:
        """The upright picture, uint8[h, w, 3]: the array that was given, or read anew.

        Raises ImageError if there is none: of frames of videos nothing is kept, and of what was
        unpickled only a path.
        """
        if self.original is None:
            kind = type(self).__name__.lower()
            told = "keeps no picture, being of a video or unpickled; give it, as in draw(frame)"
            raise ImageError(f"{kind}: {told}")
        return self.original.read()

    def _on(self, image: Image | None) -> Image:
        return self.image if image is None else image


class Thing(HasOriginal, Shown):
    """One thing found in a picture."""

    box: NDArray[np.float32]
    score: float

    @abstractmethod
    def alone(self, width: int, height: int) -> Things[Any]:
        """Return the result of a picture of this size with nothing else in it."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the command line's JSON of it; pixels to 1/100, scores to 1/10000."""

    @abstractmethod
    def words(self) -> str:
        """Return a line for people."""

    @property
    @abstractmethod
    def angle(self) -> float:
        """How far it is turned clockwise from upright in the picture, in radians."""

    def __repr__(self) -> str:
        """Return one short line."""
        return f"<{type(self).__name__}: {self.words()}>"

    def draw(self, image: Image | None = None) -> Image:
        """Return the picture with this alone drawn on it, a new uint8[h, w, 3].

        image: the upright picture, uint8[h, w, 3] RGB; None: the one that is kept.
        Raises ImageError if none is kept.
        """
        on = self._on(image)
        return self.alone(on.shape[1], on.shape[0]).draw(on)

    def crop(
        self, margin: float = 0.0, *, upright: bool = False, image: Image | None = None
    ) -> Image:
        """Return a copy of its part of the picture: uint8[h, w, 3].

        margin: what is added on each side, in widths and heights of the box; where the picture
        ends, the crop ends.
        upright: instead, a square that is turned so that it stands upright: eyes level, or fingers
        up. Beyond the picture its border's pixels go on.
        image: the upright picture; None: the one that is kept.
        Raises ImageError if none is kept, or the box is outside; ValueError for a margin below
        -0.49.
        """
        on = self._on(image)
        if upright:
            return self._upright(on, margin)
        return cut(on, self.box, margin)

    def save(self, path: str | os.PathLike[str], margin: float = 0.0) -> None:
        """Write what `crop` returns, in the format that the suffix names."""
        from palmkit.kits.image import write_image

        write_image(path, self.crop(margin))

    _shown_side: ClassVar[int] = SHOWN_SIDE

    def _shown(self) -> Image:
        return cut(self.draw(), self.box, SHOWN_MARGIN)

    def _upright(self, image: Image, margin: float) -> Image:
        from palmkit.kits.crop import Crop, sample

        check_margin(margin)
        x, y, wide, tall = (float(value) for value in self.box)
        side = max(max(wide, tall) * (1 + 2 * margin), 1.0)
        crop = Crop(x + wide / 2, y + tall / 2, side, self.angle)
        return sample(image, crop, round(side))


class Things(HasOriginal, PictureResult, Generic[AnyThing]):
    """Things of one kind found in a picture, best score first; as a sequence, one at a time."""

    boxes: NDArray[np.float32]

    def __len__(self) -> int:
        """Return how many things there are."""
        return len(self.boxes)

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> AnyThing: ...
    @overload
    def __getitem__(self: AnyThings, index: Rows) -> AnyThings: ...
    def __getitem__(self, index: int | np.integer[Any] | Rows) -> Any:
        """Return a thing, or a result with some of them.

        index: a place, best score first, negative ones from the end; or for several a slice, an
        array or list of places, or a bool[n], such as `faces.scores > 0.8`.
        Raises IndexError if there is none at a place.
        """
        if isinstance(index, slice | list) or (isinstance(index, np.ndarray) and index.ndim):
            return self._rows(index)
        return self._at(as_index(cast(int, index)))

    def __iter__(self) -> Iterator[AnyThing]:
        """Yield the things, one at a time."""
        return (self._at(index) for index in range(len(self)))

    @abstractmethod
    def _at(self, index: int) -> AnyThing:
        """Return the thing at an index; raise IndexError if there is none."""

    def _rows(self: AnyThings, rows: Rows) -> AnyThings:
        taken = np.arange(len(self))[rows]
        changed: dict[str, Any] = {}
        for each in fields(cast(Any, self)):
            values: Any = getattr(self, each.name)
            if isinstance(values, np.ndarray):
                changed[each.name] = values[taken]
            elif isinstance(values, tuple):
                changed[each.name] = tuple(np.array(values, object)[taken])
        return _changed(self, **changed)

    def corners(self) -> NDArray[np.float32]:
        """Return the boxes as float32[n, 4] of left, top, right, bottom."""
        return np.concatenate([self.boxes[:, :2], self.boxes[:, :2] + self.boxes[:, 2:]], axis=1)

    def moved(self: AnyThings, motion: Similarity, image: Image) -> AnyThings:
        """Return the things moved along; those that are out of the frame then are gone."""
        from palmkit.kits.boxes import clipped

        places: dict[str, Any] = {}
        for each in fields(cast(Any, self)):
            values: Any = getattr(self, each.name)
            # Of each thing some points, in the picture or in space.
            if isinstance(values, np.ndarray) and values.ndim == 3:
                points = cast("NDArray[np.float32]", values)
                if points.shape[2] == 2:
                    places[each.name] = motion.points(points).astype(np.float32)
                else:
                    places[each.name] = motion.points_in_space(points)
        boxes = clipped(motion.boxes(self.corners()), self.width, self.height)
        boxes[:, 2:] -= boxes[:, :2]
        moved = _changed(self, boxes=boxes, left_out="frame", **places)
        return moved._rows(np.flatnonzero((boxes[:, 2:] > 0).all(axis=1)))

    def crop(
        self, margin: float = 0.0, *, upright: bool = False, image: Image | None = None
    ) -> list[Image]:
        """Return each thing's part of the picture; the arguments are those of one thing's crop."""
        on = self._on(image)
        return [each.crop(margin, upright=upright, image=on) for each in self]

    def keeping(self: AnyThings, original: Original) -> AnyThings:
        """Return this result with where its picture can be read from again."""
        return _changed(self, original=original)


def _changed(things: AnyThings, **fields: Any) -> AnyThings:
    """Return a result, which is a dataclass, with other values of some fields."""
    made: AnyThings = replace(cast(Any, things), **fields)
    return made


def numbered(id: int | None) -> str:
    """Return what stands before the words of a thing with an id."""
    return "" if id is None else f"#{id} "
