"""The quality of the kits by age, light and pose, as far as the data states these.

`python -m palmkit.models.conditions DATA WORK TEACHERS` prints a table for each kit's model card,
of the dev pictures and the held-out training ones together, which no network was trained on: WORK
holds labels.jsonl of the face detector, meshes.npz of the mesh and masks/ of the segmentation.
Pictures go through the kits with their usual options.

Age is that of the set aaf (2 to 80 years), turn the angle that people were told to look aside by
(fasseg_multipose), or the yaw of the teacher's mesh. Light is the mean of the three colours in the
box, or of what the true mask covers: dark below 85 of 255, bright from 150 on.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from palmkit.kits import FaceDetector, FaceMesh, HairSegmenter, PortraitSegmenter
from palmkit.kits.boxes import corners, iou
from palmkit.kits.face.crop import crop_from_mesh
from palmkit.kits.face.topology import points_68
from palmkit.models.face_detector.dataset import read_labels
from palmkit.models.face_detector.labels import read_picture
from palmkit.models.face_mesh import evaluate as meshes
from palmkit.models.face_mesh.dataset import read_meshes
from palmkit.models.face_mesh.teacher import Array, Picture
from palmkit.models.kinds import ALL, PARTS, TURNS, between, light, order, told_turn
from palmkit.models.segmentation import samples, scores
from palmkit.models.segmentation.sets import EMPTY

AGES = (0, 11, 21, 41, 61, 81)
# Rows of numbers by group, a number for each column.
Table = dict[str, list[list[float]]]


def inside(picture: Picture, box: Iterable[float]) -> Picture:
    """Return the pixels in a box of corners."""
    left, top, right, bottom = (max(round(value), 0) for value in box)
    return picture[top : max(bottom, top + 1), left : max(right, left + 1)]


def turn_of(points: Array) -> float:
    """Return the degrees by which a mesh is turned aside, from the depths of both halves."""
    across = points[[263, 454]].mean(axis=0) - points[[33, 234]].mean(axis=0)
    return float(np.degrees(np.arctan2(abs(across[2]), np.hypot(across[0], across[1]))))


def detection(data: Path, entries: Sequence[Mapping[str, Any]]) -> Table:
    """Return the share of faces found, and the error of five points over the eyes' distance."""
    detector, known, table = FaceDetector(quality="fast"), meshes.known_faces(data), Table()
    for entry in entries:
        row, turn = known.get(entry["file"]), told_turn(entry["file"])
        if row is None and turn is None:
            continue
        picture = read_picture(data, entry["file"])
        faces = detector.detect(picture)
        if row is None:
            assert turn is not None
            add(table, [between(turn, TURNS, "turn")], [float(len(faces) > 0), np.nan])
            continue
        true = np.asarray(entry["faces"], np.float32).reshape(-1, 14)[:1]
        overlaps = iou(true[:, :4], corners(faces.boxes))[0]
        found = len(overlaps) > 0 and bool(overlaps.max() >= 0.5)
        error = np.nan
        if found:
            points = true[0, 4:].reshape(5, 2)
            apart = np.linalg.norm(faces.keypoints[overlaps.argmax()] - points, axis=1)
            error = float(np.nanmean(apart) / np.linalg.norm(points[0] - points[1]))
        groups = [between(int(row["age"]), AGES, "age"), light(inside(picture, true[0, :4]))]
        add(table, groups, [float(found), error])
    return table


