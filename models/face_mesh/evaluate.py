"""Measure the face mesh beside its teacher on the dev pictures.

`python -m palmkit.models.face_mesh.evaluate DATA LABELS MESHES TEACHERS OUT` prints the tables and
writes OUT/metrics.json. Protocol, the same for every network: the kit's face detector finds the
face and gives the first crop (`first look`); the mesh found there gives the second crop (`settled`,
as in the frames of a video). `two_looks` is the mean of the first look and of one at the mirror
image of the second crop, as the kit has it of a picture in the fast quality; `centred_irises`: with
the irises moved, as in the others. Errors are distances in the plane, mean over the points, over
the distance of the eyes' middles in the reference mesh, in space, so that it does not shrink in
profile; `outer_corners`: over the distance of the outer corners in the plane.
The reference is the teacher's mesh averaged over eight views (labels.py); under masks, where it
guesses, faces are counted apart. Against the 49 automatic points of aaf the mesh is read by
palmkit.kits.face.topology.points_68.
Of `two_looks` of each face without a mask there are also the mean, the worst tenth and the share of
failures, by set, turn of the head, light on the face, and its size in the picture, which tells of
distance (palmkit.models.kinds). A face failed if its error is above LIMIT.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from palmkit import kits
from palmkit.kits.boxes import corners, iou
from palmkit.kits.crop import Crop, sample
from palmkit.kits.face.crop import (
    LEFT_EYE_CORNERS,
    RIGHT_EYE_CORNERS,
    crop_from_keypoints,
    crop_from_mesh,
)
from palmkit.kits.face.irises import centred
from palmkit.kits.face.options import MESHES
from palmkit.kits.face.topology import MIRROR, points_68
from palmkit.kits.kit import shipped_model
from palmkit.models import kinds
from palmkit.models.face_detector.dataset import read_labels
from palmkit.models.face_detector.labels import read_picture
from palmkit.models.face_mesh.dataset import LEAST_PRESENCE, Faces, read_meshes
from palmkit.models.face_mesh.indexes import (
    EYE_CONTOUR,
    LEFT_EYE,
    LEFT_IRIS,
    LIPS,
    RIGHT_EYE,
    RIGHT_IRIS,
)
from palmkit.models.face_mesh.labels import yaw_of
from palmkit.models.face_mesh.teacher import SIZE, Array, Picture, Teacher

MODEL, BEST = shipped_model(MESHES.fast), shipped_model(MESHES.best)
PROFILE_DEGREES = 30
# Unmasked faces on which the teacher's views differ more are no reference.
MOST_SPREAD = 0.1
NEGATIVES = ("clothing", "grocery", "backgrounds", "obb", "leb", "ardamavi")
REGIONS: dict[str, tuple[int, ...]] = {
    "lips": LIPS,
    "eyes": (*RIGHT_EYE[:EYE_CONTOUR], *LEFT_EYE[:EYE_CONTOUR]),
    "irises": (*RIGHT_IRIS, *LEFT_IRIS),
    "rest": tuple(
        sorted({*range(468)} - {*LIPS, *RIGHT_EYE[:EYE_CONTOUR], *LEFT_EYE[:EYE_CONTOUR]})
    ),
}
# Of the distance of the eyes' middles; it is some 0.08 of that of the outer corners, above which
# 300-W counts a face as failed.
LIMIT = 0.1
# What numbers were chosen on, as cards and metrics.json say.
CHOSEN_ON = "the validation part of the training pictures; dev decided nothing"
# Where the 49 points lie among the 68: no jaw, no inner corners of the mouth.
AAF_POINTS = [index for index in range(17, 68) if index not in (60, 64)]
# aaf counts from the middle of the first pixel, we from its corner: its points lie .45 pixels to
# the left of ours and .7 above them, of large faces as of small ones.
AAF_ORIGIN = 0.5


class Look(NamedTuple):
    """The result of a network.

    points: float32[478, 3] in 0..1 of the crop; presence: 0..1; visibility: float32[478].
    """

    points: Array
    presence: float
    visibility: Array


class Contender(NamedTuple):
    """A network as a function of a crop's picture, and the size that it wants."""

    look: Callable[[Picture], Look]
    size: int

    def at(self, picture: Picture, crop: Crop) -> Look:
        """Return what it sees in a crop."""
        return self.look(sample(picture, crop, self.size))

    def mirrored(self, picture: Picture, crop: Crop) -> Array:
        """Return the points seen in a crop's mirror image, in the crop's coordinates."""
        mirrored = sample(picture, crop, self.size)[:, ::-1]
        points = self.look(np.ascontiguousarray(mirrored)).points[MIRROR]
        points[:, 0] = 1 - points[:, 0]
        return points


