"""Labels of what people hold or carry, from boxes drawn by eye (held.toml).

The boxes are of pictures of ccp, whose masks leave such things out; inside a box GrabCut parts the
thing from what is behind it. The masks of hs290 and cut-outs keep what is held: all that is beside
them is nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from palmkit.models.segmentation.by_eye import differing, read_list
from palmkit.models.segmentation.crop import Array, Flags, Picture
from palmkit.models.segmentation.labels import read_mask, read_rgba, read_rows
from palmkit.models.segmentation.samples import set_on

# How far round a box GrabCut learns what is behind, in pixels, in how many rounds; the least share
# of a box that a thing covers: GrabCut erred where it is less.
ROUND, ROUNDS, LEAST = 25, 4, 0.15
# What counts in a box beside the thing, which may be of it.
BESIDE = 0.2

Box = tuple[int, int, int, int]


class Labelled(NamedTuple):
    """A picture; float32[h, w] each: its person, what is held, and how far that is known."""

    file: str
    picture: Picture
    person: Array
    held: Array
    known: Array


@lru_cache(maxsize=1)
def boxes() -> Mapping[str, Mapping[str, list[Box]]]:
    """Return by part and file the boxes of what is held."""
    return {
        part: {file: [cast(Box, tuple(box)) for box in each] for file, each in files.items()}
        for part, files in read_list("held").items()
    }


def inside(shape: tuple[int, ...], drawn: Iterable[Box]) -> Flags:
    """Return which pixels are in a box."""
    found = np.zeros(shape[:2], np.bool_)
    for left, top, right, bottom in drawn:
        found[top:bottom, left:right] = True
    return found


def held_in(picture: Picture, person: Flags, drawn: Iterable[Box]) -> Flags:
    """Return what is held, bool[h, w]: in the boxes neither person nor like what is round them."""
    found = np.zeros(person.shape, np.bool_)
    for box in drawn:
        left, top, right, bottom = box
        part = (
            slice(max(top - ROUND, 0), bottom + ROUND),
            slice(max(left - ROUND, 0), right + ROUND),
        )
        own = inside(person.shape, [box]) & ~person
        thing = own.copy()
        if own.any() and not own[part].all():
            thing[part] = differing(np.ascontiguousarray(picture[part]), own[part], ROUNDS)
        enough = thing.sum() >= LEAST * (right - left) * (bottom - top)
        found |= thing if enough else own
    return found


def read_boxed(data: Path, part: str) -> Iterator[Labelled]:
    """Yield the pictures of a part, "train" or "dev", with boxes, in the order of the index."""
    drawn = boxes()[part]
    for row in read_rows(data):
        if row["file"] not in drawn:
            continue
        picture, _ = read_rgba(data, row["file"])
        person = read_mask(data, row["mask"], (picture.shape[1], picture.shape[0]))
        own = drawn[row["file"]]
        held = held_in(picture, person > 0.5, own)
        beside = inside(person.shape, own) & ~held & (person <= 0.5)
        known = np.where(beside, np.float32(BESIDE), np.float32(1))
        yield Labelled(row["file"], picture, person, held.astype(np.float32), known)


def read_others(data: Path) -> Iterator[Labelled]:
    """Yield training pictures whose masks keep what is held: beside them there is nothing."""
    rows = [row for row in read_rows(data) if row["split"] == "train"]
    scenes = [row["file"] for row in rows if row["set"] == "backgrounds"]
    for row in rows:
        if row["set"] not in ("hs290", "cutouts"):
            continue
        picture, alpha = read_rgba(data, row["file"])
        if alpha is not None:
            picture, person = set_on(picture, alpha, data, scenes, row["file"])
        else:
            person = read_mask(data, row["mask"], (picture.shape[1], picture.shape[0]))
        known = (person < 0.1).astype(np.float32)
        yield Labelled(row["file"], picture, person, np.zeros_like(person), known)
