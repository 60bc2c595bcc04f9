"""Measure the ways of post-training quantization on the shipped models.

`python -m palmkit.models.quantization DATA WORK` prints one table a model: the method, the task's
metric on some dev pictures, the file's size. Calibrated on training pictures. WORK holds what the
recipes' labels commands wrote: labels.jsonl (face_detector), meshes.npz (face_mesh), hands/
(hand_detector) and masks/ (segmentation); models whose labels are missing are left out.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from palmkit.engine.compress.quantize import Settings, quantize
from palmkit.engine.ir import Array
from palmkit.kits.crop import Crop, sample
from palmkit.kits.kit import shipped_model

MODELS = Path(__file__).parent
# The weight of likelihoods beside points: most of them are near 0 or 1 and stay there.
SURE = 0.02
SETTINGS: Mapping[str, Settings] = {
    "min-max alone": Settings("min_max", equalised=False, corrected=False),
    "KL alone": Settings("kl", equalised=False, corrected=False),
    "min-max": Settings("min_max"),
    "percentile": Settings("percentile"),
    "moving average": Settings("moving_average"),
    "KL": Settings("kl"),
    "ADMM": Settings("admm"),
    "ADMM, weights too": Settings("admm", "admm"),
}


class Task(NamedTuple):
    """A task to measure.

    samples: to calibrate with; measure: returns the numbers of a model file on the dev pictures.

    matters: the weights of the outputs, as in Agreement.
    """

    samples: Sequence[Mapping[str, Array]]
    measure: Callable[[Path], Mapping[str, float]]
    matters: Mapping[str, float] | None = None


def _some(rows: Iterable[Any], count: int) -> list[Any]:
    """Return `count` of the rows, the same in every run."""
    found = list(rows)
    return random.Random(0).sample(found, min(count, len(found)))


def masks(
    name: str, data: Path, work: Path, pictures: int, calibration: int, part: str = "dev"
) -> Task:
    """Return the task of the portrait and hair networks and of person_finder."""
    from palmkit.models.segmentation import evaluate
    from palmkit.models.segmentation.labels import read_rgba, read_rows
    from palmkit.models.segmentation.samples import read_samples
    from palmkit.models.segmentation.teachers import stretched

    task = evaluate.pictures_of(name)
    cases = _some(read_samples(data, work / "masks", task, part), pictures)
    rows = _some((row for row in read_rows(data) if row["split"] != "dev"), calibration)
    side = evaluate.Network(shipped_model(name)).size
    samples = [
        {"image": stretched(read_rgba(data, row["file"])[0], side).astype(np.float32)[None]}
        for row in rows
    ]

    def measure(path: Path) -> Mapping[str, float]:
        found = evaluate.measure(cases, evaluate.Network(path).once)[0]["mean"]
        return {"iou": found["iou"], "boundary": found["boundary"]}

    return Task(samples, measure)


def held(
    name: str, data: Path, work: Path, pictures: int, calibration: int, part: str = "dev"
) -> Task:
    """Return the task of held_things, on its dev pictures, whatever part: it has no others.

    Needs PyTorch.
    """
    from palmkit.kits import PortraitSegmenter
    from palmkit.models.segmentation.held import VIEWS, measure, views
    from palmkit.models.segmentation.held_labels import read_boxed

    kit = PortraitSegmenter(quality="fast")
    random = np.random.default_rng(0)
    seen = [
        {"image": view.image[None]}
        for each in read_boxed(data, "train")
        for view in views(each, kit.segment(each.picture).mask, VIEWS, random)
    ]

    def measured(path: Path) -> Mapping[str, float]:
        found = measure(path, data)
        return {name: found[name]["all"]["mean"] for name in ("iou", "right", "found")}

    return Task(_some(seen, calibration), measured)


def mesh(
    name: str, data: Path, work: Path, pictures: int, calibration: int, part: str = "dev"
) -> Task:
    """Return the task of both face meshes."""
    from palmkit.models.face_detector.dataset import read_labels
    from palmkit.models.face_detector.labels import read_picture
    from palmkit.models.face_mesh import evaluate
    from palmkit.models.face_mesh.dataset import read_meshes

    entries = read_labels(work / "labels.jsonl")
    faces = read_meshes(work / "meshes.npz", entries)
    cases = _some(evaluate.find_cases(data, entries, faces, part)[0], pictures)
    rows = _some((row for row, each in enumerate(faces.part) if each == "train"), calibration)
    samples: list[Mapping[str, Array]] = []
    for row in rows:
        picture = read_picture(data, entries[faces.entry[row]]["file"])
        crop = Crop(*(float(each) for each in faces.crop[row]))
        samples.append({"image": sample(picture, crop, 160)[None].astype(np.float32)})

    def measure(path: Path) -> Mapping[str, float]:
        found = evaluate.measure(data, cases, evaluate.student(path))[0]
        return {key: found[key] for key in ("error_settled", "error_first_look")}

    return Task(samples, measure, {"visibility": SURE, "presence": SURE})


def hands(
    name: str, data: Path, work: Path, pictures: int, calibration: int, part: str = "dev"
) -> Task:
    """Return the task of hand_landmarks."""
    from palmkit.kits.hands.crop import crop_from_landmarks
    from palmkit.models.face_detector.labels import read_picture
    from palmkit.models.hand_detector.dataset import landmark_rows, read_labels
    from palmkit.models.hand_landmarks import evaluate
    from palmkit.models.hand_landmarks.pipelines import ours

    entries = read_labels(work / "hands")
    cases = _some((each for each in entries if each["part"] == part), pictures)
    rows = _some((e for e in entries if e["part"] == "train" and e["hands"]), calibration)
    samples: list[Mapping[str, Array]] = []
    for entry in rows:
        crop = crop_from_landmarks(landmark_rows(entry)[0])
        image = sample(read_picture(data, entry["file"]), crop, 192)[None].astype(np.float32)
        samples.append({"image": image, "up": np.array([[0, -1]], np.float32)})

    def measure(path: Path) -> Mapping[str, float]:
        pipeline = ours(evaluate.DETECTOR, path, 224, None, None)
        found = evaluate.measure(data, cases, {"palmkit": pipeline})["palmkit"].numbers()
        return {key: found[key] for key in ("landmark_error", "accuracy", "macro_f1")}

    return Task(samples, measure, {"handedness": SURE, "presence": 0.03, "gesture": 0.03})


def detections(
    name: str, data: Path, work: Path, pictures: int, calibration: int, part: str = "dev"
) -> Task:
    """Return the task of both face detectors and of hand_detector."""
    from palmkit.models.face_detector import evaluate as faces
    from palmkit.models.face_detector.contenders import kit_detector
    from palmkit.models.face_detector.dataset import read_labels
    from palmkit.models.face_detector.labels import read_picture
    from palmkit.models.hand_detector import dataset
    from palmkit.models.hand_detector import evaluate as palms
    from palmkit.models.segmentation.teachers import stretched

    is_face = name != "hand_detector"
    if is_face:
        wanted = {*faces.LABELLED, *faces.NEGATIVES}
        entries = [each for each in read_labels(work / "labels.jsonl") if each["set"] in wanted]
    else:
        entries = dataset.read_labels(work / "hands")
    cases = _some((each for each in entries if each["part"] == part), pictures)
    rows = _some((each for each in entries if each["part"] == "train"), calibration)
    size = faces.SIZES[0] if is_face else palms.SIZE
    samples = [
        {"image": stretched(read_picture(data, row["file"]), size).astype(np.float32)[None]}
        for row in rows
    ]

    def measure_faces(path: Path) -> Mapping[str, float]:
        found: dict[str, float] = {}
        for size in faces.SIZES:
            here = faces.measure(data, cases, kit_detector(path, size))
            found[f"ap_{size}"] = here["ap"]
        return found

    manual = {} if is_face else palms.manual_boxes(data)

    def measure_hands(path: Path) -> Mapping[str, float]:
        found = palms.measure(data, cases, palms.ours(path, palms.SIZE), manual)[0]
        return {key: found[key] for key in ("ap_upright", "ap_turned_90", "ap_turned_180")}

    return Task(samples, measure_faces if is_face else measure_hands)


TASKS: Mapping[str, Callable[[str, Path, Path, int, int, str], Task]] = {
    "portrait": masks,
    "portrait_best": masks,
    "person_finder": masks,
    "held_things": held,
    "hair": masks,
    "hair_best": masks,
    "face_detector": detections,
    "face_detector_best": detections,
    "face_mesh": mesh,
    "face_mesh_best": mesh,
    "hand_detector": detections,
    "hand_landmarks": hands,
}


def rows_of(name: str, source: Path, task: Task, others: Sequence[Path]) -> list[str]:
    """Return lines of Markdown: a file's float model, each method, and other files."""
    from palmkit.engine import load, save

    graph = load(source).graph
    lines: list[str] = []

    def add(title: str, path: Path) -> None:
        found = task.measure(path)
        if not lines:
            heads = ["", *found, "KB"]
            lines.extend(["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"])
        cells = [title, *(f"{value:.4f}" for value in found.values())]
        lines.append("| " + " | ".join([*cells, f"{path.stat().st_size / 1000:.0f}"]) + " |")

    add("float", source)
    with tempfile.TemporaryDirectory() as folder:
        for number, (title, settings) in enumerate(SETTINGS.items()):
            # A new name each time, as kits cache models by their paths.
            path = Path(folder) / f"int8-{number}.palm"
            save(quantize(graph, task.samples, settings=settings), path, shapes=[])
            add(title, path)
    for other in others:
        add(other.parent.name, other)
    return lines


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="measure post-training quantization")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("work", type=Path, help="folder of the recipes' labels")
    parser.add_argument("--models", nargs="*", choices=tuple(TASKS), default=tuple(TASKS))
    parser.add_argument("--pictures", type=int, default=60, help="to measure on, of the dev split")
    parser.add_argument("--calibration", type=int, default=60, help="training pictures")
    parser.add_argument("--originals", type=Path, help="folder of NAME.palm, as export.py writes")
    parser.add_argument(
        "--also", type=Path, nargs="*", default=[], help="folders of NAME.palm, measured as well"
    )
    options = parser.parse_args(None if arguments is None else list(arguments))
    for name in options.models:
        try:
            task = TASKS[name](
                name, options.data, options.work, options.pictures, options.calibration, "dev"
            )
        except FileNotFoundError as error:
            print(f"\n{name}: left out: no {error.filename}")
            continue
        others = [folder / f"{name}.palm" for folder in options.also]
        source = (options.originals or MODELS / name) / f"{name}.palm"
        lines = rows_of(name, source, task, [path for path in others if path.exists()])
        print(f"\n{name}\n", *lines, sep="\n", flush=True)


if __name__ == "__main__":
    main()
