"""Make the hands' labels: where they are and their landmarks, by MediaPipe's networks.

`python -m palmkit.models.hand_detector.labels DATA TEACHERS OUT` reads the indexes in DATA and
writes OUT/labels.jsonl (OUT/labels-I.jsonl with --share I/N), one object a picture: file, set,
split, hash (of the look), hands, ignored. A hand has landmarks (21 of x, y, z, pixels), presence,
right (0..1), spread (how far the teacher's answers lie apart, in palm sizes) and gesture (null
where unknown); an ignored box is x1, y1, x2, y2: something like a hand that nobody is sure of.
Every landmark is a mean over turned, scaled and mirrored crops. Pictures that are already in the
file are skipped.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from palmkit.kits import FaceDetector
from palmkit.kits.boxes import corners, iou
from palmkit.kits.crop import Crop
from palmkit.kits.hands.crop import palm_size
from palmkit.kits.quarter_turns import points_back
from palmkit.models.face_detector.labels import difference_hash, read_picture
from palmkit.models.hand_detector import teachers
from palmkit.models.hand_detector.teachers import Array, Palms, Picture
from palmkit.models.segmentation.by_eye import with_people
from palmkit.models.training import labels

INDEXES = ("hands", "portraits", "negatives", "faces", "hair", "scan")
SHARES = {
    "aaf": 0.3,
    "maskon": 0.6,
    "figaro": 0.5,
    "fasseg_frontal": 0.0,
    "fasseg_multipose": 0.3,
    "zxing": 0.0,
}
# Pictures without people, which the teachers need not see.
EMPTY = frozenset({"flowers", "animals"})
# Pictures of people, whose hands are small: they are looked for in tiles, too.
PEOPLE = frozenset(
    {
        *("ccp", "ccp_unlabelled", "hs290", "cutouts", "voc_person", "workers"),
        *("eden", "oi_crowd", "coco_crowd", "ilc2021"),
    }
)
# The hand fills these pictures: a border lets the palm detector see it from further away.
CROPS = frozenset({"ardamavi", "rps_green"})
HAND_SETS = frozenset(
    {"subhi", "leb", "obb", "linto", "anton", "ardamavi", "rps_green", "fingercount", "hagrid"}
)
# The set's own class says more than the collection's: thumbs down has few photos but some.
BY_NATIVE = {("anton", "thumbsdown"): "thumb_down", ("hagrid", "dislike"): "thumb_down"}
VIEWS = ((0.0, 1.0), (0.2, 1.0), (-0.2, 1.1), (0.0, 0.92))
SURE, DOUBTFUL = 0.6, 0.25


class Found(NamedTuple):
    """One hand: float32[21, 3] pixels, presence, right, spread in palm sizes."""

    landmarks: Array
    presence: float
    right: float
    spread: float

    @property
    def box(self) -> Array:
        """The corners of the box round the landmarks, float32[4]."""
        flat = self.landmarks[:, :2]
        return np.concatenate([flat.min(axis=0), flat.max(axis=0)])


def read_rows(data: Path) -> Iterator[dict[str, Any]]:
    """Yield every picture row that may be used, with `file` relative to `data`."""
    rows = labels.read_rows(data, INDEXES, SHARES)
    return (row for row in rows if row["file"] not in with_people())


class Committee:
    """The two teachers together."""

    def __init__(self, folder: Path) -> None:
        """Open the networks in `folder`."""
        self.palms = teachers.palm_detector(folder, DOUBTFUL)
        self.read = teachers.hand_reader(folder)
        self.faces = FaceDetector(min_score=0.5, quality="fast")

    def average(self, picture: Picture, crop: Crop) -> Found:
        """Return mean landmarks over views of a hand, the crop following what is seen."""
        first = self.read(picture, crop)
        base = teachers.followed_crop(first.landmarks)
        second = self.read(picture, base)
        base = teachers.followed_crop(second.landmarks)
        mirrored = np.ascontiguousarray(picture[:, ::-1])
        width = picture.shape[1]
        seen: list[Array] = []
        presence: list[float] = []
        right: list[float] = []
        for number, (turn, scale) in enumerate(VIEWS):
            view = base.moved(0, 0, scale, turn)
            if number % 2:
                flipped = Crop(width - view.x, view.y, view.side, -view.angle)
                hand = self.read(mirrored, flipped)
                landmarks = hand.landmarks * np.asarray([-1, 1, 1], np.float32)
                landmarks[:, 0] += width
                right.append(1 - hand.right)
            else:
                hand = self.read(picture, view)
                landmarks = hand.landmarks
                right.append(hand.right)
            seen.append(landmarks)
            presence.append(hand.presence)
        stack = np.stack(seen)
        mean = stack.mean(axis=0)
        apart = np.linalg.norm(stack[..., :2] - mean[:, :2], axis=-1).mean()
        spread = float(apart) / max(palm_size(mean), 1e-3)
        return Found(mean, float(np.mean(presence)), float(np.mean(right)), spread)

    def find(self, picture: Picture, turns: Iterable[int], parts: Iterable[Array]) -> list[Found]:
        """Return hands in the picture turned by quarters, and in its parts (corners of boxes)."""
        crops: list[tuple[float, Crop]] = []
        for turn in turns:
            seen = np.ascontiguousarray(np.rot90(picture, turn))
            for part in [np.asarray([0, 0, seen.shape[1], seen.shape[0]]), *parts]:
                left, top, right, bottom = (int(value) for value in part)
                palms = self.palms(np.ascontiguousarray(seen[top:bottom, left:right]))
                crops += self.turned_back(palms, (left, top), turn, picture.shape)
        return self.look(picture, crops)

    def turned_back(
        self, palms: Palms, corner: tuple[int, int], turn: int, shape: tuple[int, ...]
    ) -> list[tuple[float, Crop]]:
        """Return crops round palms of a turned picture, in the picture itself, with scores."""
        height, width = shape[:2]
        crops: list[tuple[float, Crop]] = []
        for box, score, points in zip(*palms, strict=True):
            crop = teachers.palm_crop(box, points)
            place = np.array([crop.x + corner[0], crop.y + corner[1]])
            x, y = points_back(place, turn, (0, 0, width, height)).tolist()
            angle = crop.angle + (0, np.pi / 2, np.pi, -np.pi / 2)[turn]
            crops.append((float(score), Crop(x, y, crop.side, angle)))
        return crops

    def look(self, picture: Picture, crops: list[tuple[float, Crop]]) -> list[Found]:
        """Return the landmarks of each hand once, best first."""
        every: list[tuple[float, Found]] = []
        for score, crop in sorted(crops, key=lambda each: -each[0]):
            known = any(
                overlap([*_middle(other), 0.5 * float(np.ptp(other.box[[0, 2]]))], crop)
                and other.presence > SURE
                for _, other in every
            )
            if not known:
                hand = self.average(picture, crop)
                every.append((score + 2 * hand.presence - 3 * hand.spread, hand))
        kept: list[Found] = []
        for _, hand in sorted(every, key=lambda each: -each[0]):
            boxes = np.asarray([other.box for other in kept], np.float32).reshape(-1, 4)
            if not (iou(hand.box[None], boxes) > 0.4).any():
                kept.append(hand)
        return kept

    def search(self, picture: Picture, box: Array) -> Found:
        """Return the hand that fills a box, at any rotation."""
        x, y = (box[:2] + box[2:]) / 2
        side = float((box[2:] - box[:2]).max()) * 1.4
        views = [Crop(float(x), float(y), side, step * np.pi / 4) for step in range(8)]
        presences = [self.read(picture, view).presence for view in views]
        tried = [self.average(picture, views[row]) for row in np.argsort(presences)[::-1][:2]]
        return max(tried, key=lambda hand: hand.presence - 3 * hand.spread)

    def label(self, picture: Picture, row: Mapping[str, Any]) -> tuple[list[Found], list[Array]]:
        """Return hands and doubtful boxes of one picture."""
        border = 0
        if row["set"] in CROPS:
            border = max(picture.shape[:2]) // 3
            picture = np.pad(picture, ((border, border), (border, border), (0, 0)), mode="edge")
        boxes = np.asarray(row.get("boxes") or [], np.float32).reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]
        if row["set"] not in HAND_SETS:
            boxes = boxes[:0]
        found = self.find(picture, (0,), self.parts(picture, row))
        missing = [box for box in boxes if not any(agree(box, hand) for hand in found)]
        if row["set"] in HAND_SETS and (missing or not any(h.presence > SURE for h in found)):
            found = merged(found, self.find(picture, (1, 2, 3), ()))
            missing = [box for box in boxes if not any(agree(box, hand) for hand in found)]
            found = merged(found, [self.search(picture, box) for box in missing])
        if row["set"] not in HAND_SETS:
            found = [hand for hand in found if not self.is_face(picture, hand)]
            found = [hand if is_very_sure(hand) else hand._replace(spread=1.0) for hand in found]
        sure = [hand for hand in found if is_sure(hand)]
        doubt = [hand.box for hand in found if not is_sure(hand) and hand.presence > 0.1]
        doubt += [box for box in boxes if not any(agree(box, hand) for hand in sure)]
        shift = np.asarray([border, border, 0], np.float32)
        moved = [hand._replace(landmarks=hand.landmarks - shift) for hand in sure]
        return moved, [box - border for box in doubt]

    def is_face(self, picture: Picture, hand: Found) -> bool:
        """Return whether our face detector takes the hand for a face."""
        faces = corners(self.faces.detect(picture).boxes)
        return bool((iou(hand.box[None], faces) > 0.3).any())

    def parts(self, picture: Picture, row: Mapping[str, Any]) -> list[Array]:
        """Return overlapping tiles of pictures of people."""
        if row["set"] not in PEOPLE:
            return []
        height, width = picture.shape[:2]
        across, down = int(width * 0.62), int(height * 0.62)
        corners = [(x, y) for y in (0, height - down) for x in (0, width - across)]
        return [np.asarray([x, y, x + across, y + down]) for x, y in corners]


def _middle(hand: Found) -> tuple[float, float]:
    x, y = hand.landmarks[[0, 9], :2].mean(axis=0)
    return float(x), float(y)


def overlap(circle: list[float], crop: Crop) -> bool:
    """Return whether the crop's centre is within `circle`: x, y and radius."""
    return float(np.hypot(circle[0] - crop.x, circle[1] - crop.y)) < min(circle[2], crop.side / 5)


