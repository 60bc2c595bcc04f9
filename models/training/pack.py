"""A pack: training pictures in one file, their labels in another, small enough to travel."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from tqdm import tqdm

Entry = dict[str, Any]


def write_pack(
    out: Path,
    entries: Sequence[Entry],
    picture: Callable[[Entry], np.ndarray[Any, np.dtype[np.uint8]]],
    quality: int,
) -> None:
    """Write each entry's picture as WebP to out/pictures.bin, the entries to out/labels.json.

    picture: the picture of an entry, uint8[h, w, 3] RGB; called by several threads.
    quality: of the WebP, 0..100.
    Each entry gets `start` and `size`, where its picture lies, in bytes.
    """
    out.mkdir(parents=True, exist_ok=True)

    def encode(entry: Entry) -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(picture(entry)).save(buffer, "WEBP", quality=quality, method=2)
        return buffer.getvalue()

    with (out / "pictures.bin").open("wb") as pictures, ThreadPoolExecutor(2) as pool:
        for entry, blob in zip(entries, tqdm(pool.map(encode, entries)), strict=False):
            entry["start"], entry["size"] = pictures.tell(), len(blob)
            pictures.write(blob)
    (out / "labels.json").write_text(json.dumps(entries))


class Packed(NamedTuple):
    """A decoded pack: uint8[h, w, 3] pictures and their label entries."""

    pictures: list[np.ndarray[Any, np.dtype[np.uint8]]]
    entries: list[Entry]


def read_pack(folder: Path) -> Packed:
    """Decode every picture of a pack."""
    entries = json.loads((folder / "labels.json").read_text())
    blob = (folder / "pictures.bin").read_bytes()

    def decode(entry: Entry) -> np.ndarray[Any, np.dtype[np.uint8]]:
        part = blob[entry["start"] : entry["start"] + entry["size"]]
        return np.asarray(Image.open(io.BytesIO(part)).convert("RGB"))

    with ThreadPoolExecutor(16) as pool:
        return Packed(list(pool.map(decode, entries)), entries)
