"""Training pictures with their masks, on the device.

`python -m palmkit.models.segmentation.dataset DATA LABELS OUT` packs the training part of the
labels with their pictures into one folder; `Bank` holds them decoded.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from palmkit.models.segmentation.animals import animal_mask, animals
from palmkit.models.segmentation.hats import hat_mask, hats
from palmkit.models.segmentation.places import place_of
from palmkit.models.segmentation.sets import EMPTY, KINDS, TRUTHS
from palmkit.models.training.pack import read_pack, write_pack
from palmkit.models.training.pixels import Pixels, cumulative

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
# How often a set is drawn; sets without labels of a kind are not.
SET_WEIGHTS = {
    "portrait": {
        "ccp": 0.25,
        "hs290": 0.14,
        "voc_person": 0.28,
        "interfaces": 0.02,
        "ccp_unlabelled": 0.05,
        "workers": 0.04,
        "aaf": 0.03,
        "eden": 0.07,
        "maskon": 0.04,
        "oi_crowd": 0.07,
        "coco_crowd": 0.04,
        "ilc2021": 0.06,
        "hagrid": 0.05,
        "subhi": 0.005,
        "figaro": 0.06,
        "fasseg_frontal": 0.003,
        "fasseg_multipose": 0.007,
        "leb": 0.01,
        "obb": 0.01,
        "linto": 0.003,
        "fingercount": 0.01,
        "backgrounds": 0.02,
        "clothing": 0.03,
        "grocery": 0.02,
        "animals": 0.09,
        "flowers": 0.05,
        "places": 0.02,
    },
    "hair": {
        "ccp": 0.25,
        "figaro": 0.42,
        "fasseg_frontal": 0.02,
        "fasseg_multipose": 0.06,
        "hs290": 0.03,
        "cutouts": 0.04,
        "interfaces": 0.03,
        "ccp_unlabelled": 0.03,
        "aaf": 0.04,
        "maskon": 0.02,
        "hagrid": 0.03,
        "backgrounds": 0.01,
        "clothing": 0.02,
        "grocery": 0.01,
        "animals": 0.03,
        "flowers": 0.03,
        "voc_person": 0.08,
        "workers": 0.03,
    },
}
# How far a set's labels count in the loss; 1 where not named.
TRUST = {
    "portrait": {
        "aaf": 0.5,
        "figaro": 0.5,
        "maskon": 0.5,
        "subhi": 0.5,
        "workers": 0.25,
        "ccp_unlabelled": 0.6,
        "interfaces": 0.6,
        "hagrid": 0.6,
    },
    "hair": {
        "maskon": 0.5,
        "aaf": 0.7,
        "hs290": 0.7,
        "cutouts": 0.7,
        "hagrid": 0.5,
        "voc_person": 0.5,
        "workers": 0.5,
    },
}
# Longest side in the pack, of pictures with a true mask and of others.
LONG_SIDE, TRUE_LONG_SIDE = 256, 320
# Sets of people at every distance, whose pictures are packed as large as those with a true mask.
DISTANT = frozenset({"oi_crowd", "coco_crowd"})
# The sets of hats alone, which are put on others, of animals alone, which are set before them, and
# of places, which are parts without anybody of pictures of these sets.
HATS, ANIMALS, PLACES = "hats", "animals alone", "places"
SURROUNDED = DISTANT | {"voc_person"}
# People without a mask of the kind, for whom the guide alone speaks; share of the pictures, all of
# those that have other labels.
UNKNOWN_SHARES = {
    "portrait": {
        "aaf": 0.6,
        "eden": 1.0,
        "oi_crowd": 1.0,
        "coco_crowd": 1.0,
        "ilc2021": 1.0,
        "hagrid": 1.0,
        "maskon": 1.0,
        "subhi": 0.3,
        "leb": 0.5,
        "obb": 0.5,
        "linto": 0.2,
        "fingercount": 0.3,
    },
    "hair": {"voc_person": 1.0, "workers": 1.0, "hs290": 1.0},
}
# How often someone of a set is cut out; where nobody drew a mask, with the teacher's.
CUT_WEIGHTS = {
    "portrait": {
        "ccp": 0.25,
        "hs290": 0.16,
        "voc_person": 0.15,
        "cutouts": 0.25,
        "ccp_unlabelled": 0.1,
        "interfaces": 0.03,
        "hagrid": 0.07,
    },
    "hair": {"ccp": 0.25, "hs290": 0.03, "cutouts": 0.04},
}
# How much more often than other pictures without anybody one is what people are set on: rooms and
# streets, and animals, which are not taken for people where somebody is beside them.
SCENE_WEIGHTS = {"backgrounds": 4.0, "animals": 4.0, PLACES: 2.0}
# How much more often than others of its set someone with a hat is drawn.
HAT_WEIGHT = 4.0
# Sets without anybody.
NOBODY = EMPTY | {PLACES}
TAUGHT_CUT_SETS = {
    "portrait": frozenset({"ccp_unlabelled", "interfaces", "hagrid"}),
    "hair": frozenset[str](),
}


def read_unknown(data: Path, labels: Path, task: str) -> list[dict[str, Any]]:
    """Return entries of further training pictures, without known masks but for close_looks.py's."""
    from palmkit.models.segmentation.labels import INDEXES, name_of, people_in, read_labels
    from palmkit.models.training.labels import read_rows

    known = {entry["file"] for entry in read_labels(labels)}
    return [
        {
            "file": row["file"],
            "set": row["set"],
            "faces": [],
            "people": people_in(row),
            KINDS[task]: (labels / KINDS[task] / name_of(row["file"])).exists() or "unknown",
        }
        for row in read_rows(data, INDEXES, UNKNOWN_SHARES[task], rest=0.0)
        if row["split"] == "train" and row["file"] not in known
    ]


