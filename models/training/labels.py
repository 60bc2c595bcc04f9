"""Labels of training pictures: choosing rows of the indexes, and a line of JSON for each."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

Row = dict[str, Any]


def share_of(name: str) -> float:
    """Return a fixed number in 0..1 for a name, uniformly distributed."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32


def read_rows(
    data: Path, indexes: Sequence[str], shares: Mapping[str, float], rest: float = 1.0
) -> Iterator[Row]:
    """Every picture row of the indexes that is used; `file` and masks made relative to `data`.

    shares: of each set, chosen by a hash of the name; rest: of the sets that are not named.
    """
    for index in indexes:
        for line in (data / index / "index.jsonl").read_text().splitlines():
            row: Row = json.loads(line)
            for key in ("file", "mask", "hair_mask"):
                if row.get(key):
                    row[key] = f"{index}/{row[key]}"
            if share_of(row["file"]) < shares.get(row["set"], rest):
                yield row


def write_labels(
    description: str,
    read: Callable[[Path], Iterable[Row]],
    make: Callable[[argparse.Namespace], Callable[[Row], Row]],
    arguments: Iterable[str] | None,
) -> None:
    """Run the command DATA TEACHERS OUT [--share i/n], which writes OUT/labels.jsonl.

    Pictures that are already in the file are skipped, so an interrupted run resumes.
    read: returns the rows of DATA. make: returns by the options a function that makes a row's line.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("teachers", type=Path, help="folder of the published networks")
    parser.add_argument("out", type=Path, help="folder that takes labels.jsonl")
    parser.add_argument("--share", default="0/1", help="this process does rows i of n: i/n")
    options = parser.parse_args(None if arguments is None else list(arguments))
    options.out.mkdir(parents=True, exist_ok=True)
    first, step = (int(part) for part in options.share.split("/"))
    out = options.out / ("labels.jsonl" if step == 1 else f"labels-{first}.jsonl")
    done: set[str] = set()
    if out.exists():
        done = {json.loads(line)["file"] for line in out.read_text().splitlines()}
    label = make(options)
    rows = [row for row in list(read(options.data))[first::step] if row["file"] not in done]
    with out.open("a") as lines:
        for row in tqdm(rows, mininterval=5):
            lines.write(json.dumps(label(row)) + "\n")
            lines.flush()
