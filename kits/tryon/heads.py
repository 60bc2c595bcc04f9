"""Which faces wear a look, and which hair is theirs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.results import Faces
from palmkit.kits.tryon.colour import Floats

Rows: TypeAlias = NDArray[np.intp]
Which: TypeAlias = "Literal['all', 'largest', 'middle'] | int"

# The longer side of a face's box, in centimetres.
FACE_CM = 18.0
# The side of the squares in which hair is followed from a head, in centimetres, the most of them
# along the picture's hair, and how many more its part has on each side at least.
CELL_CM, MOST_CELLS, ROOM = 0.9, 320, 2
# From which mask on hair goes on.
GOES_ON = 0.2
# Where a head's outline is, from its face's middle, in the longer side of the face's box: across,
# up, and down; and where hair is that hangs down.
ACROSS, UP, DOWN, HANGING = 0.6, 0.8, 0.7, 1.3
# Hair so near to the middle, in the way to that outline, grows on this head.
NEAR = 1.2
# A face so many times as large as another is in front of it.
IN_FRONT = 1.25
# No hair is further from its face's middle, in those sides.
REACH = 4.0
# A face of a picture whose longer side is less, in pixels, is often none below this score.
SMALL, SURE = 24.0, 0.75
# In a video the face chosen before stays it until another one is better by so much.
STICKY = 1.3


class Hair(NamedTuple):
    """A head's hair: the row of its face, a part of the picture, and the mask there, float32.

    per_cm: how many pixels a centimetre at the head is.
    """

    row: int
    part: tuple[slice, slice]
    mask: Floats
    per_cm: float


class Wearers:
    """Chooses the faces that wear a look; in a video it stays with the one that it has chosen."""

    def __init__(self, which: Which, most: int | None, doubts: bool = True) -> None:
        """Set the choice: see TryOnOptions.

        most: of the best score, among which it is made. doubts: a small face of a picture is left
        out unless it is sure to be one.
        """
        self._which, self._most, self._doubts = which, most, doubts
        self.reset()

    def reset(self) -> None:
        """Forget the faces of earlier frames."""
        self._chosen: int | None = None

    def among(self, faces: Faces) -> Rows:
        """Return the rows of the faces that wear the look, in the order of the faces."""
        rows = np.arange(len(faces))
        if self._doubts and faces.ids is None:
            rows = np.flatnonzero(
                (faces.boxes[:, 2:].max(axis=1) >= SMALL) | (faces.scores >= SURE)
            )
        if self._most is not None and len(rows) > self._most:
            rows = np.sort(rows[np.argsort(-faces.scores[rows], kind="stable")[: self._most]])
        if self._which == "all" or not len(rows):
            return rows
        boxes = faces.boxes[rows]
        if isinstance(self._which, int):
            order = np.argsort(boxes[:, 0] + boxes[:, 2] / 2, kind="stable")
            return rows[order[self._which : self._which + 1]]
        middles = boxes[:, :2] + boxes[:, 2:] / 2 - (faces.width / 2, faces.height / 2)
        cost = 1 / np.maximum(boxes[:, 2] * boxes[:, 3], 1e-6)
        if self._which == "middle":
            cost = np.hypot(*middles.T) + 0.05 * max(faces.width, faces.height)
        if faces.ids is not None:
            cost = np.where(faces.ids[rows] == self._chosen, cost / STICKY, cost)
        best = rows[[int(cost.argmin())]]
        if faces.ids is not None:
            self._chosen = int(faces.ids[best[0]])
        return best


def picked(faces: Faces, rows: Sequence[int] | Rows) -> Faces:
    """Return these faces alone."""
    if len(rows) == len(faces):
        return faces
    kept: dict[str, Any] = {
        each.name: value[rows]
        for each in fields(faces)
        if isinstance(value := getattr(faces, each.name), np.ndarray)
    }
    return replace(faces, **kept)


def hair_of_heads(mask: Floats, boxes: Floats, wearers: Rows) -> Iterator[Hair]:
    """Yield the hair of each wearer that has some.

    mask: float32[h, w], 0..1, of all hair. boxes: float32[n, 4] of x, y, w, h of all faces; what
    is nearer to another one's head than to a wearer's, in their own sizes, is the other one's, but
    for the crown of a head before it, and what is not connected with the head is nobody's.
    """
    import cv2

    if not len(wearers):
        return
    sides = boxes[:, 2:].max(axis=1)
    middles = boxes[:, :2] + boxes[:, 2:] / 2
    reach = sides[wearers, None] * REACH
    low, high = (middles[wearers] - reach).min(axis=0), (middles[wearers] + reach).max(axis=0)
    ends = mask.shape[::-1]
    left, top = (int(np.clip(value, 0, end)) for value, end in zip(low, ends, strict=True))
    right, bottom = (int(np.clip(value, 0, end)) for value, end in zip(high, ends, strict=True))
    finest = float(sides[wearers].min()) * CELL_CM / FACE_CM
    step = max(int(finest), math.ceil(max(right - left, bottom - top, 1) / MOST_CELLS))
    # The mask varies little within a square: its middle stands for it.
    first = step // 2
    is_hair = mask[top + first : bottom : step, left + first : right : step] > GOES_ON
    if not is_hair.any():
        return
    rows, columns = (
        np.arange(length, dtype=np.float32) * step + (start + first)
        for length, start in zip(is_hair.shape, (top, left), strict=True)
    )
    away = np.stack(
        [
            _distance(columns - at[0], rows - at[1], side, HANGING)
            for at, side in zip(middles, sides, strict=True)
        ]
    )
    if len(boxes) > 1:
        # Of those from the largest down, and of how many that are before each.
        order = np.argsort(-sides, kind="stable")
        before = (sides[None] >= IN_FRONT * sides[:, None]).sum(axis=1)
        crowns = (away[order] < NEAR) & (rows[:, None] < middles[order, 1, None, None])
        hidden = np.logical_or.accumulate(crowns, axis=0)
        for row in np.flatnonzero(before).tolist():
            away[row][hidden[before[row] - 1]] = np.inf
    owner = away.argmin(axis=0)
    for row in wearers.tolist():
        nearest = np.asarray(is_hair & (owner == row), np.uint8)
        count, found = cv2.connectedComponents(nearest, connectivity=8)
        parts = np.asarray(found, np.intp)
        at, side = middles[row], float(sides[row])
        is_near = _distance(columns - at[0], rows - at[1], side, DOWN) < NEAR
        is_here = np.bincount(parts[is_near], minlength=count) > 0
        is_here[0] = False
        if not is_here.any():
            continue
        kept = is_here[parts]
        others = is_hair & ~kept
        x, y, wide, high = cv2.boundingRect(kept.view(np.uint8))
        # As far as its faint ends go, and further, so that there is background on every side.
        margin = ROOM + max(wide, high) // 16
        cells = (
            slice(max(y - margin, 0), y + high + margin),
            slice(max(x - margin, 0), x + wide + margin),
        )
        part = (
            slice(top + cells[0].start * step, min(top + cells[0].stop * step, bottom)),
            slice(left + cells[1].start * step, min(left + cells[1].stop * step, right)),
        )
        hair = mask[part]
        if others[cells].any():
            around = np.ones((3, 3), np.uint8)
            near, far = (cv2.dilate(each.view(np.uint8), around) for each in (kept, others))
            share = np.asarray(((near > far) | kept)[cells], np.float32)
            size = (hair.shape[1], hair.shape[0])
            hair = hair * cast(Floats, cv2.resize(share, size, interpolation=cv2.INTER_LINEAR))
        yield Hair(row, part, hair, side / FACE_CM)


def _distance(across: Floats, down: Floats, side: float, below: float) -> Floats:
    """Return the distance to a face's middle, 1 at an outline that lies `below` sides under it."""
    side = max(side, 1e-3)
    down = np.where(down > 0, down * np.float32(1 / below), down * np.float32(1 / UP))
    squares = np.square(down)[:, None] + np.square(across * np.float32(1 / ACROSS))
    return np.asarray(np.sqrt(squares) * np.float32(1 / side), np.float32)
