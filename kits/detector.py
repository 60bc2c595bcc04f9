"""A detection network on pictures, whole or in parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats
from palmkit.kits.detection import SIDE_MULTIPLE, Candidates, decode, merge
from palmkit.kits.image import Image, Part, Placement, clip_part, letterbox
from palmkit.kits.kit import Runnable, pixels
from palmkit.kits.sheets import Sheet, rows

TILE_OVERLAP = 0.25
# Ratios of the longer side to the shorter one, in most pictures and videos.
RATIOS = (1, 4 / 3, 3 / 2, 16 / 9)
# Those of others, such as screens of phones and panoramas: C runs what is planned, and where that
# has another ratio it shows black beside the picture.
OTHER_RATIOS = (10 / 9, 2, 5 / 2, 10 / 3, 4)
# Numbers of parts seen at once, few so that few shapes are planned.
ROW = 4


class Detector:
    """Finds things in pictures; any thread may call it."""

    def __init__(self, model: Runnable, keypoints: int, max_enlarged: float) -> None:
        """Wrap a model.

        model: with the contract of palmkit.kits.detection, of things with so many keypoints.
        max_enlarged: the largest enlargement of small pictures.
        """
        self.model = model
        self._keypoints = keypoints
        self._max_enlarged = max_enlarged

    def search(
        self,
        image: Image,
        roi: Part | None,
        size: int,
        min_score: float,
        tile: int | None = None,
    ) -> Candidates:
        """Search the whole picture, and tiles if asked; return one row a thing, best first.

        size: longest side of the network's input; tile: side of the tiles; all in pixels.
        Raises ImageError if `roi` lies outside the picture.
        """
        left, top, right, bottom = clip_part(image, roi)
        area = (left, top, right - left, bottom - top)
        width, height = area[2:]
        found = [self.infer_whole(image, area, size, min_score)]
        if tile is not None and tile < max(width, height):
            side = (_padded(tile), _padded(tile))
            for part in _tiles(area, tile):
                seen = self.infer(image, part, side, min_score, 1.0)
                found.append(seen.take(~is_cut(seen, part, area)))
        return merge(Candidates.joined(found))

    def infer_whole(self, image: Image, area: Part, size: int, min_score: float) -> Candidates:
        """Return all candidates in an area of the picture, in pixels of the picture.

        size: longest side of the network's input.
        """
        width, height = area[2:]
        scale = min(size / max(width, height), self._max_enlarged)
        shape = (_padded(height * scale), _padded(width * scale))
        return self.infer(image, area, shape, min_score, scale)

    def infer_parts(
        self, image: Image, area: Part, parts: Sequence[Part], side: int, min_score: float
    ) -> Candidates:
        """Return all candidates in at least one part of an area, in pixels of the picture.

        The network sees the parts at once, each in a square of `side` pixels, in rows of ROW
        squares. Candidates cut by a part's side are left out.
        """
        sheet = rows(parts, side, ROW)
        return self.infer_sheet(image, area, sheet, min_score, self._max_enlarged)

    def infer_sheet(
        self, image: Image, area: Part, sheet: Sheet, min_score: float, max_scale: float
    ) -> Candidates:
        """Return all candidates in the parts of a sheet, in pixels of the picture.

        max_scale: the largest enlargement. Candidates cut by a part's side that is none of the
        area are left out.
        """
        canvas = np.zeros((*sheet.shape, 3), np.uint8)
        placements: list[Placement] = []
        for part, (x, y, width, height) in zip(sheet.parts, sheet.cells, strict=True):
            shown, placement = letterbox(image, height, width, part=part, max_scale=max_scale)
            canvas[y : y + height, x : x + width] = shown
            placements.append(placement)
        seen = decode(
            self.model.run({"image": pixels(self.model, canvas)}), min_score, self._keypoints
        )
        middles = (seen.boxes[:, :2] + seen.boxes[:, 2:]) / 2
        found = [seen.take(np.zeros(0, np.int64))]
        for part, cell, placement in zip(sheet.parts, sheet.cells, placements, strict=True):
            start, size = np.array(cell[:2], np.float32), np.array(cell[2:], np.float32)
            inside = np.flatnonzero(((middles >= start) & (middles < start + size)).all(axis=1))
            if len(inside):
                own = _placed(seen.take(inside), placement, start)
                found.append(own.take(~is_cut(own, part, area)))
        return Candidates.joined(found)

    def infer(
        self,
        image: Image,
        part: Part,
        shape: tuple[int, int],
        min_score: float,
        max_scale: float,
    ) -> Candidates:
        """Return all candidates in a part of the picture, in pixels of the picture.

        shape: height and width of the network's input; max_scale: the largest enlargement.
        """
        canvas, placement = letterbox(image, *shape, part=part, max_scale=max_scale)
        found = decode(
            self.model.run({"image": pixels(self.model, canvas)}), min_score, self._keypoints
        )
        return _placed(found, placement, np.zeros(2, np.float32))


def _placed(found: Candidates, placement: Placement, corner: Floats) -> Candidates:
    """Map candidates of a placed part, in a square from this corner, to the picture's pixels."""
    boxes = placement.to_picture(found.boxes.reshape(-1, 2, 2) - corner).reshape(-1, 4)
    return Candidates(boxes, found.scores, placement.to_picture(found.keypoints - corner))


def picture_dims(
    longest: Iterable[int], ratios: Iterable[float] = RATIOS
) -> list[Mapping[str, int]]:
    """Return input sizes of portrait and landscape pictures with these longer sides, each once."""
    sides: dict[tuple[int, int], None] = {}
    ratios = tuple(ratios)
    for side in longest:
        for ratio in ratios:
            other = _padded(side / ratio)
            sides.update({(side, other): None, (other, side): None})
    return [{"height": height, "width": width} for height, width in sides]


def is_cut(found: Candidates, part: Part, area: Part) -> NDArray[np.bool_]:
    """Return which boxes reach a side of the part that is not a side of the area."""
    inner = np.array(part[:2]) + 0.01 * np.array(part[2:])
    outer = np.array(part[:2]) + 0.99 * np.array(part[2:])
    has_more_before = np.array(part[:2]) > np.array(area[:2])
    has_more_after = np.add(part[:2], part[2:]) < np.add(area[:2], area[2:])
    before = (found.boxes[:, :2] < inner) & has_more_before
    after = (found.boxes[:, 2:] > outer) & has_more_after
    return np.asarray((before | after).any(axis=1))


def _padded(side: float) -> int:
    """Return the next multiple of SIDE_MULTIPLE, so that few shapes are planned."""
    return max(math.ceil(round(side) / SIDE_MULTIPLE), 1) * SIDE_MULTIPLE


def _tiles(area: tuple[int, int, int, int], side: int) -> list[Part]:
    """Return squares of one size that cover x, y, w, h, each overlapping the next."""

    def starts(low: int, length: int) -> list[int]:
        if length <= side:
            return [low]
        count = math.ceil((length - side) / (side * (1 - TILE_OVERLAP))) + 1
        return [low + round(i * (length - side) / (count - 1)) for i in range(count)]

    x, y, width, height = area
    return [
        (left, top, min(side, width), min(side, height))
        for top in starts(y, height)
        for left in starts(x, width)
    ]
