"""Training pictures with their masks, on the device.

`python -m palmkit.models.segmentation.dataset DATA LABELS OUT` packs the training part of the
labels with their pictures into one folder; `Bank` holds them decoded.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from palmkit.models.training.pack import read_pack, write_pack
from palmkit.models.training.pixels import Pixels, cumulative

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
KINDS = {"portrait": "person", "hair": "hair"}
# How often a set is drawn; sets without labels of a kind are not.
SET_WEIGHTS = {
    "portrait": {
        "ccp": 0.44,
        "hs290": 0.24,
        "cutouts": 0.18,
        "interfaces": 0.02,
        "ccp_unlabelled": 0.05,
        "aaf": 0.03,
        "eden": 0.03,
        "maskon": 0.03,
        "hagrid": 0.05,
        "subhi": 0.01,
        "figaro": 0.03,
        "fasseg_frontal": 0.003,
        "fasseg_multipose": 0.01,
        "backgrounds": 0.015,
        "clothing": 0.02,
        "grocery": 0.01,
    },
    "hair": {
        "ccp": 0.25,
        "figaro": 0.42,
        "fasseg_frontal": 0.02,
        "fasseg_multipose": 0.06,
        "hs290": 0.03,
        "cutouts": 0.04,
        "interfaces": 0.03,
        "ccp_unlabelled": 0.03,
        "aaf": 0.04,
        "maskon": 0.02,
        "hagrid": 0.03,
        "backgrounds": 0.01,
        "clothing": 0.02,
        "grocery": 0.01,
    },
}
# How far a set's labels count in the loss; 1 where not named.
TRUST = {
    "portrait": {"eden": 0.5, "aaf": 0.5, "figaro": 0.5, "maskon": 0.5, "subhi": 0.5},
    "hair": {"maskon": 0.5, "aaf": 0.7, "hs290": 0.7, "cutouts": 0.7, "hagrid": 0.5},
}
# What else does not fit into a pack of 20 MB: longest side, and share of some sets.
LONG_SIDE, TRUE_LONG_SIDE = 224, 288
PACKED_SHARES = {"eden": 0.3, "aaf": 0.25, "grocery": 0.35, "clothing": 0.8}
NO_BODY_SETS = frozenset({"backgrounds", "clothing", "grocery"})


def read_labels(folder: Path) -> list[dict[str, Any]]:
    """All label entries, each with its `part`, train or validation."""
    from palmkit.models.segmentation.labels import VALIDATION_SHARE
    from palmkit.models.training.labels import share_of

    entries = [
        json.loads(line)
        for path in sorted(folder.glob("labels*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    by_set: dict[str, list[tuple[int, str]]] = {}
    for entry in entries:
        value = int(entry["hash"], 16)
        known = by_set.setdefault(entry["set"], [])
        near = next((part for other, part in known if (other ^ value).bit_count() <= 40), None)
        drawn = "validation" if share_of(entry["hash"]) < VALIDATION_SHARE else "train"
        entry["part"] = near or drawn
        known.append((value, entry["part"]))
    return entries


def pack(data: Path, labels: Path, out: Path, terms: str = "all", quality: int = 33) -> None:
    """Write the training pictures, and the masks of both kinds losslessly beside them.

    terms: "open" keeps only sets whose terms seem to allow any use.
    """
    from palmkit.models.segmentation.labels import (
        HAIR_TRUTH,
        PERSON_TRUTH,
        TERMS,
        name_of,
        read_rgba,
    )
    from palmkit.models.training.labels import share_of

    truths = {"person": PERSON_TRUTH, "hair": HAIR_TRUTH}
    entries = [
        entry
        for entry in read_labels(labels)
        if entry["part"] == "train"
        and share_of(entry["file"]) < PACKED_SHARES.get(entry["set"], 1.0)
        and (terms == "all" or TERMS[entry["set"]] == "open")
    ]
    out.mkdir(parents=True, exist_ok=True)
    for entry in entries:
        del entry["hash"], entry["part"]

    def picture(entry: dict[str, Any]) -> Bytes:
        content = read_rgba(data, entry["file"])[0]
        true = entry["set"] in PERSON_TRUTH | HAIR_TRUTH
        scale = (TRUE_LONG_SIDE if true else LONG_SIDE) / max(content.shape)
        if scale >= 1:
            return content
        entry["faces"] = [[value * scale for value in face] for face in entry["faces"]]
        size = (round(content.shape[1] * scale), round(content.shape[0] * scale))
        return np.asarray(Image.fromarray(content).resize(size, Image.Resampling.BOX))

    with (out / "masks.bin").open("wb") as masks:
        for entry in entries:
            for kind, truth in truths.items():
                if entry[kind] and entry["set"] not in NO_BODY_SETS:
                    buffer = io.BytesIO()
                    with Image.open(labels / kind / name_of(entry["file"])) as image:
                        image.load()
                        # Edges that teachers draw are not trusted, so half the size holds all.
                        small = image if entry["set"] in truth else image.reduce(2)
                    if small is not image:
                        small = Image.fromarray(np.uint8(np.round(np.asarray(small) / 51)) * 51)
                    small.save(buffer, "WEBP", lossless=True, method=4, exact=True)
                    entry[kind] = [masks.tell(), buffer.tell()]
                    masks.write(buffer.getvalue())
    write_pack(out, entries, picture, quality)


class Bank:
    """Pictures, masks and faces.

    pictures: RGB. masks: the target, its trust, what may be cut out, in place of RGB.
    faces: float32[n, 4], the largest face's box x, y, w, h; zero where there is none.
    weights: for drawing pictures as they are; cut_weights: of those of which someone can be cut
    out; empty_weights: of those without anybody.
    """

    def __init__(self, folder: Path, task: str, device: torch.device) -> None:
        """Decode a pack for "portrait" or "hair" and copy it to `device`."""
        kind = KINDS[task]
        packed = read_pack(folder)
        blob = (folder / "masks.bin").read_bytes()
        kept = [row for row, entry in enumerate(packed.entries) if entry[kind]]
        entries = [packed.entries[row] for row in kept]
        pictures = [packed.pictures[row] for row in kept]

        def decode(row: int) -> Bytes:
            place = entries[row][kind]
            if place is True:
                return np.full(pictures[row].shape, (0, 255, 0), np.uint8)
            part = blob[place[0] : place[0] + place[1]]
            mask = Image.open(io.BytesIO(part)).convert("RGB")
            size = pictures[row].shape[1::-1]
            return np.asarray(mask.resize(size, Image.Resampling.BILINEAR))

        with ThreadPoolExecutor(16) as pool:
            masks = list(pool.map(decode, range(len(entries))))
        self.device = device
        self.pictures = Pixels(pictures, device)
        self.masks = Pixels(masks, device)
        count = len(entries)
        faces = np.zeros((count, 4), np.float32)
        weights = np.zeros(count, np.float64)
        trust = np.ones(count, np.float32)
        cut, empty = np.zeros(count), np.zeros(count)
        names = [entry["set"] for entry in entries]
        for row, entry in enumerate(entries):
            if entry["faces"]:
                known: list[list[float]] = entry["faces"]
                faces[row] = max(known, key=lambda face: face[2] * face[3])
            weights[row] = SET_WEIGHTS[task].get(entry["set"], 0) / names.count(entry["set"])
            trust[row] = TRUST[task].get(entry["set"], 1.0)
            cut[row] = entry["set"] in ("ccp", "hs290", "cutouts")
            empty[row] = (entry["set"] in NO_BODY_SETS) * (
                4.0 if entry["set"] == "backgrounds" else 1.0
            )
        self.faces = torch.from_numpy(faces).to(device)
        self.trust = torch.from_numpy(trust).to(device)
        is_cutout = np.asarray([name == "cutouts" for name in names])
        self.weights = cumulative(weights * ~is_cutout, device)
        self.cut_weights = cumulative(weights * cut, device)
        self.empty_weights = cumulative(empty, device)


def main(arguments: Iterable[str] | None = None) -> None:
    """Write a pack."""
    parser = argparse.ArgumentParser(description="pack the training pictures of the masks")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="folder written by labels.py")
    parser.add_argument("out", type=Path, help="folder that takes the pack")
    parser.add_argument("--terms", choices=("open", "all"), default="all")
    parser.add_argument("--quality", type=int, default=33, help="of the WebP pictures")
    options = parser.parse_args(None if arguments is None else list(arguments))
    pack(options.data, options.labels, options.out, options.terms, options.quality)


if __name__ == "__main__":
    main()
