"""The search for the faces of a picture: in few pixels first, then closer at what may be one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats
from palmkit.kits.detection import Candidates, merge
from palmkit.kits.detector import Detector, picture_dims, sheet_shape
from palmkit.kits.image import Image, Part, clip_part
from palmkit.kits.kit import Runnable
from palmkit.kits.results import KEYPOINTS

# Without a size the whole picture is seen in the second of these pixels. The first comes before
# for who wants only so many faces: beside a large one, small ones do not show in it. The last is
# for who wants tiles, and for pictures of many small faces, where one pass costs less.
SIZES = (160, 320, 640)
# On the validation part all faces of so many pixels or more are as certain as they are in more.
QUICK_FACE = 24
# Of the least score, from which something smaller may be a face; of less than TINY_FACE pixels,
# where no face is certain or what is likelier has shown to be one.
DOUBT = 0.35
TINY_FACE = 12
TINY_DOUBT = 1 / 12
# It is seen closer, in the middle of a square of so many times its size, in so many pixels: first
# the likeliest; if it is a face, all others, or the whole picture if there are more than
# MOST_CLOSER. On the validation part 96 pixels find fewer faces, 12 squares fewer in crowds.
REACH = 3
CLOSER_SIDE = 128
MOST_CLOSER = 8
# Of what is left to certainty, by which a face must score more there: so picked out, more than
# elsewhere looks like one.
CONFIRMED = 1 / 8
# Small faces in small pictures are found better when these are enlarged, up to about this.
MAX_ENLARGED = 2.0


class FaceSearch:
    """Finds the faces of a picture; any thread may use it."""

    def __init__(self, model: Runnable, size: int | None, tile: int | None) -> None:
        """Wrap a model with the contract of palmkit.kits.detection.

        size: longest side of its input; None: as many pixels as needed. tile: infer also
        overlapping squares of this side; None: do not.
        """
        self.network = Detector(model, len(KEYPOINTS), MAX_ENLARGED)
        # Tiles are meant for small faces.
        self.size = SIZES[-1] if size is None else int(size)
        self._is_quick = size is None and tile is None
        self._tile = tile

    def find(
        self,
        image: Image,
        roi: Part | None,
        min_score: float,
        *,
        enough: int | None = None,
        smallest: float = math.inf,
    ) -> Candidates:
        """Return one row a face that scores at least `min_score`, best first, in pixels.

        enough: the number of faces wanted; None: any number. smallest: the longer side of the
        smallest face known to be there, in pixels.
        Raises ImageError if `roi` lies outside the picture.
        """
        left, top, right, bottom = clip_part(image, roi)
        area = (left, top, right - left, bottom - top)
        first, second = (min(size / max(area[2:]), MAX_ENLARGED) for size in SIZES[:2])
        if self._is_quick and enough is not None and smallest >= QUICK_FACE / first:
            found = self.network.search(image, area, SIZES[0], min_score * DOUBT)
            sure = found.scores >= min_score
            if len(found) and sure.all() and _longer_sides(found).min() >= QUICK_FACE / first:
                return found
            if np.count_nonzero(sure) >= enough:
                return found.take(sure)
        if not self._is_quick or smallest < QUICK_FACE / second:
            return self.network.search(image, area, self.size, min_score, self._tile)
        return self._search(image, area, min_score, second, enough)

    def _search(
        self, image: Image, area: Part, min_score: float, scale: float, enough: int | None
    ) -> Candidates:
        """Infer the whole picture at this scale, then closer what may be a small face."""
        seen = self.network.infer_whole(image, area, SIZES[1], min_score * TINY_DOUBT)
        is_sure = seen.scores >= min_score
        in_doubt = _is_in_doubt(seen, scale, min_score)
        least = min_score * (DOUBT if is_sure.any() else TINY_DOUBT)
        sure = merge(seen.take(is_sure))
        is_enough = enough is not None and len(sure) >= enough
        if is_enough or scale == MAX_ENLARGED or not (in_doubt & (seen.scores >= least)).any():
            return sure
        doubtful = seen.take(in_doubt)
        parts = _surroundings(doubtful.boxes[np.argsort(-doubtful.scores, kind="stable")], area)
        confirmed = min_score + (1 - min_score) * CONFIRMED
        large = sure.take(~_is_in_doubt(sure, scale, min_score))
        first = self.network.infer_parts(image, area, [next(parts)], CLOSER_SIDE, confirmed)
        if not len(first):
            return large
        others = list(islice(parts, MOST_CLOSER + 1))
        if len(others) > MOST_CLOSER:
            return self.network.search(image, area, self.size, min_score)
        found = [large, first]
        if others:
            found.append(self.network.infer_parts(image, area, others, CLOSER_SIDE, confirmed))
        return merge(Candidates.joined(found))


def first_dims() -> list[Mapping[str, int]]:
    """Return the network's input sizes for whole pictures, and for places seen closer."""
    sheets = (sheet_shape(count + 1, CLOSER_SIDE) for count in range(MOST_CLOSER))
    closer = {(height, width): None for height, width, _ in sheets}
    return [*picture_dims(SIZES), *({"height": h, "width": w} for h, w in closer)]


def _longer_sides(found: Candidates) -> Floats:
    return np.asarray((found.boxes[:, 2:] - found.boxes[:, :2]).max(axis=1), np.float32)


def _is_in_doubt(found: Candidates, scale: float, min_score: float) -> NDArray[np.bool_]:
    """Return which faces, seen at this scale, are so small that a closer pass is needed."""
    sides = _longer_sides(found) * scale
    least = np.where(sides < TINY_FACE, TINY_DOUBT, DOUBT) * min_score
    return np.asarray((sides < QUICK_FACE) & (found.scores >= least))


def _surroundings(boxes: Floats, area: Part) -> Iterator[Part]:
    """Yield squares inside the area, each round the first box not shown by earlier ones."""
    waiting = boxes.tolist()
    while waiting:
        x1, y1, x2, y2 = waiting[0]
        size = max(x2 - x1, y2 - y1)
        side = math.ceil(max(size * REACH, CLOSER_SIDE / MAX_ENLARGED))
        left, width = _centred((x1 + x2) / 2, side, area[0], area[2])
        top, height = _centred((y1 + y2) / 2, side, area[1], area[3])
        part = (left, top, width, height)
        yield part
        waiting = [box for box in waiting[1:] if not _shows(part, size, box, area)]


def _centred(middle: float, length: float, low: float, size: float) -> tuple[float, float]:
    """Return start and length of a range round the middle, not beyond low and low + size."""
    length = min(length, size)
    return min(max(round(middle - length / 2), low), low + size - length), length


def _shows(part: Part, size: float, box: Sequence[float], area: Part) -> bool:
    """Return whether a part shows a box with half its size round it, not much below `size`."""
    own = max(box[2] - box[0], box[3] - box[1])
    return own >= size / 2 and all(
        max(box[axis] - own / 2, area[axis]) >= part[axis]
        and min(box[2 + axis] + own / 2, area[axis] + area[2 + axis]) <= part[axis] + part[2 + axis]
        for axis in (0, 1)
    )
