"""Pictures that mask networks are measured on, with what is true of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from palmkit.models.segmentation.crop import Flags
from palmkit.models.segmentation.labels import (
    islands,
    read_labels,
    read_mask,
    read_rgba,
    read_rows,
)
from palmkit.models.segmentation.sets import EMPTY, KINDS, TRUTHS
from palmkit.models.segmentation.teachers import Array, Picture, stretched
from palmkit.models.training.labels import share_of


class Sample(NamedTuple):
    """A picture, its true mask, where that counts, bool[h, w], and the file."""

    set: str
    picture: Picture
    truth: Array
    counted: Flags
    file: str = ""


def read_samples(data: Path, labels: Path, task: str, part: str) -> Iterator[Sample]:
    """Yield pictures of a part, "dev" or "validation", with true masks, and empty ones.

    Raises FileNotFoundError where `labels`, which tell what is validation, has no labels*.jsonl.
    """
    kind = KINDS[task]
    entries = read_labels(labels)
    if part != "dev" and not entries:
        raise FileNotFoundError(f"{labels}: expected labels.jsonl, which labels.py writes")
    held = {entry["file"] for entry in entries if entry["part"] == part}
    rows = [
        row
        for row in read_rows(data)
        if (row["split"] == "dev" if part == "dev" else row["file"] in held)
    ]
    scenes = [row["file"] for row in rows if row["set"] == "backgrounds"]
    for row in rows:
        if row["set"] not in TRUTHS[kind] | EMPTY:
            continue
        picture, alpha = read_rgba(data, row["file"])
        size = (picture.shape[1], picture.shape[0])
        counted: Flags = np.ones(picture.shape[:2], np.bool_)
        if row["set"] in EMPTY:
            truth = np.zeros(picture.shape[:2], np.float32)
        elif alpha is not None:
            picture, truth = set_on(picture, alpha, data, scenes, row["file"])
            counted = np.ones(picture.shape[:2], np.bool_)
        else:
            truth = read_mask(data, row["mask" if kind == "person" else "hair_mask"], size)
            if row["set"].startswith("fasseg"):
                counted = ~islands(truth)
        yield Sample(row["set"], picture, truth, counted, row["file"])


def set_on(
    picture: Picture, alpha: Array, data: Path, scenes: list[str], name: str
) -> tuple[Picture, Array]:
    """Return a cut-out on a background chosen by its name, as high as it or a little higher."""
    behind, _ = read_rgba(data, scenes[int(share_of(name) * len(scenes))])
    height, width = alpha.shape
    side = max(int(1.15 * height), width)
    scene = stretched(behind, side)
    top, left = side - height, (side - width) // 2
    truth = np.zeros((side, side), np.float32)
    truth[top:, left : left + width] = alpha
    front = np.zeros_like(scene)
    front[top:, left : left + width] = picture
    share = truth[..., None]
    return np.asarray(front * share + scene * (1 - share) + 0.5).astype(np.uint8), truth
