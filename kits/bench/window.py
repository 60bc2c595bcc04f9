"""How many frames a window drops beside a busy kit.

    python -m palmkit.kits.bench.window PICTURE [--kit mesh] [--threads 2] [--seconds 10]

The window's thread draws 60 times a second, which takes it some milliseconds, and hands each frame
to the kit, in mode "stream" in the same process. A frame is dropped if it is not drawn before
the next one is due. Each line is a way of running the kit, in turns, three of each; frames a second
are those with a result, and those that were looked at for it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import cv2
import numpy as np

from palmkit.kits.bench.try_on import framed, swaying
from palmkit.kits.face.kit import FaceDetector
from palmkit.kits.face.mesh_kit import FaceMesh
from palmkit.kits.hands.kit import GestureRecognizer
from palmkit.kits.image import Image, read_image
from palmkit.kits.kit import Kit
from palmkit.kits.portrait.kit import PortraitSegmenter
from palmkit.kits.results.result import PictureResult
from palmkit.kits.tryon.kit import TryOn
from palmkit.kits.tryon.look import Look

HERTZ = 60
TURNS = 3
KITS: dict[str, Callable[..., Kit[Any]]] = {
    "face": FaceDetector,
    "mesh": FaceMesh,
    "portrait": PortraitSegmenter,
    "portrait best": partial(PortraitSegmenter, quality="best"),
    "hands": GestureRecognizer,
    "try-on": partial(TryOn, look=Look.load("evening")),
}
BUDGET_MS = 8.0
WAYS: dict[str, dict[str, Any] | None] = {
    "no kit": None,
    "as it comes": {},
    "low priority": {"priority": "low"},
    f"budget of {BUDGET_MS:.0f} ms": {"budget_ms": BUDGET_MS},
    "both": {"priority": "low", "budget_ms": BUDGET_MS},
}


class Shown(NamedTuple):
    """What a window did in a while.

    drawn, dropped: its frames. results, looks: frames of the kit with a result, and those of them
    that it looked at.
    """

    drawn: int
    dropped: int
    results: int
    looks: int


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m palmkit.kits.bench.window", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("picture")
    parser.add_argument("--kit", choices=KITS, default="mesh")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args(arguments)
    clip = swaying(framed(read_image(options.picture)), HERTZ)
    found: dict[str, list[Shown]] = {way: [] for way in WAYS}
    for _ in range(TURNS):
        for way, how in WAYS.items():
            make = (
                None if how is None else partial(KITS[options.kit], threads=options.threads, **how)
            )
            found[way].append(watched(clip, make, options.seconds / TURNS))
    print(f"{options.kit}, {options.threads} thread(s), a window of {HERTZ} frames a second")
    for way, each in found.items():
        drawn, dropped, results, looks = map(sum, zip(*each, strict=True))
        rates = (
            f"{results / options.seconds:5.1f} results/s, {looks / options.seconds:5.1f} looks/s"
        )
        print(f"  {way:16} {100 * dropped / drawn:5.1f} % dropped, {rates}")
    return 0


def watched(clip: list[Image], make: Callable[..., Kit[Any]] | None, seconds: float) -> Shown:
    """Draw for so long beside a kit that takes "stream" and on_result, or beside none."""
    told: list[str] = []

    def tell(result: PictureResult, frame: Image, timestamp_ms: float | None) -> None:
        told.append(result.left_out)

    kit = None
    if make is not None:
        kit = make("stream", on_result=tell)
        # The first frame makes plans.
        kit.submit(clip[0])
        while not told:
            time.sleep(0.01)
        told.clear()
    dropped = 0
    count = round(seconds * HERTZ)
    start_s = time.perf_counter()
    for n in range(count):
        due_s = start_s + n / HERTZ
        time.sleep(max(due_s - time.perf_counter(), 0))
        frame = clip[n % len(clip)]
        draw(frame)
        if kit is not None:
            kit.submit(frame)
        late_s = time.perf_counter() - (start_s + (n + 1) / HERTZ)
        if late_s > 0:
            dropped += 1
            # What is late is shown at the next frame that is due; nothing is made up for.
            start_s += np.ceil(late_s * HERTZ) / HERTZ
    if kit is not None:
        kit.close()
    return Shown(count, dropped, len(told), sum(map(is_looked_at, told)))


def is_looked_at(left_out: str) -> bool:
    """Return whether a frame was looked at for what is followed in it, by what was left out."""
    return not {"frame", "faces"} & set(left_out.split(", "))


def draw(frame: Image) -> Image:
    """Do what a window does with a frame: some milliseconds on one core."""
    shown = cv2.resize(frame, (1600, 900), interpolation=cv2.INTER_LINEAR)
    shown = cv2.GaussianBlur(shown, (5, 5), 0)
    cv2.putText(shown, "PalmKit", (40, 80), cv2.FONT_HERSHEY_SIMPLEX, 2.0, (255, 255, 255), 3)
    return np.asarray(shown, np.uint8)


if __name__ == "__main__":
    sys.exit(main())
