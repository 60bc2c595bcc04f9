"""What tests of mask networks share: made pictures to learn from, and the sides of networks."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

# The sides of what each network sees and draws.
SIDES = {
    "portrait": (256, 256),
    "portrait_best": (320, 320),
    "hair": (256, 256),
    "hair_best": (256, 256),
    "person_finder": (128, 64),
}


class Made(NamedTuple):
    """A made picture, uint8[h, w, 3], its label as in Bank, None without anybody, and its entry."""

    picture: np.ndarray[Any, Any]
    label: np.ndarray[Any, Any] | None
    entry: Mapping[str, Any]


def pack_made(folder: Path, made: Sequence[Made], kinds: Sequence[str]) -> None:
    """Pack made pictures as dataset.pack does; kinds: of "person" and "hair", which labels are of.

    An entry may deny a kind: its label is not of it.
    """
    folder.mkdir(exist_ok=True)
    entries: list[dict[str, Any]] = []
    masks, pictures = io.BytesIO(), io.BytesIO()

    def appended(content: np.ndarray[Any, Any], target: io.BytesIO) -> list[int]:
        blob = io.BytesIO()
        Image.fromarray(content.astype(np.uint8)).save(blob, "WEBP", lossless=True, exact=True)
        place = [target.tell(), blob.tell()]
        target.write(blob.getvalue())
        return place

    for number, (picture, label, entry) in enumerate(made):
        start, size = appended(picture, pictures)
        known = True if label is None else appended(label, masks)
        place = {"file": f"{number}", "start": start, "size": size}
        entries.append({**place, **dict.fromkeys(kinds, known), **entry})
    (folder / "pictures.bin").write_bytes(pictures.getvalue())
    (folder / "masks.bin").write_bytes(masks.getvalue())
    (folder / "labels.json").write_text(json.dumps(entries))


def write_pack(folder: Path) -> None:
    """A few pictures of bright disks on dark ground, packed as dataset.pack does."""
    random = np.random.default_rng(0)
    rows, columns = np.mgrid[:96, :80]
    disk = ((rows - 48) ** 2 + (columns - 40) ** 2 < 600)[..., None]
    label = np.repeat(np.where(disk, 255, 0), 3, axis=2)
    label[..., 1] = 255
    made: list[Made] = []
    for name in ("ccp", "hs290", "cutouts", "backgrounds", "figaro", "ccp"):
        picture = np.where(disk, 200, 40) + random.integers(0, 40, (96, 80, 3))
        entry: dict[str, Any] = {"set": name, "faces": [[30, 30, 20, 20]]}
        if name == "hs290":
            entry["hair"] = False
        made.append(Made(picture, None if name == "backgrounds" else label, entry))
    pack_made(folder, made, ("person", "hair"))
