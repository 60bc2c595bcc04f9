"""The pictures that train the hand detector and the hand landmarks, in one pack.

`python -m palmkit.models.hand_detector.dataset DATA LABELS OUT` packs the training part of the
labels with their pictures. LABELS: the folder of labels*.jsonl.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from palmkit.models.detection.example import Example
from palmkit.models.face_detector.labels import TERMS, read_picture
from palmkit.models.hand_detector.labels import HAND_SETS, read_rows
from palmkit.models.training.labels import share_of
from palmkit.models.training.pack import Packed, write_pack

Entry = dict[str, Any]
LANDMARKS = 21
# Whole people or recordings are held out where the sets name them, else a share of the pictures.
VALIDATION_GROUPS = frozenset({("subhi", "3_1528505750.77_pic"), ("subhi", "26")})
VALIDATION_SHARES = {"ardamavi": 0.08, "hagrid": 0.14, "leb": 0.07, "obb": 0.07, "flowers": 0.06}
VALIDATION_SHARE = 0.04
# Many photos of few hands.
PACKED_SHARES = {"rps_green": 0.5, "fingercount": 0.6}
PACKED = ("file", "set", "hard", "hands", "ignored")
# JPEG quality and longest side of pictures with hands, which are small in pictures of people, and
# of others.
WITH_QUALITY, WITHOUT_QUALITY = 55, 36
WITH_SIDE, WITHOUT_SIDE = 320, 160
DETECTOR_WEIGHTS = {
    "subhi": 0.11,
    "leb": 0.13,
    "obb": 0.12,
    "linto": 0.02,
    "anton": 0.01,
    "ardamavi": 0.05,
    "rps_green": 0.02,
    "fingercount": 0.04,
    "hagrid": 0.16,
    "ccp": 0.05,
    "ccp_unlabelled": 0.02,
    "hs290": 0.02,
    "cutouts": 0.03,
    "backgrounds": 0.02,
    "eden": 0.03,
    "maskon": 0.01,
    "interfaces": 0.01,
    "aaf": 0.02,
    "figaro": 0.02,
    "fasseg_multipose": 0.01,
    "clothing": 0.04,
    "grocery": 0.03,
    "voc_person": 0.04,
    "workers": 0.01,
    "oi_crowd": 0.02,
    "coco_crowd": 0.01,
    "ilc2021": 0.03,
    "flowers": 0.05,
    "animals": 0.02,
}


def read_labels(folder: Path) -> list[Entry]:
    """Return all entries of labels*.jsonl, each with its `part`: train, validation or dev."""
    entries = [
        json.loads(line)
        for path in sorted(folder.glob("labels*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    entries.sort(key=lambda entry: entry["file"])
    for entry, part in zip(entries, assign_parts(entries), strict=True):
        entry["part"] = part
    return entries


def assign_parts(entries: Sequence[Entry]) -> list[str]:
    """Return train, validation or dev for each entry.

    Pictures of one person or recording, or that look alike, share a part.
    """
    parts: list[str] = []
    seen: dict[str, list[tuple[int, str]]] = {}
    for entry in entries:
        name, person = entry["set"], entry["person"]
        share = VALIDATION_SHARES.get(name, VALIDATION_SHARE)
        if entry["split"] == "dev":
            part = "dev"
        elif name == "ardamavi":
            part = "validation" if share_of(person) < share else "train"
        elif name == "subhi":
            part = "validation" if (name, person) in VALIDATION_GROUPS else "train"
        elif name in ("linto", "anton", "rps_green", "fingercount"):
            part = "train"
        else:
            value = int(entry["hash"], 16)
            known = seen.setdefault(name, [])
            near = next((p for other, p in known if (other ^ value).bit_count() <= 40), None)
            part = near or ("validation" if share_of(entry["hash"]) < share else "train")
            known.append((value, part))
        parts.append(part)
    return parts


def pack(data: Path, labels: Path, out: Path, terms: str = "all") -> None:
    """Write the training pictures and their labels to `out`.

    terms: "open" keeps only sets whose terms seem to allow any use.
    """
    # Photographers of cartons hold them, with hands that the teachers do not see.
    held = {row["file"] for row in read_rows(data) if "/Packages/" in row["src"]}
    entries = [
        entry
        for entry in read_labels(labels)
        if entry["part"] == "train"
        and (terms == "all" or TERMS[entry["set"]] == "open")
        and entry["file"] not in held
        and share_of(entry["file"]) < PACKED_SHARES.get(entry["set"], 1.0)
    ]
    entries = [{name: entry[name] for name in PACKED} for entry in entries]
    hands = [entry for entry in entries if shows_hands(entry)]
    others = [entry for entry in entries if not shows_hands(entry)]

    def read(side: int) -> Any:
        def picture(entry: Entry) -> NDArray[np.uint8]:
            return shrink(read_picture(data, entry["file"]), entry, side)

        return picture

    write_pack(out / "hands", hands, read(WITH_SIDE), WITH_QUALITY)
    write_pack(out / "others", others, read(WITHOUT_SIDE), WITHOUT_QUALITY)


def shows_hands(entry: Entry) -> bool:
    """Return whether a picture shows hands, or is of a set that is of hands."""
    return bool(entry["hands"]) or entry["set"] in HAND_SETS


def shrink(picture: NDArray[np.uint8], entry: Entry, side: int) -> NDArray[np.uint8]:
    """Return the picture with its longer side at most `side`, and scale its labels once."""
    longest = max(picture.shape[:2])
    scale = min(side / longest, 1.0)
    if scale < 1:
        width, height = (max(round(length * scale), 1) for length in picture.shape[1::-1])
        small = Image.fromarray(picture).resize((width, height), Image.Resampling.BOX)
        picture = np.asarray(small)
    for hand in entry["hands"]:
        points = np.asarray(hand["landmarks"]) * scale
        hand["landmarks"] = [[round(x, 1), round(y, 1), round(z)] for x, y, z in points.tolist()]
    entry["ignored"] = (np.asarray(entry["ignored"]) * scale).round(1).tolist()
    return picture


def landmark_rows(entry: Entry) -> NDArray[np.float32]:
    """Return the hands of an entry, float32[n, 21, 3], pixels."""
    hands = [hand["landmarks"] for hand in entry["hands"]]
    return np.asarray(hands, np.float32).reshape(-1, LANDMARKS, 3)


def examples(packs: Iterable[Packed]) -> list[Example]:
    """Return the packs as the detector's bank takes them, sets drawn by DETECTOR_WEIGHTS."""
    pairs = [pair for packed in packs for pair in zip(*packed, strict=True)]
    counts = Counter(entry["set"] for _, entry in pairs)
    made: list[Example] = []
    for picture, entry in pairs:
        flat = landmark_rows(entry)[..., :2]
        boxes = np.concatenate([flat.min(axis=1), flat.max(axis=1)], axis=1)
        objects = np.concatenate([boxes, flat.reshape(-1, 2 * LANDMARKS)], axis=1)
        ignored = np.asarray(entry["ignored"], np.float32).reshape(-1, 4)
        weight = DETECTOR_WEIGHTS[entry["set"]] / counts[entry["set"]]
        made.append(Example(picture, objects, ignored, weight * (3 if entry["hard"] else 1)))
    return made


def main(arguments: Iterable[str] | None = None) -> None:
    """Write a pack."""
    parser = argparse.ArgumentParser(description="pack the training pictures of the hand models")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="folder of labels*.jsonl")
    parser.add_argument("out", type=Path, help="folder that takes the pack")
    parser.add_argument("--terms", choices=("open", "all"), default="all")
    options = parser.parse_args(None if arguments is None else list(arguments))
    pack(options.data, options.labels, options.out, options.terms)


if __name__ == "__main__":
    main()
