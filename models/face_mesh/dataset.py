"""Training pictures of the face mesh, and their meshes, in one folder that travels.

`python -m palmkit.models.face_mesh.dataset DATA LABELS MESHES OUT` packs faces, cut with a margin
round the teacher's crop, pictures without a face, and hands on green cloth that will be laid over
faces. meshes.npz holds the meshes as their coefficients on principal components.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from palmkit.kits.crop import Crop, sample
from palmkit.kits.face.topology import triangles
from palmkit.models.face_detector.dataset import read_labels
from palmkit.models.face_detector.labels import TERMS, read_picture, share_of
from palmkit.models.face_mesh.labels import yaw_of
from palmkit.models.face_mesh.teacher import Array, Picture
from palmkit.models.training.pack import Entry, write_pack

# A packed face picture shows this many sides of the teacher's crop.
MARGIN = 1.4
LARGEST, LARGEST_OTHER = 232, 144
COMPONENTS = 150
LEAST_PRESENCE, MOST_SPREAD, MOST_SPREAD_MASKED = 0.5, 0.1, 0.06
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
        """The chosen rows."""
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
    """All labelled faces; the parts are those of the pictures they are in."""
    with np.load(path) as stored:
        parts = np.asarray([entries[number]["part"] for number in stored["entry"]])
        return Faces(**{name: stored[name] for name in stored.files}, part=parts)


def is_sure(faces: Faces) -> npt.NDArray[np.bool_]:
    """Rows whose labels are worth learning: bool[n].

    Under a mask the teacher guesses: only where it always guesses the same.
    """
    most = np.where(faces.masked, MOST_SPREAD_MASKED, MOST_SPREAD)
    return np.asarray((faces.presence > LEAST_PRESENCE) & (faces.spread < most))


def face_picture(data: Path, entry: Mapping[str, Any], crop: Crop) -> Picture:
    """The packed picture of a face, no larger than it is in the original."""
    wide = crop.moved(0, 0, MARGIN)
    size = int(np.clip(round(wide.side), 48, LARGEST))
    return sample(read_picture(data, entry["file"]), wide, size)


def other_picture(data: Path, entry: Mapping[str, Any]) -> Picture:
    """A picture without a face, shrunk."""
    image = Image.fromarray(read_picture(data, entry["file"]))
    image.thumbnail((LARGEST_OTHER, LARGEST_OTHER), Image.Resampling.BOX)
    return np.asarray(image)


def pack(
    data: Path, labels: Path, meshes: Path, out: Path, terms: str = "all", quality: int = 66
) -> None:
    """Write pictures.bin, labels.json and meshes.npz to `out`.

    terms: "open" keeps only sets whose terms seem to allow any use.
    """
    entries = read_labels(labels)
    faces = read_meshes(meshes, entries)
    wanted = np.asarray([terms == "all" or TERMS[entry["set"]] == "open" for entry in entries])
    faces = faces.select((faces.part == "train") & is_sure(faces) & wanted[faces.entry])
    packed: list[Entry] = []
    for number, (x, y, side, angle) in zip(faces.entry, faces.crop.tolist(), strict=True):
        entry = entries[number]
        crop = {"x": x, "y": y, "side": side, "angle": angle}
        packed.append({"kind": "face", "file": entry["file"], "set": entry["set"], "crop": crop})
    for kind, shares in (("negative", NEGATIVES), ("hand", HANDS)):
        for entry in entries:
            is_clean = not entry["faces"] and not entry["ignored"]
            is_wanted = share_of("mesh" + entry["file"]) < shares.get(entry["set"], 0)
            may_use = terms == "all" or TERMS[entry["set"]] == "open"
            if entry["part"] == "train" and is_clean and is_wanted and may_use:
                packed.append({"kind": kind, "file": entry["file"], "set": entry["set"]})

    def picture(entry: Entry) -> Picture:
        if "crop" in entry:
            return face_picture(data, entry, Crop(**entry["crop"]))
        return other_picture(data, entry)

    write_pack(out, packed, picture, quality)
    flat = faces.points.reshape(len(faces.points), -1)
    mean = flat.mean(axis=0)
    components = np.linalg.svd(flat - mean, full_matrices=False)[2][:COMPONENTS]
    yaws = np.asarray([yaw_of(points) for points in faces.points], np.float32)
    np.savez(
        out / "meshes.npz",
        mean=mean,
        components=components,
        coefficients=(flat - mean) @ components.T,
        spread=faces.spread,
        masked=faces.masked,
        yaw=yaws,
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
    options = parser.parse_args(None if arguments is None else list(arguments))
    pack(options.data, options.labels, options.meshes, options.out, options.terms)


if __name__ == "__main__":
    main()
