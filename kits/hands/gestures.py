"""One's own gestures, from a few pictures of each: no training, no framework.

    wave = kits.gestures.custom("wave", examples=["a.jpg", "b.jpg", "c.jpg"])
    hands = kits.recognize_gestures("d.jpg", gestures=[wave])

A hand is compared by the form of its landmarks, freed of place, size, side and turn; it shows the
gesture whose nearest example is near enough.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import ImageError, ModelError
from palmkit.engine.ir import Type
from palmkit.engine.replacing import replacing
from palmkit.kits.hands.crop import MIDDLE_BASE, WRIST
from palmkit.kits.image import Source
from palmkit.kits.kit import between
from palmkit.kits.results import Hand

if TYPE_CHECKING:
    from palmkit.kits.hands.kit import GestureRecognizer

Example: TypeAlias = "Source | Hand"

FORMAT = "palmkit gestures"
VERSION = 1
LANDMARKS = 21
# Distance of forms at which a hand is as likely to show a gesture as not, and how soon that
# changes: measured on training pictures, see README.md.
REACH = 0.3
SOFTNESS = 0.05
MAX_FILE_BYTES = 64 << 20
_JOINTS = np.array([[0, 1, 2, 3], [0, 5, 6, 7], [0, 9, 10, 11], [0, 13, 14, 15], [0, 17, 18, 19]])
_STARTS = _JOINTS.reshape(-1)
_ENDS = (_JOINTS + np.where(_JOINTS == 0, 4 * np.arange(5)[:, None] + 1, 1)).reshape(-1)


@dataclass(frozen=True, eq=False)
class Gesture:
    """A gesture of one's own.

    forms: float32[n, 20, 3], of each example the directions of the hand's bones.
    upright: whether it depends on how the hand is turned in the picture.
    reach: distance from an example up to which a hand shows it; the form of a hand is of length 1.
    """

    name: str
    forms: NDArray[np.float32]
    upright: bool = False
    reach: float = REACH

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be."""
        if not isinstance(self.name, str) or not 0 < len(self.name) <= 100:
            raise ValueError(f"name: expected 1 to 100 characters, got {self.name!r}")
        between("reach", self.reach, 0.01, 2)
        shape = self.forms.shape
        if len(shape) != 3 or shape[0] < 1 or shape[1:] != (len(_ENDS), 3):
            raise ValueError(f"forms: expected float32[n, 20, 3], got {Type.of(self.forms)}")
        if not np.isfinite(self.forms).all():
            raise ValueError("forms: expected finite numbers")

    def score(self, landmarks: NDArray[Any], right: bool) -> float:
        """How likely a hand shows it, 0..1: landmarks float32[21, 3], of a right hand or not."""
        difference = self.forms - form(landmarks, right, self.upright)
        distance = math.sqrt(float((difference**2).sum(axis=(1, 2)).min()))
        return 1 / (1 + math.exp(min((distance - self.reach) / SOFTNESS, 50)))


def custom(
    name: str,
    examples: Iterable[Example],
    *,
    upright: bool = False,
    reach: float = REACH,
    recognizer: GestureRecognizer | None = None,
) -> Gesture:
    """A new gesture from a few examples; five of several people do well.

    examples: pictures with a hand that shows it (the most certain one counts), as read_image takes
    them, or hands already found. Left and right ones may be mixed.
    upright: it depends on how the hand is turned in the picture, as thumb_up does.
    reach: more finds it more often, also where it is not.
    recognizer: an open one in image mode that finds the hands; None: the one of
    recognize_gestures.
    Raises ImageError for an example that is no picture or shows no hand, ValueError for a name or
    reach that cannot be, or if there is no example.
    """
    forms = [
        form(hand.landmarks, hand.handedness == "right", upright)
        for number, example in enumerate(examples, 1)
        for hand in [_hand(example, number, recognizer)]
    ]
    if not forms:
        raise ValueError("examples: expected at least one")
    return Gesture(name, np.array(forms, np.float32), upright, reach)


def save(path: str | os.PathLike[str], gestures: Iterable[Gesture]) -> None:
    """Write gestures to one JSON file, which appears whole or not at all."""
    rows = [
        {
            "name": each.name,
            "upright": each.upright,
            "reach": each.reach,
            "forms": np.round(each.forms.astype(np.float64), 5).tolist(),
        }
        for each in gestures
    ]
    text = json.dumps({"format": FORMAT, "version": VERSION, "gestures": rows})
    with replacing(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


def load(path: str | os.PathLike[str]) -> list[Gesture]:
    """Read gestures from a file that save wrote.

    Raises ModelError if it cannot be read or is none.
    """
    name = os.fspath(path)
    try:
        if Path(path).stat().st_size > MAX_FILE_BYTES:
            raise ModelError(f"more than {MAX_FILE_BYTES} bytes: {name}")
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["format"] != FORMAT or content["version"] != VERSION:
            raise ValueError
        return [
            Gesture(
                each["name"],
                np.array(each["forms"], np.float32),
                bool(each["upright"]),
                each["reach"],
            )
            for each in content["gestures"]
        ]
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ModelError(f"cannot be read, {reason}: {name}") from error
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        detail = f", {error}" if isinstance(error, ValueError) and str(error) else ""
        raise ModelError(f"not a file of gestures, version {VERSION}{detail}: {name}") from error


def named(
    gestures: Sequence[Gesture], landmarks: NDArray[Any], right: bool
) -> tuple[str, float] | None:
    """The most likely of one's own gestures and its score; None if the hand shows none."""
    scores = [(each.score(landmarks, right), each.name) for each in gestures]
    score, name = max(scores, default=(0.0, ""))
    return (name, score) if score >= 0.5 else None


def form(landmarks: NDArray[Any], right: bool, upright: bool) -> NDArray[np.float32]:
    """A hand freed of place, size and side, and unless `upright` of its turn in the picture.

    landmarks: float[21, 3]; left hands are mirrored.
    Returns float32[20, 3]: the directions of the bones, of length 1 all together.
    """
    points = np.array(landmarks, np.float64)
    if not right:
        points[:, 0] *= -1
    if not upright:
        x, y = points[MIDDLE_BASE, :2] - points[WRIST, :2]
        angle = math.atan2(x, -y)
        cos, sin = math.cos(angle), math.sin(angle)
        points[:, :2] = points[:, :2] @ np.array([[cos, -sin], [sin, cos]])
    bones = points[_ENDS] - points[_STARTS]
    lengths = np.sqrt((bones**2).sum(axis=1, keepdims=True))
    return np.asarray(bones / (lengths + 1e-6) / math.sqrt(len(bones)), np.float32)


def _hand(example: Example, number: int, recognizer: GestureRecognizer | None) -> Hand:
    if isinstance(example, Hand):
        return example
    from palmkit.kits.hands.kit import recognize_gestures

    find = recognize_gestures if recognizer is None else recognizer.recognize
    hands = find(example)
    if not len(hands):
        what = f": {os.fspath(example)!r}" if isinstance(example, str | os.PathLike) else ""
        raise ImageError(f"example {number}: shows no hand{what}")
    return hands[0]
