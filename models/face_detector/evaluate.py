"""Measure the face detector beside YuNet and both BlazeFaces on the dev pictures.

`python -m palmkit.models.face_detector.evaluate DATA LABELS TEACHERS OUT` prints the tables and
writes OUT/metrics.json. Protocol, the same for every detector: greedy matching, best score first,
at IoU 0.5; average precision is the area under the interpolated curve; an unmatched detection that
lies by half in a region where the teachers saw a face that has no label counts neither way, as
labels are not exhaustive; sizes are the longer side in the stored picture.

As it comes: the kit with its own options (auto), with either quality alone, and with `size` of
--closer, beside YuNet at the picture's full size, by kind of picture and size of face. Of each
picture F1 at the default threshold is what counts for the mean, the worst tenth and the share of
failures (palmkit.models.kinds). Faces of oi_crowd and coco_crowd are those that YuNet sees at twice
the size: there it agrees with itself. Pixels are those of all inputs of the networks; `again` is
the share of pictures at which the best one looks; times are the least of three runs with one
thread.

At one input size: a picture's long side is brought to it, enlarging at most twice (the BlazeFaces
have their own fixed inputs), on the sets that have been measured so from the first.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from palmkit.kits.boxes import corners, iou, shared_areas
from palmkit.models import kinds
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
BEST = MODEL.parents[1] / "face_detector_best" / "face_detector_best.palm"
SIZES = (320, 640)
BINS = ((0.0, 32.0), (32.0, 64.0), (64.0, 128.0), (128.0, float("inf")))
LABELLED = ("eden", "maskon", "aaf")
NEGATIVES = ("clothing", "grocery")
LOWEST_SCORE = 0.02
# Kinds of pictures, by set; in those without faces whatever is found is false.
KINDS = {
    "oi_crowd": "crowds",
    "coco_crowd": "crowds",
    "ilc2021": "masks",
    "eden": "masks",
    "maskon": "masks",
    "aaf": "single faces",
}
EMPTY_KINDS = {"clothing": "ordinary", "grocery": "ordinary", "animals": "animals"}
FACE_SIZES = ((0, 16), (16, 32), (32, 96), (96, float("inf")))
RUNS = 3
# What numbers of the detector were chosen on, as cards and metrics.json say.
CHOSEN_ON = {
    "weights and threshold": "the validation part of the training pictures",
    "closer looks, score among many": "training pictures of oi_crowd, coco_crowd, ilc2021 and"
    " animals, with earlier weights, which had not learnt them, and the validation part of the"
    " other sets",
    "auto: at what the best network looks": "the validation part",
    "dev": "nothing",
}


class Contender(NamedTuple):
    """A detector, and the score from which it reports a face by default.

    by_default: what it reports by default, if that is not what `detect` finds from this score on.
    """

    detect: Detector
    threshold: float
    by_default: Detector | None = None

    def reported(self, picture: Picture) -> Detections:
        """Return what it reports by default."""
        if self.by_default is not None:
            return self.by_default(picture)
        return self.detect(picture).above(self.threshold)


class Counted:
    """A model that counts what it sees.

    pixels: of all inputs so far.
    """

    def __init__(self, path: Path) -> None:
        """Open a model file."""
        from palmkit.engine import load

        self._model = load(path)
        self.metadata = self._model.metadata
        self.pixels = 0

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run the model."""
        self.pixels += prod(inputs["image"].shape[1:3])
        return self._model.run(inputs)


class Sample(NamedTuple):
    """A picture's faces, float32[n, 14], doubtful regions, and what was found."""

    faces: Array
    ignored: Array
    found: Detections


def kit_detector(path: Path, size: int | None) -> Contender:
    """Return our network as the kit runs it."""
    from palmkit.engine import load

    threshold = float(load(path).metadata["threshold"])
    reports = None if size is not None else kit_of(path, size, None)
    return Contender(kit_of(path, size, LOWEST_SCORE), threshold, reports)


def auto_detector(size: int | None) -> Contender:
    """Return both networks as the kit runs them: what counts by default is each one's own score."""
    from palmkit.engine import load

    threshold = float(load(MODEL).metadata["threshold"])
    every, reported = (kit_of(MODEL, size, least, BEST) for least in (LOWEST_SCORE, None))
    return Contender(every, threshold, reported)