def mesh(data: Path, work: Path, teacher: Path) -> Table:
    """Return errors of kit and teacher to aaf's 49 points, and of the kit to the teacher's mesh."""
    kit, network = FaceMesh(quality="fast"), meshes.teacher(teacher)
    known, table = meshes.known_faces(data), Table()
    entries = read_labels(work / "labels.jsonl")
    faces = read_meshes(work / "meshes.npz", entries)
    for part in PARTS:
        for case in meshes.find_cases(data, entries, faces, part)[0]:
            if case.group == "masked":
                continue
            picture = read_picture(data, case.file)
            found = kit.detect(picture)
            if found.mesh is None or not len(found):
                continue
            middle = case.mesh[:468, :2].mean(axis=0)
            nearest = np.linalg.norm(found.mesh[:, :468, :2].mean(axis=1) - middle, axis=1).argmin()
            ours = found.mesh[nearest]
            first = case.first.to_picture(network.at(picture, case.first).points)
            settled = crop_from_mesh(first)
            theirs = settled.to_picture(network.at(picture, settled).points)
            apart = np.linalg.norm(ours[:, :2] - case.mesh[:, :2], axis=1).mean()
            numbers = [float(apart) / meshes.distance_of_eyes(case.mesh), np.nan, np.nan]
            box = [*case.mesh[:468, :2].min(axis=0), *case.mesh[:468, :2].max(axis=0)]
            groups = [light(inside(picture, box)), between(turn_of(case.mesh), TURNS, "turn")]
            if case.known is not None:
                numbers[1:] = [
                    meshes.known_error(points_68(points), case.known) for points in (ours, theirs)
                ]
                groups.append(between(int(known[case.file]["age"]), AGES, "age"))
            add(table, groups, numbers)
    return table


def segmentation(data: Path, work: Path, task: str) -> Table:
    """Return IoU and boundary F of the kit's masks."""
    kit = (
        PortraitSegmenter(quality="fast")
        if task == "portrait"
        else HairSegmenter(max_faces=1, quality="fast")
    )
    table = Table()
    for part in PARTS:
        for sample in samples.read_samples(data, work / "masks", task, part):
            true = (sample.truth > 0.5) & sample.counted
            if sample.set in EMPTY or not true.any():
                continue
            mask = kit.segment(sample.picture).mask
            tolerance = scores.TOLERANCES["boundary"]
            numbers = [scores.overlap(mask, sample), scores.boundary(mask, sample, tolerance)]
            share, turn = 100 * float(true.mean()), told_turn(sample.file)
            groups = [light(sample.picture[true])]
            if task == "portrait":
                groups.append(between(share, (0, 10, 25, 101), "percent of the picture"))
            if turn is not None:
                groups.append(between(turn, TURNS, "turn"))
            add(table, groups, numbers)
    return table


def add(table: Table, groups: Sequence[str], numbers: list[float]) -> None:
    """Count a picture in its groups."""
    for group in [ALL, *groups]:
        table.setdefault(group, []).append(numbers)


def lines(table: Table, columns: Sequence[str]) -> Iterator[str]:
    """Yield Markdown lines: for each group its count, and the means of known numbers."""
    yield "| | number | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 2) + "|"
    for group in sorted(table, key=order):
        numbers = np.asarray(table[group], np.float64)
        known = np.isfinite(numbers).sum(axis=0)
        means = np.nansum(numbers, axis=0) / np.maximum(known, 1)
        cells = [f"{mean:.3f}" if count else "" for mean, count in zip(means, known, strict=True)]
        yield f"| {group} | {len(numbers)} | " + " | ".join(cells) + " |"


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="the kits by age, light and pose")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("work", type=Path, help="folder of the recipes' labels")
    parser.add_argument("teachers", type=Path, help="folder of the published networks")
    parser.add_argument("--kits", nargs="*", help="some of those measured here (all)")
    options = parser.parse_args(None if arguments is None else list(arguments))
    data, work = options.data, options.work
    attention = options.teachers / "face_landmark_with_attention.tflite"

    def faces() -> Table:
        entries = read_labels(work / "labels.jsonl")
        return detection(data, [each for each in entries if each["part"] in PARTS])

    made: dict[str, tuple[Callable[[], Table], Sequence[str]]] = {
        "face": (faces, ("found", "error of points")),
        "mesh": (
            lambda: mesh(data, work, attention),
            ("error to the teacher", "49 points", "49 points, teacher"),
        ),
        "portrait": (lambda: segmentation(data, work, "portrait"), ("iou", "boundary")),
        "hair": (lambda: segmentation(data, work, "hair"), ("iou", "boundary")),
    }
    for name in options.kits or made:
        measure, columns = made[name]
        print(f"\n{name}\n", *lines(measure(), columns), sep="\n", flush=True)


if __name__ == "__main__":
    main()
