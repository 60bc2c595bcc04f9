"""Make the training labels: masks of the sets where there are any, teachers' masks elsewhere.

`python -m palmkit.models.segmentation.labels DATA TEACHERS OUT` reads the indexes in DATA and
writes OUT/labels.jsonl, one object a picture: file, set, hash (of the look), part, faces; and
for the pictures that have a mask of the person or of the hair OUT/person/NAME.png and
OUT/hair/NAME.png, of the pictures' size: red the target, green how far it is trusted, blue what
may be cut out. The dev split is left out. Pictures that are already there are skipped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from palmkit.models.face_detector.labels import TERMS as ALL_TERMS
from palmkit.models.face_detector.labels import difference_hash
from palmkit.models.segmentation.by_eye import with_people
from palmkit.models.segmentation.crop import crop_round, fitted, put_back
from palmkit.models.segmentation.sets import EMPTY, TRUTHS
from palmkit.models.segmentation.teachers import Array, HairTeacher, PersonTeacher, Picture
from palmkit.models.training import labels

LONG_SIDE = 320
VALIDATION_SHARE = 0.07
# Share of a set's pictures that is used; sets that are not named here are not used at all.
SHARES = {
    "ccp": 1.0,
    "hs290": 1.0,
    "cutouts": 1.0,
    "backgrounds": 1.0,
    "figaro": 1.0,
    "fasseg_frontal": 1.0,
    "fasseg_multipose": 1.0,
    "interfaces": 1.0,
    "ccp_unlabelled": 1.0,
    "aaf": 0.4,
    "eden": 0.6,
    "maskon": 0.8,
    "hagrid": 0.8,
    "subhi": 0.1,
    "clothing": 1.0,
    "grocery": 0.6,
    "voc_person": 1.0,
    "workers": 1.0,
    "animals": 1.0,
    "flowers": 1.0,
}
TERMS = {name: ALL_TERMS[name] for name in SHARES}
INDEXES = ("portraits", "hair", "faces", "negatives", "hands", "scan")
# Faces too small in these crowds, or hidden by what is not hair.
NO_HAIR_SETS = frozenset({"eden", "subhi"})


def read_rows(data: Path) -> Iterator[dict[str, Any]]:
    """Yield every used row of the indexes, dev too; `file` and masks relative to `data`."""
    rows = labels.read_rows(data, INDEXES, SHARES, rest=0.0)
    return (row for row in rows if row["file"] not in with_people())


def read_training_rows(data: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows that may be used for training."""
    return (row for row in read_rows(data) if row["split"] == "train")


