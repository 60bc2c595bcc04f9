"""Measure how well the portrait kit finds people who are far away.

`python -m palmkit.models.segmentation.far DATA` sets the development cut-outs on the development
backgrounds, standing in the lower half, at shares of the picture's height from all of it to an
eighth, and prints for each quality the mean IoU, and the shares of pictures with less than .5 and
in which nobody is found.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from palmkit.kits import PortraitSegmenter
from palmkit.kits.image import Image, resize
from palmkit.kits.quality import Quality
from palmkit.models.segmentation.labels import read_rgba

Mask = NDArray[np.bool_]
HEIGHTS = (1.0, 0.5, 0.33, 0.2, 0.125)
# Of the height that is asked for, as cut-outs end at their border.
WITH_ROOM = 0.95
# Below this IoU nobody was found.
NOBODY = 0.05


def files(data: Path, name: str) -> list[str]:
    """Return the files of the dev split of a set of portraits."""
    rows = map(json.loads, (data / "portraits/index.jsonl").read_text().splitlines())
    return [
        f"portraits/{row['file']}" for row in rows if row["set"] == name and row["split"] == "dev"
    ]


def composed(data: Path, height: float) -> Iterator[tuple[Image, Mask]]:
    """Yield pictures of somebody of this share of their height, and bool[h, w] where they are."""
    random = np.random.default_rng(0)
    people = [read_rgba(data, file) for file in files(data, "cutouts")]
    for file in files(data, "backgrounds"):
        behind, _ = read_rgba(data, file)
        high, wide = behind.shape[:2]
        for person, opacity in people:
            assert opacity is not None
            scale = height * high * WITH_ROOM / person.shape[0]
            tall, broad = (max(round(side * scale), 4) for side in person.shape[:2])
            if broad > wide:
                continue
            left = random.integers(wide - broad + 1)
            top = high - tall - random.integers(max((high - tall) // 2, 1))
            place = slice(top, top + tall), slice(left, left + broad)
            grey = np.repeat((opacity[..., None] * 255).astype(np.uint8), 3, axis=2)
            share = resize(grey, tall, broad) / np.float32(255)
            image, truth = behind.copy(), np.zeros((high, wide), np.bool_)
            mixed = image[place] * (1 - share) + resize(person, tall, broad) * share
            image[place] = mixed.astype(np.uint8)
            truth[place] = share[..., 0] > 0.5
            yield image, truth


def overlap(kit: PortraitSegmenter, image: Image, truth: Mask) -> float:
    """Return the IoU of the kit's mask."""
    found = kit.segment(image).mask > 0.5
    return float(np.sum(found & truth)) / max(float(np.sum(found | truth)), 1.0)


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="people far away")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    options = parser.parse_args(None if arguments is None else list(arguments))
    kits = {quality: PortraitSegmenter(quality=quality) for quality in get_args(Quality)}
    print("| quality | share of the height | pictures | IoU | below .5 | nobody |")
    print("|---|---|---|---|---|---|")
    for quality, kit in kits.items():
        for height in HEIGHTS:
            seen = tqdm(list(composed(options.data, height)), mininterval=5, leave=False)
            found = np.array([overlap(kit, *each) for each in seen])
            told = found.mean(), (found < 0.5).mean(), (found < NOBODY).mean()
            shares = " | ".join(f"{share:.3f}" for share in told)
            print(f"| {quality} | {height} | {len(found)} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
