"""Measure masks of people in videos that pan over pictures.

`python -m palmkit.models.segmentation.pans DATA LABELS TEACHERS` lets a window go over the
development pictures of people, and over the development cut-outs set on backgrounds, at a half, a
third and a fifth of the height. It prints by set, for the kit, for the kit without its second pass
and for MediaPipe's network, the mean IoU of the second half of each clip, that of the worst tenth
of the clips, the share below .5, and the flicker: the places whose mask comes or goes from one
frame to the next where the truth has no such change, as a share of the people.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from palmkit.kits import PortraitSegmenter
from palmkit.models.kinds import PARTS, spread
from palmkit.models.segmentation.evaluate import FirstFrame, peer
from palmkit.models.segmentation.far import composed
from palmkit.models.segmentation.samples import Sample, read_samples
from palmkit.models.segmentation.scores import Masker, overlap

FRAMES, MEASURED = 24, 12
# How much of the width and height the window has; in how many parts of the way down it goes.
WINDOW, DOWN = 0.9, 0.3
NOISE = 3.0
# Every so many of the cut-outs on backgrounds, by their share of the height.
HEIGHTS, EACH = (0.5, 0.33, 0.2), 7
# A frame that shows fewer places of people does not count.
LEAST = 20


def clip(sample: Sample, window: float, random: np.random.Generator) -> Iterator[Sample]:
    """Yield the frames of a video that goes over a picture, to the right and down."""
    height, width = sample.truth.shape
    high, wide = int(height * window), int(width * window)
    for share in np.linspace(0, 1, FRAMES):
        left, top = round((width - wide) * share), round((height - high) * share * DOWN)
        place = slice(top, top + high), slice(left, left + wide)
        noisy = sample.picture[place] + random.normal(0, NOISE, (high, wide, 3))
        picture = np.clip(noisy, 0, 255).astype(np.uint8)
        yield sample._replace(
            picture=picture, truth=sample.truth[place], counted=sample.counted[place]
        )


def measured(
    first: Masker, following: Masker, frames: Iterable[Sample]
) -> tuple[float, float] | None:
    """Return the mean IoU and the flicker of a clip's second half, if it shows people.

    first, following: what gives masks of the first frame, and of the next one of the same clip.
    """
    shares: list[float] = []
    changes: list[float] = []
    before: tuple[Any, Any] | None = None
    for number, frame in enumerate(frames):
        mask = (following if number else first)(frame.picture) > 0.5
        true = frame.truth > 0.5
        if true.sum() < LEAST or number < FRAMES - MEASURED:
            continue
        shares.append(overlap(mask.astype(np.float32), frame))
        if before is not None:
            now, then = (np.subtract(*each, dtype=np.int8) for each in ((mask, true), before))
            changes.append(float((now != then)[frame.counted].sum() / true.sum()))
        before = mask, true
    return (float(np.mean(shares)), float(np.mean(changes))) if changes else None


def sets(data: Path, labels: Path, part: str) -> dict[str, list[Sample]]:
    """Return the pictures by set."""
    found: dict[str, list[Sample]] = {}
    for sample in read_samples(data, labels, "portrait", part):
        if (sample.truth > 0.5).sum() >= LEAST:
            found.setdefault(sample.set, []).append(sample)
    for height in HEIGHTS:
        found[f"cutouts, {height} of the height"] = list(composed(data, height))[::EACH]
    return found


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="masks of people in videos")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="folder of the labels' masks")
    parser.add_argument("teachers", type=Path, help="folder of the published networks")
    parser.add_argument("--part", choices=PARTS, default="dev")
    parser.add_argument("--quality", choices=("fast", "best"), default="fast")
    parser.add_argument(
        "--window", type=float, default=WINDOW, help="share of the width; less moves faster"
    )
    options = parser.parse_args(None if arguments is None else list(arguments))
    if not 0 < options.window < 1:
        parser.error(f"--window: expected a share above 0 and below 1, got {options.window}")
    seen = sets(options.data, options.labels, options.part)
    if not any(seen.values()):
        parser.error(f"{options.data}: expected {options.part} pictures of people, got none")
    theirs = peer("portrait", options.teachers)
    kits = [
        FirstFrame(PortraitSegmenter("video", quality=options.quality, second_pass=looks))
        for looks in (True, False)
    ]
    maskers: dict[str, tuple[Masker, Masker]] = {
        "kit": (kits[0], kits[0].following),
        "one look": (kits[1], kits[1].following),
        **{name: (masker, masker) for name, masker in theirs.items()},
    }
    print("| | set | clips | IoU | worst tenth | below .5 | flicker |")
    print("|---|---|---|---|---|---|---|")
    for name, samples in seen.items():
        for masker, both in maskers.items():
            random = np.random.default_rng(0)
            clips = (clip(each, options.window, random) for each in tqdm(samples, leave=False))
            found = [of_clip for frames in clips if (of_clip := measured(*both, frames))]
            if not found:
                continue
            shares, changes = zip(*found, strict=True)
            told = " | ".join(f"{each:.3f}" for each in (*spread(shares)[1:], np.mean(changes)))
            print(f"| {masker} | {name} | {len(found)} | {told} |", flush=True)


if __name__ == "__main__":
    main()
