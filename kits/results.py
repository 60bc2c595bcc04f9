"""What the kits return: frozen dataclasses of arrays, one row a thing found.

All of them are here: who draws, writes or compares results needs no kit for it.

Pixels are those of the upright input picture, origin top left, y down; scores are 0..1; left and
right are the subject's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.engine import deprecated
from palmkit.engine.cached import cached
from palmkit.engine.forks import finished
from palmkit.kits.image import Image
from palmkit.kits.options import between

if TYPE_CHECKING:
    from palmkit.kits.portrait.compose import Backdrop, Background
    from palmkit.kits.tryon.look import Look

Thing = TypeVar("Thing")

KEYPOINTS = ("left_eye", "right_eye", "nose", "mouth_left", "mouth_right")
POSE = ("yaw", "pitch", "roll")
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
ACTIONS = ("eye_blink", "mouth_open", "head_yaw", "head_pitch", "brow_jump")
# A pixel whose mask is above it belongs to what the mask is of.
INSIDE = 0.5


class Result(ABC):
    """What a kit makes of a picture, or of a page of items."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The JSON of the command line: nested dicts and lists of numbers and text."""

    @abstractmethod
    def words(self) -> list[str]:
        """Lines for people: a headline, the same for results alike, then a line a thing found."""


class PictureResult(Result):
    """What a kit makes of a picture."""

    # Name of the picture that the result is, such as a mask; "": it is none.
    picture_name: ClassVar[str] = ""

    @abstractmethod
    def drawn(self, image: Image) -> Image:
        """What was found on the picture that it was found in: uint8[h, w, 3]."""

    def as_picture(self) -> Image:
        """The picture called `picture_name`: uint8[h, w] or uint8[h, w, 3].

        Raises TypeError if the result is none.
        """
        raise TypeError(f"{type(self).__name__} is not a picture")


class Things(PictureResult, Generic[Thing]):
    """Things of one kind found in a picture, best score first; as a sequence, one at a time."""

    boxes: NDArray[np.float32]

    def __len__(self) -> int:
        """How many things there are."""
        return len(self.boxes)

    @abstractmethod
    def __getitem__(self, index: int) -> Thing:
        """The thing at `index`, best score first; negative indices count from the end."""

    def __iter__(self) -> Iterator[Thing]:
        """The things, one at a time."""
        return (self[index] for index in range(len(self)))


@dataclass(frozen=True, eq=False)
class Face:
    """One face; see Faces for the meaning of each field.

    box: float32[4]; keypoints: float32[5, 2]; mesh: float32[478, 3]; visibility: float32[478];
    pose: float32[3]; actions: bool[5].
    """

    box: NDArray[np.float32]
    score: float
    keypoints: NDArray[np.float32]
    id: int | None = None
    mesh: NDArray[np.float32] | None = None
    visibility: NDArray[np.float32] | None = None
    pose: NDArray[np.float32] | None = None
    actions: NDArray[np.bool_] | None = None

    @property
    def points_106(self) -> NDArray[np.float32] | None:
        """float32[106, 3]: the mesh as the 106 points that users of MNNKit know; or None.

        See palmkit.kits.face.topology.points_106 for their order.
        """
        return _points_106(self.mesh)

    def to_dict(self) -> dict[str, Any]:
        """The face as in the JSON of the command line; pixels to 1/100, scores to 1/10000."""
        return {
            "box": _rounded(self.box, 2),
            "score": round(self.score, 4),
            "id": self.id,
            "keypoints": dict(zip(KEYPOINTS, _rounded(self.keypoints, 2), strict=True)),
            "mesh": _rounded(self.mesh, 2),
            "visibility": _rounded(self.visibility, 4),
            "pose": _named(POSE, _rounded(self.pose, 2)),
            "actions": _named(ACTIONS, None if self.actions is None else self.actions.tolist()),
        }

    def words(self) -> str:
        """A line for people."""
        words = f"{self.score:.2f} {_at(self.box)}"
        if self.pose is not None:
            yaw, pitch, roll = self.pose
            words += f" yaw {yaw:.0f} pitch {pitch:.0f} roll {roll:.0f}"
        if self.actions is not None:
            done = zip(ACTIONS, self.actions, strict=True)
            words += "".join(f" {name}" for name, is_done in done if is_done)
        return words


