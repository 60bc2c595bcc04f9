"""Measure the face detector beside YuNet and both BlazeFaces on the dev pictures.

`python -m palmkit.models.face_detector.evaluate DATA LABELS TEACHERS OUT` prints the tables and
writes OUT/metrics.json. Protocol, the same for every detector: see judging.py; doubtful regions are
those where the teachers saw a face that has no label, as labels are not exhaustive; sizes are the
longer side in the stored picture.

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
from typing import Any

import numpy as np
from tqdm import tqdm

from palmkit.kits.quality import Quality
from palmkit.models import kinds
from palmkit.models.face_detector.contenders import (
    BEST,
    MODEL,
    Contender,
    Counted,
    as_they_come,
    contenders,
    kit_of,
)
from palmkit.models.face_detector.dataset import known, read_labels
from palmkit.models.face_detector.judging import (
    Sample,
    average_precision,
    f1,
    judge,
    point_error,
    recall_at_one_false,
)
from palmkit.models.face_detector.labels import read_picture
from palmkit.models.face_detector.teachers import Array, Picture

SIZES = (320, 640)
BINS = ((0.0, 32.0), (32.0, 64.0), (64.0, 128.0), (128.0, float("inf")))
LABELLED = ("eden", "maskon", "aaf")
NEGATIVES = ("clothing", "grocery")
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
    "two looks, what they show": "the validation part, after a look at dev's crowds",
    "auto: at what the best network looks": "the validation part",
    "dev": "nothing",
}


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
            by_set[entry["set"]].append(Sample(*known(entry), found))
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
        faces, ignored = known(entry)
        if not len(faces):
            continue
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
    data: Path,
    entries: Sequence[Mapping[str, Any]],
    quality: Quality,
    model: Path,
    best: Path | None = None,
) -> dict[str, dict[str, float]]:
    """Return by kind of picture means of what the kit takes with these networks.

    That is its inputs, in 1,000 pixels, milliseconds, and at which share the best network looks.
    """
    networks = [Counted(each) for each in (model, best) if each is not None]
    first, last = networks[0], networks[-1]
    detect = kit_of(first, None, None, quality, None if last is first else last)
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
        "palmkit auto": cost(options.data, every, "auto", MODEL, BEST),
        "palmkit fast": cost(options.data, every, "fast", MODEL),
        "palmkit best": cost(options.data, every, "best", BEST),
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
