"""Make the training labels: manual boxes where there are any, teachers' agreement elsewhere.

`python -m palmkit.models.face_detector.labels DATA TEACHERS OUT` reads the indexes in DATA and
writes OUT/labels.jsonl, one object a picture: file, set, split, hard, hash (of the look), faces,
ignored. A face is 14 numbers, x1 y1 x2 y2 and five points (null where unknown); an ignored box is
4 numbers.
Pictures that are already in the file are skipped, so an interrupted run goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from palmkit.kits.boxes import corners, covered, iou
from palmkit.models.face_detector import teachers
from palmkit.models.face_detector.teachers import Array, Detections, Picture
from palmkit.models.segmentation.by_eye import with_people
from palmkit.models.training import labels
from palmkit.models.training.labels import share_of

INDEXES = ("faces", "negatives", "portraits", "hair", "hands", "scan")
TERMS = {
    "eden": "research",
    "maskon": "unstated",
    "interfaces": "open",
    "aaf": "research",
    "ccp_unlabelled": "uncertain",
    "clothing": "open",
    "grocery": "open",
    "ccp": "uncertain",
    "hs290": "research",
    "cutouts": "uncertain",
    "backgrounds": "uncertain",
    "figaro": "research",
    "fasseg_frontal": "research",
    "fasseg_multipose": "research",
    "subhi": "open",
    "leb": "uncertain",
    "obb": "open",
    "linto": "unstated",
    "anton": "open",
    "ardamavi": "open",
    "rps_green": "share-alike",
    "fingercount": "share-alike",
    "hagrid": "share-alike",
    "oi_crowd": "open",
    "coco_crowd": "uncertain",
    "ilc2021": "unstated",
    "animals": "research",
    "voc_person": "research",
    "workers": "unstated",
    "flowers": "uncertain",
    "zxing": "open",
}
# Pictures without people, which the teachers need not see.
EMPTY = frozenset({"backgrounds", "flowers", "zxing"})
# Sets with boxes of faces; another face that the teachers see there is ignored.
FACE_SETS = frozenset({"eden", "maskon", "aaf", "oi_crowd", "coco_crowd", "ilc2021"})
HAND_SETS = frozenset({"subhi", "leb", "obb", "linto", "anton", "hagrid"})
BARE_HAND_SETS = frozenset({"ardamavi", "rps_green", "fingercount"})
# Boxes that a detector made count from this score on, and are ignored below it.
TRUSTED_SCORE = 0.7
LARGEST_SHARE = {"ardamavi": 0.25, "rps_green": 0.25, "fingercount": 0.4, "leb": 0.6, "obb": 0.6}


class Label(NamedTuple):
    """Labels of one picture: float32[n, 14] faces and float32[m, 4] ignored boxes."""

    faces: Array
    ignored: Array


def read_rows(data: Path) -> Iterator[dict[str, Any]]:
    """Yield every picture row of the indexes; the large sets of bare hands are thinned."""
    return labels.read_rows(data, INDEXES, LARGEST_SHARE)


def read_picture(data: Path, file: str) -> Picture:
    """Return uint8[h, w, 3]; a cut-out lies on a street or a room chosen by its name."""
    with Image.open(data / file) as image:
        if image.mode != "RGBA":
            return np.asarray(image.convert("RGB"))
        backgrounds = sorted((data / "portraits/backgrounds").glob("*.jpg"))
        chosen = backgrounds[int(share_of(file) * len(backgrounds))]
        with Image.open(chosen) as behind:
            scene = behind.convert("RGB").resize(image.size)
        scene.paste(image, mask=image.getchannel("A"))
        return np.asarray(scene)


def known_boxes(row: Mapping[str, Any]) -> tuple[Array, Array]:
    """Return the boxes of a row of an index that count and those to ignore: corners, float32[n, 4].

    `scores` say how sure a detector was of boxes that it made; `unlabelled_auto` are boxes of faces
    that were overlooked.
    """
    boxes, overlooked = (
        corners(np.asarray(row.get(key, []), np.float32).reshape(-1, 4))
        for key in ("boxes", "unlabelled_auto")
    )
    counts = np.asarray(row.get("scores", [1.0] * len(boxes))) >= TRUSTED_SCORE
    return boxes[counts], np.concatenate([boxes[~counts], overlooked])


def five_points(points: Array) -> Array:
    """Return five points of the 49 that aaf gives: float32[49, 2] to float32[5, 2]."""
    return np.stack(
        [points[25:31].mean(axis=0), points[19:25].mean(axis=0), points[13], points[37], points[31]]
    )


class Committee:
    """The teachers together."""

    def __init__(self, folder: Path) -> None:
        """Open the networks in `folder`."""
        yunet = folder / "yunet_n_dynamic.onnx"
        self.first = [teachers.yunet(yunet, scale, 0.2) for scale in (1.0, 2.0)]
        self.half = teachers.yunet(yunet, 0.5, 0.2)
        self.others = [
            teachers.blazeface(folder / "face_detection_short_range.tflite", 0.5),
            teachers.blazeface(folder / "face_detection_full_range_sparse.tflite", 0.5),
            teachers.ultraface(folder / "ultraface_rfb320/version-RFB-320.onnx", 0.7),
        ]
        self.mesh = teachers.face_mesh(folder / "face_landmark.tflite")

    def find(self, picture: Picture) -> tuple[Detections, Array]:
        """Return YuNet's faces over scales and mirroring, and float32[n, 4] boxes of the others.

        A face's score is the mean over the picture and its mirror image of the best over the
        scales; boxes and points are means weighted by score.
        """
        views: list[Detections] = []
        detectors = [*self.first, self.half] if max(picture.shape) > 300 else self.first
        for mirrored in (False, True):
            seen = np.ascontiguousarray(picture[:, ::-1]) if mirrored else picture
            found = [detect(seen) for detect in detectors]
            union = Detections(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
            views.append(mirror(union, picture.shape[1]) if mirrored else union)
        pool = Detections(*(np.concatenate(parts) for parts in zip(*views, strict=True)))
        in_view = np.repeat([0, 1], [len(view.scores) for view in views])
        best = teachers.suppress(pool, 0.45)
        boxes, scores, points = (values.copy() for values in best)
        owner = iou(best.boxes, pool.boxes)
        for row in range(len(best.scores)):
            near = owner[row] > 0.5
            scores[row] = np.mean(
                [pool.scores[near & (in_view == view)].max(initial=0) for view in (0, 1)]
            )
            near &= pool.scores > 0.7 * best.scores[row]
            boxes[row] = np.average(pool.boxes[near], axis=0, weights=pool.scores[near])
            points[row] = np.average(pool.points[near], axis=0, weights=pool.scores[near])
        others = [detect(picture).boxes for detect in self.others]
        return Detections(boxes, scores, points), np.concatenate(others)

    def label(self, picture: Picture, row: Mapping[str, Any]) -> Label:
        """A set's own boxes win; a teacher's face without one is ignored, as are doubtful ones."""
        empty = row["set"] in EMPTY and row["file"] not in with_people()
        if empty or row.get("faces") == 0:
            return Label(np.zeros((0, 14), np.float32), np.zeros((0, 4), np.float32))
        found, others = self.find(picture)
        votes = (iou(found.boxes, others) > 0.4).sum(axis=1)
        points, presence = self.refine(picture, found)
        sizes = (found.boxes[:, 2:] - found.boxes[:, :2]).max(axis=1, initial=0)
        if row["set"] in FACE_SETS:
            boxes, doubtful = known_boxes(row)
            overlaps = iou(boxes, found.boxes)
            given = np.full((len(boxes), 5, 2), np.nan, np.float32)
            for face, overlap in enumerate(overlaps):
                if len(overlap) and overlap.max() > 0.4:
                    given[face] = points[overlap.argmax()]
            if row["set"] == "aaf":
                known = np.asarray(row["points"], np.float32)
                given = np.stack([five_points(face) for face in known])
            free = (overlaps.max(axis=0, initial=0) < 0.4) & (found.scores > 0.3)
            faces = np.concatenate([boxes, given.reshape(-1, 10)], axis=1)
            return Label(faces, np.concatenate([doubtful, found.boxes[free]]))
        large = sizes >= 40
        sure = np.where(
            large,
            ((found.scores > 0.6) & (presence > 0.5)) | ((found.scores > 0.7) & (votes >= 2)),
            found.scores > 0.68,
        )
        unsure = found.scores > 0.3
        if row["set"] in HAND_SETS:
            sure = (found.scores > 0.6) & (presence > 0.5) & (large | (votes >= 1))
            hands, _ = known_boxes(row)
            unsure &= (presence > 0.05) | ~large | (covered(found.boxes, hands) < 0.5)
        elif row["set"] in BARE_HAND_SETS:
            sure, unsure = sure & False, unsure & (presence > 0.5)
        faces = np.concatenate([found.boxes, points.reshape(-1, 10)], axis=1)[sure]
        alone = others[iou(others, found.boxes[unsure]).max(axis=1, initial=0) < 0.3]
        if row["set"] in HAND_SETS | BARE_HAND_SETS:
            alone = alone[:0]
        return Label(faces, np.concatenate([found.boxes[unsure & ~sure], alone]))

    def refine(self, picture: Picture, found: Detections) -> tuple[Array, Array]:
        """Return points by the mesh where it agrees, else YuNet's, and the mesh's presence."""
        points, presence = found.points.copy(), np.zeros(len(found.scores), np.float32)
        for row, (box, given) in enumerate(zip(found.boxes, found.points, strict=True)):
            size = float((box[2:] - box[:2]).max())
            if size < 24 or found.scores[row] < 0.4:
                continue
            better, presence[row] = self.mesh(picture, given)
            apart = np.abs(better - given).max() / size
            if size >= 48 and presence[row] > 0.7 and apart < 0.2:
                points[row] = better
        return points, presence


def mirror(found: Detections, width: int) -> Detections:
    """Convert detections of the mirrored picture to the picture itself."""
    boxes = found.boxes[:, [2, 1, 0, 3]].copy()
    boxes[:, [0, 2]] = width - boxes[:, [0, 2]]
    points = found.points[:, [1, 0, 2, 4, 3]].copy()
    points[..., 0] = width - points[..., 0]
    return Detections(boxes, found.scores, points)


def difference_hash(picture: Picture) -> int:
    """Return 256 bits that hardly change when a picture is resized or compressed again."""
    small = np.asarray(Image.fromarray(picture).convert("L").resize((17, 16)), np.int16)
    bits = (small[:, 1:] > small[:, :-1]).reshape(-1)
    return int("".join("01"[int(bit)] for bit in bits), 2)


def main(arguments: Iterable[str] | None = None) -> None:
    """Write the labels."""

    def make(options: argparse.Namespace) -> Callable[[labels.Row], labels.Row]:
        committee = Committee(options.teachers)
        return lambda row: describe(row, committee, read_picture(options.data, row["file"]))

    what = "make the training labels of the face detector"
    labels.write_labels(what, read_rows, make, arguments)


def describe(row: Mapping[str, Any], committee: Committee, picture: Picture) -> dict[str, Any]:
    """Return one picture's line of labels.jsonl."""
    label = committee.label(picture, row)
    return {
        "file": row["file"],
        "set": row["set"],
        "split": row["split"],
        "hard": bool(row.get("hard")),
        "hash": f"{difference_hash(picture):064x}",
        "faces": nullable(label.faces),
        "ignored": nullable(label.ignored),
    }


def nullable(values: Array) -> list[list[float | None]]:
    """Return rounded rows for JSON; NaN becomes null."""
    return [
        [None if np.isnan(value) else round(float(value), 1) for value in row] for row in values
    ]


if __name__ == "__main__":
    main()
