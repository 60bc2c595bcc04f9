"""A picture with a look on every face."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from palmkit.engine import deprecated
from palmkit.kits.image import Image
from palmkit.kits.options import between, one_of
from palmkit.kits.results.faces import Faces
from palmkit.kits.results.result import PictureResult, counted

if TYPE_CHECKING:
    import os

    from palmkit.kits.results.detections import Detections
    from palmkit.kits.tryon.look import Look


# What may be written of it.
View: TypeAlias = Literal["after", "before_after", "split"]


@dataclass(frozen=True, eq=False, repr=False)
class TriedOn(PictureResult):
    """A picture with a look on every face.

    width, height: of the upright picture, in pixels.
    after: uint8[h, w, 3], RGB: the look worn. before: the picture without it; it may be the array
    that was given. Both may be one array if there was nothing to do; they live as long as this
    result, in videos, too.
    faces: with their meshes. look: what they wear.
    stages_ms: what each stage took that was needed, in milliseconds: mesh, hair, hands and things
    (where those are in front of faces), and draw, the rest.
    left_out: what a budget had no time for, see TryOn, separated by ", ": "faces", "hair", "hands",
    "closer looks"; "" for nothing.
    """

    picture_name: ClassVar[str] = "picture"

    width: int
    height: int
    after: Image
    before: Image
    faces: Faces
    look: Look
    stages_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    left_out: str = ""

    picture = deprecated.attribute("after")
    image = deprecated.attribute("before")

    def before_after(self) -> Image:
        """Return both side by side: uint8[h, 2 w, 3]."""
        return np.concatenate([self.before, self.after], axis=1)

    def split(self, position: float = 0.5) -> Image:
        """Return one picture, before on the left, after on the right of a line: uint8[h, w, 3].

        position: of the line, 0..1 of the width.
        Raises ValueError for a position outside.
        """
        between("position", position, 0, 1)
        at = round(position * self.width)
        both = self.after.copy()
        both[:, :at] = self.before[:, :at]
        line = max(1, self.width // 400)
        both[:, max(at - line // 2, 0) : at + (line + 1) // 2] = 255
        return both

    @deprecated.path_argument("picture", "picture")
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the command line, which adds the file that it is written to."""
        told = ("box", "id")
        faces: list[dict[str, Any]] = self.faces.to_dict()["faces"]
        return {
            "width": self.width,
            "height": self.height,
            "faces": [{name: each[name] for name in told if name in each} for each in faces],
            "look": self.look.to_dict(),
        }

    def words(self) -> list[str]:
        """Return how many faces wear it."""
        return [counted(len(self.faces), "face")]

    def draw(self, image: Image | None = None) -> Image:
        """Return a copy of `after`, uint8[h, w, 3]; another picture does not count."""
        return self.after.copy()

    def crop(self, margin: float = 0.0, *, upright: bool = False) -> list[Image]:
        """Return the part of the picture with the look that each face has, as Face.crop does."""
        return self.faces.crop(margin, upright=upright, image=self.after)

    def save(self, path: str | os.PathLike[str], view: View = "after") -> None:
        """Write it in the format that the suffix names, whole or not at all.

        view: "after", "before_after" side by side, or "split", as the methods of these names.
        Raises ImageError if it cannot be written, ValueError for another view.
        """
        from palmkit.kits.image import write_image

        one_of("view", view, get_args(View))
        made = {"before_after": self.before_after, "split": self.split}
        write_image(path, self.after if view == "after" else made[view]())

    def as_picture(self) -> Image:
        """Return the picture with the look: uint8[h, w, 3]."""
        return self.after

    def to_supervision(self) -> Detections:
        """Return the faces as supervision.Detections, see Faces.to_supervision.

        Raises ImportError without the package supervision.
        """
        return self.faces.to_supervision()

    def __repr__(self) -> str:
        """Return one short line: how many faces wear what."""
        worn = ", ".join(each.name.replace("_", " ") for each in self.look)
        return f"<TriedOn{self._of()}: {self.words()[0]} with {worn or 'nothing on'}>"

    def _shown(self) -> Image:
        return self.before_after()
