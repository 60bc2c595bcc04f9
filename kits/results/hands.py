"""The hands of a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NewType, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image
from palmkit.kits.results.result import counted, place, rounded
from palmkit.kits.results.things import Thing, Things, numbered

if TYPE_CHECKING:
    from palmkit.kits.original import Original
    from palmkit.kits.results.detections import Detections, KeyPoints

Handedness: TypeAlias = Literal["left", "right"]
Gesture: TypeAlias = Literal[
    "fist",
    "open_palm",
    "one",
    "two",
    "three",
    "four",
    "ok",
    "thumb_up",
    "thumb_down",
    "finger_heart",
    "other",
]
# The name of a gesture of the user's own: any text.
OwnGesture = NewType("OwnGesture", str)
# In the order of the model's output.
GESTURES: tuple[Gesture, ...] = get_args(Gesture)


@dataclass(frozen=True, eq=False, repr=False)
class Hand(Thing):
    """One hand; see Hands for the meaning of each field.

    box: float32[4]; landmarks: float32[21, 3]; handedness: "left" or "right".
    """

    box: NDArray[np.float32]
    score: float
    landmarks: NDArray[np.float32]
    handedness: Handedness
    gesture: Gesture | OwnGesture
    gesture_score: float
    id: int | None = None
    original: Original | None = None

    @property
    def angle(self) -> float:
        """How far the hand is turned clockwise from pointing up in the picture, in radians."""
        from palmkit.kits.hands.crop import crop_from_landmarks

        return crop_from_landmarks(self.landmarks).angle

    def to_dict(self) -> dict[str, Any]:
        """Return the command line's JSON of a hand; pixels to 1/100, scores to 1/10000."""
        found: dict[str, Any] = {"box": rounded(self.box, 2), "score": round(self.score, 4)}
        if self.id is not None:
            found["id"] = self.id
        return {
            **found,
            "handedness": self.handedness,
            "landmarks": rounded(self.landmarks, 2),
            "gesture": self.gesture,
            "gesture_score": round(self.gesture_score, 4),
        }

    def words(self) -> str:
        """Return a line for people."""
        shows = f"{self.handedness} {self.gesture} {self.gesture_score:.2f}"
        return f"{numbered(self.id)}{shows} {place(self.box)}"

    def alone(self, width: int, height: int) -> Hands:
        """Return the result of a picture of this size with no other hand in it."""
        return Hands(
            width,
            height,
            self.box[None],
            np.array([self.score], np.float32),
            self.landmarks[None],
            (self.handedness,),
            (self.gesture,),
            np.array([self.gesture_score], np.float32),
            None if self.id is None else np.array([self.id]),
            self.original,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Hands(Things[Hand]):
    """The hands of one picture, best score first; a sequence of Hand.

    width, height: of the upright picture, in pixels.
    boxes: float32[n, 4] of x, y, w, h round the landmarks, inside the picture.
    scores: float32[n], how certain it is that a hand is there.
    landmarks: float32[n, 21, 3] of x, y, z in pixels: the wrist, then four joints of each finger
        from the palm to the tip, thumb first; z is 0 at the wrist, less nearer to the camera.
    handedness: of each "left" or "right".
    gestures: of each one of GESTURES, or the name of one's own gesture.
    gesture_scores: float32[n].
    ids: int64[n], the same number for the same hand while it is tracked; None in image mode.
    original: what draw and crop read the picture from; None of a frame of a video. It keeps alive
        what was given to the kit, a path, bytes, or an array, and no copy of it.
    left_out: what a budget had no time for, see Kit: "frame", "closer looks", or "" for nothing.
    """

    width: int
    height: int
    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    landmarks: NDArray[np.float32]
    handedness: tuple[Handedness, ...]
    gestures: tuple[Gesture | OwnGesture, ...]
    gesture_scores: NDArray[np.float32]
    ids: NDArray[np.int64] | None = None
    original: Original | None = None
    left_out: str = ""

    def _at(self, index: int) -> Hand:
        return Hand(
            self.boxes[index],
            float(self.scores[index]),
            self.landmarks[index],
            self.handedness[index],
            self.gestures[index],
            float(self.gesture_scores[index]),
            None if self.ids is None else int(self.ids[index]),
            self.original,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the command line."""
        hands = [hand.to_dict() for hand in self]
        return {"width": self.width, "height": self.height, "hands": hands, **self._said_left_out()}

    def words(self) -> list[str]:
        """Return how many hands there are, and a line for each."""
        return [counted(len(self), "hand"), *(hand.words() for hand in self)]

    def draw(self, image: Image | None = None, *, labels: bool = True) -> Image:
        """Return the picture with the hands drawn on it, a new uint8[h, w, 3].

        image: the upright picture, uint8[h, w, 3] RGB; None: the one that the result keeps.
        labels: also which hand it is, and what it shows.
        Raises ImageError if it keeps none, as of a video, or the picture is of another size.
        """
        from palmkit.kits import draw

        this: Any = self
        return draw.hands(self._on(image), this, labels=labels)

    def to_supervision(self) -> Detections:
        """Return the hands as supervision.Detections.

        confidence is the score, class_id the gesture's place in GESTURES (behind them for any of
        one's own), tracker_id the id in videos; data has "class_name", the gesture, "handedness",
        "landmarks" and "gesture_score".
        Raises ImportError without the package supervision.
        """
        from palmkit.kits.results import detections

        return detections.detections(
            self.boxes,
            self.scores,
            class_id=self._classes(),
            class_name=self.gestures,
            ids=self.ids,
            data={
                "handedness": np.array(self.handedness, np.str_),
                "landmarks": self.landmarks,
                "gesture_score": self.gesture_scores,
            },
        )

    def to_supervision_keypoints(self) -> KeyPoints:
        """Return the landmarks as supervision.KeyPoints; class_id is that of to_supervision.

        Raises ImportError without the package supervision.
        """
        from palmkit.kits.results import detections

        return detections.key_points(self.landmarks[..., :2], self.scores, self._classes())

    def _classes(self) -> NDArray[np.int64]:
        known: dict[str, int] = {name: place for place, name in enumerate(GESTURES)}
        return np.array([known.get(name, len(known)) for name in self.gestures], np.int64)
