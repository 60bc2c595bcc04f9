"""Measure the search for faces that lie: in the development pictures, turned by quarters.

`python -m palmkit.models.face_detector.turned DATA LABELS TEACHERS` prints a table each of the dev
pictures with faces and of the held-out training ones, and one of both that have none: what is found
by default and how right it is, as the pictures are, on their side, one to the left and the next to
the right, and upside down; by the kit in each quality, and by YuNet at the picture's full size.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from palmkit.kits.quarter_turns import turned, turned_corners
from palmkit.models.face_detector.contenders import as_they_come
from palmkit.models.face_detector.dataset import known, read_labels
from palmkit.models.face_detector.evaluate import EMPTY_KINDS, KINDS
from palmkit.models.face_detector.labels import read_picture
from palmkit.models.face_detector.large import Composed, measured
from palmkit.models.kinds import PARTS

# By how many quarters every other picture is turned, and the rest.
WAYS = {"as they are": (0, 0), "on the side": (1, 3), "upside down": (2, 2)}


def turned_by(given: Composed, quarters: int) -> Composed:
    """Return a picture turned by so many quarters, with what is known of it."""
    height, width = given.picture.shape[:2]
    faces, ignored = (
        turned_corners(each, quarters, (0, 0, width, height))
        for each in (given.faces, given.ignored)
    )
    return Composed(turned(given.picture, quarters), faces, ignored)


def read(data: Path, entries: Iterable[Mapping[str, Any]]) -> Iterator[Composed]:
    """Yield pictures as they are, with their faces and doubtful regions."""
    for entry in entries:
        faces, ignored = known(entry)
        yield Composed(read_picture(data, entry["file"]), faces[:, :4], ignored)


def table(pictures: Sequence[Composed], teachers: Path, columns: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a table, one for each contender and way."""
    yield f"| | | {' | '.join(columns)} |\n|---|---|---|---|"
    for name, contender in as_they_come(teachers).items():
        for way, quarters in WAYS.items():
            seen = [turned_by(each, quarters[place % 2]) for place, each in enumerate(pictures)]
            yield f"| {name} | {way} | {measured(seen, contender)}"


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="faces in turned pictures")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="labels.jsonl")
    parser.add_argument("teachers", type=Path, help="folder of the published networks")
    options = parser.parse_args(None if arguments is None else list(arguments))
    entries = [each for each in read_labels(options.labels) if each["part"] in PARTS]
    for part in PARTS:
        of_part = (each for each in entries if each["part"] == part and each["set"] in KINDS)
        pictures = list(read(options.data, (each for each in of_part if each["faces"])))
        faces = sum(len(each.faces) for each in pictures)
        print(f"\n{part}: {len(pictures)} pictures, {faces} faces\n")
        for line in table(pictures, options.teachers, ["found", "precision"]):
            print(line, flush=True)
    empty = list(read(options.data, (each for each in entries if each["set"] in EMPTY_KINDS)))
    print(f"\nwithout a face: {len(empty)} pictures\n")
    for line in table(empty, options.teachers, ["with one", "faces"]):
        print(line, flush=True)


if __name__ == "__main__":
    main()
