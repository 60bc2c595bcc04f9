"""What the try-on kit returns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from palmkit.kits.image import Image
from palmkit.kits.kit import between
from palmkit.kits.results import Faces
from palmkit.kits.tryon.look import Look


@dataclass(frozen=True, eq=False)
class TriedOn:
    """A picture with a look on every face.

    width, height: of the upright picture, in pixels.
    picture: uint8[h, w, 3], RGB: the look worn. image: the picture before; both may be one array
    if there was nothing to do.
    faces: with their meshes. look: what they wear.
    stages_ms: what each stage took that was needed, in milliseconds: mesh, hair, hands and things
    (where those are in front of faces), and draw, the rest.
    """

    width: int
    height: int
    picture: Image = field(repr=False)
    image: Image = field(repr=False)
    faces: Faces
    look: Look
    stages_ms: Mapping[str, float] = field(default_factory=dict[str, float], repr=False)

    def before_after(self) -> Image:
        """Both side by side: uint8[h, 2 w, 3]."""
        return np.concatenate([self.image, self.picture], axis=1)

    def split(self, position: float = 0.5) -> Image:
        """One picture, before on the left, after on the right of a line: uint8[h, w, 3].

        position: 0..1 of the width, of the line.
        Raises ValueError for a position outside.
        """
        between("position", position, 0, 1)
        at = round(position * self.width)
        both = self.picture.copy()
        both[:, :at] = self.image[:, :at]
        line = max(1, self.width // 400)
        both[:, max(at - line // 2, 0) : at + (line + 1) // 2] = 255
        return both

    def to_dict(self, picture: Path | None = None) -> dict[str, Any]:
        """The JSON of the command line; picture: the file it was written to."""
        faces = self.faces.to_dict()["faces"]
        return {
            "width": self.width,
            "height": self.height,
            "faces": [{"box": each["box"], "id": each["id"]} for each in faces],
            "look": self.look.to_dict(),
            "picture": None if picture is None else os.fspath(picture),
        }
