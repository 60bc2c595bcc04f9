"""Measure the face detector beside YuNet and both BlazeFaces on the dev pictures.

`python -m palmkit.models.face_detector.evaluate DATA LABELS TEACHERS OUT` prints the tables and
writes OUT/metrics.json. Protocol, the same for every detector: a picture's long side is brought
to the input size, enlarging at most twice (the BlazeFaces have their own fixed inputs); greedy
matching, best score first, at IoU 0.5; average precision is the area under the interpolated
curve; an unmatched detection that lies by half in a region where the teachers saw a face that
has no label counts neither way, as eden's labels are not exhaustive; sizes are the longer side
in the stored picture.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from palmkit.kits.boxes import iou
from palmkit.models.face_detector import teachers
from palmkit.models.face_detector.dataset import read_labels
from palmkit.models.face_detector.labels import read_picture
from palmkit.models.face_detector.teachers import (
    Array,
    Detections,
    Detector,
    Picture,
    resize,
)

MODEL = Path(__file__).with_name("face_detector.palm")
SIZES = (320, 640)
BINS = ((0.0, 32.0), (32.0, 64.0), (64.0, 128.0), (128.0, float("inf")))
LABELLED = ("eden", "maskon", "aaf")
NEGATIVES = ("clothing", "grocery")
LOWEST_SCORE = 0.02


class Contender(NamedTuple):
    """A detector, and the score from which it reports a face by default."""

    detect: Detector
    threshold: float


class Sample(NamedTuple):
    """A picture's faces, float32[n, 14], doubtful regions, and what was found."""

    faces: Array
    ignored: Array
    found: Detections


def kit_detector(path: Path, size: int) -> Contender:
    """Return our network as the kit runs it."""
    from palmkit.engine import load
    from palmkit.kits import FaceDetector

    detector = FaceDetector(model=path, size=size, min_score=LOWEST_SCORE)
    threshold = float(load(path).metadata["threshold"])

    def detect(picture: Picture) -> Detections:
        faces = detector.detect(picture)
        corners = np.concatenate([faces.boxes[:, :2], faces.boxes[:, :2] + faces.boxes[:, 2:]], 1)
        return Detections(corners, faces.scores, faces.keypoints)

    return Contender(detect, threshold)


def at_size(detect: Detector, size: int) -> Detector:
    """Return the detector on pictures resized as by the kit."""

    def resized(picture: Picture) -> Detections:
        height, width = picture.shape[:2]
        scale = min(size / max(height, width), 2.0)
        found = detect(resize(picture, round(width * scale), round(height * scale)))
        factor = np.float32(1 / scale)
        return Detections(found.boxes * factor, found.scores, found.points * factor)

    return resized


def contenders(folder: Path, size: int) -> dict[str, Contender]:
    """Return all detectors at one input size, which the BlazeFaces ignore."""
    yunet = teachers.yunet(folder / "yunet_n_dynamic.onnx", 1.0, LOWEST_SCORE)
    short = teachers.blazeface(folder / "face_detection_short_range.tflite", LOWEST_SCORE)
    full = teachers.blazeface(folder / "face_detection_full_range_sparse.tflite", LOWEST_SCORE)
    return {
        "palmkit": kit_detector(MODEL, size),
        "yunet_n": Contender(at_size(yunet, size), 0.6),
        "blazeface short": Contender(short, 0.5),
        "blazeface full": Contender(full, 0.6),
    }


class Verdicts(NamedTuple):
    """Every counted detection: float scores, whether it met a face, its size; and the faces."""

    scores: Array
    right: Array
    sizes: Array
    faces: Array


def judge(samples: Sequence[Sample]) -> Verdicts:
    """Match detections with faces; a correct one takes the face's size."""
    scores: list[float] = []
    right: list[float] = []
    sizes: list[float] = []
    every: list[float] = []
    for faces, ignored, found in samples:
        face_sizes = (faces[:, 2:4] - faces[:, :2]).max(axis=1, initial=0)
        every += face_sizes.tolist()
        overlaps = iou(found.boxes, faces[:, :4])
        free = np.ones(len(faces), bool)
        for row in np.argsort(-found.scores, kind="stable"):
            box = found.boxes[row]
            best = int(np.where(free, overlaps[row], -1).argmax()) if len(faces) else -1
            met = best >= 0 and bool(free[best]) and overlaps[row, best] >= 0.5
            if met:
                free[best] = False
            elif covered(box, ignored) > 0.5:
                continue
            scores.append(float(found.scores[row]))
            right.append(float(met))
            sizes.append(float(face_sizes[best] if met else (box[2:] - box[:2]).max()))
    return Verdicts(*(np.asarray(each, np.float32) for each in (scores, right, sizes, every)))


def covered(box: Array, regions: Array) -> float:
    """Return the largest share of the box that one region covers."""
    corner = np.maximum(box[:2], regions[:, :2])
    far = np.minimum(box[2:], regions[:, 2:])
    overlap = np.clip(far - corner, 0, None).prod(axis=1)
    return float(overlap.max(initial=0) / max(float(np.prod(box[2:] - box[:2])), 1e-6))


