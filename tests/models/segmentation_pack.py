"""What tests of mask networks share: made pictures to learn from, and the sides of networks."""

import json
from pathlib import Path
from typing import Any

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


def write_pack(folder: Path) -> None:
    """A few pictures of bright disks on dark ground, packed as dataset.pack does."""
    import io

    folder.mkdir()
    random = np.random.default_rng(0)
    entries: list[dict[str, Any]] = []
    rows, columns = np.mgrid[:96, :80]
    masks, pictures = io.BytesIO(), io.BytesIO()
    for number, name in enumerate(["ccp", "hs290", "cutouts", "backgrounds", "figaro", "ccp"]):
        disk = ((rows - 48) ** 2 + (columns - 40) ** 2 < 600)[..., None]
        picture = np.where(disk, 200, 40) + random.integers(0, 40, (96, 80, 3))
        mask = np.repeat(np.where(disk, 255, 0), 3, axis=2)
        mask[..., 1] = 255
        entry: dict[str, Any] = {"set": name, "file": f"{number}", "faces": [[30, 30, 20, 20]]}
        for content, target in ((picture, pictures), (mask, masks)):
            blob = io.BytesIO()
            Image.fromarray(content.astype(np.uint8)).save(blob, "WEBP", lossless=True, exact=True)
            place = [target.tell(), blob.tell()]
            target.write(blob.getvalue())
            if target is pictures:
                entry["start"], entry["size"] = place
            else:
                known: object = True if name == "backgrounds" else place
                entry |= {"person": known, "hair": known if name != "hs290" else False}
        entries.append(entry)
    (folder / "pictures.bin").write_bytes(pictures.getvalue())
    (folder / "masks.bin").write_bytes(masks.getvalue())
    (folder / "labels.json").write_text(json.dumps(entries))
