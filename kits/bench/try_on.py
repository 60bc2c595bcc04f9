"""How long try-on takes a frame, by stage, and how still it holds on a still face.

    python -m palmkit.kits.bench.try_on PICTURE [--threads 1] [--frames 60]

The picture is scaled to 1280x720 and becomes a clip: for the times it sways by some pixels; for
the jitter it stands still and each frame has its own noise, as of a camera. Flicker is how far the
mean colour of what is changed most moves about, in CIELAB; noise, how much more a pixel there
varies than before.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from palmkit.kits.face.mesh_kit import FaceMesh
from palmkit.kits.image import Image, read_image, resize
from palmkit.kits.tryon.colour import Floats, to_lab
from palmkit.kits.tryon.kit import TryOn
from palmkit.kits.tryon.look import Look

WIDTH, HEIGHT = 1280, 720
NOISE = 3.0
# The first frames make plans and caches.
SETTLED = 5
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
    parts = stages(clip, options.threads, Look.load("party"))
    print(f"  of party: {', '.join(f'{name} {ms:.1f}' for name, ms in parts.items())} (medians)")
    print("on a still face: jitter in pixels RMS, flicker, noise")
    for name, found in unrest(noisy(picture, options.frames)):
        print(f"  {name:18} {found.jitter:6.3f} {found.flicker:6.3f} {found.noise:6.2f}")
    return 0


def framed(picture: Image) -> Image:
    """Return the picture in the middle of 1280x720, as large as fits."""
    scale = min(WIDTH / picture.shape[1], HEIGHT / picture.shape[0])
    height, width = round(picture.shape[0] * scale), round(picture.shape[1] * scale)
    frame = np.full((HEIGHT, WIDTH, 3), 128, np.uint8)
    top, left = (HEIGHT - height) // 2, (WIDTH - width) // 2
    frame[top : top + height, left : left + width] = resize(picture, height, width)
    return frame


def swaying(picture: Image, frames: int) -> list[Image]:
    """Return the picture moved by up to 12 pixels to and fro."""
    shifts = np.rint(12 * np.sin(np.arange(frames) / 5)).astype(int)
    return [np.roll(picture, int(shift), axis=1) for shift in shifts]


def noisy(picture: Image, frames: int) -> list[Image]:
    """Return the picture with noise of a standard deviation of 3 levels, new in each frame."""
    random = np.random.default_rng(3)
    noise = (random.normal(0, NOISE, picture.shape) for _ in range(frames))
    return [np.clip(np.rint(picture + each), 0, 255).astype(np.uint8) for each in noise]


def times(clip: list[Image], threads: int) -> list[tuple[str, float, float]]:
    """Return milliseconds a frame: the mesh, then each effect with it, then the looks."""
    with FaceMesh("video", threads=threads) as mesh:
        found = [("mesh alone", *_each(clip, mesh.detect))]
    looks = {name: Look.of(**wanted) for name, wanted in LOOKS.items()}
    looks |= {name: Look.load(name) for name in ("natural", "evening", "party", "beach")}
    for name, look in looks.items():
        with TryOn("video", look=look, threads=threads) as kit:
            found.append((name, *_each(clip, kit.wear)))
    return found


def stages(clip: list[Image], threads: int, look: Look) -> dict[str, float]:
    """Return the median milliseconds a frame, by stage."""
    with TryOn("video", look=look, threads=threads) as kit:
        found = [kit.wear(frame, row * 1e3 / 30).stages_ms for row, frame in enumerate(clip)]
    settled = found[SETTLED:]
    return {
        name: float(np.median([each.get(name, 0.0) for each in settled])) for name in settled[-1]
    }


def _each(clip: list[Image], run: Callable[[Image, float], object]) -> tuple[float, float]:
    passed: list[float] = []
    for row, frame in enumerate(clip):
        start = perf_counter()
        run(frame, row * 1e3 / 30)
        passed.append((perf_counter() - start) * 1e3)
    settled = np.array(passed[SETTLED:])
    return float(np.median(settled)), float(settled.min())


class Unrest(NamedTuple):
    """How restless an effect is, as the module says."""

    jitter: float
    flicker: float
    noise: float


def unrest(clip: list[Image]) -> list[tuple[str, Unrest]]:
    """Return the unrest of each effect, and then of the looks."""
    looks = {name: Look.of(**wanted) for name, wanted in LOOKS.items()}
    looks |= {name: Look.load(name) for name in ("evening", "party")}
    return [(name, unrest_of(look, clip)) for name, look in looks.items()]


def unrest_of(look: Look, clip: list[Image], settled: int = SETTLED) -> Unrest:
    """Return how restless a look is on a clip; the first frames do not count."""
    with TryOn("video", look=look) as kit:
        worn = [kit.wear(frame, row * 1e3 / 30).after for row, frame in enumerate(clip)]
    before, after = clip[settled:], worn[settled:]
    middles = [_middle(old, new) for old, new in zip(before, after, strict=True)]
    change = np.abs(after[0].astype(np.int16) - before[0]).max(axis=2)
    where = change > change.max() / 2
    old, new = (np.stack([frame[where] for frame in frames]) for frames in (before, after))
    means = [to_lab(frame[None])[0].mean(axis=0) for frame in new]
    spread = [float(np.std(values, axis=0).mean()) for values in (old, new)]
    return Unrest(
        float(np.sqrt(np.var(np.array(middles, np.float64), axis=0).sum())),
        float(np.sqrt(np.var(np.array(means, np.float64), axis=0).sum())),
        spread[1] / max(spread[0], 1e-6),
    )


def _middle(before: Image, after: Image) -> Floats:
    """Return the middle of what changed, weighted by how much."""
    change = np.abs(after.astype(np.float32) - before).sum(axis=2)
    total = max(float(change.sum()), 1.0)
    rows, columns = (np.arange(side, dtype=np.float64) for side in change.shape)
    across = change.sum(axis=0, dtype=np.float64) @ columns / total
    down = change.sum(axis=1, dtype=np.float64) @ rows / total
    return np.array([across, down], np.float32)


if __name__ == "__main__":
    sys.exit(main())
