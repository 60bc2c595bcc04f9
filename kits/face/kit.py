"""The face detector kit."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats, clipped
from palmkit.kits.delivered import Current
from palmkit.kits.detector import is_cut
from palmkit.kits.face.decode import Candidates, merge
from palmkit.kits.face.search import MAX_ENLARGED, FaceSearch, check_sizes
from palmkit.kits.image import (
    Flip,
    Format,
    Image,
    Part,
    Rotation,
    Source,
)
from palmkit.kits.kit import (
    Kit,
    Mode,
    ModelSource,
    Precision,
    between,
    threshold,
    whole,
)
from palmkit.kits.results import Faces
from palmkit.kits.tracks import Tracker

# A tracked face is looked for in a square of this many face sizes, put in so small an input.
FOLLOW_REACH = 2.5
FOLLOW_SIDE = 160
# A face already tracked may score this much less than a new one before it counts as gone.
KEEP_SCORE = 0.6


class FaceDetector(Kit[Faces]):
    """Finds faces in pictures and videos, with eyes, nose tip and mouth corners.

    with FaceDetector(max_faces=4) as detector:
        faces = detector.detect("group.jpg")
    """

    name: ClassVar[str] = "face detector"

    def __init__(
        self,
        mode: Mode = "image",
        *,
        threads: int = 1,
        precision: Precision = "high",
        max_faces: int | None = None,
        min_score: float | None = None,
        min_face: float = 0,
        size: int | None = None,
        tile: int | None = None,
        detect_every: int = 10,
        smoothing: bool = True,
        model: ModelSource | None = None,
        on_result: Callable[[Faces, Image, float | None], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """Make a detector; detectors of the same model, threads and precision share it.

        mode: "image", "video" (ids; tracks between detections) or "stream" (video in a thread).
        threads: that one detection uses.
        precision: of the arithmetic, as in palmkit.engine.load.
        max_faces: keep the best-scored ones; None: all.
        min_score: 0..1; None: the threshold that the model was measured at.
        min_face: leave out faces whose shorter side is less, in pixels; less than 1: as a
        fraction of the picture's shorter side.
        size: longest side of what the network sees, in pixels, 32..4096; smaller pictures are
        enlarged to it, at most twice. More finds smaller faces and takes longer. None: 320, and
        closer at what may be a small face, in 640 where there are many.
        tile: look at large pictures also in overlapping squares of this side, in pixels, at full
        resolution, for small faces; None: only at the whole. Not in tracking between detections.
        detect_every: video and stream: look at the whole frame every so many frames, and whenever
        a face is lost or there is none; between, only around each face.
        smoothing: video and stream: steady boxes and points with a one-euro filter.
        model: a path of a model like the one shipped, "face_detector@stable" for the newest that is
        delivered (see palmkit.delivery), or an open one; None: the one shipped.
        on_result, on_error: stream mode, see submit.
        Raises ValueError for an option that cannot be, ModelError for a model that cannot.
        """
        whole("detect_every", detect_every, 1)
        check_sizes(size, tile)
        between("min_face", min_face, 0, math.inf)
        if max_faces is not None:
            whole("max_faces", max_faces, 1)
        if min_score is not None:
            between("min_score", min_score, 0, 1)
        self._model = Current(model, "face_detector", threads, precision)
        self._given_min_score = min_score
        self._max_faces = max_faces
        self._min_face = min_face
        self._size = size
        self._tile = tile
        self._detect_every = detect_every
        self._smoothing = smoothing
        self._forget()
        super().__init__(mode, on_result, on_error, self._model)

    def _adopt(self) -> None:
        network = self._model.model
        given = self._given_min_score
        self._min_score = threshold(network) if given is None else given
        self._search = FaceSearch(network, self._size, self._tile)

    def detect(
        self,
        image: Source,
        timestamp_ms: float | None = None,
        *,
        roi: Part | None = None,
        format: Format | None = None,
        rotation: Rotation = 0,
        flip: Flip | None = None,
    ) -> Faces:
        """Find the faces in a picture, or in the next frame of a video.

        image: a path, the bytes of a picture file, a PIL.Image, or uint8[h, w, 3] RGB; see
        palmkit.kits.image.read_image for the other arrays, and for format, rotation and flip.
        timestamp_ms: of the frame, in video mode; None: 1/30 s after the last one. It may repeat
        or jump back.
        roi: x, y, w, h in pixels of the upright picture: look only there.
        Returns an empty Faces where there is none.
        Raises ImageError if `image` is not a picture or `roi` lies outside it, RuntimeError in
        stream mode or after close.
        """
        return self._call(image, roi, timestamp_ms, format, rotation, flip)

    def _look(self, image: Image, roi: Part | None, time_s: float | None) -> Faces:
        if time_s is None:
            found = self._search.find(image, roi, self._min_score)
            return self._finish(image, found, None)
        return self._track(image, roi, time_s)

    def _forget(self) -> None:
        self._tracker = Tracker()
        self._since_search = 0

    def _track(self, image: Image, roi: Part | None, time_s: float) -> Faces:
        keep_score = self._min_score * KEEP_SCORE
        known = self._tracker.predict(time_s)
        found = None
        due = self._since_search + 1 >= self._detect_every or self._tracker.waiting
        # With many faces one look at the whole picture costs less than one at each.
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
        ids = self._tracker.update(found.boxes, found.scores >= self._min_score, time_s)
        found, ids = found.take(ids >= 0), ids[ids >= 0]
        if self._smoothing:
            values = np.concatenate([found.boxes, found.keypoints.reshape(-1, 10)], axis=1)
            values = self._tracker.smooth(ids, values, _shorter_sides(found.boxes))
            points = values[:, 4:].reshape(-1, 5, 2)
            found = Candidates(values[:, :4], found.scores, points)
        return self._finish(image, found, ids)

    def _follow(self, image: Image, known: Floats, min_score: float) -> Candidates | None:
        """Look for each face only near where it should be; None if one is not there."""
        height, width = image.shape[:2]
        side = (FOLLOW_SIDE, FOLLOW_SIDE)
        found: list[Candidates] = []
        for box in known:
            x, y = (float(value) for value in (box[:2] + box[2:]) / 2)
            if not (0 <= x < width and 0 <= y < height):
                return None
            part = _surroundings(x, y, float(max(box[2:] - box[:2])))
            seen = self._search.network.look(image, part, side, min_score, MAX_ENLARGED)
            seen = seen.take(~is_cut(seen, part, (0, 0, width, height)))
            if not len(seen):
                return None
            found.append(seen)
        return merge(Candidates.joined(found))

    def _finish(self, image: Image, found: Candidates, ids: NDArray[np.int64] | None) -> Faces:
        """Clip, filter and order; pixels become those that the user gets."""
        height, width = image.shape[:2]
        boxes = clipped(found.boxes, width, height)
        sides = _shorter_sides(boxes)
        least = self._min_face * min(height, width) if self._min_face < 1 else self._min_face
        kept = np.flatnonzero((sides > 0) & (sides >= least))
        # Which faces count must not flicker in a video: the longest tracked come first.
        order = kept[np.argsort(-found.scores[kept] if ids is None else ids[kept], kind="stable")]
        order = order[: self._max_faces]
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
    """The square to look at round a face; in steps, so that a still face is seen in the same one.

    Were it to move with each frame's box, its new pixel grid would make the next box jitter.
    """
    side = round(FOLLOW_REACH * 2 ** (round(4 * math.log2(max(size, 1))) / 4))
    step = max(side // 8, 1)
    left, top = (round((centre - side / 2) / step) * step for centre in (x, y))
    return left, top, side, side


def _is_inside(found: Candidates, part: Part) -> NDArray[np.bool_]:
    """Which boxes have their centre in the part."""
    centres = (found.boxes[:, :2] + found.boxes[:, 2:]) / 2
    low = np.array(part[:2])
    return np.asarray(((centres >= low) & (centres <= low + part[2:])).all(axis=1))


def _shorter_sides(boxes: Floats) -> Floats:
    return np.asarray((boxes[:, 2:] - boxes[:, :2]).min(axis=1), np.float32)


@lru_cache(maxsize=8)
def _detector(
    max_faces: int | None,
    min_score: float | None,
    min_face: float,
    size: int | None,
    tile: int | None,
) -> FaceDetector:
    return FaceDetector(
        max_faces=max_faces, min_score=min_score, min_face=min_face, size=size, tile=tile
    )


def detect_faces(
    image: Source,
    *,
    max_faces: int | None = None,
    min_score: float | None = None,
    min_face: float = 0,
    size: int | None = None,
    tile: int | None = None,
    roi: Part | None = None,
    format: Format | None = None,
    rotation: Rotation = 0,
    flip: Flip | None = None,
) -> Faces:
    """Find the faces in a picture, with a detector that is made once; any thread may call it.

    The options are those of FaceDetector, the rest those of FaceDetector.detect.
    Raises ImageError if `image` is not a picture, ValueError for an option that cannot be.
    """
    detector = _detector(max_faces, min_score, min_face, size, tile)
    return detector.detect(image, roi=roi, format=format, rotation=rotation, flip=flip)
