"""The face detector kit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats, clipped
from palmkit.kits.calls import (
    Frame,
    Given,
    Picture,
    Sources,
    called_with_pictures,
    takes_pictures,
    takes_pictures_awaited,
)
from palmkit.kits.detection import Candidates, merge
from palmkit.kits.detector import is_cut
from palmkit.kits.face.options import DETECTORS, FaceModes, FaceOptions
from palmkit.kits.face.search import MAX_ENLARGED, Searching, first_dims
from palmkit.kits.image import Image, Part, Source
from palmkit.kits.kit import Kit
from palmkit.kits.options import kept, made_of
from palmkit.kits.results import Faces
from palmkit.kits.tracks import Tracker

# A tracked face is looked for in a square of this many face sizes, put in so small an input.
FOLLOW_REACH = 2.5
FOLLOW_SIDE = 160
# A face already tracked may score this much less than a new one before it counts as gone.
KEEP_SCORE = 0.6


@dataclass(frozen=True, repr=False, eq=False)
class FaceDetectorArguments(FaceModes, FaceOptions):
    """The arguments of FaceDetector."""


class FaceDetector(Kit[Faces]):
    """Finds faces in pictures and videos, with eyes, nose tip and mouth corners.

    Where no face of a picture is sure it looks at the other quarter turns, too, for people who lie
    and pictures held sideways, unless the quality is "fast" or it has a budget.

    with FaceDetector(max_faces=4) as detector:
        faces = detector.detect("group.jpg")
    """

    name: ClassVar[str] = "face detector"

    @made_of(FaceDetectorArguments)
    def __init__(self, options: FaceDetectorArguments) -> None:
        """Make a detector; detectors of the same model, threads and precision share it.

        Raises ValueError for an option that cannot be, ModelError for a model that cannot.
        """
        super().__init__(options)
        self._options = options
        self._searching = Searching(options, options.mode, options.model)
        self._start(*self._searching.networks)

    @classmethod
    def first_dims(cls) -> Mapping[str, Sequence[Mapping[str, int]]]:
        """Return the detectors' dims at the sizes of FaceSearch, as Open.first_dims describes."""
        return {name: first_dims() for name in DETECTORS}

    def _adopt(self) -> None:
        self._search = self._searching.search()

    @takes_pictures
    def detect(self, frame: Frame[Source]) -> Faces:
        """Find the faces in a picture, or in the next frame of a video.

        image: a path, the bytes of a picture file, an open binary file, a PIL.Image, or uint8[h, w,
        3] RGB; see palmkit.kits.image.read_image for the other arrays, and for format, rotation and
        flip. In image mode also a list of these, for a list of results.
        timestamp_ms: of the frame, in video mode; None: 1/30 s after the last one. It may repeat
        or jump back.
        roi: x, y, w, h in pixels of the upright picture: search only there.
        Returns an empty Faces where there is none.
        Raises ImageError if `image` is not a picture or `roi` lies outside it, RuntimeError in
        stream mode or after close.
        """
        return self._call(frame)

    @takes_pictures_awaited
    async def detect_async(self, frame: Frame[Source]) -> Faces:
        """Do what detect does without blocking the event loop."""
        return await self._call_async(frame)

    def _run(self, image: Image, roi: Part | None, time_s: float | None) -> Faces:
        if time_s is None:
            return self._finish(image, self._search.find_any_way_up(image, roi), None)
        return self._track(image, roi, time_s)

    def _forget(self) -> None:
        self._tracker = Tracker()
        self._since_search = 0

    def _track(self, image: Image, roi: Part | None, time_s: float) -> Faces:
        keep_score = self._search.min_score * KEEP_SCORE
        self._tracker.look(image)
        known = self._tracker.predict(time_s)
        found = None
        due = self._since_search + 1 >= self._options.detect_every or self._tracker.waiting
        # With many faces the whole picture costs less to infer than each of them.
        longer, shorter = max(image.shape[:2]), min(image.shape[:2])
        is_cheaper = len(known) * FOLLOW_SIDE**2 < self._search.size**2 * shorter / longer
        if len(known) and not due and is_cheaper:
            found = self._follow(image, known, keep_score)
        if found is None:
            smallest = float((known[:, 2:] - known[:, :2]).max(axis=1).min(initial=math.inf))
            found = self._search.find(image, roi, keep_score, smallest=smallest)
            self._since_search = 0
        else:
            self._since_search += 1
        if roi is not None:
            found = found.take(_is_inside(found, roi))
        ids = self._tracker.update(found.boxes, found.scores >= self._search.min_score, time_s)
        found, ids = found.take(ids >= 0), ids[ids >= 0]
        if self._options.smoothing:
            values = np.concatenate([found.boxes, found.keypoints.reshape(-1, 10)], axis=1)
            values = self._tracker.smooth(ids, values, _shorter_sides(found.boxes))
            points = values[:, 4:].reshape(-1, 5, 2)
            found = Candidates(values[:, :4], found.scores, points)
        return self._finish(image, found, ids)

    def _follow(self, image: Image, known: Floats, min_score: float) -> Candidates | None:
        """Look for each face only near its expected place; None if one is not there."""
        height, width = image.shape[:2]
        side = (FOLLOW_SIDE, FOLLOW_SIDE)
        found: list[Candidates] = []
        for box in known:
            x, y = (float(value) for value in (box[:2] + box[2:]) / 2)
            if not (0 <= x < width and 0 <= y < height):
                return None
            part = _surroundings(x, y, float(max(box[2:] - box[:2])))
            seen = self._search.network.infer(image, part, side, min_score, MAX_ENLARGED)
            seen = seen.take(~is_cut(seen, part, (0, 0, width, height)))
            if not len(seen):
                return None
            found.append(seen)
        return merge(Candidates.joined(found))

    def _finish(self, image: Image, found: Candidates, ids: NDArray[np.int64] | None) -> Faces:
        """Clip, filter and order; convert to the user's pixels."""
        height, width = image.shape[:2]
        boxes = clipped(found.boxes, width, height)
        sides = _shorter_sides(boxes)
        least = self._options.least_side(height, width)
        kept = np.flatnonzero((sides > 0) & (sides.astype(np.float64) >= least))
        # Which faces count must not flicker in a video: the longest tracked come first.
        order = kept[np.argsort(-found.scores[kept] if ids is None else ids[kept], kind="stable")]
        order = order[: self._options.max_faces]
        order = order[np.argsort(-found.scores[order], kind="stable")]
        boxes = boxes[order]
        boxes[:, 2:] -= boxes[:, :2]
        return Faces(
            width,
            height,
            boxes,
            found.scores[order],
            found.keypoints[order],
            None if ids is None else ids[order],
        )


