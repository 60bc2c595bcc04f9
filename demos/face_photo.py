"""Find the faces in photographs that come inside other packages: draw them, print JSON and time.

    python demos/face_photo.py -o build/demo

Needs the extra `demos`: the photographs are scikit-image's astronaut and matplotlib's grace_hopper.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from palmkit import kits
from palmkit.kits.image import Image


def photographs() -> dict[str, Image]:
    import matplotlib
    import skimage.data

    grace_hopper = Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg")
    return {
        "astronaut": kits.read_image(skimage.data.astronaut()),  # type: ignore[no-untyped-call]
        "grace_hopper": kits.read_image(grace_hopper),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Find the faces in two photographs.")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/demo"), metavar="FOLDER")
    folder: Path = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for name, photograph in photographs().items():
        kits.detect_faces(photograph)
        start = time.perf_counter()
        faces = kits.detect_faces(photograph)
        passed_ms = (time.perf_counter() - start) * 1e3
        target = folder / f"{name}.png"
        kits.write_image(target, kits.draw.faces(photograph, faces))
        print(json.dumps({"file": name, **faces.to_dict()}))
        print(f"{name}: {len(faces)} found in {passed_ms:.1f} ms, drawn in {target}")
        if not len(faces):
            print(f"{name}: a face was expected", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
