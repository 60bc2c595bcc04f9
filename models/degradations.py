"""The kits, and their peers, on pictures made worse: dark, noisy, blurred, compressed, old, small.

`python -m palmkit.models.degradations DATA WORK TEACHERS` prints a table for each kit's model card,
of the dev pictures and the held-out training ones together, with the labels of the pictures as
they were. WORK holds labels.jsonl of the face detector, meshes.npz of the face mesh, masks/ of the
segmentation and hands/ of the hands. Every degradation is the same whenever it is computed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from palmkit.models.kinds import ALL, PARTS, Spread

Picture = npt.NDArray[np.uint8]
Degradation = Callable[[Picture], Picture]
Masker = Callable[[Picture], npt.NDArray[np.float32]]
# Contenders' numbers by name, of one degradation; what measures them on pictures and with networks
# that are read once.
Numbers = Mapping[str, Mapping[str, float]]
Measure = Callable[[Degradation], Numbers]

# How much light is left in the dark, and the noise of a sensor there, in levels.
DARK, SENSOR_NOISE = 0.15, 4.0
BRIGHT, GLARE = 1.9, 20.0
NOISE = 30.0
# Longest side over a blur's standard deviation, and of a small picture, in pixels.
BLUR, SMALL = 160, 96
QUALITY = 8
RED, BLUE = (1.0, 0.15, 0.15), (0.2, 0.3, 1.0)
# A faded print: its darkest and its brightest grey, the colour of its paper, the grain.
FADED, PAPER, GRAIN = (0.15, 0.85), (250, 215, 160), 0.05


def levels(values: npt.NDArray[Any]) -> Picture:
    """Return numbers as uint8, those beyond 0..255 as the nearest."""
    return np.asarray(np.clip(values, 0, 255), np.uint8)


def noise(shape: tuple[int, ...], spread: float, seed: int) -> npt.NDArray[np.float64]:
    """Return normally distributed numbers, the same for a shape and a seed."""
    return np.random.default_rng(seed).normal(0, spread, shape)


def dark(picture: Picture) -> Picture:
    """Leave little light, and a sensor's noise in it."""
    return levels(picture * DARK + noise(picture.shape, SENSOR_NOISE, 1))


def noisy(picture: Picture) -> Picture:
    """Add noise of its own to each pixel and colour."""
    return levels(picture + noise(picture.shape, NOISE, 2))


def blurred(picture: Picture) -> Picture:
    """Put the camera out of focus."""
    spread = max(picture.shape[:2]) / BLUR
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), spread), np.uint8)


def compressed(picture: Picture) -> Picture:
    """Compress as JPEG, with hardly any quality."""
    done, data = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    assert done
    decoded = cv2.imdecode(data, cv2.IMREAD_COLOR)
    assert decoded is not None
    return np.ascontiguousarray(decoded[..., ::-1], np.uint8)


def grey(picture: Picture) -> Picture:
    """Take the colours."""
    return levels(np.repeat(picture.mean(axis=2, keepdims=True), 3, axis=2))


def old(picture: Picture) -> Picture:
    """Make a faded print of it, with grain, on yellow paper."""
    black, white = FADED
    tone = black + (white - black) * picture.mean(axis=2, keepdims=True) / 255
    return levels((tone + noise(tone.shape, GRAIN, 3)) * PAPER)


def bright(picture: Picture) -> Picture:
    """Let in more light than a camera takes."""
    return levels(picture * BRIGHT + GLARE)


def small(picture: Picture) -> Picture:
    """Enlarge it from SMALL pixels, the longer side."""
    height, width = picture.shape[:2]
    scale = SMALL / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    reduced = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    return np.asarray(
        cv2.resize(reduced, (width, height), interpolation=cv2.INTER_LINEAR), np.uint8
    )


UNCHANGED = "as they are"
DEGRADATIONS: dict[str, Degradation] = {
    UNCHANGED: lambda picture: picture,
    "dark": dark,
    "noisy": noisy,
    "blurred": blurred,
    "compressed": compressed,
    "grey": grey,
    "old print": old,
    "red light": lambda picture: levels(picture * RED),
    "blue light": lambda picture: levels(picture * BLUE),
    "too bright": bright,
    "small": small,
}


def numbers_of(name: str, spread: Spread) -> Mapping[str, float]:
    """Return the mean of what is called so, that of the worst tenth, and the share of failures."""
    return {name: spread.mean, "worst tenth": spread.worst_tenth, "failed": spread.failed}


def faces(data: Path, work: Path, teachers: Path) -> Measure:
    """Return what tells average precision, recall and precision of faces, by detector."""
    from palmkit.models.face_detector import evaluate
    from palmkit.models.face_detector.contenders import Contender, as_they_come
    from palmkit.models.face_detector.dataset import read_labels

    entries = [
        entry
        for entry in read_labels(work / "labels.jsonl")
        if entry["part"] in PARTS and entry["set"] in evaluate.KINDS
    ]
    contenders = as_they_come(teachers)

    def seeing(one: Contender, worse: Degradation) -> Contender:
        given = one.by_default
        by_default = None if given is None else lambda picture: given(worse(picture))
        return Contender(lambda picture: one.detect(worse(picture)), one.threshold, by_default)

    def measure(worse: Degradation) -> Numbers:
        found: dict[str, Mapping[str, float]] = {}
        for name, one in contenders.items():
            numbers = evaluate.measure_kinds(data, entries, seeing(one, worse))[0][ALL]
            found[name] = {key: numbers[key] for key in ("ap", "found", "precision")}
        return found

    return measure


