"""Label people of whom nobody drew a mask, by close looks of the best network that ships.

`python -m palmkit.models.segmentation.close_looks DATA LABELS`, after labels.py, writes
LABELS/person/NAME.png anew for training pictures without true masks, of which teachers know less
than the network has learnt since (Xie et al., Self-training with noisy student, CVPR 2020). Where
the index has a box of every person, each is looked at alone, with some room, and all outside of the
boxes is known to be nobody; other pictures are looked at as the kit does. Where it has boxes of
faces, a face is somebody, whatever the network says, and what may be the body below it is looked at
alone, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from palmkit.models.segmentation.crop import Array, Flags, Picture, edges
from palmkit.models.segmentation.crowds import CROWDS, faces_in
from palmkit.models.segmentation.labels import (
    INDEXES,
    SHARES,
    body_of,
    name_of,
    people_in,
    read_rgba,
    stored,
    trust,
)
from palmkit.models.segmentation.sets import EMPTY, TRUTHS
from palmkit.models.segmentation.teachers import twice
from palmkit.models.training.labels import Row, read_rows

# The room that a look leaves round a person's box, in its width and height, and that a box may be
# too small by.
ROOM, SLACK = 0.2, 0.04
# The length in pixels from which a person is looked at alone; what a look counts in its person's
# box, and beside it, where the look at all of the picture counts 1.
LEAST, WITHIN, BESIDE = 24, 2.0, 0.3
# What is less than this outside of all boxes is nobody, and more is not known.
DOUBTED = 0.25
# How far an unsure answer within a person's box is trusted: more than a look at all would be.
UNSURE, SURE = 0.5, 0.9
# The axes of the ellipse in a face's box that is skin, whatever hair and hats do, in its own.
SKIN = 0.7


class CloseLooks:
    """The best network that ships, on pictures and on each person in them."""

    def __init__(self) -> None:
        """Open the kit."""
        from palmkit.kits import PortraitSegmenter
        from palmkit.kits.kit import shipped_model
        from palmkit.models.segmentation.evaluate import BEST, Network

        self.kit = PortraitSegmenter(quality="best")
        self.network = Network(shipped_model(BEST["portrait"]))

    def look(self, picture: Picture) -> Array:
        """Return the mean of a look and of one at the mirror image, float32[h, w]."""
        return twice(self.network.once, picture)

    def at_each(self, picture: Picture, boxes: Sequence[Sequence[float]]) -> tuple[Array, Flags]:
        """Return what looks at all and at each person say, and where people may be.

        Returns float32[h, w], 0..1, and bool[h, w].
        """
        shape = picture.shape[:2]
        total, count = self.look(picture), np.ones(shape, np.float32)
        people = np.zeros(shape, np.bool_)
        for box in boxes:
            left, top, right, bottom = edges(box, SLACK, shape)
            people[top:bottom, left:right] = True
            if max(box[2:]) < LEAST:
                continue
            x0, y0, x1, y1 = edges(box, ROOM, shape)
            weight = np.full((y1 - y0, x1 - x0), BESIDE, np.float32)
            weight[top - y0 : bottom - y0, left - x0 : right - x0] = WITHIN
            seen = self.look(np.ascontiguousarray(picture[y0:y1, x0:x1]))
            total[y0:y1, x0:x1] += weight * seen
            count[y0:y1, x0:x1] += weight
        return np.asarray(total / count, np.float32), people

    def label(
        self,
        picture: Picture,
        boxes: Sequence[Sequence[float]],
        faces: Sequence[Sequence[float]] = (),
    ) -> Array:
        """Return target, trust and nothing to cut out, float32[h, w, 3].

        boxes: of all the people x, y, w, h; none if they are not known. faces: of some of them.
        """
        shape = picture.shape[:2]
        bodies = [body_of(np.asarray(face), shape) for face in faces]
        if not boxes:
            mask = self.kit.segment(picture).mask
            weight = trust(mask)
            if bodies:
                near, people = self.at_each(picture, [_box(*body) for body in bodies])
                mask = np.where(people, (mask + 2 * near) / 3, mask)
                weight = np.where(people, np.maximum(_known(mask), trust(mask)), weight)
        else:
            mask, people = self.at_each(picture, boxes)
            # What looks like somebody outside of every box was forgotten, or is nobody.
            weight = np.where(people, _known(mask), np.where(mask < DOUBTED, 1.0, 0.0))
            mask = np.where(people, mask, 0)
        skin = _skin(faces, shape)
        for body, face in zip(bodies, faces, strict=True):
            said = mask[body][_skin([face], shape)[body]]
            # Where a face is missed nothing is known of the body.
            if said.size and said.mean() < 0.5:
                weight[body][mask[body] < 0.5] = 0
        target = np.where(skin, 1, mask).astype(np.float32)
        weight = np.where(skin, 1, weight).astype(np.float32)
        return np.dstack([target, weight, np.zeros_like(target)])


def _box(rows: slice, columns: slice) -> list[int]:
    """Return a part of a picture as x, y, w, h."""
    return [columns.start, rows.start, columns.stop - columns.start, rows.stop - rows.start]


def _known(mask: Array) -> Array:
    """Return how far a close look is trusted."""
    return np.where(np.abs(2 * mask - 1) > 0.6, np.float32(SURE), np.float32(UNSURE))


def _skin(faces: Sequence[Sequence[float]], shape: tuple[int, ...]) -> Flags:
    """Return where faces are, but for the corners of their boxes x, y, w, h; bool[h, w]."""
    down, across = np.ogrid[: shape[0], : shape[1]]
    found = np.zeros(shape[:2], np.bool_)
    for x, y, width, height in faces:
        off = np.hypot(
            (across + 0.5 - x - width / 2) / max(SKIN * width / 2, 0.5),
            (down + 0.5 - y - height / 2) / max(SKIN * height / 2, 0.5),
        )
        found |= off < 1
    return found


def read_unmasked(data: Path) -> Iterator[Row]:
    """Yield the rows of training pictures of people without true masks."""
    known = TRUTHS["person"] | EMPTY
    shares = {name: share for name, share in SHARES.items() if name not in known} | CROWDS
    rows = read_rows(data, INDEXES, shares, rest=0.0)
    return (row for row in rows if row["split"] == "train")


def main(arguments: Iterable[str] | None = None) -> None:
    """Write the labels."""
    parser = argparse.ArgumentParser(description="label people by close looks of the best network")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="folder written by labels.py")
    parser.add_argument("--sets", help="of the pictures, with commas between; default: all")
    options: Any = parser.parse_args(None if arguments is None else list(arguments))
    looks = CloseLooks()
    rows = list(read_unmasked(options.data))
    if options.sets:
        rows = [row for row in rows if row["set"] in options.sets.split(",")]
    if not rows:
        parser.error(f"{options.data}: expected training pictures without masks, got none")
    for row in tqdm(rows, mininterval=5):
        picture, _ = read_rgba(options.data, row["file"])
        # Of pictures of hands the index has the hands' boxes.
        faces = faces_in(row) if row["file"].startswith("faces/") else []
        label = looks.label(picture, people_in(row), faces)
        stored(label, options.labels / "person" / name_of(row["file"]))


if __name__ == "__main__":
    main()