def agree(box: Array, hand: Found) -> bool:
    """Return whether a hand matches a set's box: similar boxes, or one holds most of the other."""
    ours = hand.box
    corner, far = np.maximum(box[:2], ours[:2]), np.minimum(box[2:], ours[2:])
    shared = float(np.clip(far - corner, 0, None).prod())
    smaller = min(float((each[2:] - each[:2]).prod()) for each in (box, ours))
    return hand.presence > 0.4 and shared > 0.6 * max(smaller, 1.0)


def is_sure(hand: Found) -> bool:
    """Return whether the teachers' views of a hand agree."""
    return hand.presence > SURE and hand.spread < 0.16 and palm_size(hand.landmarks) > 8


def is_very_sure(hand: Found) -> bool:
    """Return whether they agree enough for pictures where nobody has looked for hands."""
    return hand.presence > 0.9 and hand.spread < 0.08


def merged(first: list[Found], more: list[Found]) -> list[Found]:
    """Return the hands of both, each once, the better one where they overlap."""
    ranked = sorted([*first, *more], key=lambda hand: 3 * hand.spread - hand.presence)
    kept: list[Found] = []
    for hand in ranked:
        boxes = np.asarray([other.box for other in kept], np.float32).reshape(-1, 4)
        if not (iou(hand.box[None], boxes) > 0.4).any():
            kept.append(hand)
    return kept