class Case(NamedTuple):
    """A labelled face: the picture's file, the reference mesh in pixels, the detector's crop, the
    group (frontal, profile or masked), the 49 points of aaf in pixels where there are any, the
    degrees by which it is turned aside, and the picture's set."""

    file: str
    mesh: Array
    first: Crop
    group: str
    known: Array | None
    turn: float = 0.0
    set: str = ""


def student(path: Path) -> Contender:
    """Return a network of ours."""
    from palmkit.engine import load

    model = load(path)

    def look(picture: Picture) -> Look:
        found = model.run({"image": picture[None].astype(np.float32)})
        presence = float(found["presence"][0, 0])
        return Look(found["points"][0], presence, found["visibility"][0])

    size = model.inputs["image"].dims[1]
    assert isinstance(size, int)
    return Contender(look, size)


def teacher(path: Path) -> Contender:
    """Return the attention mesh, which does not predict visibility."""
    network = Teacher(path)

    def look(picture: Picture) -> Look:
        mesh = network(picture)
        return Look(mesh.points, mesh.presence, np.ones(len(mesh.points), np.float32))

    return Contender(look, SIZE)


def find_cases(
    data: Path, entries: Sequence[Mapping[str, Any]], faces: Faces, part: str
) -> tuple[list[Case], int]:
    """Return the faces of one part that the detector finds, and how many it misses."""
    from palmkit.kits import FaceDetector

    known = {file: known_points(row) for file, row in known_faces(data).items()}
    sure = (faces.presence > LEAST_PRESENCE) & (faces.spread < MOST_SPREAD)
    faces = faces.select((faces.part == part) & (sure | faces.masked))
    detector = FaceDetector(quality="fast")
    cases: list[Case] = []
    missed = 0
    for number, crop, points, masked in zip(
        faces.entry, faces.crop.tolist(), faces.points, faces.masked, strict=True
    ):
        file = entries[number]["file"]
        ideal = Crop(*crop)
        found = detector.detect(read_picture(data, file))
        half = ideal.side / 3
        first = crop_of(found, (ideal.x - half, ideal.y - half, 2 * half, 2 * half))
        if first is None:
            missed += 1
            continue
        turn = abs(yaw_of(points))
        group = "masked" if masked else "profile" if turn > PROFILE_DEGREES else "frontal"
        mesh = ideal.to_picture(points)
        name = entries[number]["set"]
        cases.append(Case(file, mesh, first, group, known.get(file), turn, name))
    return cases, missed


def crop_of(found: kits.Faces, box: Sequence[float]) -> Crop | None:
    """Return the crop of the face that overlaps a box most; None if none does by an IoU of 0.3.

    box: x, y, width and height.
    """
    overlaps = iou(corners(np.asarray([box], np.float32)), corners(found.boxes))[0]
    if not len(overlaps) or overlaps.max() < 0.3:
        return None
    best = int(overlaps.argmax())
    return crop_from_keypoints(found.keypoints[best], found.boxes[best])


def distance_of_eyes(points: Array) -> float:
    """Return the distance in space between the middles of the eyes' corners.

    points: float32[478, 3].
    """
    middles = [points[list(eye)].mean(axis=0) for eye in (RIGHT_EYE_CORNERS, LEFT_EYE_CORNERS)]
    return float(np.linalg.norm(middles[0] - middles[1]))


