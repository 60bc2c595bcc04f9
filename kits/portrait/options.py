"""The options of the portrait and the hair kit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from palmkit.kits.options import RUNNING, VIDEOS, OneOf, Options, Whole, option
from palmkit.kits.quality import Networks, Quality, best_option, quality_option

if TYPE_CHECKING:
    from palmkit.kits.kit import ModelSource
    from palmkit.kits.portrait.compose import Background

MASK = "how the mask is made"
PORTRAIT_NETWORKS = Networks(fast="portrait", best="portrait_best")
HAIR_NETWORKS = Networks(fast="hair", best="hair_best")
Include: TypeAlias = Literal["person", "held"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SegmenterOptions(Options):
    """The options of both kits."""

    background: Background | None = option(
        None, "what Mask.composite takes; each result then has a `picture` on it"
    )
    refine: bool = option(
        True,
        "fit the mask to the picture's own edges; without, the network's mask is enlarged",
        group=MASK,
    )
    smoothing: bool = option(True, "hold masks of videos still where the picture is", group=VIDEOS)

    def __post_init__(self) -> None:
        """Read the background.

        Raises ValueError for an option that cannot be, ImageError for a background that cannot be
        read.
        """
        super().__post_init__()
        if self.background is not None:
            from palmkit.kits.portrait.compose import Backdrop

            object.__setattr__(self, "background", Backdrop.of(self.background))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PortraitOptions(SegmenterOptions):
    """The options of PortraitSegmenter."""

    quality: Quality = quality_option(
        "a larger network, which in pictures looks also at all of it and at mirror images, for"
        " better masks in about 16 times the time",
        "best in pictures of which the fast one is in doubt, else fast",
        MASK,
    )
    second_pass: bool = option(
        True,
        "after a glance at a picture infer the part where people are, and follow small people in"
        " videos, for better masks in a little more time",
        group=MASK,
        was="second_look",
    )
    include: Include = option(
        "person",
        "person, or held: also what people hold or carry, such as bags and umbrellas, for one more"
        " look",
        OneOf(*get_args(Include)),
        group=MASK,
    )
    finder_model: ModelSource | None = option(
        None,
        "another model for the glance, as `model`, such as person_finder@stable",
        group=RUNNING,
        metavar="FILE",
        was="finder",
    )
    best_model: ModelSource | None = best_option("portrait_best")
    face_model: ModelSource | None = option(
        None,
        "another face detector, which says which way up people are, as `model`, such as"
        " face_detector@stable",
        group=RUNNING,
        metavar="FILE",
    )
    held_model: ModelSource | None = option(
        None,
        "another model for what is held, as `model`, such as held_things@stable",
        group=RUNNING,
        metavar="FILE",
    )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class HairOptions(SegmenterOptions):
    """The options of HairSegmenter."""

    quality: Quality = quality_option(
        "a larger network, which in pictures looks four times at each head, also nearer and at"
        " mirror images, for better masks in about five times the time",
        "the larger network at heads in pictures of which the fast one is in doubt, four times"
        " where it is, too",
        MASK,
    )
    max_faces: int | None = option(
        None, "see only what is round so many faces, those of the best score (all)", Whole(1)
    )
    face_model: ModelSource | None = option(
        None,
        "another face detector, as `model`, such as face_detector@stable",
        group=RUNNING,
        metavar="FILE",
    )
    finder_model: ModelSource | None = option(
        None,
        "another model that says where people without a known face are, as `model`",
        group=RUNNING,
        metavar="FILE",
    )
    best_model: ModelSource | None = best_option("hair_best")
