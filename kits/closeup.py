"""Kits of close-ups: a detector finds things, a network infers each in a crop of its own.

In a picture each is inferred twice, the second time as its mirror image in the crop that the first
pass gives; the mean of both is what counts. In a video each thing is followed by the crop in which
it was seen last; the detector is asked again from time to time, and when something is lost.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats, box_round, clipped, iou
from palmkit.kits.camera_motion import Similarity
from palmkit.kits.crop import Crop
from palmkit.kits.image import Image, Part
from palmkit.kits.kit import Kit, Result
from palmkit.kits.tracks import LOST_S, Tracker

# What is already tracked may be this much less certain than something new before it is gone.
KEEP_PRESENCE = 0.6
# By how much a crop may be off in place (parts of its side), scale (logarithm) and angle (radians)
# to be kept for the next frame, so that what is still is seen alike, and to need no second pass.
STILL = (0.02, 0.03, 0.02)
ASTRAY = (0.08, 0.14, 0.17)


AnySight = TypeVar("AnySight", bound="Sight")


@dataclass(frozen=True, eq=False, kw_only=True)
class Sight(ABC):
    """One thing as seen in a crop.

    presence: 0..1. crop: where to look for it in the next frame. place: corners, float32[4], of
    where it must be, if what was seen is not reliable.
    """

    presence: float
    crop: Crop
    place: Floats | None = None

    @property
    @abstractmethod
    def outline(self) -> Floats:
        """The points round which its box lies, float32[n, 2 or more]."""

    @cached_property
    def box(self) -> Floats:
        """The corners of what it covers, float32[4]."""
        return box_round(self.outline)

    def moved(self: AnySight, motion: Similarity) -> AnySight:
        """Return where it is in a frame before which the camera moved so; itself, if hardly so."""
        crop = settled(self.crop, motion.crop(self.crop))
        if crop is self.crop and self.place is None:
            return self
        place = None if self.place is None else np.asarray(motion.boxes(self.place), np.float32)
        return replace(self, crop=crop, place=place)


@dataclass
class Track(Generic[AnySight]):
    """One thing of a video, as last seen."""

    sight: AnySight
    seen_s: float

    def take(self, sight: AnySight, time_s: float) -> None:
        """Take what is seen of it in this frame; times rise from call to call."""
        self.sight, self.seen_s = sight, time_s

    def move(self, motion: Similarity) -> None:
        """Go along with the camera's motion to the next frame."""
        self.sight = self.sight.moved(motion)


AnyTrack = TypeVar("AnyTrack", bound=Track[Any])


