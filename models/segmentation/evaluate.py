"""Measure a mask network beside its teacher on the dev pictures, or on held-out training ones.

`python -m palmkit.models.segmentation.evaluate portrait DATA LABELS TEACHERS OUT` prints the table
and writes OUT/metrics.json. Protocol, the same for everybody, at the pictures' stored size:
iou: intersection over union of what is above 0.5, mean over the pictures. boundary: F-score of
the two outlines as DAVIS defines it, pixels matched within 0.8 % of the diagonal, mean over the
pictures; edge: the same within 0.25 %, one pixel of these pictures. error: mean absolute
difference. claimed: on pictures without anybody, share of pixels
above 0.5. Cut-outs of the dev part lie on backgrounds of the dev part.
hair: crops round the largest face that the face kit finds, in `crop` rows; in `whole` rows the
whole picture; islands of fasseg's masks, which are eyebrows, are left out.
flicker: of still pictures moved, zoomed and with fresh noise in every frame: mean absolute change
of the mask from frame to frame, carried back along the movement, over the mask's mean.
crowds: in dev pictures of crowds, which have no masks, the share of the people and of the faces
whose boxes the mask covers (by a quarter; the inner half by half), and of the pixels above 0.5
beside all people (palmkit.models.segmentation.crowds).
person_finder: our mask alone, and in what share of the pictures it sees somebody.
Of the IoU of each picture with a mask there are also the mean, the worst tenth and the share of
failures, by set, light on what the true mask covers, its share of the picture, which tells of
distance, and, of fasseg, the side that a head is seen from (palmkit.models.kinds).

With --times N the kits' masks and opacity are measured as if pictures were N times as large
(palmkit.models.segmentation.large), into OUT/large.json, with the spread also of edge and of
fringe: of cut-outs, whose opacity is known, the mean absolute error of it within 2 % of the
diagonal from their outline.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import cv2
import numpy as np
from tqdm import tqdm

from palmkit.kits.kit import shipped_model
from palmkit.kits.portrait.options import HAIR_NETWORKS, PORTRAIT_NETWORKS
from palmkit.kits.quality import Quality
from palmkit.models import kinds
from palmkit.models.segmentation import large
from palmkit.models.segmentation.crop import crop_round, fitted, put_back
from palmkit.models.segmentation.crowds import covered, read_crowds
from palmkit.models.segmentation.samples import Sample, read_samples
from palmkit.models.segmentation.scores import (
    FAILED_FRINGE,
    TOLERANCES,
    Masker,
    boundary,
    flicker,
    fringe,
    overlap,
)
from palmkit.models.segmentation.sets import EMPTY, KINDS
from palmkit.models.segmentation.teachers import (
    Array,
    HairTeacher,
    PersonTeacher,
    Picture,
    stretched,
)

if TYPE_CHECKING:
    from palmkit.kits.portrait.kit import Segmenter

# Measured on the portrait network's pictures.
FINDER = "person_finder"
# The networks of quality="best", by the task whose pictures they are measured on.
BEST = {each.fast: each.best for each in (PORTRAIT_NETWORKS, HAIR_NETWORKS)}

# Steps in percent of a picture that a mask covers.
SHARES = (0, 10, 25, 101)
# What numbers were chosen on, as cards say; those of the portrait networks.
CHOSEN_ON = "the held-out part of the training pictures; dev decided nothing"
PORTRAITS_CHOSEN_ON = "dev and the held-out part of the training pictures"
CHOSEN_LARGE_ON = "dev, and cut-outs of the training pictures: the grid of opacity"


class Network:
    """One of our networks on a stretched picture."""

    def __init__(self, path: Path) -> None:
        """Open the file."""
        from palmkit.engine import load

        self.model = load(path)
        self.size = int(self.model.inputs["image"].dims[1])

    def small(self, picture: Picture) -> Array:
        """Return the network's output, 0..1, at its own size."""
        image = stretched(picture, self.size).astype(np.float32)[None]
        return np.asarray(self.model.run({"image": image})["mask"][0, ..., 0], np.float32)

    def once(self, picture: Picture) -> Array:
        """Return the mask of a picture, float32[h, w] 0..1."""
        height, width = picture.shape[:2]
        return np.asarray(cv2.resize(self.small(picture), (width, height)), np.float32)


def kinds_of(sample: Sample) -> list[str]:
    """Return the kinds of a picture with a mask; light is what falls on what the mask covers."""
    true = (sample.truth > 0.5) & sample.counted
    found = [sample.set, *kinds.view(sample.file)]
    if true.any():
        share = 100 * float(true.mean())
        found += [
            kinds.light(sample.picture[true]),
            kinds.between(share, SHARES, "percent of the picture"),
        ]
    return found


