"""The options of the gesture kit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palmkit.kits.detection import SIDE_MULTIPLE
from palmkit.kits.options import RUNNING, VIDEOS, Between, Options, Whole, option

if TYPE_CHECKING:
    from palmkit.kits.hands.gestures import GestureSet
    from palmkit.kits.kit import ModelSource

# Longest side of what the detector sees, of what it sees then where all hands may be far, and of
# what it sees of a picture where none is found so.
SIZE, CLOSER, FAR = 224, 448, 896


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class GestureOptions(Options):
    """The options of GestureRecognizer."""

    max_hands: int | None = option(None, "keep so many, those of the best score (all)", Whole(1))
    min_score: float | None = option(
        None,
        "least score of what the detector finds, 0 to 1; less finds more (the threshold of the"
        " model)",
        Between(0, 1),
    )
    min_presence: float | None = option(
        None,
        "how certain the landmarks must be that they are on a hand, 0 to 1 (the threshold of the"
        " model)",
        Between(0, 1),
    )
    size: int | None = option(
        None,
        "longest side of what the detector sees, in pixels, 32 to 4096; more finds smaller hands"
        f" and takes longer ({SIZE}, and then {CLOSER} in larger pictures without a hand, or with"
        f" small ones alone; in videos that every `detect_every` frames; {FAR} in pictures where"
        " that finds none)",
        Between(SIDE_MULTIPLE, 4096),
    )
    second_pass: bool = option(
        True,
        "infer each hand of a picture twice, which is better and takes longer",
        was="second_look",
    )
    detect_every: int = option(
        20,
        "search for new hands every so many frames, and whenever one is lost or there is none;"
        " between, each hand is only followed",
        Whole(1),
        group=VIDEOS,
    )
    smoothing: bool = option(
        True,
        "steady landmarks in videos, with a one-euro filter, and steady gestures",
        group=VIDEOS,
    )
    hold_ms: float = option(
        100,
        "with smoothing a gesture counts once it has been held so long",
        Between(0, 1e6),
        group=VIDEOS,
    )
    gestures: GestureSet | str | os.PathLike[str] | None = option(
        None,
        "own gestures besides those that the model knows: a set of palmkit.kits.gestures or the"
        " path of its file; later changes of the set do not count",
        metavar="FILE",
    )
    detector_model: ModelSource | None = option(
        None,
        "another hand detector, as `model`, such as hand_detector@stable",
        group=RUNNING,
        metavar="FILE",
        was="detector",
    )
