"""Run a kit on every picture of a folder: JSON Lines, one object a picture; failures are listed.

    python demos/batch_folder.py --source photos/ --kit mesh -o found.jsonl

With the extra `ray`, on many processes: palmkit batch mesh photos/ -o found.parquet --workers 8
"""

import json
import sys
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from palmkit import kits
from palmkit.kits import batch, live
from palmkit.kits.image import SUFFIXES


def make_samples(folder: Path) -> Path:
    for name in live.SAMPLES:
        kits.write_image(folder / f"{name}.png", live.sample(name))
    (folder / "damaged.jpg").write_bytes(b"no picture")
    return folder


def main() -> None:
    parser = live.plain_parser(__doc__)
    parser.add_argument("--source", type=Path, metavar="FOLDER", help="(three sample files)")
    parser.add_argument(
        "--frames", type=live.frame_count, metavar="N", help="only the first N pictures"
    )
    parser.add_argument("--kit", choices=batch.KITS[:-1], default="face", help="(face)")
    parser.add_argument(
        "-o", "--output", type=live.writable, default="build/demo/found.jsonl", metavar="FILE"
    )
    options = parser.parse_args()
    worker = batch.Worker(options.kit)
    count = failed = 0
    with TemporaryDirectory() as folder, options.output.open("w") as file:
        pictures = options.source or make_samples(Path(folder))
        found = (path for path in sorted(pictures.rglob("*")) if path.suffix.lower() in SUFFIXES)
        for path in islice(found, options.frames):
            (row,) = worker.rows([{"path": str(path)}])
            count += 1
            if row["error"]:
                failed += 1
                print(f"{path.name}: {row['error']}", file=sys.stderr)
            else:
                print(json.dumps({"file": path.name, **json.loads(row["result"])}), file=file)
    if not count:
        raise kits.ImageError(f"no picture in the folder: {options.source}")
    print(f"{count} pictures, {failed} failed: {options.output}")


if __name__ == "__main__":
    live.run(main)
