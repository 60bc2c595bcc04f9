"""Measure the search for faces in large pictures, which are composed of the development pictures.

`python -m palmkit.models.face_detector.large DATA TEACHERS` prints a table each of crowds of 1008
and 2016 pixels (2x2 and 4x3 pictures of oi_crowd and coco_crowd side by side), of pictures with one
to six faces as one of twelve places, among backgrounds, and of pictures without a face brought to
1280 pixels: what is found by default and how right it is, by the kit as it comes, by either
network, with `size`, and by YuNet at the picture's full size. Faces of both sets of crowds are
those that YuNet, at twice the size, saw with .7 and more; what it saw with less counts neither way,
nor what ilc2021 does not label.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from palmkit.kits.image import resize
from palmkit.models.face_detector.contenders import Contender, as_they_come
from palmkit.models.face_detector.judging import Sample, judge
from palmkit.models.face_detector.labels import INDEXES, known_boxes, read_picture
from palmkit.models.face_detector.teachers import Array, Picture
from palmkit.models.segmentation.by_eye import with_people
from palmkit.models.training.labels import read_rows

# Of a place, in pixels: the longer side of the sets' pictures.
SIDE = 504
LONGER_WITHOUT = 1280
CLOSER = 1024
CROWDS = ("oi_crowd", "coco_crowd")
WITHOUT = ("clothing", "grocery", "animals", "flowers", "backgrounds")


class Composed(NamedTuple):
    """A picture, its faces and its doubtful regions, corners float32[n, 4] in pixels."""

    picture: Picture
    faces: Array
    ignored: Array


def rows(data: Path, sets: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return the rows of the dev split of some sets, without pictures that hide somebody."""
    every = read_rows(data, INDEXES, dict.fromkeys(sets, 1.0), rest=0.0)
    return [row for row in every if row["split"] == "dev" and row["file"] not in with_people()]


def read(data: Path, row: Mapping[str, Any]) -> Composed:
    """Return a picture of a set that has boxes, no larger than a place."""
    picture = read_picture(data, row["file"])
    scale = min(SIDE / max(picture.shape[:2]), 1.0)
    if scale < 1:
        height, width = (round(side * scale) for side in picture.shape[:2])
        picture = resize(picture, height, width)
    faces, ignored = (boxes * np.float32(scale) for boxes in known_boxes(row))
    return Composed(picture, faces, ignored)


def composed(places: Sequence[Composed], columns: int) -> Composed:
    """Return pictures side by side, in rows of so many."""
    image = np.full((len(places) // columns * SIDE, columns * SIDE, 3), 127, np.uint8)
    faces, ignored = [np.zeros((0, 4), np.float32)], [np.zeros((0, 4), np.float32)]
    for place, each in enumerate(places):
        top, left = place // columns * SIDE, place % columns * SIDE
        height, width = each.picture.shape[:2]
        image[top : top + height, left : left + width] = each.picture
        for boxes, given in ((faces, each.faces), (ignored, each.ignored)):
            boxes.append(given + np.asarray([left, top, left, top], np.float32))
    return Composed(image, np.concatenate(faces), np.concatenate(ignored))


def crowds(data: Path, columns: int, count: int) -> Iterator[Composed]:
    """Yield pictures of crowds, `count` in each."""
    found = rows(data, CROWDS)
    found = [found[each] for each in np.random.default_rng(0).permutation(len(found))]
    for start in range(0, len(found) - count + 1, count):
        yield composed([read(data, row) for row in found[start : start + count]], columns)


def far_away(data: Path) -> Iterator[Composed]:
    """Yield pictures with one to six faces in one of twelve places."""
    random = np.random.default_rng(1)
    behind = [read_picture(data, row["file"]) for row in rows(data, ["backgrounds"])]
    nothing = np.zeros((0, 4), np.float32)
    empty = [Composed(resize(each, SIDE, SIDE), nothing, nothing) for each in behind]
    for row in rows(data, [*CROWDS, "ilc2021"]):
        given = read(data, row)
        if 1 <= len(given.faces) <= 6:
            places = [empty[each] for each in random.integers(len(empty), size=12)]
            places[random.integers(12)] = given
            yield composed(places, 4)


def without(data: Path) -> Iterator[Composed]:
    """Yield pictures without a face, enlarged."""
    nothing = np.zeros((0, 4), np.float32)
    for row in rows(data, WITHOUT):
        picture = read_picture(data, row["file"])
        scale = LONGER_WITHOUT / max(picture.shape[:2])
        height, width = (round(side * scale) for side in picture.shape[:2])
        yield Composed(resize(picture, height, width), nothing, nothing)


def measured(pictures: Sequence[Composed], contender: Contender) -> str:
    """Return cells: share found and precision; without a face pictures with one, and faces."""
    seen = [
        Sample(each.faces, each.ignored, contender.reported(each.picture))
        for each in tqdm(pictures, mininterval=5, leave=False)
    ]
    verdicts = judge(seen)
    if not len(verdicts.faces):
        return f"{sum(len(each.found.scores) > 0 for each in seen)} | {len(verdicts.scores)} |"
    right = float(verdicts.right.sum())
    return f"{right / len(verdicts.faces):.3f} | {right / max(len(verdicts.scores), 1):.3f} |"


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="faces in large pictures")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("teachers", type=Path, help="folder of the published networks")
    options = parser.parse_args(None if arguments is None else list(arguments))
    found = as_they_come(options.teachers, [CLOSER])
    head = "| | found | precision |\n|---|---|---|"
    for title, pictures, columns in (
        ("crowds of 1008 pixels", crowds(options.data, 2, 4), head),
        ("crowds of 2016 pixels", crowds(options.data, 4, 12), head),
        ("far away", far_away(options.data), head),
        ("without a face", without(options.data), "| | with one | faces |\n|---|---|---|"),
    ):
        seen = list(pictures)
        faces = sum(len(each.faces) for each in seen)
        print(f"\n{title}: {len(seen)} pictures, {faces} faces\n\n{columns}")
        for name, contender in found.items():
            print(f"| {name} | {measured(seen, contender)}", flush=True)


if __name__ == "__main__":
    main()