def meshes(data: Path, work: Path, teachers: Path) -> Measure:
    """Return what tells how far meshes are off, the worst tenth, and the share lost, by network.

    Of faces without masks, where the detector finds them in the picture as it was, so that this
    tells of the mesh alone; the reference is what its teacher sees there.
    """
    from palmkit.models.face_detector.dataset import read_labels
    from palmkit.models.face_mesh import evaluate
    from palmkit.models.face_mesh.dataset import read_meshes

    entries = read_labels(work / "labels.jsonl")
    faces = read_meshes(work / "meshes.npz", entries)
    found = [case for part in PARTS for case in evaluate.find_cases(data, entries, faces, part)[0]]
    cases = [case for case in found if case.group != "masked"]
    contenders = {
        "palmkit": evaluate.student(evaluate.BEST),
        "palmkit fast": evaluate.student(evaluate.MODEL),
        "teacher": evaluate.teacher(teachers / "face_landmark_with_attention.tflite"),
    }

    def measure(worse: Degradation) -> Numbers:
        numbers: dict[str, Mapping[str, float]] = {}
        for name, one in contenders.items():
            spreads = evaluate.measure(data, cases, one, worse)[1]
            numbers[name] = numbers_of("error", spreads[ALL])
        return numbers

    return measure


def hands(data: Path, work: Path, teachers: Path) -> Measure:
    """Return what tells how many hands are found, gestures right, and handless pictures empty."""
    from palmkit.models.hand_detector.dataset import read_labels
    from palmkit.models.hand_landmarks import evaluate
    from palmkit.models.hand_landmarks.pipelines import Pipeline, mediapipe, ours

    entries = [entry for entry in read_labels(work / "hands") if entry["part"] in PARTS]
    pipelines = {
        "palmkit": ours(evaluate.DETECTOR, evaluate.LANDMARKS, None),
        "teachers and finger rule": mediapipe(teachers),
    }
    names = {"found": "found", "accuracy": "gestures", "clean_negatives": "empty"}

    def seeing(one: Pipeline, worse: Degradation) -> Pipeline:
        return lambda picture: one(worse(picture))

    def measure(worse: Degradation) -> Numbers:
        seen = {name: seeing(one, worse) for name, one in pipelines.items()}
        found: dict[str, Mapping[str, float]] = {}
        for name, tally in evaluate.measure(data, entries, seen).items():
            numbers = tally.numbers()
            found[name] = {told: numbers[key] for key, told in names.items()}
        return found

    return measure


def masks(task: str, data: Path, work: Path, teachers: Path) -> Measure:
    """Return what tells IoU, that of the worst tenth, and the share below .5, by contender."""
    from palmkit.models.segmentation import evaluate
    from palmkit.models.segmentation.samples import read_samples
    from palmkit.models.segmentation.sets import EMPTY

    read = (each for part in PARTS for each in read_samples(data, work / "masks", task, part))
    samples = [each for each in read if each.set not in EMPTY]
    maskers = evaluate.as_they_come(task, teachers)

    def seeing(masker: Masker, worse: Degradation) -> Masker:
        return lambda picture: masker(worse(picture))

    def measure(worse: Degradation) -> Numbers:
        found: dict[str, Mapping[str, float]] = {}
        for name, masker in maskers.items():
            spreads = evaluate.measure(samples, seeing(masker, worse))[1]["iou"]
            found[name] = numbers_of("iou", spreads[ALL])
        return found

    return measure


KITS: dict[str, Callable[[Path, Path, Path], Measure]] = {
    "face": faces,
    "mesh": meshes,
    "hands": hands,
    "portrait": partial(masks, "portrait"),
    "hair": partial(masks, "hair"),
}


def lines(rows: Iterable[tuple[str, Numbers]]) -> Iterator[str]:
    """Yield Markdown lines: a row a degradation, a column a contender, numbers side by side."""
    means: dict[str, list[list[float]]] = {}
    for row, (name, numbers) in enumerate(rows):
        if not row:
            told = [f"{each}: {', '.join(values)}" for each, values in numbers.items()]
            yield "| | " + " | ".join(told) + " |"
            yield "|---" * (len(told) + 1) + "|"
        if name != UNCHANGED:
            for each, values in numbers.items():
                means.setdefault(each, []).append(list(values.values()))
        yield line(name, [values.values() for values in numbers.values()])
    if means:
        yield line("mean of the worse", [np.mean(each, axis=0) for each in means.values()])


def line(name: str, numbers: Iterable[Iterable[float]]) -> str:
    """Return a row of a table."""
    cells = (", ".join(f"{value:.3f}" for value in each) for each in numbers)
    return f"| {name} | " + " | ".join(cells) + " |"


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="the kits on pictures made worse")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("work", type=Path, help="folder of the recipes' labels")
    parser.add_argument("teachers", type=Path, help="folder of the published networks")
    parser.add_argument("--kits", nargs="*", choices=tuple(KITS), help="some of these (all)")
    parser.add_argument(
        "--degradations", nargs="*", choices=tuple(DEGRADATIONS), help="some of these (all)"
    )
    options = parser.parse_args(None if arguments is None else list(arguments))
    where = options.data, options.work, options.teachers
    for kit in options.kits or KITS:
        print(f"\n{kit}\n")
        measure = KITS[kit](*where)
        measured = (
            (name, measure(DEGRADATIONS[name])) for name in options.degradations or DEGRADATIONS
        )
        for each in lines(measured):
            print(each, flush=True)


if __name__ == "__main__":
    main()
