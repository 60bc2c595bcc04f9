"""Training pictures of the face mesh, and their meshes, in one folder that travels.

`python -m palmkit.models.face_mesh.dataset DATA LABELS MESHES OUT` packs faces, cut with a margin
round the teacher's crop, some again with another expression and, where `--teacher` is given,
turned further (turned.py), pictures without a face, and hands on green cloth that will be laid over
faces. meshes.npz holds the meshes as their coefficients on principal components.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image
from tqdm import tqdm

from palmkit.kits.crop import Crop, sample
from palmkit.kits.face.topology import triangles
from palmkit.models.face_detector.dataset import read_labels
from palmkit.models.face_detector.labels import TERMS, read_picture
from palmkit.models.face_mesh.acting import blink, open_mouth, raise_brows, warp
from palmkit.models.face_mesh.labels import Label, yaw_of
from palmkit.models.face_mesh.teacher import Array, Picture, Teacher
from palmkit.models.face_mesh.turned import turned_faces
from palmkit.models.training.labels import share_of
from palmkit.models.training.pack import Entry, write_pack

# A packed face picture shows this many sides of the teacher's crop.
MARGIN = 1.4
LARGEST, LARGEST_OTHER = 232, 144
COMPONENTS = 150
LEAST_PRESENCE, MOST_SPREAD, MOST_SPREAD_MASKED = 0.5, 0.07, 0.045
# Degrees from which on a face looks aside, and how much the teacher's views of it may differ.
ASIDE, MOST_SPREAD_ASIDE = 25, 0.1
# Share of each set's pictures without a face that is packed.
NEGATIVES = {
    "clothing": 0.4,
    "grocery": 0.6,
    "backgrounds": 1.0,
    "obb": 0.25,
    "leb": 0.15,
    "ardamavi": 0.2,
    "figaro": 0.6,
}
# The share of files whose faces are packed again with another expression.
PLAYED = 0.5
# Sides of crops in pixels from which on, and degrees up to which, faces are turned further.
LEAST_TURNED, MOST_TURNED = 80, 45
HANDS = {"rps_green": 0.35}


class Faces(NamedTuple):
    """The rows of meshes.npz, see labels, and each one's part: train, validation or dev."""

    entry: npt.NDArray[np.int32]
    crop: Array
    first: Array
    points: Array
    spread: Array
    presence: Array
    masked: npt.NDArray[np.bool_]
    part: npt.NDArray[np.str_]

    def select(self, rows: npt.NDArray[np.bool_]) -> Faces:
        """Return the chosen rows."""
        return Faces(
            self.entry[rows],
            self.crop[rows],
            self.first[rows],
            self.points[rows],
            self.spread[rows],
            self.presence[rows],
            self.masked[rows],
            self.part[rows],
        )


def read_meshes(path: Path, entries: list[dict[str, Any]]) -> Faces:
    """Return all labelled faces; the parts are those of the pictures they are in."""
    with np.load(path) as stored:
        parts = np.asarray([entries[number]["part"] for number in stored["entry"]])
        return Faces(**{name: stored[name] for name in stored.files}, part=parts)


def is_sure(faces: Faces) -> npt.NDArray[np.bool_]:
    """Return which rows have reliable labels, bool[n].

    Under a mask the teacher guesses: such a face counts only if it always guesses the same.
    """
    most = np.where(faces.masked, MOST_SPREAD_MASKED, MOST_SPREAD)
    return np.asarray((faces.presence > LEAST_PRESENCE) & (faces.spread < most))


def is_aside(faces: Faces) -> npt.NDArray[np.bool_]:
    """Return which rows look aside, bool[n]: these are few, and count though the teacher wavers."""
    aside = np.asarray([abs(yaw_of(points)) > ASIDE for points in faces.points])
    seen = (faces.presence > LEAST_PRESENCE) & ~faces.masked
    return np.asarray(seen & aside & (faces.spread < MOST_SPREAD_ASIDE))


def play(faces: Faces, yaws: Array, files: list[str]) -> list[tuple[int, Array]]:
    """Return other expressions of some faces, as photos hold few: row and float32[478, 3].

    Only unmasked, sure faces that are not too small, up to 35 degrees; open mouths stay open.
    """
    random = np.random.default_rng(5)
    played: list[tuple[int, Array]] = []
    for row, points in enumerate(faces.points.astype(np.float64)):
        is_clear = not faces.masked[row] and faces.presence[row] >= 0.9 and abs(yaws[row]) <= 35
        is_chosen = share_of("act" + files[row]) <= PLAYED
        if not (is_clear and is_chosen and float(faces.crop[row, 2]) >= 110):
            continue
        lips = np.linalg.norm(points[13] - points[14]) / np.linalg.norm(points[78] - points[308])
        is_open = bool(lips > 0.1)
        kinds = ("blink", "both", "brow") if is_open else ("blink", "mouth", "mouth", "both", "all")
        kind = kinds[random.integers(len(kinds))]
        if kind in ("mouth", "both", "all") and not is_open:
            points = open_mouth(points, random.uniform(0.25, 1.2))
        moves_brows = kind in ("all", "blink", "brow") and random.random() < 0.5
        if moves_brows or kind == "brow":
            points = raise_brows(points, random.uniform(-0.3, 1.1))
        if kind in ("blink", "both", "all"):
            points = blink(points, random.uniform(0.5, 1.0))
        played.append((row, points.astype(np.float32)))
    return played


class Further(NamedTuple):
    """A face turned further: the row that it was made of, its packed picture and its label."""

    row: int
    picture: Picture
    label: Label
    yaw: float


