"""The training pictures of the face detector and their labels.

`python -m palmkit.models.face_detector.dataset DATA LABELS OUT` packs the training part of the
labels with their pictures into one folder; `examples` is what the bank takes of it.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from palmkit.models.detection.example import Example
from palmkit.models.face_detector.labels import LARGEST_SHARE, TERMS, read_picture
from palmkit.models.face_detector.teachers import Array
from palmkit.models.training.labels import share_of
from palmkit.models.training.pack import Packed, write_pack

VALIDATION_SHARE = 0.07
# Of sets of which the dev part is too small to tell how seldom something is found in them.
VALIDATION_SHARES = {"flowers": 0.4, "zxing": 0.4}
SET_WEIGHTS = {
    "eden": 0.27,
    "maskon": 0.08,
    "interfaces": 0.04,
    "aaf": 0.12,
    "ccp_unlabelled": 0.05,
    "clothing": 0.08,
    "grocery": 0.10,
    "ccp": 0.08,
    "hs290": 0.06,
    "cutouts": 0.03,
    "backgrounds": 0.02,
    "figaro": 0.08,
    "fasseg_frontal": 0.005,
    "fasseg_multipose": 0.03,
    "subhi": 0.02,
    "leb": 0.02,
    "obb": 0.02,
    "linto": 0.01,
    "anton": 0.005,
    "ardamavi": 0.01,
    "rps_green": 0.01,
    "fingercount": 0.01,
    "hagrid": 0.04,
    "oi_crowd": 0.24,
    "coco_crowd": 0.08,
    "ilc2021": 0.16,
    "animals": 0.06,
    "voc_person": 0.05,
    "workers": 0.03,
    "flowers": 0.06,
    "zxing": 0.03,
}


def assign_parts(entries: list[dict[str, Any]]) -> list[str]:
    """Return train, validation or dev for each label entry.

    Pictures of one set whose hashes differ in at most 40 of 256 bits share a part.
    """
    parts: list[str] = []
    by_set: dict[str, list[tuple[int, str]]] = {}
    for entry in entries:
        if entry["split"] == "dev":
            parts.append("dev")
            continue
        value = int(entry["hash"], 16)
        known = by_set.setdefault(entry["set"], [])
        near = next((part for other, part in known if (other ^ value).bit_count() <= 40), None)
        share = VALIDATION_SHARES.get(entry["set"], VALIDATION_SHARE)
        part = near or ("validation" if share_of(entry["hash"]) < share else "train")
        known.append((value, part))
        parts.append(part)
    return parts


def read_labels(path: Path) -> list[dict[str, Any]]:
    """Return all entries of labels.jsonl, each with its `part`."""
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for entry, part in zip(entries, assign_parts(entries), strict=True):
        entry["part"] = part
    return entries


def pack(data: Path, labels: Path, out: Path, terms: str = "all", quality: int = 64) -> None:
    """Write the training pictures as WebP to out/pictures.bin and their labels beside it.

    terms: "open" keeps only sets whose terms seem to allow any use.
    """
    entries = [
        entry
        for entry in read_labels(labels)
        if entry["part"] == "train"
        and share_of(entry["file"]) < LARGEST_SHARE.get(entry["set"], 1.0)
        and (terms == "all" or TERMS[entry["set"]] == "open")
    ]

    write_pack(out, entries, lambda entry: read_picture(data, entry["file"]), quality)


def known(entry: Mapping[str, Any]) -> tuple[Array, Array]:
    """Return a picture's faces, float32[n, 14], and its doubtful regions, float32[n, 4]."""
    faces = np.asarray(entry["faces"], np.float32).reshape(-1, 14)
    return faces, np.asarray(entry["ignored"], np.float32).reshape(-1, 4)


def examples(packed: Packed) -> list[Example]:
    """Return the pack as the bank takes it, every set drawn as often as SET_WEIGHTS says."""
    counts = Counter(entry["set"] for entry in packed.entries)
    return [
        Example(
            picture,
            *known(entry),
            SET_WEIGHTS[entry["set"]] / counts[entry["set"]] * (4.0 if entry["hard"] else 1.0),
        )
        for picture, entry in zip(packed.pictures, packed.entries, strict=True)
    ]


def main(arguments: Iterable[str] | None = None) -> None:
    """Write a pack."""
    parser = argparse.ArgumentParser(description="pack the training pictures of the face detector")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="labels.jsonl")
    parser.add_argument("out", type=Path, help="folder that takes the pack")
    parser.add_argument("--terms", choices=("open", "all"), default="all")
    options = parser.parse_args(None if arguments is None else list(arguments))
    pack(options.data, options.labels, options.out, options.terms)


if __name__ == "__main__":
    main()