def kit_of(
    model: Path | Counted,
    size: int | None,
    min_score: float | None,
    best: Path | Counted | None = None,
) -> Detector:
    """Return the kit with these options as a detector.

    best: the network that looks again; None: none does.
    """
    from palmkit.kits import FaceDetector

    detector = FaceDetector(model=model, best_detector_model=best, size=size, min_score=min_score)

    def detect(picture: Picture) -> Detections:
        faces = detector.detect(picture)
        return Detections(corners(faces.boxes), faces.scores, faces.keypoints)

    return detect


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
        "palmkit best": kit_detector(BEST, size),
        "yunet_n": Contender(at_size(yunet, size), 0.6),
        "blazeface short": Contender(short, 0.5),
        "blazeface full": Contender(full, 0.6),
    }


def as_they_come(folder: Path, closer: Iterable[int] = ()) -> dict[str, Contender]:
    """Return the kit of each quality, and YuNet at the picture's full size.

    closer: further values of the kit's option `size`.
    """
    yunet = teachers.yunet(folder / "yunet_n_dynamic.onnx", 1.0, LOWEST_SCORE)
    found: dict[str, Contender] = {}
    for size in (None, *closer):
        told = "" if size is None else f", {size}"
        found |= {
            f"palmkit auto{told}": auto_detector(size),
            f"palmkit fast{told}": kit_detector(MODEL, size),
            f"palmkit best{told}": kit_detector(BEST, size),
        }
    return {**found, "yunet_n": Contender(yunet, 0.6)}


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
    overlap = shared_areas(box[None], regions)
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


def f1(sample: Sample) -> float:
    """Return the harmonic mean of precision and recall of one picture; 1 where nothing counts."""
    verdicts = judge([sample])
    either = len(verdicts.faces) + len(verdicts.scores)
    return float(2 * verdicts.right.sum() / either) if either else 1.0


def kinds_of(entry: Mapping[str, Any], faces: Array, picture: Picture) -> list[str]:
    """Return the kinds of a picture with faces: by set, light and distance."""
    sides = (faces[:, 2:4] - faces[:, :2]).max(axis=1)
    return [KINDS[entry["set"]], kinds.light(picture), kinds.distance(sides, picture)]


def measure_kinds(
    data: Path, entries: Sequence[Mapping[str, Any]], contender: Contender
) -> tuple[dict[str, dict[str, float]], dict[str, kinds.Spread]]:
    """Return numbers by kind of picture, and how its pictures came out, of one detector."""
    tally = kinds.Tally()
    found: dict[str, tuple[list[Sample], list[Sample]]] = {}
    false: dict[str, list[float]] = {}
    for entry in tqdm(entries, mininterval=5, leave=False):
        picture = read_picture(data, entry["file"])
        if entry["set"] in EMPTY_KINDS:
            kind = "hard" if entry["hard"] and entry["set"] != "animals" else ""
            is_false = len(contender.reported(picture).scores) > 0
            false.setdefault(kind or EMPTY_KINDS[entry["set"]], []).append(float(is_false))
            continue
        faces = np.asarray(entry["faces"], np.float32).reshape(-1, 14)
        if not len(faces):
            continue
        ignored = np.asarray(entry["ignored"], np.float32).reshape(-1, 4)
        reported = Sample(faces, ignored, contender.reported(picture))
        tally.add(kinds_of(entry, faces, picture), f1(reported))
        for kind in (KINDS[entry["set"]], kinds.ALL):
            every, by_default = found.setdefault(kind, ([], []))
            every.append(Sample(faces, ignored, contender.detect(picture)))
            by_default.append(reported)
    numbers = {kind: detection_numbers(*found[kind]) for kind in sorted(found)}
    numbers |= {kind: {"false": round(float(np.mean(false[kind])), 4)} for kind in sorted(false)}
    return numbers, tally.spreads()


def detection_numbers(every: Sequence[Sample], by_default: Sequence[Sample]) -> dict[str, float]:
    """Return average precision of all that is found, and recall and precision of what is reported.

    The first two also by the faces' size.
    """
    all_of_it, reported = judge(every), judge(by_default)
    numbers = {
        "faces": float(len(reported.faces)),
        "ap": average_precision(all_of_it),
        "found": float(reported.right.sum() / max(len(reported.faces), 1)),
        "precision": float(reported.right.mean()) if len(reported.right) else float("nan"),
    }
    for low, high in FACE_SIZES:
        sized = (reported.sizes >= low) & (reported.sizes < high)
        count = ((reported.faces >= low) & (reported.faces < high)).sum()
        if count:
            numbers[f"ap_{low:g}_{high:g}"] = average_precision(all_of_it, 0.0, low, high)
            numbers[f"found_{low:g}_{high:g}"] = float(reported.right[sized].sum() / count)
    return {name: round(value, 4) for name, value in numbers.items()}


