"""The hands of a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image
from palmkit.kits.results.result import Things, counted, place, rounded

GESTURES = (
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
)


@dataclass(frozen=True, eq=False)
class Hand:
    """One hand; see Hands for the meaning of each field.

    box: float32[4]; landmarks: float32[21, 3]; handedness: "left" or "right".
    """

    box: NDArray[np.float32]
    score: float
    landmarks: NDArray[np.float32]
    handedness: str
    gesture: str
    gesture_score: float
    id: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the command line's JSON of a hand; pixels to 1/100, scores to 1/10000."""
        return {
            "box": rounded(self.box, 2),
            "score": round(self.score, 4),
            "id": self.id,
            "handedness": self.handedness,
            "landmarks": rounded(self.landmarks, 2),
            "gesture": self.gesture,
            "gesture_score": round(self.gesture_score, 4),
        }

    def words(self) -> str:
        """Return a line for people."""
        shows = f"{self.handedness} {self.gesture} {self.gesture_score:.2f}"
        return f"{shows} {place(self.box)}"


@dataclass(frozen=True, eq=False)
class Hands(Things[Hand]):
    """The hands of one picture, best score first.

    width, height: of the upright picture, in pixels.
    boxes: float32[n, 4] of x, y, w, h round the landmarks, inside the picture.
    scores: float32[n], how certain it is that a hand is there.
    landmarks: float32[n, 21, 3] of x, y, z in pixels: the wrist, then four joints of each finger
        from the palm to the tip, thumb first; z is 0 at the wrist, less nearer to the camera.
    handedness: of each "left" or "right".
    gestures: of each one of GESTURES, or the name of one's own gesture.
    gesture_scores: float32[n].
    ids: int64[n], the same number for the same hand while it is tracked; None in image mode.
    """

    width: int
    height: int
    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    landmarks: NDArray[np.float32]
    handedness: tuple[str, ...]
    gestures: tuple[str, ...]
    gesture_scores: NDArray[np.float32]
    ids: NDArray[np.int64] | None = None

    def __getitem__(self, index: int) -> Hand:
        """Return the hand at `index`, best score first; negative indices count from the end."""
        return Hand(
            self.boxes[index],
            float(self.scores[index]),
            self.landmarks[index],
            self.handedness[index],
            self.gestures[index],
            float(self.gesture_scores[index]),
            None if self.ids is None else int(self.ids[index]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the command line."""
        hands = [hand.to_dict() for hand in self]
        return {"width": self.width, "height": self.height, "hands": hands}

    def words(self) -> list[str]:
        """Return how many hands there are, and a line for each."""
        return [counted(len(self), "hand"), *(hand.words() for hand in self)]

    def drawn(self, image: Image) -> Image:
        """Draw the hands on the picture."""
        from palmkit.kits import draw

        this: Any = self
        return draw.hands(image, this)
