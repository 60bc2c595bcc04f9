"""People in crowds, of whom nobody drew a mask: how many of them a mask covers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from palmkit.models.segmentation.crop import Flags, Picture, edges
from palmkit.models.segmentation.labels import boxes_in, people_in, read_rgba
from palmkit.models.segmentation.scores import Masker
from palmkit.models.training.labels import read_rows

# Sets of crowds, events and groups: all of their pictures.
CROWDS = {"oi_crowd": 1.0, "coco_crowd": 1.0, "ilc2021": 1.0}
# Boxes of faces that a detector found count from this score on.
SURE_FACE = 0.7
# How much of a person's box, and of the inner half of a face's, a mask has to cover.
PERSON_COVERED, FACE_COVERED = 0.25, 0.5
# What boxes of people may be too small by, in their width and height.
SLACK = 0.05


class Crowd(NamedTuple):
    """A picture of a crowd: uint8[h, w, 3], and boxes x, y, w, h of its people and faces.

    people: all of them; none where the set has no such boxes. faces: not always all.
    """

    picture: Picture
    people: list[list[float]]
    faces: list[list[float]]


def read_crowds(data: Path) -> Iterator[Crowd]:
    """Yield the dev pictures of crowds."""
    for row in read_rows(data, ("faces",), CROWDS, rest=0.0):
        if row["split"] != "dev":
            continue
        picture, _ = read_rgba(data, row["file"])
        yield Crowd(picture, people_in(row), faces_in(row))


def faces_in(row: Mapping[str, Any]) -> list[list[float]]:
    """Return an index's boxes of sure faces x, y, w, h, in pixels of the picture of `read_rgba`."""
    boxes = row.get("boxes") or []
    scores = row.get("scores") or [1.0] * len(boxes)
    faces = [box for box, score in zip(boxes, scores, strict=True) if score >= SURE_FACE]
    return boxes_in(row, faces)


def part_of(inside: Flags, box: Sequence[float], room: float) -> Flags:
    """Return what is in a box that is so much larger on each side, in its width and height."""
    left, top, right, bottom = edges(box, room, inside.shape, pixels=0)
    return inside[top:bottom, left:right]


def covered(crowds: Sequence[Crowd], masker: Masker) -> dict[str, float]:
    """Return what a mask network sees of crowds.

    people, faces: the share of them that its mask covers. beside: where the boxes of all people are
    known, the share of the pixels outside of them that it calls people.
    """
    people, faces, beside = list[float](), list[float](), list[float]()
    for crowd in crowds:
        inside = masker(crowd.picture) > 0.5
        faces += [float(part_of(inside, box, -0.25).mean() >= FACE_COVERED) for box in crowd.faces]
        people += [float(part_of(inside, box, 0).mean() >= PERSON_COVERED) for box in crowd.people]
        if crowd.people:
            for box in crowd.people:
                part_of(inside, box, SLACK)[...] = False
            beside.append(float(inside.mean()))
    found: dict[str, Sequence[float]] = {"people": people, "faces": faces, "beside": beside}
    return {name: round(float(np.mean(each)), 4) for name, each in found.items() if each}
