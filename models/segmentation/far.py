"""Measure how well the portrait kit finds people who are far away.

`python -m palmkit.models.segmentation.far DATA TEACHERS` sets the development cut-outs on the
development backgrounds, standing in the lower half, at shares of the picture's height from all of
it to an eighth, and prints for each quality, and for MediaPipe's network, the mean IoU, that of the
worst tenth, and the shares of pictures with less than .5 and in which nobody is found.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from palmkit.kits.image import resize
from palmkit.models.kinds import spread
from palmkit.models.segmentation.evaluate import as_they_come
from palmkit.models.segmentation.labels import read_rgba, read_rows
from palmkit.models.segmentation.samples import Sample
from palmkit.models.segmentation.scores import overlap

HEIGHTS = (1.0, 0.5, 0.33, 0.2, 0.125)
# Of the height that is asked for, as cut-outs end at their border.
WITH_ROOM = 0.95
# Below this IoU nobody was found.
NOBODY = 0.05


def files(data: Path, name: str) -> list[str]:
    """Return the files of the dev split of a set."""
    rows = read_rows(data)
    return [row["file"] for row in rows if row["set"] == name and row["split"] == "dev"]


def composed(data: Path, height: float) -> Iterator[Sample]:
    """Yield pictures of somebody of this share of their height."""
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
            image, truth = behind.copy(), np.zeros((high, wide), np.float32)
            mixed = image[place] * (1 - share) + resize(person, tall, broad) * share
            image[place] = mixed.astype(np.uint8)
            truth[place] = share[..., 0]
            yield Sample("cutouts", image, truth, np.ones((high, wide), np.bool_))


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="people far away")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("teachers", type=Path, help="folder of selfie_segmentation.tflite")
    options = parser.parse_args(None if arguments is None else list(arguments))
    if not all(files(options.data, name) for name in ("cutouts", "backgrounds")):
        parser.error(f"{options.data}: expected dev cut-outs and backgrounds, got none")
    maskers = as_they_come("portrait", options.teachers)
    print("| | share of the height | pictures | IoU | worst tenth | below .5 | nobody |")
    print("|---|---|---|---|---|---|---|")
    for name, masker in maskers.items():
        for height in HEIGHTS:
            seen = tqdm(list(composed(options.data, height)), mininterval=5, leave=False)
            found = np.array([overlap(masker(each.picture), each) for each in seen])
            told = *spread(found.tolist())[1:], float((found < NOBODY).mean())
            shares = " | ".join(f"{share:.3f}" for share in told)
            print(f"| {name} | {height} | {len(found)} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