def known_faces(data: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of aaf, by file."""
    rows = map(json.loads, (data / "faces/index.jsonl").read_text().splitlines())
    return {"faces/" + row["file"]: row for row in rows if row["set"] == "aaf"}


def known_points(row: Mapping[str, Any]) -> Array:
    """Return the 49 points of the face in a row of aaf, float32[49, 2] in pixels as ours."""
    return np.asarray(row["points"][0], np.float32) + np.float32(AAF_ORIGIN)


def distance_of_known_eyes(known: Array) -> float:
    """Return the distance between the middles of the eyes of the 49 points of aaf."""
    return float(np.linalg.norm(known[19:25].mean(axis=0) - known[25:31].mean(axis=0)))


def known_error(points: Array, known: Array) -> float:
    """Return the mean distance of float32[68, 2 or 3] to the 49 points of aaf, over the eyes'."""
    apart = np.linalg.norm(points[AAF_POINTS, :2] - known, axis=1)
    return float(apart.mean()) / distance_of_known_eyes(known)


def kinds_of(case: Case, picture: Picture) -> list[str]:
    """Return the kinds of a face: its set, turn, light and distance."""
    flat = case.mesh[:, :2]
    return [
        case.set,
        kinds.between(case.turn, kinds.TURNS, "turn"),
        kinds.light_on(picture, flat),
        kinds.distance([float(np.ptp(flat, axis=0).max())], picture),
    ]


def measure(
    data: Path,
    cases: Sequence[Case],
    contender: Contender,
    worse: Callable[[Picture], Picture] | None = None,
) -> tuple[dict[str, float], dict[str, kinds.Spread]]:
    """Return all errors of one network, as shares of the distance of the eyes; those by kind.

    worse: what is done to each picture before the network sees it.
    """
    values: dict[str, list[float]] = {}
    tally = kinds.Tally(LIMIT)

    def note(name: str, value: float) -> None:
        values.setdefault(name, []).append(value)

    for case in tqdm(cases, mininterval=5, leave=False):
        picture = read_picture(data, case.file)
        if worse is not None:
            picture = worse(picture)
        unit = distance_of_eyes(case.mesh)
        corners = float(np.linalg.norm(case.mesh[33, :2] - case.mesh[263, :2]))
        crop = case.first
        looks: list[Array] = []
        for stage in ("first_look", "settled"):
            seen = contender.at(picture, crop)
            points = crop.to_picture(seen.points)
            flat = np.linalg.norm(points[:, :2] - case.mesh[:, :2], axis=1) / unit
            note(f"error_{stage}_{case.group}", float(flat.mean()))
            if case.group != "masked":
                note(f"error_{stage}", float(flat.mean()))
            if stage == "settled":
                looks.append(crop.to_picture(contender.mirrored(picture, crop)))
                if case.group != "masked":
                    note("error_settled_outer_corners", float(flat.mean()) * unit / corners)
            else:
                looks.append(points)
            crop = crop_from_mesh(points)
        if case.group == "masked":
            low = np.asarray(case.mesh[:468, 1] > case.mesh[4, 1])
            note("visibility_under_masks", float(seen.visibility[:468][low].mean()))
            continue
        for name, region in REGIONS.items():
            note(f"error_{name}", float(flat[list(region)].mean()))
        both = np.asarray(np.mean(looks, axis=0), np.float32)
        apart = np.linalg.norm(both[:, :2] - case.mesh[:, :2], axis=1) / unit
        note("error_two_looks", float(apart.mean()))
        tally.add(kinds_of(case, picture), float(apart.mean()))
        note(f"error_two_looks_{case.group}", float(apart.mean()))
        note("error_two_looks_irises", float(apart[list(REGIONS["irises"])].mean()))
        off = (centred(picture, both) - case.mesh)[list(REGIONS["irises"]), :2]
        note("error_centred_irises", float(np.linalg.norm(off, axis=1).mean() / unit))
        note("error_two_looks_outer_corners", float(apart.mean()) * unit / corners)
        depth = np.abs(points[:, 2] - case.mesh[:, 2]) / unit
        note("error_depth", float(depth.mean()))
        note("present_faces", float(seen.presence > 0.5))
        note(f"visibility_{case.group}", float(seen.visibility.mean()))
        if case.known is not None:
            note("error_points_68", known_error(points_68(points), case.known))
            note("error_two_looks_points_68", known_error(points_68(both), case.known))
    means = {name: round(float(np.mean(each)), 4) for name, each in sorted(values.items())}
    settled = np.asarray(values["error_settled"])
    means["share_settled_above_0.05"] = round(float((settled > 0.05).mean()), 4)
    return means, tally.spreads()


def near(random: np.random.Generator) -> tuple[float, npt.NDArray[np.float64]]:
    """Draw how large a crop without a face is, and float64[2] where, in shares of the picture."""
    return random.uniform(0.4, 1.2), random.uniform(0.3, 0.7, 2)


def crop_without_face(
    shape: Sequence[int],
    share: float,
    around: npt.NDArray[np.float64],
    random: np.random.Generator,
) -> Crop:
    """Return a slightly turned crop of a picture of this shape; share: of its shorter side."""
    x, y = (around * (shape[1], shape[0])).tolist()
    return Crop(x, y, float(min(shape[:2]) * share), float(random.normal(0, 0.3)))


def absent_share(data: Path, files: Sequence[str], contender: Contender) -> float:
    """Return the share of crops without a face that are called absent."""
    right: list[bool] = []
    for file in files:
        picture = read_picture(data, file)
        random = np.random.default_rng(len(file) + picture.shape[0])
        for _ in range(3):
            crop = crop_without_face(picture.shape, *near(random), random)
            right.append(contender.at(picture, crop).presence <= 0.5)
    return round(float(np.mean(right)), 4)


def milliseconds(contenders: Mapping[str, Contender]) -> dict[str, float]:
    """Return each network's fastest run in milliseconds; in turns, on one thread."""
    best = dict.fromkeys(contenders, np.inf)
    pictures = {
        name: np.full((each.size, each.size, 3), 99, np.uint8) for name, each in contenders.items()
    }
    for _ in range(300):
        for name, contender in contenders.items():
            start = time.perf_counter()
            contender.look(pictures[name])
            best[name] = min(best[name], 1000 * (time.perf_counter() - start))
    return {name: round(float(value), 3) for name, value in best.items()}


def table(results: Mapping[str, Mapping[str, float]]) -> str:
    """Return Markdown with a row a number and a column a network."""
    names = list(results)
    lines = ["| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for key in results[names[0]]:
        values = " | ".join(f"{results[name].get(key, float('nan')):.4f}" for name in names)
        lines.append(f"| {key} | {values} |")
    return "\n".join(lines)


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="measure the face mesh")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="labels.jsonl of the face detector")
    parser.add_argument("meshes", type=Path, help="meshes.npz of labels.py")
    parser.add_argument("teachers", type=Path, help="folder of the published networks")
    parser.add_argument("out", type=Path, help="folder that takes metrics.json")
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--best", type=Path, default=BEST, help="the larger network")
    parser.add_argument("--part", choices=("dev", "validation"), default="dev")
    parser.add_argument("--speed", action="store_true", help="only time them, on a quiet machine")
    options = parser.parse_args(None if arguments is None else list(arguments))
    contenders = {
        "palmkit": student(options.model),
        "palmkit best": student(options.best),
        "teacher": teacher(options.teachers / "face_landmark_with_attention.tflite"),
    }
    out = options.out / "metrics.json"
    metrics: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    if options.speed:
        metrics["milliseconds"] = milliseconds(contenders)
        print(metrics["milliseconds"])
    else:
        entries = read_labels(options.labels)
        faces = read_meshes(options.meshes, entries)
        cases, missed = find_cases(options.data, entries, faces, options.part)
        files = [
            entry["file"]
            for entry in entries
            if entry["part"] == options.part
            and entry["set"] in NEGATIVES
            and not entry["faces"]
            and not entry["ignored"]
        ]
        results: dict[str, dict[str, float]] = {}
        pictures: dict[str, dict[str, kinds.Spread]] = {}
        for name, contender in contenders.items():
            results[name], pictures[name] = measure(options.data, cases, contender)
            results[name]["absent_negatives"] = absent_share(options.data, files, contender)
        groups = [case.group for case in cases]
        counts = {name: groups.count(name) for name in ("frontal", "profile", "masked")}
        counts |= {"missed_by_the_detector": missed, "negatives": len(files)}
        metrics["chosen_on"] = CHOSEN_ON
        metrics[options.part] = {"counts": counts} | {
            name: {**each, "pictures": kinds.rounded(pictures[name])}
            for name, each in results.items()
        }
        print(counts, table(results), "", sep="\n")
        print(*kinds.lines(pictures, f"error, failed above {LIMIT:g}"), sep="\n")
        print(f"chosen on: {CHOSEN_ON}")
    out.write_text(json.dumps(metrics, indent=1) + "\n")


if __name__ == "__main__":
    main()