def measure(
    samples: list[Sample], masker: Masker
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, kinds.Spread]]]:
    """Return each set's numbers and the means over the sets with masks; and by kind of picture.

    The latter of iou, edge, and fringe if there are cut-outs.
    """
    rows: dict[str, list[list[float]]] = {}
    tallies = {"iou": kinds.Tally(), "edge": kinds.Tally(), "fringe": kinds.Tally(FAILED_FRINGE)}
    for sample in tqdm(samples, mininterval=5):
        mask = masker(sample.picture)
        if sample.set in EMPTY:
            rows.setdefault(sample.set, []).append([float((mask > 0.5).mean())])
        else:
            error = float(np.abs(mask - sample.truth)[sample.counted].mean())
            edges = [boundary(mask, sample, tolerance) for tolerance in TOLERANCES.values()]
            shared = overlap(mask, sample)
            rows.setdefault(sample.set, []).append([shared, *edges, error])
            numbers = {"iou": shared, "edge": edges[-1], "fringe": fringe(mask, sample)}
            for name, number in numbers.items():
                if number is not None:
                    tallies[name].add(kinds_of(sample), number)
    names = ("iou", *TOLERANCES, "error")
    result: dict[str, dict[str, float]] = {}
    for name, each in rows.items():
        means: list[float] = np.mean(each, axis=0).round(4).tolist()
        keys = ("claimed",) if name in EMPTY else names
        result[name] = dict(zip(keys, means, strict=True))
    full = [result[name] for name in result if name not in EMPTY]
    result["mean"] = {key: round(float(np.mean([row[key] for row in full])), 4) for key in names}
    return result, {name: found for name, each in tallies.items() if (found := each.spreads())}


def sightings(samples: list[Sample], masker: Masker) -> dict[str, dict[str, float]]:
    """Return the share of pictures, with people and without, in which somebody is seen."""
    seen: dict[str, list[bool]] = {"people": [], "nobody": []}
    for sample in samples:
        where = seen["nobody" if sample.set in EMPTY else "people"]
        where.append(bool((masker(sample.picture) > 0.5).any()))
    return {group: {"seen": round(float(np.mean(each)), 4)} for group, each in seen.items()}


class CropRound:
    """Runs a network on the square round the largest face, else on the whole picture."""

    def __init__(self, masker: Masker, size: int) -> None:
        """Wrap a network.

        size: of the square that `masker` gets.
        """
        from palmkit.kits import FaceDetector

        self.masker, self.size = masker, size
        self.detector = FaceDetector(quality="fast")

    def __call__(self, picture: Picture) -> Array:
        """Return the mask, float32[h, w] 0..1, zero beside the square."""
        boxes = self.detector.detect(picture).boxes
        if not len(boxes):
            return self.masker(picture)
        height, width = picture.shape[:2]
        largest = boxes[(boxes[:, 2] * boxes[:, 3]).argmax()]
        square = crop_round(largest, width, height)
        mask = self.masker(fitted(picture, square, self.size))
        return put_back(mask, square, (height, width))


class FirstFrame:
    """What a kit for videos has of a picture where nothing was before it."""

    def __init__(self, kit: Segmenter) -> None:
        """Wrap a kit in video mode."""
        self._kit = kit

    def __call__(self, picture: Picture) -> Array:
        """Return the mask, float32[h, w] 0..1."""
        self._kit.reset()
        return self.following(picture)

    def following(self, picture: Picture) -> Array:
        """Return the mask of the next frame of the same video."""
        return self._kit.segment(picture).mask


def as_they_come(task: str, teachers: Path) -> dict[str, Masker]:
    """Return the kit of "portrait" or "hair" in each quality, and MediaPipe's network, by name."""
    from palmkit.kits import HairSegmenter, PortraitSegmenter

    def of_kit(quality: Quality) -> Masker:
        kit = (PortraitSegmenter if task == "portrait" else HairSegmenter)(quality=quality)
        return lambda picture: kit.segment(picture).mask

    found = {f"palmkit {quality}": of_kit(quality) for quality in get_args(Quality)}
    return {**found, **peer(task, teachers)}


def peer(task: str, teachers: Path) -> dict[str, Masker]:
    """Return MediaPipe's network for "portrait" or "hair", by its name."""
    if task == "portrait":
        return {"selfie_segmentation": PersonTeacher(teachers / "selfie_segmentation.tflite").once}
    network = HairTeacher(teachers / "hair_segmentation.tflite")
    return {"hair_segmentation": CropRound(network.once, 512)}