def pack(
    data: Path, labels: Path, out: Path, task: str, terms: str = "all", quality: int = 42
) -> None:
    """Write the training pictures of a task, and their masks losslessly beside them.

    terms: "open" keeps only sets whose terms seem to allow any use.
    """
    from palmkit.models.face_detector.labels import TERMS
    from palmkit.models.segmentation.labels import name_of, read_labels, read_rgba

    kind = KINDS[task]
    truth = TRUTHS[kind]
    labelled = [entry for entry in read_labels(labels) if entry["part"] == "train"]
    for entry in labelled:
        if not entry[kind] and entry["set"] in UNKNOWN_SHARES[task]:
            entry[kind] = "unknown"
    labelled = [entry for entry in labelled if entry[kind]]
    if kind == "hair":
        for entry in labelled:
            if entry["set"] not in EMPTY:
                with Image.open(labels / "person" / name_of(entry["file"])) as person:
                    entry["people"] = [box_of(np.asarray(person)[..., 0])]
    entries = [
        {key: entry[key] for key in ("file", "set", "faces", "people", kind) if key in entry}
        for entry in labelled + read_unknown(data, labels, task)
        if terms == "all" or TERMS[entry["set"]] == "open"
    ]
    if kind == "hair":
        entries = [entry for entry in entries if entry["file"] not in hats().mistaken]
        for entry in entries:
            entry["hat"] = entry["file"] in hats().worn | hats().uncut
        worn = [entry for entry in entries if entry["file"] in hats().worn]
        entries += [{**entry, "set": HATS} for entry in worn]
    if kind == "person":
        cut = [entry for entry in entries if entry["file"] in animals()]
        entries += [{**entry, "set": ANIMALS} for entry in cut]
        entries += places(labels, entries)
    by_hand = {*truth, HATS, ANIMALS}
    large = by_hand | DISTANT | {PLACES}
    out.mkdir(parents=True, exist_ok=True)

    def picture(entry: dict[str, Any]) -> Bytes:
        content = read_rgba(data, entry["file"])[0]
        if "part" in entry:
            left, top, right, bottom = entry["part"]
            content = content[top:bottom, left:right]
        scale = (TRUE_LONG_SIDE if entry["set"] in large else LONG_SIDE) / max(content.shape)
        if scale >= 1:
            return content
        for key in ("faces", "people"):
            if key in entry:
                entry[key] = [[value * scale for value in box] for box in entry[key]]
        size = (round(content.shape[1] * scale), round(content.shape[0] * scale))
        return np.asarray(Image.fromarray(content).resize(size, Image.Resampling.BOX))

    def mask_of(entry: dict[str, Any]) -> Image.Image:
        if entry["set"] == ANIMALS:
            alpha = animal_mask(read_rgba(data, entry["file"])[0], animals()[entry["file"]])
            nobody = np.zeros_like(alpha)
            return Image.fromarray(np.uint8(255 * np.stack([nobody, nobody + 1, alpha], -1)))
        with Image.open(labels / kind / name_of(entry["file"])) as image:
            image.load()
        if entry.get("hat"):
            return Image.fromarray(with_hat(np.array(image), data, entry))
        return image

    with (out / "masks.bin").open("wb") as masks:
        for entry in entries:
            if entry[kind] == "unknown" or entry["set"] in NOBODY:
                continue
            buffer = io.BytesIO()
            image = mask_of(entry)
            # Edges that teachers draw are not trusted, so half the size holds all.
            small = image if entry["set"] in large else image.reduce(2)
            if small is not image:
                small = Image.fromarray(np.uint8(np.round(np.asarray(small) / 51)) * 51)
            small.save(buffer, "WEBP", lossless=True, method=4, exact=True)
            entry[kind] = [masks.tell(), buffer.tell()]
            masks.write(buffer.getvalue())
    write_pack(out, entries, picture, quality)


