"""Training pictures as one tensor on the device.

`python -m palmkit.models.face_detector.dataset DATA LABELS OUT` packs the training part of the
labels with their pictures into one folder; `Bank` holds them decoded, with their labels.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from palmkit.models.face_detector.labels import LARGEST_SHARE, TERMS, read_picture, share_of

VALIDATION_SHARE = 0.07
LEVELS = 5
MOST_FACES, MOST_IGNORED = 96, 24
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
}


def assign_parts(entries: list[dict[str, Any]]) -> list[str]:
    """train, validation or dev for each label entry.

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
        part = near or ("validation" if share_of(entry["hash"]) < VALIDATION_SHARE else "train")
        known.append((value, part))
        parts.append(part)
    return parts


def read_labels(path: Path) -> list[dict[str, Any]]:
    """All entries of labels.jsonl, each with its `part`."""
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    for entry, part in zip(entries, assign_parts(entries), strict=True):
        entry["part"] = part
    return entries


def pack(data: Path, labels: Path, out: Path, terms: str = "all", quality: int = 64) -> None:
    """Write the training pictures as WebP to out/pictures.bin and their labels beside it.

    terms: "open" keeps only sets whose terms seem to allow any use.
    """
    out.mkdir(parents=True, exist_ok=True)
    entries = [
        entry
        for entry in read_labels(labels)
        if entry["part"] == "train"
        and share_of(entry["file"]) < LARGEST_SHARE.get(entry["set"], 1.0)
        and (terms == "all" or TERMS[entry["set"]] == "open")
    ]

    def encode(entry: dict[str, Any]) -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(read_picture(data, entry["file"])).save(
            buffer, "WEBP", quality=quality, method=2
        )
        return buffer.getvalue()

    with (out / "pictures.bin").open("wb") as pictures, ThreadPoolExecutor(2) as pool:
        for entry, blob in zip(entries, tqdm(pool.map(encode, entries)), strict=False):
            entry["start"], entry["size"] = pictures.tell(), len(blob)
            pictures.write(blob)
    (out / "labels.json").write_text(json.dumps(entries))


class Packed(NamedTuple):
    """A decoded pack: uint8[h, w, 3] pictures and their label entries."""

    pictures: list[np.ndarray[Any, np.dtype[np.uint8]]]
    entries: list[dict[str, Any]]


def read_pack(folder: Path) -> Packed:
    """Decode every picture of a pack."""
    entries = json.loads((folder / "labels.json").read_text())
    blob = (folder / "pictures.bin").read_bytes()

    def decode(entry: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
        part = blob[entry["start"] : entry["start"] + entry["size"]]
        return np.asarray(Image.open(io.BytesIO(part)).convert("RGB"))

    with ThreadPoolExecutor(16) as pool:
        return Packed(list(pool.map(decode, entries)), entries)


class Bank:
    """Pictures with their half-size levels in one int32 tensor (0xBBGGRR), and their labels."""

    def __init__(self, packed: Packed, device: torch.device) -> None:
        """Copy the pictures to `device`."""
        count = len(packed.pictures)
        offsets = np.zeros((count, LEVELS), np.int64)
        sizes = np.zeros((count, LEVELS, 2), np.int64)
        chunks: list[np.ndarray[Any, np.dtype[np.int32]]] = []
        total = 0
        with ThreadPoolExecutor(16) as pool:
            for row, words_by_level in enumerate(pool.map(half_sizes, packed.pictures)):
                for level, words in enumerate(words_by_level):
                    offsets[row, level] = total
                    sizes[row, level] = words.shape[::-1]
                    chunks.append(words.reshape(-1))
                    total += words.size
        self.device = device
        self.pixels = torch.from_numpy(np.concatenate(chunks)).to(device)
        self.offsets = torch.from_numpy(offsets).to(device, torch.int32)
        self.sizes = torch.from_numpy(sizes).to(device, torch.float32)
        faces = np.zeros((count, MOST_FACES, 14), np.float32)
        ignored = np.zeros((count, MOST_IGNORED, 4), np.float32)
        face_counts, ignored_counts = np.zeros(count, np.int64), np.zeros(count, np.int64)
        weights = np.zeros(count, np.float64)
        names = [entry["set"] for entry in packed.entries]
        for row, entry in enumerate(packed.entries):
            known = np.asarray(entry["faces"], np.float32).reshape(-1, 14)[:MOST_FACES]
            doubtful = np.asarray(entry["ignored"], np.float32).reshape(-1, 4)[:MOST_IGNORED]
            faces[row, : len(known)], face_counts[row] = known, len(known)
            ignored[row, : len(doubtful)], ignored_counts[row] = doubtful, len(doubtful)
            weights[row] = SET_WEIGHTS[entry["set"]] / names.count(entry["set"])
            weights[row] *= 4.0 if entry["hard"] else 1.0
        self.faces = torch.from_numpy(faces).to(device)
        self.face_counts = torch.from_numpy(face_counts).to(device)
        self.ignored = torch.from_numpy(ignored).to(device)
        self.ignored_counts = torch.from_numpy(ignored_counts).to(device)
        clean = (face_counts == 0) & (ignored_counts == 0)
        size = (faces[:, 0, 2:4] - faces[:, 0, :2]).max(axis=1)
        single = (face_counts == 1) & (ignored_counts == 0) & (size >= 40)
        self.all_weights = cumulative(weights, device)
        self.clean_weights = cumulative(np.where(clean, weights, 0), device)
        self.single_weights = cumulative(np.where(single, weights, 0), device)

    def draw(self, weights: Tensor, *shape: int) -> Tensor:
        """int64[shape] rows by cumulative weights."""
        rows = torch.searchsorted(weights, torch.rand(*shape, device=self.device))
        return rows.clamp(max=len(weights) - 1)


def half_sizes(
    picture: np.ndarray[Any, np.dtype[np.uint8]],
) -> list[np.ndarray[Any, np.dtype[np.int32]]]:
    """The picture and its halves as int32[h, w] words."""
    image = Image.fromarray(picture)
    levels: list[np.ndarray[Any, np.dtype[np.int32]]] = []
    for level in range(LEVELS):
        if level:
            image = image.reduce(2)
        pixels = np.asarray(image).astype(np.int32)
        levels.append(pixels[..., 0] | (pixels[..., 1] << 8) | (pixels[..., 2] << 16))
    return levels


def cumulative(weights: np.ndarray[Any, np.dtype[np.float64]], device: torch.device) -> Tensor:
    """Running sum that ends at one; all rows alike where every weight is zero."""
    if weights.sum() == 0:
        weights = np.ones_like(weights)
    return torch.from_numpy(np.cumsum(weights / weights.sum())).to(device, torch.float32)


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
