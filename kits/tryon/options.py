"""The options of the try-on kit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palmkit.kits.options import RUNNING, VIDEOS, Between, Options, Whole, option

if TYPE_CHECKING:
    from palmkit.kits.kit import ModelSource
    from palmkit.kits.tryon.look import Look

FACES = "faces"


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
    min_score: float | None = option(
        None,
        "least score of a face, 0 to 1 (the threshold of the model)",
        Between(0, 1),
        group=FACES,
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