def _surroundings(x: float, y: float, size: float) -> Part:
    """Return the square to infer round a face; in steps, so that it is steady for a still face.

    Were it to move with each frame's box, its new pixel grid would make the next box jitter.
    """
    side = round(FOLLOW_REACH * 2 ** (round(4 * math.log2(max(size, 1))) / 4))
    step = max(side // 8, 1)
    left, top = (round((centre - side / 2) / step) * step for centre in (x, y))
    return left, top, side, side


def _is_inside(found: Candidates, part: Part) -> NDArray[np.bool_]:
    """Return which boxes have their centre in the part."""
    centres = (found.boxes[:, :2] + found.boxes[:, 2:]) / 2
    low = np.array(part[:2])
    return np.asarray(((centres >= low) & (centres <= low + part[2:])).all(axis=1))


def _shorter_sides(boxes: Floats) -> Floats:
    return np.asarray((boxes[:, 2:] - boxes[:, :2]).min(axis=1), np.float32)


@dataclass(frozen=True, repr=False, eq=False)
class FaceDetectorCall(FaceOptions, Picture[Given]):
    """The arguments of detect_faces."""


@called_with_pictures(FaceDetectorCall[Source], FaceDetectorCall[Sources])
def detect_faces(call: FaceDetectorCall[Source]) -> Faces:
    """Find the faces in a picture, with a detector that is made once; any thread may call it.

    image, roi, format, rotation and flip are those of FaceDetector.detect, the options those of
    FaceDetector.
    Raises ImageError if `image` is not a picture, ValueError for an option that cannot be.
    """
    return kept(FaceDetector, FaceOptions, call).detect(call.image, **call.reading())
