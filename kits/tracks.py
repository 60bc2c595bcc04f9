"""Tracking from one frame to the next: which box belongs to which thing, and steady values.

Times are in seconds and strictly increasing; Clock makes them so from any timestamps.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Boxes, Floats, areas, clipped, distance_iou, shared_areas
from palmkit.kits.camera_motion import CameraMotion, Similarity
from palmkit.kits.image import Image

Values: TypeAlias = NDArray[np.float64]

FRAME_S = 1 / 30
# So long a track waits for its thing to be seen again, then its id ends.
LOST_S = 1.0
# What moved by no more than this, in its sizes a second, for so long is at rest, and waits longer:
# nothing else is likely to come to its place. It is not looked for any more.
AT_REST, RESTED_S, REST_S = 1.0, 0.2, 3.0
# By so much better a track fits that has been there for a second, by so much worse one that was not
# seen in the last frame: of two of one thing the same goes on.
STANDING, ABSENT = 0.1, 0.2
# What should be behind something that is seen, with this part of it or more, goes on as it did, and
# waits so much longer.
COVERED = 0.5
BEHIND_S = 3.0
# What the camera has turned away from waits so much longer; it has when so much of the thing lies
# outside of the frame.
OUTSIDE, OUTSIDE_S = 0.5, 10.0
SPEED_CUTOFF_HZ = 3.0
# A box that has shrunk so much, beside what it was this long to this long before it was last seen,
# is of the visible part of something hidden: where that goes is told from then.
SHRUNK = 0.93
MEMORY_S, MISLEADING_S = 1.0, 0.2
# One whose size has changed by no more than this in that last time is whole.
STEADY = 0.98
# Boxes that differ more in size are not of one thing.
MAX_SIZE_RATIO = 2.5
MIN_PLACES, MAX_PLACES = 3, 128


class Clock:
    """A time that only goes forward, from timestamps that may be missing, repeat or jump back."""

    def __init__(self) -> None:
        """Start at 0."""
        self._time_s = 0.0
        self._last_ms: float | None = None
        self._step_s = FRAME_S

    def tick(self, timestamp_ms: float | None) -> float:
        """Return the time of the next frame, in seconds.

        timestamp_ms: with any origin; None: one step after the last frame. One that does not come
        after the last one counts as one step, as long as the last real one.
        Raises ValueError if it is not a finite number.
        """
        step_s = 0.0
        if timestamp_ms is not None:
            if not math.isfinite(timestamp_ms):
                raise ValueError(f"timestamp_ms: expected a finite number, got {timestamp_ms}")
            if self._last_ms is not None:
                step_s = (timestamp_ms - self._last_ms) / 1e3
            self._last_ms = timestamp_ms
        if step_s > 0:
            self._step_s = min(step_s, 10 * FRAME_S)
        self._time_s += step_s if step_s > 0 else self._step_s
        return self._time_s


class OneEuroFilter:
    """Smooth an array over time: strongly while it rests, hardly while it moves.

    Casiez, Roussel, Vogel: 1 Euro Filter, CHI 2012, https://gery.casiez.net/1euro. Every value
    has its own filter; speed is measured in sizes of the object a second, so that near and far
    objects are smoothed alike.
    """

    def __init__(
        self, min_cutoff_hz: float = 1.5, beta: float = 8.0, speed_cutoff_hz: float = 1.0
    ) -> None:
        """Set how much is smoothed.

        min_cutoff_hz: cut-off at rest; less is steadier.
        beta: Hz more for each size a second; more follows faster.
        speed_cutoff_hz: cut-off of the speed itself.
        """
        self._min_cutoff_hz = min_cutoff_hz
        self._beta = beta
        self._speed_cutoff_hz = speed_cutoff_hz
        self._last: tuple[Values, Values, float] | None = None

    def filter(self, values: Boxes, time_s: float, size: float = 1.0) -> Floats:
        """Return the values[...] at `time_s`, smoothed.

        size: of the object, in the values' unit.
        """
        current = np.asarray(values, np.float64)
        speeds = np.zeros_like(current)
        if self._last is not None:
            before, before_speeds, before_s = self._last
            step_s = time_s - before_s
            weight = _weight(self._speed_cutoff_hz, step_s)
            speeds = before_speeds + weight * ((current - before) / step_s - before_speeds)
            cutoffs_hz = self._min_cutoff_hz + self._beta * np.abs(speeds) / size
            current = before + _weight(cutoffs_hz, step_s) * (current - before)
        self._last = (current, speeds, time_s)
        return current.astype(np.float32)


def _weight(cutoff_hz: Values | float, step_s: float) -> Values:
    """Return the weight of a new value in a first-order low pass."""
    turn = np.asarray(cutoff_hz, np.float64) * (2 * math.pi * step_s)
    return np.asarray(turn / (turn + 1))


@dataclass
class _Track:
    id: int
    box: Values
    seen_s: float
    # Of both corners, [4].
    speed: Values
    smoothing: OneEuroFilter
    # When it was where, and the area of that.
    places: deque[tuple[float, Values, float]] = field(
        default_factory=lambda: deque(maxlen=MAX_PLACES)
    )
    # When its box was last measured, not only told from how it moved before.
    placed_s: float = 0.0
    # When it was first seen.
    first_s: float = 0.0
    # How long of the time since it was seen it must have been behind something, or outside.
    behind_s: float = 0.0
    outside_s: float = 0.0
    # What _whole and is_at_rest last said, and of which state.
    _told: tuple[tuple[float, bool], tuple[Values, Values]] | None = None
    _rested: tuple[float, bool] | None = None

    def lost_s(self, time_s: float) -> float:
        """Return for how long it should have been seen, and was not."""
        return time_s - self.seen_s - self.behind_s - self.outside_s

    def predicted(self, time_s: float) -> Values:
        """Return the box at `time_s`, moved on at its last speed.

        The movement fades after half a second in which it should have been seen.
        """
        return self._moved(*self._whole(), time_s)

    @property
    def is_at_rest(self) -> bool:
        """Whether it hardly moved before it was last seen."""
        if not self.places or self.places[-1][0] - self.places[0][0] < RESTED_S:
            return False
        (first_s, first, _), (last_s, last, area) = self.places[0], self.places[-1]
        if self._rested is None or self._rested[0] != last_s:
            way = (last[:2] + last[2:] - first[:2] - first[2:]) / 2
            speed = math.hypot(*way.tolist()) / (last_s - first_s)
            self._rested = last_s, speed <= AT_REST * math.sqrt(area)
        return self._rested[1]

    def preference(self, last_s: float) -> float:
        """Return by how much it is to be preferred to others, the last frame being at `last_s`."""
        standing = STANDING * min(self.seen_s - self.first_s, 1)
        return standing if self.seen_s == last_s else standing - ABSENT

    def alternatives(self, time_s: float) -> tuple[Values, Values, Values]:
        """Return where it may be at `time_s`: as predicted, as last seen and moved on, and at rest.

        Of small boxes, which are inexact, speeds are, too.
        """
        moved = self._moved(self.box, self.speed, time_s)
        return self.predicted(time_s), moved, self.box if self.is_at_rest else moved

    def _moved(self, box: Values, speed: Values, time_s: float) -> Values:
        return box + speed * (self.behind_s + 0.5 * (1 - math.exp(-self.lost_s(time_s) / 0.5)))

    def go_on(self, time_s: float) -> None:
        """Move on as before, as something is seen of it, but not where it is."""
        _, speed = self._whole()
        self.box, self.speed = self.predicted(time_s), speed
        self.seen_s, self.behind_s, self.outside_s = time_s, 0.0, 0.0

    def _whole(self) -> tuple[Values, Values]:
        """Return the last box and speed; for a partly hidden thing, as they must have been."""
        state = self.seen_s, self.behind_s > 0
        if self._told is None or self._told[0] != state:
            self._told = state, self._as_whole()
        return self._told[1]

    def _as_whole(self) -> tuple[Values, Values]:
        until_s = self.placed_s - MISLEADING_S
        earlier = [area for time_s, _, area in self.places if time_s <= until_s]
        late = [area for time_s, _, area in self.places if time_s > until_s]
        if len(earlier) < MIN_PLACES:
            return self.box, self.speed
        # Nothing passes in front of what keeps its size, or is as large as ever.
        is_steady = len(late) > MIN_PLACES and min(late) >= STEADY**2 * max(late)
        own = _area(self.box)
        may_vanish = self.behind_s > 0
        if is_steady or (own > SHRUNK**2 * max(earlier) and not may_vanish):
            return self.box, self.speed
        shown = [each for each in self.places if each[0] <= until_s]
        shown = [each for each in shown if each[2] >= SHRUNK**2 * max(earlier)]
        times, boxes = (np.array(each) for each in list(zip(*shown, strict=True))[:2])
        mean = boxes.mean(axis=0)
        # What is about to vanish behind something may be taken for a part of that.
        is_whole = own > SHRUNK**2 * _area(mean) and not may_vanish
        if len(shown) < MIN_PLACES or is_whole:
            return self.box, self.speed
        off = times - times.mean()
        centres = (boxes[:, :2] + boxes[:, 2:]) / 2
        speed = np.tile(off @ centres / max(float(off @ off), 1e-9), 2)
        return mean + speed * (self.seen_s - times.mean()), speed


class Tracker:
    """Gives each thing in a video an id that it keeps.

    Places and speeds are kept as if the camera stood still, see `look`. Boxes go to the tracks
    whose predicted boxes they fit best, greedily by distance IoU, best pair first (with the few
    boxes of a frame this and the optimal assignment agree but for ties).
    A track not seen for `max_lost_s`, up to BEHIND_S more of them behind another thing and
    OUTSIDE_S more where the camera does not look, ends; the thing gets a new id if it comes back
    later.
    """

    MIN_FIT = -0.25
    NEAR_FIT = 0.25
    GOOD_FIT = 0.5

    def __init__(self, max_lost_s: float = LOST_S) -> None:
        """Start without tracks.

        max_lost_s: how long a track waits for its thing to be seen again.
        """
        self._max_lost_s = max_lost_s
        self._next_id = 0
        self._tracks: list[_Track] = []
        self._time_s = 0.0
        self._camera = CameraMotion()
        # From where things would be without the camera's motion to where they are in the frame.
        self._view = Similarity()
        self._frame: tuple[int, int] | None = None

    def look(self, image: Image) -> Similarity:
        """Take the next frame, uint8[h, w, 3], for the camera's own motion; before update.

        With fewer than two tracks nothing can be mixed up, and the motion is not asked for.
        Returns the motion since the last frame.
        """
        before, view = self._view, self._view
        if len(self._tracks) < 2:
            self._camera.pause()
        else:
            boxes = [track.box for track in self._tracks if track.seen_s == self._time_s]
            seen = before.boxes(np.array(boxes, np.float64).reshape(-1, 4))
            self._camera.update(image, seen)
            view = self._camera.view
        self.look_from(view, image.shape[1], image.shape[0])
        return view.after(before.inverse)

    def look_from(self, view: Similarity, width: int, height: int) -> None:
        """Do what look does, where the camera's motion is known.

        view: the motion since the first frame. width, height: of the next frame, in pixels.
        """
        self._view, self._frame = view, (width, height)

    def predict(self, time_s: float) -> Floats:
        """Return where the tracks seen in the last frame will be: corners, float32[n, 4]."""
        self._forget(time_s)
        boxes = [t.predicted(time_s) for t in self._tracks if t.seen_s == self._time_s]
        return self._view.boxes(np.array(boxes, np.float64).reshape(-1, 4)).astype(np.float32)

    @property
    def waiting(self) -> bool:
        """Whether to look for some thing: it was not seen in the last frame, but lately."""
        return any(
            track.seen_s < self._time_s
            and track.lost_s(self._time_s) <= LOST_S
            and not self._is_outside(track)
            for track in self._tracks
        )

    def update(self, boxes: Boxes, sure: NDArray[np.bool_], time_s: float) -> NDArray[np.int64]:
        """Update with the boxes of a frame.

        boxes: corners, [n, 4]; sure: bool[n], the box may start a track if it fits none. One that
        is not sure and fits badly may be the visible part of a thing: it does not move its track.
        Returns int64[n], the id of each box; -1 where it fits none and may not start one.
        """
        self._forget(time_s)
        placed = self._view.inverse.boxes(boxes)
        ids = np.full(len(placed), -1, np.int64)
        for index, track, fit in self._pairs(placed, sure, time_s):
            ids[index] = track.id
            # What comes out from behind something is at first seen in part.
            was_whole = track.placed_s == self._time_s
            if sure[index] or (fit >= self.GOOD_FIT and was_whole):
                self._move(track, placed[index], time_s)
            else:
                track.go_on(time_s)
        for index in np.flatnonzero((ids < 0) & sure).tolist():
            ids[index] = self._next_id
            still = np.zeros(4)
            track = _Track(
                self._next_id,
                placed[index],
                time_s,
                still,
                OneEuroFilter(),
                placed_s=time_s,
                first_s=time_s,
            )
            self._tracks.append(track)
            self._next_id += 1
        self._wait(placed[ids >= 0], time_s)
        self._time_s = time_s
        return ids

    def smooth(self, ids: NDArray[np.int64], values: Boxes, sizes: Boxes) -> Floats:
        """Return steady values[n, ...] of the things with these ids, once a frame after update.

        sizes: [n], how large each is, in the values' unit.
        """
        tracks = {track.id: track for track in self._tracks}
        smoothed = [
            tracks[int(id)].smoothing.filter(value, self._time_s, float(size))
            for id, value, size in zip(ids, values, sizes, strict=True)
        ]
        return np.array(smoothed, np.float32).reshape(values.shape)

    def _forget(self, time_s: float) -> None:
        self._tracks = [
            track
            for track in self._tracks
            if track.behind_s <= BEHIND_S
            and track.outside_s <= OUTSIDE_S
            and self._waits(track, time_s)
        ]

    def _waits(self, track: _Track, time_s: float) -> bool:
        """Return whether a track's thing may still be seen again."""
        lost_s = track.lost_s(time_s)
        return lost_s <= self._max_lost_s or (lost_s <= REST_S and track.is_at_rest)

    def _wait(self, seen: Boxes, time_s: float) -> None:
        """Record which unseen tracks are outside, or behind what is seen: corners, [n, 4]."""
        for track in self._tracks:
            if track.seen_s == time_s:
                continue
            if self._is_outside(track):
                track.outside_s += time_s - self._time_s
            elif len(seen):
                box = track.predicted(time_s)[None]
                if shared_areas(box, seen).max() >= COVERED * areas(box)[0]:
                    track.behind_s += time_s - self._time_s

    def _is_outside(self, track: _Track) -> bool:
        """Return whether where a thing was last seen is no longer in the frame."""
        if self._frame is None:
            return False
        box = self._view.boxes(track.box[None])
        return bool(areas(clipped(box, *self._frame))[0] < OUTSIDE * areas(box)[0])

    def _pairs(
        self, boxes: Values, sure: NDArray[np.bool_], time_s: float
    ) -> list[tuple[int, _Track, float]]:
        if not len(boxes) or not self._tracks:
            return []
        places = np.array([track.alternatives(time_s) for track in self._tracks])
        fits = _fits(boxes, places.swapaxes(0, 1).reshape(-1, 4))
        whole, moved, rest = fits.reshape(len(boxes), 3, -1).swapaxes(0, 1)
        last = np.maximum(moved, rest)
        # Where a thing was last seen is surer than where it must have been if it is partly hidden.
        near = last >= self.NEAR_FIT
        whole[near.any(axis=1)] = whole[:, near.any(axis=0)] = -1
        fits = np.maximum(last, whole)
        lost = np.array([track.lost_s(time_s) > LOST_S for track in self._tracks])
        least = np.where(lost[None], self.NEAR_FIT, np.where(sure, self.MIN_FIT, 0)[:, None])
        preference = [track.preference(self._time_s) for track in self._tracks]
        order = fits + np.array(preference, np.float32)
        order[fits < least] = -np.inf
        pairs: list[tuple[int, _Track, float]] = []
        while order.max() > -np.inf:
            index, column = divmod(int(order.argmax()), order.shape[1])
            pairs.append((index, self._tracks[column], float(fits[index, column])))
            order[index, :] = order[:, column] = -np.inf
        return pairs

    def _move(self, track: _Track, box: Values, time_s: float) -> None:
        step_s = time_s - track.seen_s
        way = box - track.box
        moved = (way + way[[2, 3, 0, 1]]) / 2
        track.speed = track.speed + _weight(SPEED_CUTOFF_HZ, step_s) * (
            moved / step_s - track.speed
        )
        track.box, track.behind_s, track.outside_s = box, 0.0, 0.0
        track.seen_s = track.placed_s = time_s
        track.places.append((time_s, box, _area(box)))
        while track.places[0][0] < time_s - MEMORY_S:
            track.places.popleft()


def _fits(boxes: Values, places: Values) -> Floats:
    """Return how well boxes[n, 4] fit places[m, 4], corners: distance IoU, float32[n, m]."""
    ratios = np.log(_sizes(boxes)[:, None]) - np.log(_sizes(places)[None])
    fits = distance_iou(boxes, places)
    fits[np.abs(ratios) > math.log(MAX_SIZE_RATIO)] = -1
    return fits


def _area(box: Values) -> float:
    """Return the area of one box, [4]; of one alone in less time than boxes.areas."""
    left, top, right, bottom = box.tolist()
    return float(max(right - left, 0) * max(bottom - top, 0))


def _sizes(boxes: Boxes) -> Values:
    """Return the geometric mean of each box's sides, at least a pixel."""
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 1).astype(np.float64)
    return np.asarray(np.sqrt(sides.prod(axis=1)), np.float64)
