"""The gesture kit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats, box_round
from palmkit.kits.closeup import CloseUpKit, mean, settled
from palmkit.kits.crop import Crop, sample
from palmkit.kits.delivered import Current
from palmkit.kits.detector import Detector
from palmkit.kits.face.decode import SIDE_MULTIPLE
from palmkit.kits.hands.crop import crop_from_keypoints, crop_from_landmarks
from palmkit.kits.hands.following import GestureFilter, HandSight, HandTrack
from palmkit.kits.hands.gestures import GestureSet
from palmkit.kits.hands.skeleton import LANDMARKS
from palmkit.kits.image import Flip, Format, Image, Part, Rotation, Source
from palmkit.kits.kit import (
    Mode,
    ModelSource,
    Precision,
    between,
    input_side,
    output,
    threshold,
    whole,
)
from palmkit.kits.results import GESTURES, Hands

# Longest side of what the detector sees.
SIZE = 224
MAX_ENLARGED = 3.0
# Of a hand: wrist and base of the middle finger.
KEYPOINTS = 2
REST = "other"
# No landmark is further from its crop's corner, in sides of the crop.
FARTHEST = 4.0


class GestureRecognizer(CloseUpKit[Hands, HandSight, HandTrack]):
    """Finds hands and, on each, 21 points in three dimensions, its side and its gesture.

    with GestureRecognizer("video") as recognizer:
        hands = recognizer.recognize(frame, timestamp_ms)
    """

    name: ClassVar[str] = "gesture recognizer"
    same_iou: ClassVar[float] = 0.5

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
        second_look: bool = True,
        detect_every: int = 20,
        smoothing: bool = True,
        hold_ms: float = 100,
        gestures: GestureSet | str | os.PathLike[str] | None = None,
        model: ModelSource | None = None,
        detector: ModelSource | None = None,
        on_result: Callable[[Hands, Image, float | None], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """Make a recognizer; those of the same models, threads and precision share them.

        mode: "image", "video" (ids; follows between detections) or "stream" (video in a thread).
        threads: that one look uses.
        precision: of the arithmetic, as in palmkit.engine.load.
        max_hands: keep the best-scored ones; None: all.
        min_score: 0..1, of the detector; min_presence: 0..1, how certain the landmarks must be
        that they are on a hand; None: the thresholds that the models were measured at.
        size: longest side of what the detector sees, in pixels, 32..4096; more finds smaller
        hands and takes longer.
        second_look: image mode: look at each hand twice, which is better and takes longer.
        detect_every: video and stream: look for new hands every so many frames, and whenever one
        is lost or there is none; between, each hand is only followed.
        smoothing: video and stream: steady landmarks, with a one-euro filter, and gestures.
        hold_ms: with smoothing a gesture counts once it has been held so long.
        gestures: own ones, besides those that the model knows: a set or the path of its file;
        later changes of the set do not count.
        model, detector: paths of models like those shipped, "hand_landmarks@stable" and
        "hand_detector@stable" for the newest delivered (see palmkit.delivery), or open ones; None:
        those shipped.
        on_result, on_error: stream mode, see submit.
        Raises ValueError for an option that cannot be, ModelError for a model that cannot.
        """
        whole("detect_every", detect_every, 1)
        between("size", size, SIDE_MULTIPLE, 4096)
        between("hold_ms", hold_ms, 0, 1e6)
        if max_hands is not None:
            whole("max_hands", max_hands, 1)
        if min_presence is not None:
            between("min_presence", min_presence, 0, 1)
        if min_score is not None:
            between("min_score", min_score, 0, 1)
        self._found_by = Current(detector, "hand_detector", threads, precision)
        self._seen_by = Current(model, "hand_landmarks", threads, precision)
        self._given_min_score = min_score
        self._given_min_presence = min_presence
        if isinstance(gestures, str | os.PathLike):
            gestures = GestureSet.load(gestures)
        self._own = None if gestures is None else gestures.classifier()
        self.gestures = GESTURES + (() if self._own is None else self._own.names)
        self._max_count = max_hands
        self._size = int(size)
        self._second_look = second_look
        self._detect_every = detect_every
        self._smoothing = smoothing
        self._hold_s = hold_ms / 1e3
        self._forget()
        super().__init__(mode, on_result, on_error, self._found_by, self._seen_by)

    def _adopt(self) -> None:
        found_by, given = self._found_by.model, self._given_min_score
        self._min_score = threshold(found_by) if given is None else given
        self._detector = Detector(found_by, KEYPOINTS, MAX_ENLARGED)
        self._model = self._seen_by.model
        self._side = input_side(self._model)
        given = self._given_min_presence
        self._min_presence = threshold(self._model) if given is None else given

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
        """Find the hands in a picture, or in the next frame of a video, and what they show.

        image: a path, the bytes of a picture file, a PIL.Image, or uint8[h, w, 3] RGB; see
        palmkit.kits.image.read_image for the other arrays, and for format, rotation and flip. Of
        a mirrored picture, as of a selfie camera, handedness is right after flip="horizontal".
        timestamp_ms: of the frame, in video mode; None: 1/30 s after the last one. It may repeat
        or jump back.
        roi: x, y, w, h in pixels of the upright picture: look only there.
        Returns an empty Hands where there is none.
        Raises ImageError if `image` is not a picture or `roi` lies outside it, RuntimeError in
        stream mode or after close.
        """
        return self._call(image, roi, timestamp_ms, format, rotation, flip)

    def _candidates(self, image: Image, roi: Part | None) -> Iterator[tuple[Floats, Crop]]:
        found = self._detector.search(image, roi, self._size, self._min_score)
        for corners, keypoints in zip(found.boxes, found.keypoints, strict=True):
            box = np.concatenate([corners[:2], corners[2:] - corners[:2]])
            yield corners, crop_from_keypoints(keypoints, box)

    def _look_once(self, image: Image, crop: Crop, mirrored: bool = False) -> HandSight | None:
        drawn, (x, y) = sample(image, crop, self._side), crop.up
        if mirrored:
            import cv2

            drawn, x = cast(Image, cv2.flip(drawn, 1)), -x
        inputs = {"image": drawn[None].astype(np.float32), "up": np.array([[x, y]], np.float32)}
        outputs = self._model.run(inputs)
        landmarks = output(outputs, "landmarks", (1, LANDMARKS, 3))[0]
        right = float(output(outputs, "handedness", (1, 1))[0, 0])
        presence = float(output(outputs, "presence", (1, 1))[0, 0])
        gestures = output(outputs, "gesture", (1, len(GESTURES)))[0]
        # Not finite ones fail here too.
        near = np.abs(landmarks).max() <= FARTHEST and 0 <= right <= 1
        if not (self._may_be(presence) and near and np.abs(gestures).max() <= 1):
            return None
        if mirrored:
            landmarks, right = landmarks.copy(), 1 - right
            landmarks[:, 0] = 1 - landmarks[:, 0]
        landmarks = crop.to_picture(landmarks)
        if self._own is not None:
            gestures = self._own.extend(gestures, landmarks, right > 0.5)
        return HandSight(
            landmarks=landmarks,
            right=right,
            gestures=gestures,
            presence=min(presence, 1.0),
            crop=settled(crop, crop_from_landmarks(landmarks)),
        )

    def _mean(self, one: HandSight, other: HandSight) -> HandSight:
        return replace(
            one,
            landmarks=mean(one.landmarks, other.landmarks),
            right=(one.right + other.right) / 2,
            gestures=mean(one.gestures, other.gestures),
            presence=(one.presence + other.presence) / 2,
        )

    def _follow(
        self, image: Image, track: HandTrack, known: list[HandTrack], time_s: float
    ) -> HandSight | None:
        return self._look_well(image, track.expected_crop(time_s))

    def _new_track(self, sight: HandSight, time_s: float) -> HandTrack:
        return HandTrack(sight, time_s, GestureFilter(GESTURES.index(REST), self._hold_s))

    def _result(
        self,
        image: Image,
        found: list[HandSight],
        ids: NDArray[np.int64] | None,
        tracks: list[HandTrack] | None,
    ) -> Hands:
        landmarks = np.array([hand.landmarks for hand in found], np.float32)
        rights = [hand.right for hand in found]
        shown = [(int(hand.gestures.argmax()), float(hand.gestures.max())) for hand in found]
        if tracks is not None:
            rights = [track.right for track in tracks]
            if self._smoothing:
                shown = [t.gestures.update(t.sight.gestures, t.seen_s) for t in tracks]
                landmarks = np.array([track.steady() for track in tracks], np.float32)
        landmarks = landmarks.reshape(-1, LANDMARKS, 3)
        corners = box_round(landmarks)
        scores = np.array([hand.presence for hand in found], np.float32)
        boxes, order = self._shown(image, corners, scores, ids)
        rows: list[int] = order.tolist()
        return Hands(
            image.shape[1],
            image.shape[0],
            boxes[order],
            scores[order],
            landmarks[order],
            tuple("right" if rights[row] > 0.5 else "left" for row in rows),
            tuple(self.gestures[shown[row][0]] for row in rows),
            np.array([shown[row][1] for row in rows], np.float32),
            None if ids is None else ids[order],
        )


@lru_cache(maxsize=8)
def _kit(
    max_hands: int | None,
    min_score: float | None,
    min_presence: float | None,
    size: int,
    second_look: bool,
    gestures: GestureSet | None,
    examples: int,
) -> GestureRecognizer:
    """examples: how many the set has; it may have grown since the last call."""
    return GestureRecognizer(
        max_hands=max_hands,
        min_score=min_score,
        min_presence=min_presence,
        size=size,
        second_look=second_look,
        gestures=gestures,
    )


def recognize_gestures(
    image: Source,
    *,
    max_hands: int | None = None,
    min_score: float | None = None,
    min_presence: float | None = None,
    size: int = SIZE,
    second_look: bool = True,
    gestures: GestureSet | None = None,
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
    examples = 0 if gestures is None else gestures.examples
    kit = _kit(max_hands, min_score, min_presence, size, second_look, gestures, examples)
    return kit.recognize(image, roi=roi, format=format, rotation=rotation, flip=flip)