def read_labels(folder: Path) -> list[dict[str, Any]]:
    """Return all label entries, each with its `part`, train or validation."""
    entries = [
        json.loads(line)
        for path in sorted(folder.glob("labels*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    by_set: dict[str, list[tuple[int, str]]] = {}
    for entry in entries:
        value = int(entry["hash"], 16)
        known = by_set.setdefault(entry["set"], [])
        near = next((part for other, part in known if (other ^ value).bit_count() <= 40), None)
        drawn = "validation" if labels.share_of(entry["hash"]) < VALIDATION_SHARE else "train"
        entry["part"] = near or drawn
        known.append((value, entry["part"]))
    return entries


def read_rgba(data: Path, file: str) -> tuple[Picture, Array | None]:
    """Return uint8[h, w, 3], at most LONG_SIDE long, and a cut-out's opacity, float32[h, w].

    Hidden parts of a cut-out get the colours of its edge.
    """
    with Image.open(data / file) as content:
        image: Image.Image = content
        scale = LONG_SIDE / max(image.size)
        if scale < 1:
            size = (round(image.width * scale), round(image.height * scale))
            image = image.resize(size, Image.Resampling.BOX)
        if image.mode != "RGBA":
            return np.asarray(image.convert("RGB")), None
        values = np.asarray(image, np.float32)
    alpha = values[..., 3] / 255
    colours = values[..., :3]
    solid = (alpha > 0.5).astype(np.float32)
    sums, weights = colours * solid[..., None], solid
    filled = colours.copy()
    known = solid > 0
    for sigma in (1, 3, 9, 27):
        near = cv2.GaussianBlur(weights, (0, 0), sigma)
        mean = cv2.GaussianBlur(sums, (0, 0), sigma) / np.maximum(near, 1e-6)[..., None]
        reached = ~known & (near > 0.02)
        filled[reached] = mean[reached]
        known |= reached
    filled[~known] = 128
    return filled.clip(0, 255).astype(np.uint8), alpha.astype(np.float32)


def people_in(row: Mapping[str, Any]) -> list[list[float]]:
    """Return an index's boxes of people x, y, w, h, in pixels of the picture of `read_rgba`."""
    return boxes_in(row, row.get("persons", []))


def boxes_in(row: Mapping[str, Any], boxes: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return boxes of an index's picture in pixels of the picture of `read_rgba`."""
    scale = min(1.0, LONG_SIDE / max(row["width"], row["height"])) if boxes else 1.0
    return [[value * scale for value in box] for box in boxes]


def read_mask(data: Path, file: str, size: tuple[int, int]) -> Array:
    """Return a mask of the given (w, h) as float32[h, w] 0..1."""
    with Image.open(data / file) as image:
        mask = image.convert("L")
        if mask.size != size:
            mask = mask.resize(size, Image.Resampling.BOX)
        return np.asarray(np.asarray(mask) / np.float32(255), np.float32)


def trust(probability: Array) -> Array:
    """Return how far a teacher's probability is trusted: not near the edges that it draws."""
    sure = np.abs(2 * probability - 1)
    return np.where(sure > 0.9, 1.0, np.where(sure > 0.7, 0.5, 0.0)).astype(np.float32)


def body_of(face: npt.NDArray[Any], shape: tuple[int, ...]) -> tuple[slice, slice]:
    """Return rows and columns where the body of a face, x y w h, may be."""
    x, y, width, height = (float(value) for value in face)
    top, bottom = y - 0.6 * height, y + 6.5 * height
    left, right = x - 1.2 * width, x + 2.2 * width
    return (
        slice(max(0, int(top)), min(shape[0], int(bottom))),
        slice(max(0, int(left)), min(shape[1], int(right))),
    )


def islands(truth: Array) -> npt.NDArray[np.bool_]:
    """Return all but the largest piece of a mask: in fasseg's hair, these are eyebrows."""
    _, found, stats, _ = cv2.connectedComponentsWithStats((truth > 0.5).astype(np.uint8))
    parts, areas = np.asarray(found, np.int64), np.asarray(stats)[:, cv2.CC_STAT_AREA]
    small = (parts != 0) & (areas[parts] < areas[1:].max(initial=0))
    return np.asarray(cv2.dilate(small.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0)


class Labeller:
    """Teachers and the face detector together."""

    def __init__(self, data: Path, teachers: Path) -> None:
        """Open the networks in `teachers`."""
        from palmkit.kits import FaceDetector

        self.data = data
        self.person = PersonTeacher(teachers / "selfie_segmentation.tflite")
        self.hair = HairTeacher(teachers / "hair_segmentation.tflite")
        self.faces = FaceDetector(min_score=0.6, quality="fast")

    def label_person(
        self, row: Mapping[str, Any], picture: Picture, alpha: Array | None, faces: Array
    ) -> Array:
        """Return target, trust and cut-out opacity: float32[h, w, 3]."""
        shape = picture.shape[:2]
        nothing = np.zeros(shape, np.float32)
        if row["set"] in EMPTY:
            return np.dstack([nothing, nothing + 1, nothing])
        if alpha is not None:
            return np.dstack([alpha, nothing + 1, alpha])
        taught = self.person(picture)
        if row["set"] not in TRUTHS["person"]:
            weight = trust(taught)
            for face in faces:
                x, y, width, height = (int(value) for value in face)
                inner = taught[max(y, 0) : y + height, max(x, 0) : x + width]
                if inner.size and inner.mean() < 0.75:
                    weight[body_of(face, shape)] = 0
            return np.dstack([taught, weight, nothing])
        truth = read_mask(self.data, row["mask"], (shape[1], shape[0]))
        weight = nothing + 1
        # Bags are cut out of ccp's masks and kept in the other sets'. What is carried beside a body
        # is left as it is; of a bag before it, which would be a hole, nothing is made.
        outside = (truth < 0.5).astype(np.uint8)
        count, parts, stats, _ = cv2.connectedComponentsWithStats(outside, connectivity=4)
        for part in range(1, count):
            x, y, width, height, area = stats[part]
            touches = x == 0 or y == 0 or x + width == shape[1] or y + height == shape[0]
            if not touches and area > 30 and taught[parts == part].mean() > 0.4:
                weight[parts == part] = 0
        claimed = ((taught > 0.6) & (truth < 0.5)).astype(np.uint8)
        thick = cv2.morphologyEx(claimed, cv2.MORPH_OPEN, np.ones((5, 5), np.uint8))
        weight[(thick > 0) & (weight > 0.8)] = 0.8
        for face in faces:
            x, y, width, height = (int(value) for value in face)
            inner = truth[max(y, 0) : y + height, max(x, 0) : x + width]
            if inner.size and inner.mean() < 0.3:
                rows, columns = body_of(face, shape)
                weight[rows, columns][truth[rows, columns] < 0.5] = 0
        return np.dstack([truth, weight, truth])

    def label_hair(
        self,
        row: Mapping[str, Any],
        picture: Picture,
        alpha: Array | None,
        faces: Array,
        person: Array | None,
    ) -> Array | None:
        """Return float32[h, w, 3] as label_person; None where nothing is known."""
        shape = picture.shape[:2]
        nothing = np.zeros(shape, np.float32)
        cut = nothing if person is None else person[..., 2]
        if row["set"] in EMPTY:
            return np.dstack([nothing, nothing + 1, nothing])
        if row["set"] in TRUTHS["hair"]:
            truth = read_mask(self.data, row["hair_mask"], (shape[1], shape[0]))
            weight = nothing + 1
            if row["set"].startswith("fasseg"):
                weight[islands(truth)] = 0
            for face in faces:
                middle = face[:2] + face[2:] / 2
                x0, y0 = np.maximum(middle - face[2:], 0).astype(int)
                x1, y1 = (middle + face[2:]).astype(int)
                if row["set"] == "ccp" and truth[y0:y1, x0:x1].mean() < 0.02:
                    weight[y0:y1, x0:x1] = 0
            return np.dstack([truth, weight, cut])
        if row["set"] in NO_HAIR_SETS or len(faces) == 0:
            return None
        total, seen = nothing.copy(), nothing.copy()
        sizes = faces[:, 2:].max(axis=1)
        for face in faces[np.argsort(-sizes)[:4]]:
            if face[2:].max() < 24:
                continue
            for reach in (2.4, 3.0):
                square = crop_round(face, shape[1], shape[0], reach)
                crop = fitted(picture, square, 512, alpha)
                probability = self.hair(crop)
                total += put_back(probability, square, shape)
                seen += put_back(np.ones_like(probability), square, shape)
        if not seen.any():
            return None
        taught = np.asarray(total / np.maximum(seen, 1), np.float32)
        weight = np.where(seen > 0, trust(taught), 0.0).astype(np.float32)
        return np.dstack([taught, weight, cut])


def stored(label: Array, path: Path) -> None:
    """Write a label as PNG in few levels, so that it is small."""
    levels = np.round(label * 15) * 17
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(levels.astype(np.uint8)).save(path)


def name_of(file: str) -> str:
    """Return the label's file name for a picture."""
    return file.replace("/", "-") + ".png"


def main(arguments: Iterable[str] | None = None) -> None:
    """Write the labels, and the masks beside them."""

    def make(options: argparse.Namespace) -> Callable[[labels.Row], labels.Row]:
        labeller = Labeller(options.data, options.teachers)
        return lambda row: describe(row, labeller, options.data, options.out)

    what = "make the training labels of the masks"
    labels.write_labels(what, read_training_rows, make, arguments)


def describe(row: Mapping[str, Any], labeller: Labeller, data: Path, out: Path) -> dict[str, Any]:
    """Return one picture's line of labels.jsonl; its masks are written to folders of `out`."""
    picture, alpha = read_rgba(data, row["file"])
    shown = picture if alpha is None else over_grey(picture, alpha)
    empty = row["set"] in EMPTY
    faces = np.zeros((0, 4), np.float32) if empty else labeller.faces.detect(shown).boxes
    person = labeller.label_person(row, picture, alpha, faces)
    hair = labeller.label_hair(row, picture, alpha, faces, person)
    for kind, label in (("person", person), ("hair", hair)):
        if label is not None:
            stored(label, out / kind / name_of(row["file"]))
    return {
        "file": row["file"],
        "set": row["set"],
        "hard": bool(row.get("hard")),
        "hash": f"{difference_hash(picture):064x}",
        "faces": np.round(faces.astype(np.float64), 1).tolist(),
        "person": True,
        "hair": hair is not None,
    }


def over_grey(picture: Picture, alpha: Array) -> Picture:
    """Return a cut-out on plain grey."""
    share = alpha[..., None]
    return np.asarray(picture * share + 128 * (1 - share), np.float32).astype(np.uint8)


if __name__ == "__main__":
    main()