class CloseUpKit(Kit[Result], Generic[Result, AnySight, AnyTrack]):
    """A kit of this kind; the subclass sets the options and defines what to look for, and how."""

    # Two sights whose boxes overlap by more are of one thing.
    same_iou: ClassVar[float]

    _max_count: int | None
    _min_presence: float
    _detect_every: int
    # Whether things in pictures are inferred twice.
    _second_pass: bool

    @abstractmethod
    def _candidates(self, image: Image, roi: Part | None) -> Iterable[tuple[Floats, Crop, float]]:
        """Yield where the detector finds things, best first: corners, float32[4], a crop, a limit.

        limit: in a picture no sight of it is more certain than this, 0..1.
        """

    @abstractmethod
    def _infer(self, image: Image, crop: Crop, mirrored: bool = False) -> AnySight | None:
        """Return what is seen in a crop; None: nothing, see _may_be.

        mirrored: the network gets the crop's mirror image; its result is mirrored back.
        """

    @abstractmethod
    def _mean(self, one: AnySight, other: AnySight) -> AnySight:
        """Return the mean of two sights of one thing, in the first one's crop."""

    @abstractmethod
    def _new_track(self, sight: AnySight, time_s: float) -> AnyTrack:
        """Return the track of something first seen."""

    @abstractmethod
    def _result(
        self,
        image: Image,
        found: list[AnySight],
        ids: NDArray[np.int64] | None,
        tracks: list[AnyTrack] | None,
    ) -> Result:
        """Turn pixels into the user's result; ids and tracks, already updated, in a video only."""

    def _is_wanted(self, image: Image, sight: AnySight) -> bool:
        """Return whether to keep something new."""
        return True

    def _may_be(self, presence: float) -> bool:
        """Return whether it is certain enough to follow; something new needs more."""
        return presence >= self._min_presence * KEEP_PRESENCE

    def _run(self, image: Image, roi: Part | None, time_s: float | None) -> Result:
        if time_s is not None:
            return self._track(image, roi, time_s)
        return self._result(image, self._search(image, roi, []), None, None)

    def _forget(self) -> None:
        self._tracker = Tracker()
        self._tracks: dict[int, AnyTrack] = {}
        self._since_search = 0
        self._frame = 0
        self._time_s = 0.0

    def _search(self, image: Image, roi: Part | None, known: list[AnySight]) -> list[AnySight]:
        """Return what is in a picture, best first, without known things."""
        return self._seen(image, self._candidates(image, roi), known)

    def _seen(
        self, image: Image, candidates: Iterable[tuple[Floats, Crop, float]], known: list[AnySight]
    ) -> list[AnySight]:
        """Return what is seen at candidates, of which _candidates tells, without known things."""
        found: list[AnySight] = []
        for corners, crop, limit in candidates:
            if self._is_full(len(known) + len(found)):
                break
            if not self._is_new(corners, [*known, *found]):
                continue
            sight = self._infer_new(image, crop)
            if sight is None or sight.presence < self._min_presence:
                continue
            if self._is_wanted(image, sight) and self._is_new(sight.box, [*known, *found]):
                if self._mode == "image":
                    sight = replace(sight, presence=min(sight.presence, limit))
                found.append(sight)
        return found

    def _infer_new(self, image: Image, crop: Crop) -> AnySight | None:
        """Return what is seen where the detector found something."""
        sight = self._infer_well(image, crop)
        if sight is None or self._mode != "image" or not self._second_pass:
            return sight
        # In a mirror image, and in the crop of the first pass, the network makes other errors.
        again = self._infer(image, sight.crop, mirrored=True)
        # What lies elsewhere is another thing, as where one hides another.
        if again is None or self._is_new(again.box, [sight]):
            return sight
        return self._mean(sight, again)

    def _infer_well(self, image: Image, crop: Crop) -> AnySight | None:
        """Return what is seen in a crop or, if that is off the thing, in a better one."""
        sight = self._infer(image, crop)
        if sight is not None and is_off(crop, sight.crop, ASTRAY):
            sight = self._infer(image, sight.crop)
        return sight

    def _follow(
        self, image: Image, track: AnyTrack, known: list[AnyTrack], time_s: float
    ) -> AnySight | None:
        """Return something known from the last frame; None if it is lost."""
        return self._infer_well(image, track.sight.crop)

    def _track(self, image: Image, roi: Part | None, time_s: float) -> Result:
        self._frame += 1
        motion = self._tracker.look(image)
        if motion != Similarity():
            for track in self._tracks.values():
                track.move(motion)
        known = [track for track in self._tracks.values() if track.seen_s == self._time_s]
        followed = [(track.sight, self._follow(image, track, known, time_s)) for track in known]
        seen = [(before, now) for before, now in followed if now is not None]
        found = each_once(seen, self.same_iou)
        lost = len(found) < len(known) or not found or self._tracker.waiting
        due = lost or self._since_search + 1 >= self._detect_every
        if due and not self._is_full(len(found)):
            found += self._search(image, roi, found)
            self._since_search = 0
        else:
            self._since_search += 1
        if roi is not None:
            found = [sight for sight in found if _is_inside(sight.box, roi)]
        boxes = [sight.box if sight.place is None else sight.place for sight in found]
        sure = np.array([sight.presence >= self._min_presence for sight in found], np.bool_)
        ids = self._tracker.update(np.array(boxes, np.float32).reshape(-1, 4), sure, time_s)
        found = [sight for sight, id in zip(found, ids, strict=True) if id >= 0]
        ids = ids[ids >= 0]
        tracks: list[AnyTrack] = []
        for sight, id in zip(found, ids.tolist(), strict=True):
            if id not in self._tracks:
                self._tracks[id] = self._new_track(sight, time_s)
            self._tracks[id].take(sight, time_s)
            tracks.append(self._tracks[id])
        gone = [id for id, track in self._tracks.items() if time_s - track.seen_s > LOST_S]
        for id in gone:
            del self._tracks[id]
        self._time_s = time_s
        return self._result(image, found, ids, tracks)

    def _is_full(self, count: int) -> bool:
        """Return whether so many things are enough."""
        return self._max_count is not None and count >= self._max_count

    def _is_new(self, box: Floats, known: list[AnySight]) -> bool:
        """Return whether no sight is of the thing in this box."""
        if not known:
            return True
        overlaps = iou(box[None], np.stack([sight.box for sight in known]))
        return bool(overlaps.max() <= self.same_iou)

    def _shown(
        self, image: Image, corners: Floats, scores: Floats, ids: NDArray[np.int64] | None
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Return the user's boxes for corners, float32[n, 4], in any place.

        Returns x, y, w, h inside the picture, float32[n, 4], and the rows to show, best first.
        """
        boxes = clipped(corners, image.shape[1], image.shape[0])
        boxes[:, 2:] -= boxes[:, :2]
        order = np.arange(len(boxes))
        if self._max_count is not None and ids is not None:
            # Which things count must not flicker in a video: the longest tracked come first.
            order = np.argsort(ids, kind="stable")[: self._max_count]
        order = order[(boxes[order, 2:] > 0).all(axis=1)]
        return boxes, order[np.argsort(-scores[order], kind="stable")]


def each_once(followed: list[tuple[AnySight, AnySight]], same_iou: float) -> list[AnySight]:
    """Return what is seen of known things, of each of them once.

    followed: how each was seen in the last frame and is in this one. Where one hides another, both
    may be seen where the one in front is: it is the one that moved less. What is only expected
    somewhere stays. same_iou: boxes that overlap by more are of one thing.
    """
    if len(followed) < 2:
        return [now for _, now in followed]
    boxes = np.stack([now.box for _, now in followed])
    alike = iou(boxes, boxes) > same_iou
    seen = [row for row, (_, now) in enumerate(followed) if now.place is None]
    if alike[np.ix_(seen, seen)].sum() > len(seen):
        before = np.stack([before.box for before, _ in followed])
        seen.sort(key=lambda row: -float(iou(before[row, None], boxes[row, None])[0, 0]))
    kept: list[int] = []
    for row in seen:
        if not alike[row, kept].any():
            kept.append(row)
    rows = enumerate(followed)
    return [now for row, (_, now) in rows if now.place is not None or row in kept]


def mean(one: Floats, other: Floats) -> Floats:
    """Return the mean of two arrays of one shape."""
    return np.asarray((one + other) / 2, np.float32)


def settled(crop: Crop, following: Crop) -> Crop:
    """Return the crop for the next frame: the same one while what it shows hardly moves."""
    return following if is_off(crop, following, STILL) else crop


def is_off(crop: Crop, other: Crop, limits: tuple[float, float, float]) -> bool:
    """Return whether a crop differs from another in place, size or angle by more than limits."""
    shift = math.hypot(other.x - crop.x, other.y - crop.y) / crop.side
    scale = abs(math.log(other.side / crop.side))
    turn = abs(math.remainder(other.angle - crop.angle, 2 * math.pi))
    return shift > limits[0] or scale > limits[1] or turn > limits[2]


def _is_inside(box: Floats, part: Part) -> bool:
    """Return whether the centre of a box lies in x, y, w, h."""
    x, y = (float(value) for value in (box[:2] + box[2:]) / 2)
    return part[0] <= x <= part[0] + part[2] and part[1] <= y <= part[1] + part[3]
