"""Measure how well the kits keep ids while the camera moves and faces cross.

`python -m palmkit.models.tracking.evaluate INDEX` makes clips from the photos of an index.jsonl,
30 frames a second, and prints a table. In a clip of

pan       the camera goes gently over a group photo and zooms: at most 5 pixels a frame
shake     it does so in a shaking hand: each frame is 5 to 20 pixels off
crossing  one face passes before another

and it is known where everything is in every frame, since the motion was made here. Counted are

switches  that a visible face has another id than the last time it had one
misses    of a hundred visible faces, those not found
false     of a hundred faces found, those where there is none
ms        a frame takes, on average, with one thread

of FaceDetector and FaceMesh in video mode, and of pictures: each frame is searched as a picture,
and a face gets the id of the one that it overlaps most, greedily by IoU. `--kit gestures
hand-pictures` does so for hands, with an index of those.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from palmkit.kits import FaceDetector, FaceMesh, GestureRecognizer
from palmkit.kits.boxes import Floats, corners, iou
from palmkit.kits.cli.command import progress_bar
from palmkit.kits.image import Image
from palmkit.kits.results.things import Things
from palmkit.models.tracking.clips import (
    SPEEDS,
    Frame,
    Photo,
    crossing,
    cut_out,
    enlarged,
    filmed,
    pan,
    shaken,
    tiled,
)

# Finds corners, float32[n, 4], and ids, int64[n], in the next frame of a clip.
Follower: TypeAlias = Callable[[Image, float], tuple[Floats, NDArray[np.int64]]]

FRAMES_PER_S = 30
MOTIONS = ("pan", "shake", "crossing")
KITS = ("detector", "mesh", "pictures", "gestures", "hand-pictures")
OF_HANDS = KITS[3:]
# A face found overlaps what it is by this much or more.
SAME = 0.3
# The ids of pictures end when they were not seen in so many frames.
KEPT_FRAMES = 30
# Least number of faces of a group, least side of the photo of one face that crosses another.
GROUP, LARGE = 5, 90
# Hands come one or two in a photo: so many photos side by side are a group.
SHEET, COLUMNS = 6, 3


@dataclass
class Counts:
    """What was counted in clips."""

    switches: int = 0
    visible: int = 0
    misses: int = 0
    found: int = 0
    false: int = 0
    frames: int = 0
    seconds: float = 0.0

    def row(self) -> list[str]:
        """Return the cells of a table: switches, misses, false, ms."""
        misses = 100 * self.misses / max(self.visible, 1)
        false = 100 * self.false / max(self.found, 1)
        ms = 1e3 * self.seconds / max(self.frames, 1)
        return [f"{self.switches}", f"{misses:.1f}", f"{false:.1f}", f"{ms:.1f}"]


@dataclass
class Matching:
    """Which id each thing of a clip has, frame by frame.

    A thing keeps what it was matched with while they overlap by SAME; all else is matched greedily,
    the pair of the best overlap first (Bernardin, Stiefelhagen: Evaluating Multiple Object Tracking
    Performance: The CLEAR MOT Metrics, 2008).
    """

    counts: Counts
    last: dict[int, int] = field(default_factory=dict)

    def take(self, frame: Frame, boxes: Floats, ids: NDArray[np.int64]) -> None:
        """Count a frame, in which things were found in boxes, corners, with these ids."""
        overlaps = iou(frame.boxes, boxes)
        pairs: dict[int, int] = {}
        columns = {int(id): column for column, id in enumerate(ids)}
        for row, id in self.last.items():
            column = columns.get(id, -1)
            if column >= 0 and overlaps[row, column] >= SAME:
                pairs[row] = column
        overlaps[list(pairs)] = 0
        overlaps[:, list(pairs.values())] = 0
        while overlaps.size and overlaps.max() >= SAME:
            row, column = divmod(int(overlaps.argmax()), overlaps.shape[1])
            pairs[row] = column
            overlaps[row] = overlaps[:, column] = 0
        for row, column in pairs.items():
            if frame.visible[row]:
                id = int(ids[column])
                self.counts.switches += self.last.get(row, id) != id
                self.last[row] = id
        self.counts.visible += int(frame.visible.sum())
        self.counts.misses += sum(row not in pairs for row in np.flatnonzero(frame.visible))
        self.counts.found += len(boxes)
        self.counts.false += len(boxes) - len(pairs)
        self.counts.frames += 1


class ByOverlap:
    """Gives ids to what is found in single pictures: that of what it overlaps most."""

    def __init__(self) -> None:
        """Start without things."""
        self._boxes = np.zeros((0, 4), np.float32)
        self._ids = np.zeros(0, np.int64)
        self._unseen = np.zeros(0, np.int64)
        self._next = 0

    def update(self, boxes: Floats) -> NDArray[np.int64]:
        """Return int64[n], the ids of the boxes of the next frame, corners, float32[n, 4]."""
        overlaps = iou(boxes, self._boxes)
        ids = np.full(len(boxes), -1, np.int64)
        unseen = self._unseen + 1
        while overlaps.size and overlaps.max() > 0:
            row, column = divmod(int(overlaps.argmax()), overlaps.shape[1])
            ids[row] = self._ids[column]
            unseen[column] = KEPT_FRAMES + 1
            overlaps[row] = overlaps[:, column] = 0
        new = ids < 0
        ids[new] = self._next + np.arange(new.sum())
        self._next += int(new.sum())
        waiting = unseen <= KEPT_FRAMES
        self._boxes = np.concatenate([boxes, self._boxes[waiting]])
        self._ids = np.concatenate([ids, self._ids[waiting]])
        self._unseen = np.concatenate([np.zeros(len(boxes), np.int64), unseen[waiting]])
        return ids


def follower(kit: str) -> Follower:
    """Return what follows the things of one clip: one of KITS."""
    find: Callable[..., Things[Any]]
    is_video = kit in ("detector", "mesh", "gestures")
    mode: Literal["video", "image"] = "video" if is_video else "image"
    if kit in OF_HANDS:
        find = GestureRecognizer(mode).recognize
    else:
        find = (FaceMesh if kit == "mesh" else FaceDetector)(mode, quality="fast").detect
    by_overlap = ByOverlap()

    def follow(frame: Image, timestamp_ms: float) -> tuple[Floats, NDArray[np.int64]]:
        found = find(frame, timestamp_ms) if is_video else find(frame)
        boxes = corners(found.boxes)
        return boxes, by_overlap.update(boxes) if found.ids is None else found.ids

    return follow


def measure(frames: Iterable[Frame], follow: Follower, counts: Counts) -> None:
    """Count what happens in the frames of one clip."""
    matching = Matching(counts)
    for index, frame in enumerate(frames):
        start_s = time.perf_counter()
        boxes, ids = follow(frame.picture, index * 1e3 / FRAMES_PER_S)
        counts.seconds += time.perf_counter() - start_s
        matching.take(frame, boxes, ids)


def read_rows(index: Path, split: str) -> list[Mapping[str, Any]]:
    """Return the rows of an index.jsonl of that split that have boxes."""
    with index.open(encoding="utf-8") as lines:
        rows: list[Mapping[str, Any]] = [json.loads(line) for line in lines]
    return [row for row in rows if row["split"] == split and row.get("boxes")]


def read_photo(index: Path, row: Mapping[str, Any]) -> Photo:
    """Return the photo of a row, with all its boxes, also those that were found automatically."""
    with Pillow.open(index.parent / row["file"]) as opened:
        picture = np.asarray(opened.convert("RGB"))
    boxes = np.array([*row["boxes"], *row.get("unlabelled_auto", [])], np.float32).reshape(-1, 4)
    return Photo(picture, corners(boxes))


def groups(index: Path, split: str, count: int, hands: bool) -> list[Photo]:
    """Return that many group photos, the same in every run."""
    rows = read_rows(index, split)
    random = np.random.default_rng(0)
    if hands:
        chosen = random.permutation(len(rows))[: count * SHEET].tolist()
        photos = [read_photo(index, rows[each]) for each in chosen]
        sheets = [photos[first : first + SHEET] for first in range(0, len(photos), SHEET)]
        return [enlarged(tiled(sheet, COLUMNS, 512)) for sheet in sheets]
    rows = [row for row in rows if len(row["boxes"]) >= GROUP]
    chosen = random.permutation(len(rows))[:count].tolist()
    return [enlarged(read_photo(index, rows[each])) for each in chosen]


def pairs(index: Path, split: str, count: int) -> list[tuple[Photo, Photo]]:
    """Return that many pairs of large single faces, cut out, the same in every run."""
    rows = [
        row
        for row in read_rows(index, split)
        if len(row["boxes"]) == 1 and min(row["boxes"][0][2:]) >= LARGE
    ]
    chosen = np.random.default_rng(0).permutation(len(rows))[: 2 * count].tolist()
    faces = [cut_out(read_photo(index, rows[each])) for each in chosen]
    return list(zip(faces[::2], faces[1::2], strict=False))


def clips(
    index: Path, split: str, motion: str, photos: int, frames: int, hands: bool = False
) -> Iterator[Iterable[Frame]]:
    """Yield the clips of one of MOTIONS."""
    if motion == "crossing":
        for behind, front in pairs(index, split, photos):
            for speeds in SPEEDS:
                yield crossing(behind, front, speeds)
        return
    for seed, photo in enumerate(groups(index, split, photos, hands)):
        height, width = photo.picture.shape[:2]
        way = pan(height, width, frames, seed)
        yield filmed(photo, way if motion == "pan" else shaken(way, seed))


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("index", type=Path, help="index.jsonl of photos with boxes of faces")
    parser.add_argument("--split", default="dev", help="rows to take (dev)")
    parser.add_argument("--photos", type=int, default=16, help="photos, or pairs of faces (16)")
    parser.add_argument("--frames", type=int, default=120, help="frames of a pan or shake (120)")
    parser.add_argument("--motion", nargs="+", choices=MOTIONS, default=MOTIONS)
    parser.add_argument(
        "--kit",
        nargs="+",
        choices=KITS,
        default=KITS[:3],
        help="the last two take an index of hands, six photos of which are made a group",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    options = parser.parse_args(None if arguments is None else list(arguments))
    print("| motion | kit | switches | misses % | false % | ms |\n|---|---|---|---|---|---|")
    for motion in options.motion:
        for kit in options.kit:
            counts = Counts()
            hands = kit in OF_HANDS
            made = clips(
                options.index, options.split, motion, options.photos, options.frames, hands
            )
            with progress_bar(None, "frame", options.quiet) as bar:
                bar.set_description(f"{motion}, {kit}")
                for clip in made:
                    measure(_told(clip, bar), follower(kit), counts)
            print(f"| {motion} | {kit} | {' | '.join(counts.row())} |", flush=True)


def _told(frames: Iterable[Frame], bar: Any) -> Iterator[Frame]:
    for frame in frames:
        yield frame
        bar.update()


if __name__ == "__main__":
    main()
