"""The gesture kit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import ClassVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats
from palmkit.kits.crop import Crop, sample
from palmkit.kits.face.decode import SIDE_MULTIPLE, decode, merge, network_input
from palmkit.kits.hands.crop import crop_from_keypoints
from palmkit.kits.hands.following import Look, Track
from palmkit.kits.hands.gestures import Gesture, named
from palmkit.kits.image import (
    Flip,
    Format,
    Image,
    Part,
    Placement,
    Rotation,
    Source,
    letterbox,
)
from palmkit.kits.kit import (
    Kit,
    Mode,
    ModelSource,
    Precision,
    between,
    input_side,
    one_of,
    open_model,
    output,
    shipped_model,
    threshold,
    whole,
)
from palmkit.kits.results import GESTURES, Hands
from palmkit.kits.tracks import Tracker

LANDMARKS = 21
SIZE = 224
# Hands in small pictures are found better when these are enlarged, up to this.
MAX_ENLARGED = 3.0
# A first look that may be of a hand gets a second one, closer; one that is less certain does not.
SECOND_LOOK = 0.3
# Nor does one need it that is certain and in its place: by parts of the crop's side, logarithm of
# scale, and radians.
ASTRAY = (0.12, 0.2, 0.3)
# A hand already tracked may be this much less certain than a new one before it counts as gone.
KEEP_PRESENCE = 0.6
# Two looks are of one hand if more of the smaller box than this lies in the other.
SAME_HAND = 0.6


class GestureRecognizer(Kit[Hands]):
    """Finds hands with 21 landmarks each, says which hand it is and what it shows.

    with GestureRecognizer("video", max_hands=2) as recognizer:
        hands = recognizer.recognize(frame, timestamp_ms)
    """

    name: ClassVar[str] = "gesture recognizer"

    def __init__(
        self,
        mode: Mode = "image",
        *,
        threads: int = 1,
        precision: Precision = "high",
        max_hands: int | None = None,
        min_score: float | None = None,
        min_presence: float | None = None,
        size: int = SIZE,
        gestures: Iterable[Gesture] = (),
        detect_every: int = 20,
        smoothing: bool = True,
        model: ModelSource | None = None,
        detector: ModelSource | None = None,
        on_result: Callable[[Hands, Image, float | None], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """Make a recognizer; recognizers of the same models, threads and precision share them.

        mode: "image", "video" (ids; follows hands between detections) or "stream" (video in a
        thread).
        threads: that one run of a network uses.
        precision: of the arithmetic, as in palmkit.engine.load.
        max_hands: look at no more; None: all.
        min_score: 0..1, from which on what the detector finds is looked at.
        min_presence: 0..1, how certain it must be then that it is a hand. None of both: the
        thresholds that the models were measured at.
        size: longest side of what the detector sees, in pixels, 32..4096; smaller pictures are
        enlarged to it, at most three times. More finds smaller hands and takes longer.
        gestures: one's own, from palmkit.kits.gestures; they go before those built in.
        detect_every: video and stream: look for new hands every so many frames, and whenever one
        is lost or there is none; between, each hand is only followed.
        smoothing: video and stream: steady landmarks and gestures.
        model, detector: paths of models like those shipped, or open ones; None: those shipped.
        Raises ValueError for an option that cannot be, ModelError for a model that cannot.
        """
        one_of("precision", precision, get_args(Precision))
        whole("threads", threads, 1)
        whole("detect_every", detect_every, 1)
        between("size", size, SIDE_MULTIPLE, 4096)
        if max_hands is not None:
            whole("max_hands", max_hands, 1)
        if min_score is not None:
            between("min_score", min_score, 0, 1)
        if min_presence is not None:
            between("min_presence", min_presence, 0, 1)
        self._gestures = tuple(gestures)
        for each in self._gestures:
            if not isinstance(each, Gesture):
                raise ValueError(f"gestures: expected Gesture, got {type(each).__name__}")
        self._detector = open_model(detector or shipped_model("hand_detector"), threads, precision)
        self._model = open_model(model or shipped_model("hand_landmarks"), threads, precision)
        self._side = input_side(self._model)
        self._min_score = threshold(self._detector) if min_score is None else min_score
        self._min_presence = threshold(self._model) if min_presence is None else min_presence
        self._max_hands = max_hands
        self._size = -(-int(size) // SIDE_MULTIPLE) * SIDE_MULTIPLE
        self._detect_every = detect_every
        self._smoothing = smoothing
        self._forget()
        super().__init__(mode, on_result, on_error)

    def recognize(
        self,
        image: Source,
        timestamp_ms: float | None = None,
        *,
        roi: Part | None = None,
        format: Format | None = None,
        rotation: Rotation = 0,
        flip: Flip | None = None,
    ) -> Hands:
        """Find the hands in a picture, or in the next frame of a video.

        image: a path, the bytes of a picture file, a PIL.Image, or uint8[h, w, 3] RGB; see
        palmkit.kits.image.read_image for the other arrays, and for format, rotation and flip.
        Left and right hands are told apart in pictures that are not mirrored: flip those that are.
        timestamp_ms: of the frame, in video mode; None: 1/30 s after the last one. It may repeat
        or jump back.
        roi: x, y, w, h in pixels of the upright picture: look only there.
        Returns an empty Hands where there is none.
        Raises ImageError if `image` is not a picture or `roi` lies outside it, RuntimeError in
        stream mode or after close.
        """
        return self._call(image, roi, timestamp_ms, format, rotation, flip)

    def _look(self, image: Image, roi: Part | None, time_s: float | None) -> Hands:
        if time_s is not None:
            return self._track(image, roi, time_s)
        found = self._search(image, roi, [])
        shown = [int(look.gestures.argmax()) for look in found]
        scores = [float(look.gestures.max()) for look in found]
        rights = [look.right for look in found]
        landmarks = [look.landmarks for look in found]
        return self._result(image, found, landmarks, rights, shown, scores, None)

    def _forget(self) -> None:
        self._tracker = Tracker()
        self._tracks: dict[int, Track] = {}
        self._since_search = 0
        self._time_s = 0.0

    def _search(self, image: Image, roi: Part | None, known: list[Look]) -> list[Look]:
        """The hands in a picture, best first, those that are known left out."""
        found: list[Look] = []
        for corners, crop in self._detections(image, roi):
            if self._max_hands is not None and len(known) + len(found) >= self._max_hands:
                break
            if not _is_new(corners, [*known, *found]):
                continue
            look = self._see(image, crop)
            if look is not None and look.presence >= SECOND_LOOK * self._min_presence:
                closer = look.crop
                if look.presence < self._min_presence or _is_off(crop, closer):
                    look = self._see(image, closer)
            if look is None or look.presence < self._min_presence:
                continue
            if _is_new(look.box, [*known, *found]):
                found.append(look)
        return found

    def _detections(self, image: Image, roi: Part | None) -> list[tuple[Floats, Crop]]:
        """Corners of the box of what may be a hand, and its crop, best first."""
        side = (self._size, self._size)
        canvas, placement = _fitted(image, side, roi)
        outputs = self._detector.run(network_input(canvas))
        found = merge(decode(outputs, self._min_score, keypoints=2))
        boxes = placement.to_picture(found.boxes.reshape(-1, 2, 2)).reshape(-1, 4)
        points = placement.to_picture(found.keypoints)
        sizes = boxes[:, 2:] - boxes[:, :2]
        return [
            (corners, crop_from_keypoints(point, np.concatenate([corners[:2], size])))
            for corners, point, size in zip(boxes, points, sizes, strict=True)
        ]

    def _see(self, image: Image, crop: Crop) -> Look | None:
        """The hand in a crop; None if what the network says is no hand at all."""
        drawn = sample(image, crop, self._side)[None].astype(np.float32)
        outputs = self._model.run({"image": drawn, "up": np.array([crop.up], np.float32)})
        landmarks = output(outputs, "landmarks", (1, LANDMARKS, 3))[0]
        gestures = output(outputs, "gesture", (1, len(GESTURES)))[0]
        right = float(output(outputs, "handedness", (1, 1))[0, 0])
        presence = float(output(outputs, "presence", (1, 1))[0, 0])
        values = np.concatenate([landmarks.reshape(-1), gestures, [right, presence]])
        if not np.isfinite(values).all() or np.ptp(landmarks[:, :2], axis=0).min() <= 0:
            return None
        return Look(crop.to_picture(landmarks), min(presence, 1.0), right, gestures)

    def _track(self, image: Image, roi: Part | None, time_s: float) -> Hands:
        known = [track for track in self._tracks.values() if track.seen_s == self._time_s]
        found: list[Look] = []
        for track in known:
            look = self._see(image, track.expected_crop(time_s))
            certain = look is not None and look.presence >= self._min_presence * KEEP_PRESENCE
            if look is not None and certain and _is_new(look.box, found):
                found.append(look)
        lost = len(found) < len(known) or not found or self._tracker.waiting
        due = lost or self._since_search + 1 >= self._detect_every
        if due and (self._max_hands is None or len(found) < self._max_hands):
            found += self._search(image, roi, found)
            self._since_search = 0
        else:
            self._since_search += 1
        if roi is not None:
            found = [look for look in found if _is_inside(look.box, roi)]
        boxes = np.array([look.box for look in found], np.float32).reshape(-1, 4)
        sure = np.array([look.presence >= self._min_presence for look in found], np.bool_)
        ids = self._tracker.update(boxes, sure, time_s)
        found = [look for look, id in zip(found, ids, strict=True) if id >= 0]
        ids = ids[ids >= 0]
        tracks = [
            self._take(look, id, time_s) for look, id in zip(found, ids.tolist(), strict=True)
        ]
        gone = [id for id, track in self._tracks.items() if time_s - track.seen_s > 1]
        for id in gone:
            del self._tracks[id]
        self._time_s = time_s
        if not self._smoothing:
            shown = [int(look.gestures.argmax()) for look in found]
            scores = [float(look.gestures.max()) for look in found]
            landmarks = [look.landmarks for look in found]
        else:
            shown = [track.shown for track in tracks]
            scores = [float(track.gestures[track.shown]) for track in tracks]
            landmarks = [track.steady(time_s) for track in tracks]
        rights = [track.right for track in tracks]
        return self._result(image, found, landmarks, rights, shown, scores, ids)

    def _take(self, look: Look, id: int, time_s: float) -> Track:
        track = self._tracks.get(id)
        if track is None:
            track = self._tracks[id] = Track.begin(look, time_s)
        else:
            track.take(look, time_s)
        return track

    def _result(
        self,
        image: Image,
        found: list[Look],
        landmarks: list[Floats],
        rights: list[float],
        shown: list[int],
        scores: list[float],
        ids: NDArray[np.int64] | None,
    ) -> Hands:
        """Pixels become those that the user gets, and one's own gestures get their word."""
        height, width = image.shape[:2]
        points = np.array(landmarks, np.float32).reshape(-1, LANDMARKS, 3)
        size = np.array([width, height] * 2, np.float32)
        flat = points[..., :2]
        boxes = np.clip(np.concatenate([flat.min(axis=1), flat.max(axis=1)], axis=1), 0, size)
        boxes[:, 2:] -= boxes[:, :2]
        certain = np.array([look.presence for look in found], np.float32)
        order = np.flatnonzero((boxes[:, 2:] > 0).all(axis=1))
        if self._max_hands is not None and ids is not None:
            # Which hands count must not flicker in a video: the longest tracked come first.
            order = order[np.argsort(ids[order], kind="stable")][: self._max_hands]
        order = order[np.argsort(-certain[order], kind="stable")]
        words = [(GESTURES[index], score) for index, score in zip(shown, scores, strict=True)]
        for row in order.tolist():
            own = named(self._gestures, points[row], rights[row] >= 0.5)
            words[row] = own or words[row]
        return Hands(
            width,
            height,
            boxes[order],
            certain[order],
            points[order],
            tuple("right" if rights[row] >= 0.5 else "left" for row in order),
            tuple(words[row][0] for row in order),
            np.array([words[row][1] for row in order], np.float32),
            None if ids is None else ids[order],
        )


