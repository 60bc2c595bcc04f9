"""The gesture kit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats, box_round
from palmkit.kits.calls import (
    Frame,
    Given,
    Picture,
    Sources,
    called_with_pictures,
    takes_pictures,
    takes_pictures_awaited,
)
from palmkit.kits.closeup import CloseUpKit, mean, settled
from palmkit.kits.crop import Crop, sample
from palmkit.kits.delivered import Current
from palmkit.kits.detector import OTHER_RATIOS, RATIOS, Detector, picture_dims
from palmkit.kits.hands.crop import crop_from_keypoints, crop_from_landmarks
from palmkit.kits.hands.following import GestureFilter, HandSight, HandTrack
from palmkit.kits.hands.gestures import GestureSet
from palmkit.kits.hands.options import CLOSER, FAR, SIZE, GestureOptions
from palmkit.kits.hands.skeleton import LANDMARKS
from palmkit.kits.image import Image, Part, Source, clip_part
from palmkit.kits.kit import input_side, output, pixels, threshold
from palmkit.kits.options import Modes, kept, made_of
from palmkit.kits.results import GESTURES, Gesture, Hands, OwnGesture

MAX_ENLARGED = 3.0
# Of a hand: wrist and base of the middle finger.
KEYPOINTS = 2
REST = "other"
# The detector looks closer where no hand is this long, in parts of the longer side.
NEAR = 1 / 8
# How certain the landmarks must be of a hand in a picture that is found in FAR pixels alone. Of 108
# development pictures without one, enlarged to 1280 pixels, none more has one so, one otherwise.
FAR_PRESENCE = 0.97
# No landmark is further from its crop's corner, in sides of the crop.
FARTHEST = 4.0


@dataclass(frozen=True, repr=False, eq=False)
class GestureRecognizerArguments(Modes[Hands], GestureOptions):
    """The arguments of GestureRecognizer."""


class GestureRecognizer(CloseUpKit[Hands, HandSight, HandTrack]):
    """Finds hands and, on each, 21 points in three dimensions, its side and its gesture.

    with GestureRecognizer("video") as recognizer:
        hands = recognizer.recognize(frame, timestamp_ms)
    """

    name: ClassVar[str] = "gesture recognizer"
    same_iou: ClassVar[float] = 0.5

    @made_of(GestureRecognizerArguments)
    def __init__(self, options: GestureRecognizerArguments) -> None:
        """Make a recognizer; those of the same models, threads and precision share them.

        Raises ValueError for an option that cannot be, ModelError for a model that cannot.
        """
        super().__init__(options)
        self._options = options
        self._max_count = options.max_hands
        self._second_pass = options.second_pass
        self._detect_every = options.detect_every
        gestures = options.gestures
        if isinstance(gestures, str | os.PathLike):
            gestures = GestureSet.load(gestures)
        self._own = None if gestures is None else gestures.classifier()
        own = () if self._own is None else self._own.names
        self.gestures: tuple[Gesture | OwnGesture, ...] = (*GESTURES, *map(OwnGesture, own))
        self._found_by = Current(options.detector_model, "hand_detector", options)
        self._seen_by = Current(options.model, "hand_landmarks", options)
        self._start(self._found_by, self._seen_by)

    @classmethod
    def first_dims(cls) -> Mapping[str, Sequence[Mapping[str, int]]]:
        """Return the detector's dims at its default sizes, as Open.first_dims describes."""
        return {"hand_detector": picture_dims((SIZE, CLOSER, FAR), (*RATIOS, *OTHER_RATIOS))}

    def _adopt(self) -> None:
        found_by, given = self._found_by.model, self._options.min_score
        self._min_score = threshold(found_by) if given is None else given
        self._detector = Detector(found_by, KEYPOINTS, MAX_ENLARGED)
        self._model = self._seen_by.model
        self._side = input_side(self._model)
        given = self._options.min_presence
        self._min_presence = threshold(self._model) if given is None else given

    @takes_pictures
    def recognize(self, frame: Frame[Source]) -> Hands:
        """Find the hands in a picture, or in the next frame of a video, and what they show.

        image: a path, the bytes of a picture file, an open binary file, a PIL.Image, or uint8[h, w,
        3] RGB; see palmkit.kits.image.read_image for the other arrays, and for format, rotation and
        flip. In image mode also a list of these, for a list of results.
        Of a mirrored picture, as of a selfie camera, handedness is right after flip="horizontal".
        timestamp_ms: of the frame, in video mode; None: 1/30 s after the last one. It may repeat
        or jump back.
        roi: x, y, w, h in pixels of the upright picture: search only there.
        Returns an empty Hands where there is none.
        Raises ImageError if `image` is not a picture or `roi` lies outside it, RuntimeError in
        stream mode or after close.
        """
        return self._call(frame)

    @takes_pictures_awaited
    async def recognize_async(self, frame: Frame[Source]) -> Hands:
        """Do what recognize does without blocking the event loop."""
        return await self._call_async(frame)

    def _candidates(self, image: Image, roi: Part | None) -> Iterator[tuple[Floats, Crop, float]]:
        size = self._options.size
        return self._found(image, roi, SIZE if size is None else int(size))

    def _search(self, image: Image, roi: Part | None, known: list[HandSight]) -> list[HandSight]:
        found = super()._search(image, roi, known)
        if not self._is_searched(image, roi, [*known, *found]):
            self._next_closer = self._frame + self._detect_every
            found += self._seen(image, self._found(image, roi, CLOSER), [*known, *found])
            if self._mode == "image" and not found and _longer_side(image, roi) > CLOSER:
                seen = self._seen(image, self._found(image, roi, FAR), known)
                found = [hand for hand in seen if hand.presence >= FAR_PRESENCE]
        return found

    def _forget(self) -> None:
        super()._forget()
        # The frame from which on the detector may look closer again.
        self._next_closer = 0

    def _is_searched(self, image: Image, roi: Part | None, found: list[HandSight]) -> bool:
        """Return whether to look no closer for more hands than those that are known."""
        if self._mode != "image" and self._frame < self._next_closer:
            return True
        if self._options.size is not None or self._is_full(len(found)):
            return True
        longer = _longer_side(image, roi)
        sides = [float(max(hand.box[2:] - hand.box[:2])) for hand in found]
        return longer <= SIZE or max(sides, default=0.0) >= NEAR * longer

    def _found(
        self, image: Image, roi: Part | None, size: int
    ) -> Iterator[tuple[Floats, Crop, float]]:
        """Yield where the detector finds hands, as _candidates does; size: its longest side."""
        found = self._detector.search(image, roi, size, self._min_score)
        for corners, keypoints in zip(found.boxes, found.keypoints, strict=True):
            box = np.concatenate([corners[:2], corners[2:] - corners[:2]])
            yield corners, crop_from_keypoints(keypoints, box), 1.0

    def _infer(self, image: Image, crop: Crop, mirrored: bool = False) -> HandSight | None:
        drawn, (x, y) = sample(image, crop, self._side), crop.up
        if mirrored:
            import cv2

            drawn, x = cast(Image, cv2.flip(drawn, 1)), -x
        inputs = {"image": pixels(self._model, drawn), "up": np.array([[x, y]], np.float32)}
        outputs = self._model.run(inputs)
        landmarks = output(outputs, "landmarks", (1, LANDMARKS, 3))[0]
        right = float(output(outputs, "handedness", (1, 1))[0, 0])
        presence = float(output(outputs, "presence", (1, 1))[0, 0])
        gestures = output(outputs, "gesture", (1, len(GESTURES)))[0]
        # NaN and infinities fail here, too.
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
        return self._infer_well(image, track.expected_crop(time_s))

    def _new_track(self, sight: HandSight, time_s: float) -> HandTrack:
        return HandTrack(
            sight, time_s, GestureFilter(GESTURES.index(REST), self._options.hold_ms / 1e3)
        )

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
            if self._options.smoothing:
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


@dataclass(frozen=True, repr=False, eq=False)
class GestureRecognizerCall(GestureOptions, Picture[Given]):
    """The arguments of recognize_gestures."""


@called_with_pictures(GestureRecognizerCall[Source], GestureRecognizerCall[Sources])
def recognize_gestures(call: GestureRecognizerCall[Source]) -> Hands:
    """Find the hands in a picture and what they show, by a recognizer that is made once.

    Any thread may call it. image, roi, format, rotation and flip are those of
    GestureRecognizer.recognize, the options those of GestureRecognizer.
    Raises ImageError if `image` is not a picture, ValueError for an option that cannot be.
    """
    own = call.gestures
    # A set may have grown since the last call.
    examples = own.examples if isinstance(own, GestureSet) else 0
    kit = kept(GestureRecognizer, GestureOptions, call, examples)
    return kit.recognize(call.image, **call.reading())


def _longer_side(image: Image, roi: Part | None) -> int:
    """Return the longer side of what is searched, in pixels."""
    left, top, right, bottom = clip_part(image, roi)
    return max(right - left, bottom - top)