@dataclass(frozen=True, eq=False)
class Faces(Things[Face]):
    """The faces of one picture, best score first.

    width, height: of the upright picture, in pixels.
    boxes: float32[n, 4] of x, y, w, h (left, top, width, height), inside the picture.
    scores: float32[n].
    keypoints: float32[n, 5, 2] of x, y: left_eye, right_eye, nose, mouth_left, mouth_right.
    ids: int64[n], the same number for the same face while it is tracked; None in image mode.
    mesh: float32[n, 478, 3] of x, y, z in pixels, z smaller nearer to the camera; None if not asked
    for.
    visibility: float32[n, 478], 0 hidden to 1 seen, or None.
    pose: float32[n, 3] of yaw, pitch, roll in degrees, or None.
    actions: bool[n, 5]: eye_blink, mouth_open, head_yaw, head_pitch, brow_jump; or None.
    """

    width: int
    height: int
    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    keypoints: NDArray[np.float32]
    ids: NDArray[np.int64] | None = None
    mesh: NDArray[np.float32] | None = None
    visibility: NDArray[np.float32] | None = None
    pose: NDArray[np.float32] | None = None
    actions: NDArray[np.bool_] | None = None

    @property
    def points_106(self) -> NDArray[np.float32] | None:
        """float32[n, 106, 3]: the meshes as the 106 points that users of MNNKit know; or None."""
        return _points_106(self.mesh)

    def __getitem__(self, index: int) -> Face:
        """The face at `index`, best score first; negative indices count from the end."""
        return Face(
            self.boxes[index],
            float(self.scores[index]),
            self.keypoints[index],
            None if self.ids is None else int(self.ids[index]),
            None if self.mesh is None else self.mesh[index],
            None if self.visibility is None else self.visibility[index],
            None if self.pose is None else self.pose[index],
            None if self.actions is None else self.actions[index],
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the command line."""
        faces = [face.to_dict() for face in self]
        return {"width": self.width, "height": self.height, "faces": faces}

    def words(self) -> list[str]:
        """How many faces there are, and a line for each."""
        return [_counted(len(self), "face"), *(face.words() for face in self)]

    def drawn(self, image: Image) -> Image:
        """The faces, with their meshes where these were asked for, on the picture."""
        from palmkit.kits import draw

        # Checkers know this file by two names, and so its classes as two; below, too.
        this: Any = self
        return draw.faces(image, this) if self.mesh is None else draw.mesh(image, this)


def _points_106(mesh: NDArray[np.float32] | None) -> NDArray[np.float32] | None:
    from palmkit.kits.face.topology import points_106

    return None if mesh is None else points_106(mesh)


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
        """The hand as in the JSON of the command line; pixels to 1/100, scores to 1/10000."""
        return {
            "box": _rounded(self.box, 2),
            "score": round(self.score, 4),
            "id": self.id,
            "handedness": self.handedness,
            "landmarks": _rounded(self.landmarks, 2),
            "gesture": self.gesture,
            "gesture_score": round(self.gesture_score, 4),
        }

    def words(self) -> str:
        """A line for people."""
        shows = f"{self.handedness} {self.gesture} {self.gesture_score:.2f}"
        return f"{shows} {_at(self.box)}"


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
        """The hand at `index`, best score first; negative indices count from the end."""
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
        """The JSON of the command line."""
        hands = [hand.to_dict() for hand in self]
        return {"width": self.width, "height": self.height, "hands": hands}

    def words(self) -> list[str]:
        """How many hands there are, and a line for each."""
        return [_counted(len(self), "hand"), *(hand.words() for hand in self)]

    def drawn(self, image: Image) -> Image:
        """The hands on the picture."""
        from palmkit.kits import draw

        this: Any = self
        return draw.hands(image, this)


@dataclass(frozen=True, eq=False)
class Mask(PictureResult):
    """Where a person, or hair, is in a picture.

    width, height: of the upright picture, in pixels.
    mask: float32[h, w], 0..1: how likely each pixel belongs to it.
    image: the upright picture itself, uint8[h, w, 3]; it may be the array that was given.
    backdrop: the background that was asked for, or None.
    """

    picture_name: ClassVar[str] = "mask"

    width: int
    height: int
    mask: NDArray[np.float32]
    image: Image = field(repr=False)
    backdrop: Backdrop | None = field(default=None, repr=False)

    @cached
    def alpha(self) -> NDArray[np.float32]:
        """float32[h, w], 0..1: how much of each pixel it covers; worked out when first asked for.

        Unlike `mask` it is 0 and 1 wherever that is certain, and follows single strands of hair.
        """
        from palmkit.kits.portrait.refine import opacity

        return opacity(self.image, self.mask)

    @cached
    def coverage(self) -> float:
        """The fraction of the picture's pixels whose mask is above 1/2."""
        return float((self.mask > INSIDE).mean())

    @cached
    def picture(self) -> Image | None:
        """uint8[h, w, 3], it in front of the background asked for; None if none was.

        Like alpha it is worked out when first asked for.
        """
        return None if self.backdrop is None else self.composite(self.backdrop)

    @finished
    def composite(self, background: Background) -> Image:
        """What it covers in front of another background: uint8[h, w, 3].

        background: "blur", or a number: the blur's standard deviation in pixels; "#rrggbb" or a
        tuple of red, green, blue in 0..255; or a picture as read_image takes it, which is scaled
        to cover and cut at its middle.
        At its edge the colours are freed of the old background's.
        Raises ImageError if a picture cannot be read, ValueError for anything else.
        """
        from palmkit.kits.portrait.compose import Backdrop, composite

        return composite(self.image, self.alpha, Backdrop.of(background))

    @finished
    def cutout(self) -> Image:
        """What it covers alone: uint8[h, w, 4], red, green, blue and opacity."""
        from palmkit.kits.portrait.compose import cutout

        return cutout(self.image, self.alpha)

    @finished
    def gray(self) -> Image:
        """The mask as a picture: uint8[h, w], 255 where it is 1."""
        import cv2

        return cast(Image, cv2.convertScaleAbs(self.mask, alpha=255))

    @deprecated.path_argument("mask_path", "mask")
    def to_dict(self) -> dict[str, Any]:
        """The JSON of the command line; "mask" is None: whoever writes it knows where."""
        return {
            "width": self.width,
            "height": self.height,
            "mask": None,
            "coverage": round(self.coverage, 4),
        }

    def words(self) -> list[str]:
        """How much of the picture it covers."""
        return [f"{100 * self.coverage:.0f} % of the pixels"]

    def drawn(self, image: Image) -> Image:
        """The picture with the mask tinted."""
        from palmkit.kits import draw

        this: Any = self
        return draw.mask(image, this)

    def as_picture(self) -> Image:
        """The mask, as `gray` gives it."""
        return self.gray()


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
        """Both side by side: uint8[h, 2 w, 3]."""
        return np.concatenate([self.before, self.after], axis=1)

    def split(self, position: float = 0.5) -> Image:
        """One picture, before on the left, after on the right of a line: uint8[h, w, 3].

        position: 0..1 of the width, of the line.
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
        """The JSON of the command line; "picture" is None: whoever writes it knows where."""
        faces = self.faces.to_dict()["faces"]
        return {
            "width": self.width,
            "height": self.height,
            "faces": [{"box": each["box"], "id": each["id"]} for each in faces],
            "look": self.look.to_dict(),
            "picture": None,
        }

    def words(self) -> list[str]:
        """How many faces wear it."""
        return [f"{len(self.faces) or 'no'} face{'s' if len(self.faces) > 1 else ''}"]

    def drawn(self, image: Image) -> Image:
        """The look worn."""
        return self.after

    def as_picture(self) -> Image:
        """The look worn: uint8[h, w, 3]."""
        return self.after


@dataclass(frozen=True, eq=False)
class Ranking(Result):
    """A page in its new order, best first.

    ids: of the items, as text. rows: int64[n], where each stood in the items given.
    scores: float32[n], of the network with boosts and freshness; differences within a page are
    log-odds, 0.7 is twice as likely.
    model: its name and version. cold: without a history, so in the server's order.
    propensities: float64[n], with exploration: how likely each item was at its place, those above
    it given; to be logged with the page.
    why: if asked for: of each item what its score owes to each group of features, strongest first.
    """

    ids: list[str]
    rows: NDArray[np.int64]
    scores: NDArray[np.float32]
    model: str
    cold: bool = False
    propensities: NDArray[np.float64] | None = None
    why: list[dict[str, float]] | None = None

    def __len__(self) -> int:
        """How many items."""
        return len(self.ids)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the command line; scores and reasons to 1/10000."""
        found: dict[str, Any] = {
            "order": self.ids,
            "scores": _rounded(self.scores, 4),
            "model": self.model,
            "cold": self.cold,
        }
        if self.propensities is not None:
            found["propensities"] = self.propensities.tolist()
        if self.why is not None:
            found["why"] = [{n: round(v, 4) for n, v in each.items()} for each in self.why]
        return found

    def words(self) -> list[str]:
        """The ids in order, and, if asked for, what each item's score owes to what."""
        cold = " (the server's order: nothing is known of the user)" if self.cold else ""
        lines = [f"{' '.join(self.ids)}{cold}"]
        for name, reasons in zip(self.ids, self.why or (), strict=False):
            told = ", ".join(f"{group} {value:+.2f}" for group, value in list(reasons.items())[:4])
            lines.append(f"{name}: {told}")
        return lines


def _counted(count: int, thing: str) -> str:
    return f"{count or 'no'} {thing}{'' if count == 1 else 's'}"


def _at(box: NDArray[np.float32]) -> str:
    x, y, width, height = box
    return f"at {x:.0f},{y:.0f} size {width:.0f}x{height:.0f}"


def _rounded(values: NDArray[Any] | None, digits: int) -> Any:
    """Nested lists; rounded in float64, so that 0.1 stays 0.1."""
    return None if values is None else np.round(values.astype(np.float64), digits).tolist()


def _named(names: tuple[str, ...], values: Any) -> dict[str, Any] | None:
    return None if values is None else dict(zip(names, values, strict=True))