def average_precision(
    verdicts: Verdicts, threshold: float = 0.0, low: float = 0.0, high: float = float("inf")
) -> float:
    """Return the area under the interpolated curve for faces of a size; NaN without any."""
    faces = int(((verdicts.faces >= low) & (verdicts.faces < high)).sum())
    counted = (verdicts.sizes >= low) & (verdicts.sizes < high) & (verdicts.scores >= threshold)
    if faces == 0:
        return float("nan")
    order = np.argsort(-verdicts.scores[counted], kind="stable")
    hits = np.cumsum(verdicts.right[counted][order])
    precision = hits / np.arange(1, len(hits) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    return float((np.diff(hits / faces, prepend=0) * precision).sum())


def recall_at_one_false(verdicts: Verdicts, pictures: int) -> float:
    """Return the recall at the score with one false detection a picture."""
    order = np.argsort(-verdicts.scores, kind="stable")
    right = verdicts.right[order]
    allowed = np.cumsum(1 - right) <= pictures
    return float(right[allowed].sum() / max(len(verdicts.faces), 1))


def point_error(samples: Sequence[Sample]) -> float:
    """Return the mean distance of points over the true eyes' distance, for matched faces."""
    errors: list[float] = []
    for faces, _, found in samples:
        overlaps = iou(faces[:, :4], found.boxes)
        for face, overlap in zip(faces, overlaps, strict=True):
            if len(overlap) and overlap.max() >= 0.5:
                true = face[4:].reshape(5, 2)
                apart = np.linalg.norm(found.points[overlap.argmax()] - true, axis=1)
                errors.append(float(np.nanmean(apart) / np.linalg.norm(true[0] - true[1])))
    return float(np.mean(errors)) if errors else float("nan")


def multiply_adds(path: Path, size: int) -> int:
    """Return the multiplications of all convolutions for one square input of a network file."""
    from palmkit.engine import load, optimise
    from palmkit.engine.ir import Type
    from palmkit.engine.ops import infer_types

    graph = load(path).graph
    inputs = {
        name: Type(type.dtype, tuple(3 if dim == 3 else size for dim in type.shape[1:]))
        for name, type in graph.inputs.items()
    }
    inputs = {name: Type(type.dtype, (1, *type.shape)) for name, type in inputs.items()}
    graph = optimise(replace(graph, inputs=inputs))
    types = infer_types(graph)
    return sum(
        prod(types[node.outputs[0]].dims) * prod(types[node.inputs[1]].dims[1:])
        for node in graph.nodes
        if node.op in ("conv", "fused_conv")
    )


def measure(
    data: Path, entries: Sequence[Mapping[str, Any]], contender: Contender
) -> dict[str, float]:
    """Return all numbers of one detector."""
    by_set: dict[str, list[Sample]] = {name: [] for name in LABELLED}
    best: dict[str, list[float]] = {"ordinary": [], "hard": []}
    for entry in tqdm(entries, mininterval=5, leave=False):
        found = contender.detect(read_picture(data, entry["file"]))
        if entry["set"] in NEGATIVES:
            kind = "hard" if entry["hard"] else "ordinary"
            best[kind].append(float(found.scores.max(initial=0)))
        else:
            faces = np.asarray(entry["faces"], np.float32).reshape(-1, 14)
            ignored = np.asarray(entry["ignored"], np.float32).reshape(-1, 4)
            by_set[entry["set"]].append(Sample(faces, ignored, found))
    together = [sample for samples in by_set.values() for sample in samples]
    verdicts = judge(together)
    numbers = {
        "ap": average_precision(verdicts),
        "ap_at_threshold": average_precision(verdicts, contender.threshold),
        "recall_at_1_false_a_picture": recall_at_one_false(verdicts, len(together)),
        "point_error_aaf": point_error(by_set["aaf"]),
        "threshold": contender.threshold,
    }
    for low, high in BINS:
        numbers[f"ap_{low:g}_{high:g}"] = average_precision(verdicts, 0.0, low, high)
    for name, samples in by_set.items():
        numbers[f"ap_{name}"] = average_precision(judge(samples))
    for kind, scores in best.items():
        clean = np.asarray(scores) < contender.threshold
        numbers[f"clean_{kind}"] = float(clean.mean()) if len(clean) else float("nan")
    return {name: round(value, 4) for name, value in numbers.items()}


def table(results: Mapping[str, Mapping[str, float]]) -> str:
    """Return Markdown with a row a number and a column a detector."""
    names = list(results)
    lines = ["| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for key in results[names[0]]:
        values = " | ".join(f"{results[name][key]:.3f}" for name in names)
        lines.append(f"| {key} | {values} |")
    return "\n".join(lines)


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="measure the face detector")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="labels.jsonl")
    parser.add_argument("teachers", type=Path, help="folder of the published networks")
    parser.add_argument("out", type=Path, help="folder that takes metrics.json")
    parser.add_argument(
        "--part", choices=("dev", "validation"), default="dev", help="the pictures (dev)"
    )
    options = parser.parse_args(None if arguments is None else list(arguments))
    wanted = {*LABELLED, *NEGATIVES}
    entries = [
        each
        for each in read_labels(options.labels)
        if each["part"] == options.part and each["set"] in wanted
    ]
    metrics: dict[str, Any] = {
        "multiply_adds_320": {
            "palmkit": multiply_adds(MODEL, 320),
            "yunet_n": multiply_adds(options.teachers / "yunet_n_dynamic.onnx", 320),
        }
    }
    for size in SIZES:
        results = {
            name: measure(options.data, entries, contender)
            for name, contender in contenders(options.teachers, size).items()
        }
        metrics[f"size_{size}"] = results
        print(f"\ninput size {size}\n{table(results)}")
    (options.out / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n")


if __name__ == "__main__":
    main()