def places(labels: Path, entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return an entry for the largest part without anybody of each picture that has one."""
    from palmkit.models.segmentation.labels import name_of

    found: list[dict[str, Any]] = []
    for entry in entries:
        if entry["set"] not in SURROUNDED or entry["person"] == "unknown":
            continue
        with Image.open(labels / "person" / name_of(entry["file"])) as label:
            part = place_of(np.asarray(label))
        if part is not None:
            nobody = {"set": PLACES, "faces": [], "person": True}
            found.append({"file": entry["file"], "part": part, **nobody})
    return found


def box_of(mask: Bytes) -> tuple[int, int, int, int]:
    """Return x, y, w, h of what is above a half in uint8[h, w]; zeros if nothing is."""
    inside = mask > 127
    columns, rows = np.flatnonzero(inside.any(0)), np.flatnonzero(inside.any(1))
    if not len(rows):
        return 0, 0, 0, 0
    left, top = int(columns[0]), int(rows[0])
    return left, top, int(columns[-1]) + 1 - left, int(rows[-1]) + 1 - top


def largest(boxes: Sequence[Sequence[float]]) -> Sequence[float]:
    """Return the largest of boxes x, y, w, h; zeros if there is none."""
    return max(boxes, key=lambda box: box[2] * box[3], default=(0, 0, 0, 0))


def with_hat(label: Bytes, data: Path, entry: dict[str, Any]) -> Bytes:
    """Return the label of someone with a hat, trusted; or of the hat alone, as a cut-out."""
    from palmkit.kits import FaceDetector
    from palmkit.models.segmentation.labels import read_rgba

    label[..., 1] = 255
    if entry["set"] == HATS:
        picture = read_rgba(data, entry["file"])[0]
        found = FaceDetector(max_faces=1, quality="fast").detect(picture)
        person, hair = (np.asarray(label[..., axis] / 255, np.float32) for axis in (2, 0))
        hat = hat_mask(picture, person, hair, found.boxes[0], found.keypoints[0, :2])
        label[..., 0], label[..., 2] = 0, 255 * hat
    return label


class Bank:
    """Pictures, masks and faces.

    pictures: RGB. masks: the target, its trust, what may be cut out, in place of RGB.
    faces: float32[n, 4], the largest face's box x, y, w, h; zero where there is none.
    people: float32[n, 4], the same of a person: for portraits of all that the mask holds, and of
    the largest person known otherwise where there is no mask.
    weights: for drawing pictures as they are; cut_weights: of those of which someone can be cut
    out; empty_weights: of those without anybody; hat_weights: of hats, of which the mask says that
    there is no hair, and the hat may be cut out; animal_weights: likewise of animals, whose boxes
    people has.
    """

    def __init__(self, folder: Path, task: str, device: torch.device) -> None:
        """Decode a pack for "portrait" or "hair" and copy it to `device`."""
        kind = KINDS[task]
        packed = read_pack(folder)
        blob = (folder / "masks.bin").read_bytes()
        kept = [row for row, entry in enumerate(packed.entries) if entry.get(kind)]
        entries = [packed.entries[row] for row in kept]
        pictures = [packed.pictures[row] for row in kept]

        def decode(row: int) -> Bytes:
            place = entries[row][kind]
            if place in (True, "unknown"):
                return np.full(pictures[row].shape, (0, 255 * (place is True), 0), np.uint8)
            part = blob[place[0] : place[0] + place[1]]
            mask = Image.open(io.BytesIO(part)).convert("RGB")
            size = pictures[row].shape[1::-1]
            label = np.array(mask.resize(size, Image.Resampling.BILINEAR))
            if entries[row]["set"] in TAUGHT_CUT_SETS[task]:
                label[..., 2] = label[..., 0]
            return label

        with ThreadPoolExecutor(16) as pool:
            masks = list(pool.map(decode, range(len(entries))))
        self.device = device
        self.pictures = Pixels(pictures, device)
        self.masks = Pixels(masks, device)
        count = len(entries)
        faces = np.zeros((count, 4), np.float32)
        people = np.zeros((count, 4), np.float32)
        weights = np.zeros(count, np.float64)
        trust = np.ones(count, np.float32)
        cut, empty, hat, animal = np.zeros((4, count))
        names = [entry["set"] for entry in entries]
        for row, entry in enumerate(entries):
            faces[row] = largest(entry["faces"])
            people[row] = largest(entry.get("people", []))
            if kind == "person" and entry[kind] != "unknown":
                people[row] = box_of(masks[row][..., 2 if entry["set"] == ANIMALS else 0])
            weights[row] = SET_WEIGHTS[task].get(entry["set"], 0) / names.count(entry["set"])
            if entry.get("hat"):
                weights[row] *= HAT_WEIGHT
            hat[row] = entry["set"] == HATS
            animal[row] = entry["set"] == ANIMALS
            trust[row] = TRUST[task].get(entry["set"], 1.0)
            cut[row] = CUT_WEIGHTS[task].get(entry["set"], 0.0) / names.count(entry["set"])
            empty[row] = (entry["set"] in NOBODY) * SCENE_WEIGHTS.get(entry["set"], 1.0)
        self.faces = torch.from_numpy(faces).to(device)
        self.people = torch.from_numpy(people).to(device)
        self.trust = torch.from_numpy(trust).to(device)
        is_cutout = np.asarray([name == "cutouts" for name in names])
        self.weights = cumulative(weights * ~is_cutout, device)
        self.cut_weights = cumulative(cut, device)
        self.empty_weights = cumulative(empty, device)
        self.hat_weights, self.animal_weights = (cumulative(each, device) for each in (hat, animal))
        self.has_hats, self.has_animals = bool(hat.any()), bool(animal.any())


def main(arguments: Iterable[str] | None = None) -> None:
    """Write a pack."""
    parser = argparse.ArgumentParser(description="pack the training pictures of the masks")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="folder written by labels.py")
    parser.add_argument("out", type=Path, help="folder that takes the pack")
    parser.add_argument("--task", choices=tuple(KINDS), default="portrait")
    parser.add_argument("--terms", choices=("open", "all"), default="all")
    parser.add_argument("--quality", type=int, default=42, help="of the WebP pictures")
    options = parser.parse_args(None if arguments is None else list(arguments))
    pack(options.data, options.labels, options.out, options.task, options.terms, options.quality)


if __name__ == "__main__":
    main()
