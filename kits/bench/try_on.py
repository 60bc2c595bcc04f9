"""How long try-on takes a frame, by stage, and how still it holds on a still face.

    python -m palmkit.kits.bench.try_on PICTURE [--threads 1] [--frames 60]

The picture is scaled to 1280x720 and becomes a clip: for the times it sways by some pixels; for
the jitter it stands still and each frame has its own noise, as of a camera.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from palmkit.kits.face.mesh_kit import FaceMesh
from palmkit.kits.image import Image, read_image, resize
from palmkit.kits.tryon.colour import Floats
from palmkit.kits.tryon.kit import TryOn
from palmkit.kits.tryon.look import Look

WIDTH, HEIGHT = 1280, 720
NOISE = 3.0
LOOKS: dict[str, Any] = {
    "lipstick": {"lipstick": "classic_red"},
    "lipstick gloss": {"lipstick": "cherry"},
    "blush": {"blush": "rose"},
    "eye shadow": {"eye_shadow": "plum"},
    "eyeliner": {"eyeliner": "winged"},
    "iris": {"iris": "blue"},
    "foundation": {"foundation": "sand"},
    "hair": {"hair": "violet"},
    "glasses": {"glasses": "gold_aviator"},
}


def main(arguments: list[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m palmkit.kits.bench.try_on", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("picture")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--frames", type=int, default=60)
    options = parser.parse_args(arguments)
    picture = framed(read_image(options.picture))
    print(f"one face, {WIDTH}x{HEIGHT}, {options.threads} thread(s), ms a frame: median, least")
    clip = swaying(picture, options.frames)
    for name, median, least in times(clip, options.threads):
        print(f"  {name:18} {median:6.2f} {least:6.2f}")
    print("jitter on a still face, pixels RMS")
    for name, off in jitter(noisy(picture, options.frames)):
        print(f"  {name:18} {off:6.3f}")
    return 0


def framed(picture: Image) -> Image:
    """The picture in the middle of 1280x720, as large as goes."""
    scale = min(WIDTH / picture.shape[1], HEIGHT / picture.shape[0])
    height, width = round(picture.shape[0] * scale), round(picture.shape[1] * scale)
    frame = np.full((HEIGHT, WIDTH, 3), 128, np.uint8)
    top, left = (HEIGHT - height) // 2, (WIDTH - width) // 2
    frame[top : top + height, left : left + width] = resize(picture, height, width)
    return frame


def swaying(picture: Image, frames: int) -> list[Image]:
    """The picture moved by up to 12 pixels to and fro."""
    shifts = np.rint(12 * np.sin(np.arange(frames) / 5)).astype(int)
    return [np.roll(picture, int(shift), axis=1) for shift in shifts]


def noisy(picture: Image, frames: int) -> list[Image]:
    """The picture with noise of a standard deviation of 3 levels, another in each frame."""
    random = np.random.default_rng(3)
    noise = (random.normal(0, NOISE, picture.shape) for _ in range(frames))
    return [np.clip(np.rint(picture + each), 0, 255).astype(np.uint8) for each in noise]


def times(clip: list[Image], threads: int) -> list[tuple[str, float, float]]:
    """Milliseconds a frame: the mesh, then each effect with it, then the looks."""
    with FaceMesh("video", threads=threads) as mesh:
        found = [("mesh alone", *_each(clip, mesh.detect))]
    looks = {name: Look.of(**wanted) for name, wanted in LOOKS.items()}
    looks |= {name: Look.load(name) for name in ("natural", "evening", "party", "beach")}
    for name, look in looks.items():
        with TryOn("video", look=look, threads=threads) as kit:
            found.append((name, *_each(clip, kit.wear)))
    return found


def _each(clip: list[Image], look: Callable[[Image, float], object]) -> tuple[float, float]:
    passed: list[float] = []
    for row, frame in enumerate(clip):
        start = perf_counter()
        look(frame, row * 1e3 / 30)
        passed.append((perf_counter() - start) * 1e3)
    # The first frames make plans and caches.
    settled = np.array(passed[5:])
    return float(np.median(settled)), float(settled.min())


def jitter(clip: list[Image]) -> list[tuple[str, float]]:
    """How far each effect's middle moves about, in pixels: the RMS of x and y together."""
    found: list[tuple[str, float]] = []
    for name, wanted in LOOKS.items():
        with TryOn("video", look=Look.of(**wanted)) as kit:
            middles = [_middle(kit, frame, row * 1e3 / 30) for row, frame in enumerate(clip)]
        places = np.array(middles[5:], np.float64)
        found.append((name, float(np.sqrt(np.var(places, axis=0).sum()))))
    return found


def _middle(kit: TryOn, frame: Image, timestamp_ms: float) -> Floats:
    """The middle of what changed, weighted by how much."""
    picture = kit.wear(frame, timestamp_ms).picture
    change = np.abs(picture.astype(np.float32) - frame).sum(axis=2)
    total = max(float(change.sum()), 1.0)
    rows, columns = (np.arange(side, dtype=np.float64) for side in change.shape)
    across = change.sum(axis=0, dtype=np.float64) @ columns / total
    down = change.sum(axis=1, dtype=np.float64) @ rows / total
    return np.array([across, down], np.float32)


if __name__ == "__main__":
    sys.exit(main())
