"""Measure how often faces keep their ids when one passes before another.

`python -m palmkit.models.face_mesh.crossings DATA LABELS MESHES` prints a table of FaceDetector and
FaceMesh in video mode. Clips are made from held-out training photos: an oval round one face moves
to the right before one that moves to the left, stands, or is passed standing. A clip counts if
both faces are found in its first frame, and is right if its last frame has the same two ids, on
the sides where the faces went.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from palmkit.kits import FaceDetector, FaceMesh
from palmkit.kits.crop import sample
from palmkit.kits.results import Faces
from palmkit.models.face_detector.labels import read_picture
from palmkit.models.face_mesh.teacher import Picture

Kit: TypeAlias = Callable[[Picture, float], Faces]

PAIRS = 12
SIDE = 170
# Pixels a frame of the face in front and of the one behind.
SPEEDS = ((1.5, 1.5), (2.0, 1.0), (0.0, 3.0), (3.0, 3.0), (0.0, 6.0), (6.0, 6.0))
HEIGHT, WIDTH, TOP = 360, 640, 80
FIRST, MIDDLE, LAST = 10.0, 235.0, 460.0


def cut_outs(data: Path, labels: Path, meshes: Path) -> list[Picture]:
    """Return upright faces of held-out photos, uint8[SIDE, SIDE, 3], the same in every run."""
    # These need the extra [train], what makes clips of faces does not.
    from palmkit.models.face_detector.dataset import read_labels
    from palmkit.models.face_mesh.dataset import read_meshes
    from palmkit.models.face_mesh.evaluate import find_cases

    entries = read_labels(labels)
    cases, _ = find_cases(data, entries, read_meshes(meshes, entries), "validation")
    cases = [case for case in cases if case.group == "frontal" and case.first.side >= SIDE]
    by_file = {case.file: case for case in cases}
    chosen = np.random.default_rng(0).permutation(sorted(by_file))[: 2 * PAIRS].tolist()
    return [sample(read_picture(data, file), by_file[file].first, SIDE) for file in chosen]


def clip(behind: Picture, front: Picture, speeds: tuple[float, float]) -> Iterator[Picture]:
    """Yield uint8[HEIGHT, WIDTH, 3] until one of the faces has crossed the picture."""
    y, x = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j]
    oval: NDArray[np.bool_] = (x / 0.84) ** 2 + (y / 0.92) ** 2 < 1
    for index in range(int((LAST - FIRST) / max(speeds))):
        frame = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
        right = FIRST + speeds[0] * index if speeds[0] else MIDDLE
        left = LAST - speeds[1] * index if speeds[1] else MIDDLE
        for face, place in ((behind, round(left)), (front, round(right))):
            frame[TOP : TOP + SIDE, place : place + SIDE][oval] = face[oval]
        yield frame


def keeps_ids(frames: Iterable[Picture], kit: Kit) -> bool | None:
    """Return whether a clip's ids are right at its end; None if not both faces are found first."""
    places: list[dict[int, float]] = []
    for index, frame in enumerate(frames):
        found = kit(frame, index * 1e3 / 30)
        assert found.ids is not None
        middles = (found.boxes[:, 0] + found.boxes[:, 2] / 2).tolist()
        places.append(dict(zip(found.ids.tolist(), middles, strict=True)))
    first, last = places[0], places[-1]
    if len(first) != 2:
        return None
    one, other = first
    return first.keys() == last.keys() and (first[one] < first[other]) != (last[one] < last[other])


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="measure ids of faces that cross")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="labels.jsonl of the face detector")
    parser.add_argument("meshes", type=Path, help="meshes.npz of labels.py")
    options = parser.parse_args(None if arguments is None else list(arguments))
    faces = cut_outs(options.data, options.labels, options.meshes)
    print("| pixels a frame apart | FaceDetector | FaceMesh |\n|---|---|---|")
    for relative in sorted({sum(speeds) for speeds in SPEEDS}):
        cells: list[str] = []
        for kit in (FaceDetector("video"), FaceMesh("video")):
            right: list[bool] = []
            for behind, front in zip(faces[::2], faces[1::2], strict=True):
                for speeds in SPEEDS:
                    if sum(speeds) == relative:
                        kit.reset()
                        kept = keeps_ids(clip(behind, front, speeds), kit.detect)
                        right += [] if kept is None else [kept]
            cells.append(f"{sum(right)} of {len(right)}")
        print(f"| {relative:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
