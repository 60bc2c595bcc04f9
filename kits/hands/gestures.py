"""Own gestures, from a few pictures each: `kits.gestures.custom("wave", examples=[...])`.

Nothing is trained: a hand shows the gesture whose examples its landmarks lie nearest to, if they
lie near enough. Landmarks are compared after place, size, side (left hands are mirrored) and turn
in the picture have been taken out; where up was is compared apart.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import ImageError, ModelError
from palmkit.engine.reading import check_readable
from palmkit.engine.replacing import replacing
from palmkit.kits.boxes import Floats
from palmkit.kits.hands.crop import MIDDLE_BASE, WRIST, palm_size
from palmkit.kits.hands.skeleton import LANDMARKS, POSES
from palmkit.kits.image import Source
from palmkit.kits.results import GESTURES, Hand

if TYPE_CHECKING:
    from palmkit.kits.hands.kit import GestureRecognizer

Example: TypeAlias = "Source | Hand"

FORMAT, VERSION = "palmkit gestures", 1
MAX_NAME, MAX_GESTURES, MAX_EXAMPLES = 64, 256, 1000
MAX_FILE_BYTES = 100_000_000

# Measured on hands of hands/hagrid and hands/ardamavi (train), five examples a gesture.
DEPTH_WEIGHT, UP_WEIGHT = 0.7, 0.2
# Examples with a mean direction shorter than this were held in any direction: up does not count.
ONE_DIRECTION = 0.7
# How far examples of a gesture usually lie apart, and for how many of them this stands.
USUAL_SPREAD, USUAL_COUNT = 0.13, 2
REACH, GAP_SHARE = 1.7, 0.7
STEEPNESS = 4
_PALM = (0, 5, 9, 13, 17)


class GestureSet:
    """Own gestures, each with its examples."""

    def __init__(self) -> None:
        """Start empty."""
        self._hands: dict[str, Floats] = {}

    @property
    def hands(self) -> Mapping[str, Floats]:
        """The examples of each gesture: float32[n, 21, 3], upright right hands, in palm lengths."""
        return MappingProxyType(self._hands)

    @property
    def examples(self) -> int:
        """How many examples there are of all gestures."""
        return sum(map(len, self._hands.values()))

    def add(
        self,
        name: str,
        examples: Iterable[Example],
        *,
        recognizer: GestureRecognizer | None = None,
    ) -> None:
        """Add examples of a gesture, new or known; all of them or, on an error, none.

        examples: pictures, each of whose largest hand shows it, or hands that were found already.
        Five of different people, sides and distances do well; one is the least. If all are held
        in one direction, only hands held so, within about 45 degrees, will count.
        recognizer: finds the hands; one with mode "image", None: one with the usual options.
        Raises ValueError for a name that cannot be, ImageError that says which example shows no
        hand or is no picture.
        """
        _check_name(name)
        hands = [
            _example(each, number, recognizer) for number, each in enumerate(examples, start=1)
        ]
        if not hands:
            raise ValueError(f"examples of {name!r}: expected at least one")
        together = np.stack(hands)
        if name in self._hands:
            together = np.concatenate([self._hands[name], together])
        elif len(self._hands) >= MAX_GESTURES:
            raise ValueError(f"expected at most {MAX_GESTURES} gestures")
        if len(together) > MAX_EXAMPLES:
            raise ValueError(f"examples of {name!r}: expected at most {MAX_EXAMPLES}")
        self._hands[name] = together

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the set as JSON, whole or not at all; it holds landmarks, not pictures.

        Raises OSError if it cannot be written.
        """
        hands = {
            name: np.round(hands.astype(np.float64), 4).tolist()
            for name, hands in self._hands.items()
        }
        text = json.dumps({"format": FORMAT, "version": VERSION, "gestures": hands})
        with replacing(path) as part:
            part.write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> GestureSet:
        """Read a set that was saved.

        Raises ModelError if the file is not one, OSError if it cannot be read.
        """
        name = os.fspath(path)
        check_readable(path)
        if os.path.getsize(path) > MAX_FILE_BYTES:
            raise ModelError(f"not a gesture file, larger than {MAX_FILE_BYTES} bytes: {name}")
        try:
            found: Any = json.loads(Path(path).read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            raise ModelError(f"not a gesture file, expected JSON: {name}") from None
        fields = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        if fields.get("format") != FORMAT:
            raise ModelError(f"not a gesture file, expected format {FORMAT!r}: {name}")
        if (version := fields.get("version")) != VERSION:
            raise ModelError(f"gesture file: expected version {VERSION}, got {version!r}: {name}")
        gestures: Any = fields.get("gestures")
        if not isinstance(gestures, dict) or len(cast("dict[str, Any]", gestures)) > MAX_GESTURES:
            raise ModelError(f"gesture file: expected at most {MAX_GESTURES} gestures: {name}")
        result = cls()
        for gesture, hands in cast("dict[str, Any]", gestures).items():
            try:
                _check_name(gesture)
                result._hands[gesture] = _read_hands(hands)
            except ValueError as error:
                raise ModelError(f"gesture file, {gesture!r}: {error}: {name}") from None
        return result

    def classifier(self) -> GestureClassifier:
        """Return a classifier of these and the known gestures; later changes do not count.

        Raises ValueError if there are none.
        """
        if not self._hands:
            raise ValueError("gestures: expected at least one in the set, got none")
        return GestureClassifier(dict(self._hands))


def custom(
    name: str,
    examples: Iterable[Example],
    *,
    recognizer: GestureRecognizer | None = None,
) -> GestureSet:
    """Return a set of one new gesture, from a few pictures; see GestureSet.add."""
    gestures = GestureSet()
    gestures.add(name, examples, recognizer=recognizer)
    return gestures


class GestureClassifier:
    """Tells own gestures by their nearest examples.

    A gesture reaches as far as its examples lie apart, and not much more than half way to the
    gestures known, unless its own examples lie further apart: it goes before them.
    """

    def __init__(self, hands: Mapping[str, Floats]) -> None:
        """Make a classifier of examples.

        hands: by gesture float32[n, 21, 3], as GestureSet.hands.
        """
        self.names = tuple(hands)
        self._examples = [np.stack([embed(each, True) for each in rows]) for rows in hands.values()]
        self._weights = [_weights(rows) for rows in self._examples]
        self.reaches = [
            _reach(rows * weights, _negatives() * weights)
            for rows, weights in zip(self._examples, self._weights, strict=True)
        ]

    def scores(self, landmarks: NDArray[Any], right: bool) -> Floats:
        """Return how well a hand fits each gesture: float32[k], 0..1, above 0.5 within reach.

        landmarks: float[21, 3] of a right or left hand in a picture, in pixels.
        """
        here = embed(landmarks, right)
        scores = np.empty(len(self.names), np.float32)
        parts = zip(self._examples, self._weights, self.reaches, strict=True)
        for row, (examples, weights, reach) in enumerate(parts):
            distance = _nearest(np.linalg.norm((examples - here) * weights, axis=1))
            scores[row] = 1 / (1 + (distance / reach) ** STEEPNESS)
        return scores

    def extend(self, known: Floats, landmarks: NDArray[Any], right: bool) -> Floats:
        """Append the own gestures' probabilities to those of known ones: float32[m + k].

        known: float32[m]. Only the best own one counts, as far as it fits.
        """
        scores = self.scores(landmarks, right)
        best = int(scores.argmax())
        own = np.zeros_like(scores)
        own[best] = scores[best]
        return np.concatenate([known * (1 - scores[best]), own])


def embed(landmarks: NDArray[Any], right: bool) -> Floats:
    """Return a hand as float32[62]: its pose, and at the end the up direction.

    landmarks: float[21, 3] in the picture, y down; the unit does not matter.
    """
    hand = _upright(landmarks, right)
    along = hand[MIDDLE_BASE, :2] - hand[WRIST, :2]
    length = math.hypot(*along)
    x, y = (float(value) / max(length, 1e-9) for value in along)
    # What turns the direction of the fingers to up.
    turn = np.array([[-y, x], [-x, -y]])
    hand[:, :2] = hand[:, :2] @ turn.T
    hand -= hand[list(_PALM)].mean(axis=0)
    hand[:, 2] *= DEPTH_WEIGHT
    up = turn @ np.array([0.0, -1.0]) * UP_WEIGHT
    held = np.delete(hand, WRIST, axis=0).reshape(-1) / math.sqrt(LANDMARKS - 1)
    return np.concatenate([held, up]).astype(np.float32)


def _upright(landmarks: NDArray[Any], right: bool) -> NDArray[np.float64]:
    """Return a right hand with its wrist at 0, in palm lengths, rotated as in the picture."""
    hand = np.asarray(landmarks, np.float64) - np.asarray(landmarks, np.float64)[WRIST]
    if not right:
        hand[:, 0] *= -1
    return np.asarray(hand / max(palm_size(hand), 1e-9))


def _example(example: Example, number: int, recognizer: GestureRecognizer | None) -> Floats:
    if isinstance(example, Hand):
        hand = example
    else:
        from palmkit.kits.hands.kit import recognize_gestures

        find = recognize_gestures if recognizer is None else recognizer.recognize
        try:
            hands = find(example)
        except ImageError as error:
            raise ImageError(f"example {number}: {error}") from error
        if not len(hands):
            raise ImageError(f"example {number}: shows no hand{_named(example)}")
        hand = max(hands, key=lambda each: float(each.box[2:].prod()))
    return _upright(hand.landmarks, hand.handedness == "right").astype(np.float32)


def _named(example: object) -> str:
    return f": {os.fspath(example)}" if isinstance(example, str | os.PathLike) else ""


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ValueError(f"name of a gesture: expected printable letters, got {name!r}")
    if len(name) > MAX_NAME:
        raise ValueError(f"name of a gesture: expected at most {MAX_NAME} letters, got {len(name)}")
    if name in GESTURES:
        raise ValueError(f"name of a gesture: expected one not known already, got {name!r}")


def _read_hands(found: object) -> Floats:
    try:
        hands = np.array(found, np.float64)
    except (ValueError, TypeError, OverflowError):
        hands = np.zeros(0)
    if hands.ndim != 3 or hands.shape[1:] != (LANDMARKS, 3) or len(hands) > MAX_EXAMPLES:
        raise ValueError(f"expected lists of {LANDMARKS} points x, y, z")
    sizes = [palm_size(hands[row]) for row in range(len(hands))] if np.isfinite(hands).all() else []
    if not sizes or not all(0.5 < size < 2 for size in sizes) or np.abs(hands).max() > 10:
        raise ValueError("expected hands in palm lengths")
    return hands.astype(np.float32)


def _weights(examples: Floats) -> Floats:
    """Return the weights of an embedding: up counts only if the examples agree on it."""
    weights = np.ones(examples.shape[1], np.float32)
    if np.hypot(*examples[:, -2:].mean(axis=0)) < ONE_DIRECTION * UP_WEIGHT:
        weights[-2:] = 0
    return weights


def _reach(examples: Floats, negatives: Floats) -> float:
    spread, count = 0.0, len(examples)
    if count > 1:
        apart = np.linalg.norm(examples[:, None] - examples[None], axis=2)
        others = apart[~np.eye(count, dtype=bool)].reshape(count, count - 1)
        spread = float(np.mean([_nearest(row) for row in others]))
    known = count if count > 1 else 0
    spread = (USUAL_COUNT * USUAL_SPREAD + known * spread) / (USUAL_COUNT + known)
    gap = float(np.linalg.norm(examples[:, None] - negatives[None], axis=2).min())
    return min(REACH * spread, max(GAP_SHARE * gap, spread))


def _nearest(distances: NDArray[Any]) -> float:
    """Return the mean of the two smallest distances, as one example may be odd."""
    return float(np.sort(distances)[:2].mean())


@lru_cache(maxsize=1)
def _negatives() -> Floats:
    """Return hands in the known gestures, from several sides: float32[n, 62]."""
    rows: list[Floats] = []
    for pose in (pose for poses in POSES.values() for pose in poses):
        for yaw in (-50, 0, 50, 130, 180, 230):
            rows.append(embed(pose.landmarks(yaw), True))
    return np.stack(rows)
