"""Mark the faceless training pictures in which the network sees a face.

`python -m palmkit.models.face_detector.mine DATA PACK MODEL` sets `hard` in PACK/labels.json,
so that training draws these pictures more often. Pictures of hands are left as they are: parts of
faces that no teacher sees are in some of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

from tqdm import tqdm

from palmkit.models.face_detector.labels import HAND_SETS, read_picture


def mark(data: Path, pack: Path, model: Path, score: float = 0.3) -> int:
    """Set `hard` from this score on; return how many pictures are hard now."""
    from palmkit.kits import FaceDetector

    labels = pack / "labels.json"
    entries = json.loads(labels.read_text())
    with FaceDetector(model=model, min_score=score) as detector:
        for entry in tqdm(entries, mininterval=5):
            empty = not entry["faces"] and not entry["ignored"]
            if empty and entry["set"] not in HAND_SETS:
                seen = len(detector.detect(read_picture(data, entry["file"])))
                entry["hard"] = bool(entry["hard"]) or seen > 0
    labels.write_text(json.dumps(entries))
    return sum(entry["hard"] for entry in entries)


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="mark hard negatives")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("pack", type=Path, help="folder written by dataset.py")
    parser.add_argument("model", type=Path, help="an exported network")
    options = parser.parse_args(None if arguments is None else list(arguments))
    print(mark(options.data, options.pack, options.model))


if __name__ == "__main__":
    main()