def turn_further(
    data: Path, teacher: Teacher, faces: Faces, yaws: Array, files: list[str]
) -> list[Further]:
    """Return clear faces turned further, see turned.py."""
    found: list[Further] = []
    for row in tqdm(range(len(files)), mininterval=5):
        is_clear = not faces.masked[row] and faces.presence[row] >= 0.9
        if is_clear and faces.crop[row, 2] >= LEAST_TURNED and abs(yaws[row]) <= MOST_TURNED:
            crop = Crop(*faces.crop[row].tolist())
            read = partial(read_picture, data, files[row])
            for each in turned_faces(teacher, read, crop, faces.points[row], row):
                drawn = face_picture(each.picture, each.label.crop)
                found.append(Further(row, drawn, each.label, each.yaw))
    return found


def in_pixels(points: Array, size: int) -> npt.NDArray[np.float64]:
    """Return points of the teacher's crop in a packed picture, float64[478, 3]."""
    out = np.asarray(points, np.float64) / MARGIN * size
    out[:, :2] += (0.5 - 0.5 / MARGIN) * size
    return out


def face_picture(picture: Picture, crop: Crop) -> Picture:
    """Return the packed picture of a face, no larger than it is in the original."""
    wide = crop.moved(0, 0, MARGIN)
    size = int(np.clip(round(wide.side), 48, LARGEST))
    return sample(picture, wide, size)


def other_picture(data: Path, entry: Mapping[str, Any]) -> Picture:
    """Return a picture without a face, shrunk."""
    image = Image.fromarray(read_picture(data, entry["file"]))
    image.thumbnail((LARGEST_OTHER, LARGEST_OTHER), Image.Resampling.BOX)
    return np.asarray(image)


def pack(
    data: Path,
    labels: Path,
    meshes: Path,
    out: Path,
    terms: str = "all",
    quality: int = 66,
    teacher: Path | None = None,
) -> None:
    """Write pictures.bin, labels.json and meshes.npz to `out`.

    terms: "open" keeps only sets whose terms seem to allow any use. teacher: the network that made
    the meshes, where there are to be faces turned further, too.
    """
    entries = read_labels(labels)
    faces = read_meshes(meshes, entries)
    wanted = np.asarray([terms == "all" or TERMS[entry["set"]] == "open" for entry in entries])
    chosen = (is_sure(faces) | is_aside(faces)) & wanted[faces.entry]
    faces = faces.select((faces.part == "train") & chosen)
    yaws = np.asarray([yaw_of(points) for points in faces.points], np.float32)
    files = [entries[number]["file"] for number in faces.entry]
    played = play(faces, yaws, files)
    turned = turn_further(data, Teacher(teacher), faces, yaws, files) if teacher else []
    rows = [*range(len(files)), *(row for row, _ in played)]
    packed: list[Entry] = []
    for place, row in enumerate(rows):
        x, y, side, angle = faces.crop[row].tolist()
        crop = {"x": x, "y": y, "side": side, "angle": angle}
        name = entries[faces.entry[row]]["set"]
        packed.append({"kind": "face", "file": files[row], "set": name, "crop": crop})
        if place >= len(files):
            packed[-1]["played"] = place - len(files)
    for place, each in enumerate(turned):
        name = entries[faces.entry[each.row]]["set"]
        packed.append({"kind": "face", "file": files[each.row], "set": name, "turned": place})
    for kind, shares in (("negative", NEGATIVES), ("hand", HANDS)):
        for entry in entries:
            is_clean = not entry["faces"] and not entry["ignored"]
            is_wanted = share_of("mesh" + entry["file"]) < shares.get(entry["set"], 0)
            may_use = terms == "all" or TERMS[entry["set"]] == "open"
            if entry["part"] == "train" and is_clean and is_wanted and may_use:
                packed.append({"kind": kind, "file": entry["file"], "set": entry["set"]})

    def picture(entry: Entry) -> Picture:
        if "turned" in entry:
            return turned[entry["turned"]].picture
        if "crop" not in entry:
            return other_picture(data, entry)
        drawn = face_picture(read_picture(data, entry["file"]), Crop(**entry["crop"]))
        if "played" not in entry:
            return drawn
        row, points = played[entry["played"]]
        size = len(drawn)
        return warp(drawn, in_pixels(faces.points[row], size), in_pixels(points, size))

    write_pack(out, packed, picture, quality)
    labels_of = [each.label for each in turned]
    moved = [points for _, points in played] + [label.points for label in labels_of]
    points = np.concatenate([faces.points, *(each[None] for each in moved)])
    flat = points.reshape(len(points), -1)
    mean = flat.mean(axis=0)
    components = np.linalg.svd(flat - mean, full_matrices=False)[2][:COMPONENTS]
    np.savez(
        out / "meshes.npz",
        mean=mean,
        components=components,
        coefficients=(flat - mean) @ components.T,
        spread=np.array([*faces.spread[rows], *(each.spread for each in labels_of)], np.float32),
        masked=np.array([*faces.masked[rows], *(False for _ in turned)]),
        yaw=np.array([*yaws[rows], *(each.yaw for each in turned)], np.float32),
        triangles=triangles(),
    )


def main(arguments: Iterable[str] | None = None) -> None:
    """Write a pack."""
    parser = argparse.ArgumentParser(description="pack the training pictures of the face mesh")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="labels.jsonl of the face detector")
    parser.add_argument("meshes", type=Path, help="meshes.npz of labels.py")
    parser.add_argument("out", type=Path, help="folder that takes the pack")
    parser.add_argument("--terms", choices=("open", "all"), default="all")
    parser.add_argument("--teacher", type=Path, help="adds faces turned further, as it sees them")
    options = parser.parse_args(None if arguments is None else list(arguments))
    pack(
        options.data,
        options.labels,
        options.meshes,
        options.out,
        options.terms,
        teacher=options.teacher,
    )


if __name__ == "__main__":
    main()