def cost(
    data: Path, entries: Sequence[Mapping[str, Any]], model: Path, best: Path | None = None
) -> dict[str, dict[str, float]]:
    """Return by kind of picture means of what the kit takes with these networks.

    That is its inputs, in 1,000 pixels, milliseconds, and at which share the best network looks.
    """
    networks = [Counted(each) for each in (model, best) if each is not None]
    first, last = networks[0], networks[-1]
    detect = kit_of(first, None, None, None if last is first else last)
    costs: dict[str, list[list[float]]] = {}
    for entry in entries:
        picture = read_picture(data, entry["file"])
        times_ms: list[float] = []
        for each in networks:
            each.pixels = 0
        for _ in range(RUNS):
            start = time.perf_counter()
            detect(picture)
            times_ms.append((time.perf_counter() - start) * 1000)
        kind = KINDS.get(entry["set"]) or EMPTY_KINDS[entry["set"]]
        pixels = sum(each.pixels for each in networks)
        again = float(last is not first and last.pixels > 0)
        costs.setdefault(kind, []).append([pixels / RUNS / 1000, min(times_ms), again])
    names = ("kilopixels", "ms", "again")
    return {
        kind: dict(zip(names, np.mean(rows, axis=0).round(2).tolist(), strict=True))
        for kind, rows in sorted(costs.items())
    }


def kind_lines(results: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterator[str]:
    """Yield Markdown with a row a kind and number, and a column a detector."""
    names = list(results)
    yield "| | " + " | ".join(names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    for kind, numbers in results[names[0]].items():
        for key in numbers:
            cells = (results[name][kind][key] for name in names)
            shown = (f"{cell:.0f}" if key == "faces" else f"{cell:.3f}" for cell in cells)
            yield f"| {kind}: {key} | " + " | ".join(shown) + " |"


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
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="input sizes")
    parser.add_argument(
        "--closer", type=int, nargs="*", default=(), help="sizes of the kit beside as it comes"
    )
    options = parser.parse_args(None if arguments is None else list(arguments))
    entries = [each for each in read_labels(options.labels) if each["part"] == options.part]
    metrics: dict[str, Any] = {
        "multiply_adds_320": {
            "palmkit": multiply_adds(MODEL, 320),
            "palmkit best": multiply_adds(BEST, 320),
            "yunet_n": multiply_adds(options.teachers / "yunet_n_dynamic.onnx", 320),
        },
        "chosen_on": CHOSEN_ON,
    }
    every = [each for each in entries if each["set"] in {*KINDS, *EMPTY_KINDS}]
    measured = {
        name: measure_kinds(options.data, every, contender)
        for name, contender in as_they_come(options.teachers, options.closer).items()
    }
    numbers = {name: each[0] for name, each in measured.items()}
    pictures = {name: each[1] for name, each in measured.items()}
    costs = {
        "palmkit auto": cost(options.data, every, MODEL, BEST),
        "palmkit fast": cost(options.data, every, MODEL),
        "palmkit best": cost(options.data, every, BEST),
    }
    metrics["as_it_comes"] = {
        name: {**numbers[name], "pictures": kinds.rounded(pictures[name])} for name in measured
    }
    for name, taken in costs.items():
        metrics["as_it_comes"][name]["cost"] = taken
    print("\nas it comes", *kind_lines(numbers), "", sep="\n")
    print(*kinds.lines(pictures, "F1"), "", *kind_lines(costs), sep="\n")
    print(*(f"chosen on, {what}: {where}" for what, where in CHOSEN_ON.items()), sep="\n")
    wanted = {*LABELLED, *NEGATIVES}
    some = [each for each in entries if each["set"] in wanted]
    for size in options.sizes:
        results = {
            name: measure(options.data, some, contender)
            for name, contender in contenders(options.teachers, size).items()
        }
        metrics[f"size_{size}"] = results
        print(f"\ninput size {size}\n{table(results)}")
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n")


if __name__ == "__main__":
    main()
