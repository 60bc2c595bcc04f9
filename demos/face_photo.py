"""Find the faces in photographs: draw them, print JSON and time.

    python demos/face_photo.py -o build/demo
    python demos/face_photo.py --source group.jpg me.png

Needs the extra `demos` for its own photographs, scikit-image's astronaut and matplotlib's
grace_hopper.
"""

import json
import time
from pathlib import Path

from palmkit import kits
from palmkit.kits import live
from palmkit.kits.image import Image


def photographs() -> dict[str, Image]:
    import matplotlib

    grace_hopper = Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg")
    return {"astronaut": live.sample("face"), "grace_hopper": kits.read_image(grace_hopper)}


def main() -> None:
    parser = live.plain_parser(__doc__)
    parser.add_argument("--source", type=Path, nargs="+", metavar="FILE", help="pictures")
    parser.add_argument(
        "--frames", type=live.frame_count, metavar="N", help="only the first N of them"
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("build/demo"), metavar="FOLDER")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    given = {path.stem: kits.read_image(path) for path in options.source or ()}
    for name, photograph in list((given or photographs()).items())[: options.frames]:
        kits.detect_faces(photograph)
        start_s = time.perf_counter()
        faces = kits.detect_faces(photograph)
        passed_ms = (time.perf_counter() - start_s) * 1e3
        target = options.output / f"{name}.png"
        kits.write_image(target, kits.draw.faces(photograph, faces))
        print(json.dumps({"file": name, **faces.to_dict()}))
        print(f"{name}: {len(faces)} found in {passed_ms:.1f} ms, drawn in {target}")


if __name__ == "__main__":
    live.run(main)