def contenders(task: str, model: Path, teachers: Path) -> dict[str, Masker]:
    """Return all masks; "palmkit kit" is the kit on a picture, "one look" on a video's first frame.

    Of people it is without the second pass: all of the frame is looked at (`pans` has the other).
    "auto": as it comes, in the best quality where the fast one is in doubt.
    """
    from palmkit.kits import HairSegmenter, PortraitSegmenter

    ours = Network(model)
    if task == FINDER:
        return {"palmkit": ours.once}
    kind = pictures_of(task)
    kit = HairSegmenter if kind == "hair" else PortraitSegmenter
    quality: Quality = "best" if task == BEST[kind] else "fast"
    picture_kit = kit(model=model, quality=quality)
    whole: dict[str, Any] = {"second_pass": False} if kind == "portrait" else {}
    frame = kit("video", model=model, quality=quality, smoothing=False, **whole)
    found: dict[str, Masker] = {
        "palmkit": ours.once,
        "palmkit kit": lambda picture: picture_kit.segment(picture).mask,
        "palmkit kit, one look": FirstFrame(frame),
    }
    if task in BEST:
        auto = kit(model=model, best_model=shipped_model(BEST[task]))
        found["palmkit kit, auto"] = lambda picture: auto.segment(picture).mask
    if kind == "portrait":
        return {**found, **peer(kind, teachers)}
    other = HairTeacher(teachers / "hair_segmentation.tflite")
    return {
        **found,
        "palmkit": CropRound(ours.once, ours.size),
        "hair_segmentation": CropRound(other.once, 512),
        "palmkit whole": ours.once,
        "hair_segmentation whole": other.once,
    }


def pictures_of(task: str) -> str:
    """Return the task whose pictures a network is measured on: portrait or hair."""
    if task == FINDER:
        return "portrait"
    return next((kind for kind, best in BEST.items() if task == best), task)


def show(metrics: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """Print a Markdown table."""
    names = list(metrics)
    print("| |", " | ".join(names), "|")
    print("|---|", "---|" * len(names), sep="")
    for group, numbers in metrics[names[0]].items():
        for key in numbers:
            cells = [f"{metrics[name][group][key]:.3f}" for name in names if group in metrics[name]]
            print(f"| {group} {key} |", " | ".join(cells), "|")


def tables(
    spreads: Mapping[str, Mapping[str, Mapping[str, kinds.Spread]]], of_opacity: bool
) -> Iterator[tuple[str, Mapping[str, Mapping[str, kinds.Spread]]]]:
    """Yield the tables by kind of picture: what is in each, and its columns, as for kinds.lines.

    spreads: by contender and number. of_opacity: iou and edge of the opacity alone, and fringe.
    """
    if not of_opacity:
        yield "IoU", {name: found["iou"] for name, found in spreads.items()}
        return
    yield "opacity", {name: spreads["opacity"][name] for name in ("iou", "edge")}
    if "fringe" in spreads["opacity"]:
        yield "fringe", {name: found["fringe"] for name, found in spreads.items()}


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="measure a mask network beside its teacher")
    parser.add_argument("task", choices=(*KINDS, FINDER, *BEST.values()))
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="folder written by labels.py")
    parser.add_argument("teachers", type=Path, help="folder of the published networks")
    parser.add_argument("out", type=Path, help="folder that takes metrics.json")
    parser.add_argument("--model", type=Path, help="default: the one that ships")
    parser.add_argument("--part", choices=("dev", "validation"), default="dev")
    parser.add_argument("--times", type=int, help="measure opacity as if pictures were so large")
    options = parser.parse_args(None if arguments is None else list(arguments))
    task: str = options.task
    times: int | None = options.times
    if times is not None and (task == FINDER or times < 1):
        parser.error(f"--times: expected 1 or more, and a task of a kit, got {times} for {task}")
    model = options.model or shipped_model(task)
    samples = list(read_samples(options.data, options.labels, pictures_of(task), options.part))
    if not any(sample.set not in EMPTY for sample in samples):
        parser.error(f"{options.data}: expected {options.part} pictures with masks, got none")
    if times is None:
        made = contenders(task, model, options.teachers)
    else:
        made = large.maskers(task, model, times)
    metrics: dict[str, dict[str, dict[str, float]]] = {}
    spreads: dict[str, dict[str, dict[str, kinds.Spread]]] = {}
    has_crowds = pictures_of(task) == "portrait" and times is None and options.part == "dev"
    crowds = list(read_crowds(options.data)) if has_crowds else []
    for name, masker in made.items():
        metrics[name], spreads[name] = measure(samples, masker)
        if task == FINDER:
            metrics[name] |= sightings(samples, Network(model).small)
        elif times is None:
            still = [sample.picture for sample in samples if sample.set not in EMPTY][::8]
            frames = masker.following if isinstance(masker, FirstFrame) else masker
            changes = [flicker(frames, picture, seed) for seed, picture in enumerate(still)]
            metrics[name]["clips"] = {"flicker": round(float(np.mean(changes)), 4)}
        if crowds:
            metrics[name]["crowds"] = covered(crowds, masker)
    show(metrics)
    for what, tallies in tables(spreads, times is not None):
        print("", *kinds.lines(tallies, what), sep="\n")
    chosen = PORTRAITS_CHOSEN_ON if task in ("portrait", BEST["portrait"]) else CHOSEN_ON
    print(f"chosen on: {chosen if times is None else CHOSEN_LARGE_ON}")
    told = {
        name: {**metrics[name], "pictures": kinds.rounded(spreads[name]["iou"])} for name in metrics
    }
    options.out.mkdir(parents=True, exist_ok=True)
    file = "metrics.json" if times is None else "large.json"
    (options.out / file).write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
