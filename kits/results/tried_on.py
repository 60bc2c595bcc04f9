"""A picture with a look on every face."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from palmkit.engine import deprecated
from palmkit.kits.image import Image
from palmkit.kits.options import between
from palmkit.kits.results.faces import Faces
from palmkit.kits.results.result import PictureResult

if TYPE_CHECKING:
    from palmkit.kits.tryon.look import Look


@dataclass(frozen=True, eq=False)
class TriedOn(PictureResult):
    """A picture with a look on every face.

    width, height: of the upright picture, in pixels.
    after: uint8[h, w, 3], RGB: the look worn. before: the picture without it; both may be one array
    if there was nothing to do.
    faces: with their meshes. look: what they wear.
    stages_ms: what each stage took that was needed, in milliseconds: mesh, hair, hands and things
    (where those are in front of faces), and draw, the rest.
    """

    picture_name: ClassVar[str] = "picture"

    width: int
    height: int
    after: Image = field(repr=False)
    before: Image = field(repr=False)
    faces: Faces
    look: Look
    stages_ms: Mapping[str, float] = field(default_factory=dict[str, float], repr=False)

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
        """Return the JSON of the command line; "picture" is None: the command adds the file."""
        faces = self.faces.to_dict()["faces"]
        return {
            "width": self.width,
            "height": self.height,
            "faces": [{"box": each["box"], "id": each["id"]} for each in faces],
            "look": self.look.to_dict(),
            "picture": None,
        }

    def words(self) -> list[str]:
        """Return how many faces wear it."""
        return [f"{len(self.faces) or 'no'} face{'s' if len(self.faces) > 1 else ''}"]

    def drawn(self, image: Image) -> Image:
        """Return the picture with the look."""
        return self.after

    def as_picture(self) -> Image:
        """Return the picture with the look: uint8[h, w, 3]."""
        return self.after