def _fitted(image: Image, side: tuple[int, int], roi: Part | None) -> tuple[Image, Placement]:
    """The picture in the detector's input, halved exactly first, which is fast, while it can be."""
    import cv2

    halves = 0
    while roi is None and max(image.shape[:2]) >= 2 * max(side):
        if image.shape[0] % 2 or image.shape[1] % 2:
            break
        half = (image.shape[1] // 2, image.shape[0] // 2)
        image = cast(Image, cv2.resize(image, half, interpolation=cv2.INTER_AREA))
        halves += 1
    canvas, placement = letterbox(image, *side, part=roi, max_scale=MAX_ENLARGED)
    matrix = placement.matrix.copy()
    matrix[:, :2] /= 2**halves
    return canvas, Placement(matrix)


def _is_off(crop: Crop, other: Crop) -> bool:
    """Whether one crop differs from another enough for another look."""
    shift = math.hypot(other.x - crop.x, other.y - crop.y) / crop.side
    scale = abs(math.log(other.side / crop.side))
    turn = abs(math.remainder(other.angle - crop.angle, 2 * math.pi))
    return shift > ASTRAY[0] or scale > ASTRAY[1] or turn > ASTRAY[2]


def _is_new(box: Floats, known: Sequence[Look]) -> bool:
    """No look is at the hand in this box."""
    if not known:
        return True
    others = np.stack([look.box for look in known])
    shared = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    smaller = np.minimum((box[2:] - box[:2]).prod(), (others[:, 2:] - others[:, :2]).prod(axis=1))
    return bool((np.maximum(shared, 0).prod(axis=1) <= SAME_HAND * smaller).all())


def _is_inside(box: Floats, part: Part) -> bool:
    """Whether the middle of a box lies in x, y, w, h."""
    x, y = (float(value) for value in (box[:2] + box[2:]) / 2)
    return part[0] <= x <= part[0] + part[2] and part[1] <= y <= part[1] + part[3]


@lru_cache(maxsize=8)
def _recognizer(
    max_hands: int | None,
    min_score: float | None,
    min_presence: float | None,
    size: int,
    gestures: tuple[Gesture, ...],
) -> GestureRecognizer:
    return GestureRecognizer(
        max_hands=max_hands,
        min_score=min_score,
        min_presence=min_presence,
        size=size,
        gestures=gestures,
    )


def recognize_gestures(
    image: Source,
    *,
    max_hands: int | None = None,
    min_score: float | None = None,
    min_presence: float | None = None,
    size: int = SIZE,
    gestures: Iterable[Gesture] = (),
    roi: Part | None = None,
    format: Format | None = None,
    rotation: Rotation = 0,
    flip: Flip | None = None,
) -> Hands:
    """Find the hands in a picture and what they show, by a recognizer that is made once.

    Any thread may call it. The options are those of GestureRecognizer, the rest those of
    GestureRecognizer.recognize.
    Raises ImageError if `image` is not a picture, ValueError for an option that cannot be.
    """
    kit = _recognizer(max_hands, min_score, min_presence, size, tuple(gestures))
    return kit.recognize(image, roi=roi, format=format, rotation=rotation, flip=flip)
