"""The options of the try-on kit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from palmkit.kits.options import (
    RUNNING,
    VIDEOS,
    Between,
    Check,
    Options,
    Whole,
    one_of,
    option,
    whole,
)
from palmkit.kits.quality import Quality, quality_option

if TYPE_CHECKING:
    from palmkit.kits.kit import ModelSource
    from palmkit.kits.tryon.look import Look

FACES = "faces"
WHICH = ("all", "largest", "middle")


class OneFace(Check):
    """The words of WHICH, or a face's number from the left, 0 and up."""

    metavar = "WHICH"

    @staticmethod
    def parse(text: str) -> str | int:
        """Parse a word or a number."""
        return int(text) if text.isdecimal() else text

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError for anything else."""
        if isinstance(value, str):
            one_of(name, value, WHICH)
        else:
            whole(name, value, 0)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class TryOnOptions(Options):
    """The options of TryOn; `model` is the face mesh."""

    look: Look | str | os.PathLike[str] | None = option(
        None,
        "what is worn, or what Look.load takes; it may be changed between frames, see the property;"
        ' "evening@stable": the newest that is delivered (see palmkit.delivery), taken between'
        " frames; until one is, the preset of that name",
    )
    max_faces: int | None = option(
        None, "only so many, those of the best score (all)", Whole(1), group=FACES
    )
    face: Literal["all", "largest", "middle"] | int = option(
        "all",
        "whose face and hair wear the look: all, the largest, the one nearest to the middle, or a"
        " number from the left, 0 the first; hair of the others stays",
        OneFace(),
        group=FACES,
    )
    min_score: float | None = option(
        None,
        "least score of a face, 0 to 1 (the threshold of the model)",
        Between(0, 1),
        group=FACES,
    )
    quality: Quality = quality_option(
        "faces and meshes are those of FaceMesh's best quality, hair is that of the larger network",
        "in pictures, if there is no budget_ms, as best; in videos fast",
        FACES,
    )
    smoothing: bool = option(True, "steady meshes and masks in videos", group=VIDEOS)
    behind_hair: bool = option(
        True,
        "strands in front of the face stay over the make-up; without, it is quicker",
        group=FACES,
        flag="over-hair",
    )
    behind_hands: bool = option(
        True,
        "so do hands, as far as their landmarks are found",
        group=FACES,
        flag="over-hands",
    )
    behind_things: bool = option(
        True,
        "so does what has another colour than the face's skin, as cups, masks and sunglasses",
        group=FACES,
        flag="over-things",
    )
    detector_model: ModelSource | None = option(
        None,
        "another face detector, as `model`, such as face_detector@stable",
        group=RUNNING,
        metavar="FILE",
        was="detector",
    )
    hair_model: ModelSource | None = option(
        None,
        "another hair model, as `model`, such as hair@stable",
        group=RUNNING,
        metavar="FILE",
    )