def gestures(row: Mapping[str, Any], hands: list[Found]) -> list[str | None]:
    """Return the gesture of each hand: by its box, or that of the only or largest one."""
    if row["set"] not in HAND_SETS or not hands:
        return [None] * len(hands)
    natives = row.get("natives") or [row.get("native")]
    labels = row.get("labels") or [row.get("label")]
    known = [
        BY_NATIVE.get((row["set"], str(native)), label)
        for native, label in zip(natives, labels, strict=True)
    ]
    boxes = np.asarray(row.get("boxes") or [], np.float32).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    result: list[str | None] = [None] * len(hands)
    if len(known) == len(boxes) and len(boxes) > 0:
        for box, label in zip(boxes, known, strict=True):
            meets = [agree(box, hand) for hand in hands]
            if sum(meets) == 1:
                result[meets.index(True)] = label
        return result
    if len(known) == 1:
        sizes = [palm_size(hand.landmarks) for hand in hands]
        largest = int(np.argmax(sizes))
        # Two hands of similar size: which one shows the gesture is not known.
        if sum(size > 0.75 * sizes[largest] for size in sizes) == 1:
            result[largest] = known[0]
    return result


def describe(row: Mapping[str, Any], committee: Committee, picture: Picture) -> dict[str, Any]:
    """Return one picture's line of labels.jsonl."""
    named = row if row["set"] in HAND_SETS else {}
    native = named.get("native")
    hands, ignored = ([], []) if row["set"] in EMPTY else committee.label(picture, row)
    return {
        "file": row["file"],
        "set": row["set"],
        "split": row["split"],
        "hard": bool(row.get("hard")),
        "person": row.get("person") or row.get("recording"),
        "native": native,
        "label": BY_NATIVE.get((row["set"], str(native)), named.get("label")),
        "hash": f"{difference_hash(picture):064x}",
        "hands": [
            {
                "landmarks": hand.landmarks.round(2).tolist(),
                "presence": round(hand.presence, 3),
                "right": round(hand.right, 3),
                "spread": round(hand.spread, 4),
                "gesture": gesture,
            }
            for hand, gesture in zip(hands, gestures(row, hands), strict=True)
        ],
        "ignored": [box.round(1).tolist() for box in ignored],
    }


def main(arguments: Iterable[str] | None = None) -> None:
    """Write the labels."""

    def make(options: argparse.Namespace) -> Callable[[labels.Row], labels.Row]:
        committee = Committee(options.teachers)
        return lambda row: describe(row, committee, read_picture(options.data, row["file"]))

    labels.write_labels("make the labels of the hand models", read_rows, make, arguments)


if __name__ == "__main__":
    main()
