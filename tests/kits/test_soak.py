"""Kits that run for long: what is in memory stays the same, results keep their form.

A short form by default; `make soak` sets SOAK_FRAMES=10000.
"""

import gc
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest
import skimage.data

from palmkit import kits
from palmkit.engine.bench.measurement import memory_in_use
from palmkit.kits.image import Image
from palmkit.kits.table import KITS, of_pictures
from tests.demos.driving import NEEDS_MODELS
from tests.kits.drawn_hands import scene

FRAMES = int(os.environ.get("SOAK_FRAMES", "120"))
# Try-on does other work with a face, a hand, both or neither, and for hair without a face the
# detector looks closer at more or fewer places at once: they see a whole turn of the clip, and hair
# two, as what is looked at again depends on the frames before.
TURN = 252
WARM_UP, WARM_UP_OF = 60, {"tryon": TURN, "hair": 2 * TURN}
# What the allocator may keep at hand; a leak of one frame in a hundred would be 10 MB in 1000.
MOST_GROWTH_BYTES = 3_000_000

# Every effect at once.
LOOK = kits.Look.load("evening").adding(iris="green", hair="violet", glasses="gold_aviator")

# Options of kits that have more to do by them.
OPTIONS: dict[str, dict[str, Any]] = {
    "face": {"size": 320},
    "portrait": {"background": "blur"},
    "tryon": {"look": LOOK},
}
# Whether a result holds anything, of kits whose results do not say it by being true.
HOLDS: dict[str, Callable[[Any], bool]] = {
    "portrait": lambda mask: bool(mask.picture is not None and mask.coverage > 0.02),
    "hair": lambda mask: mask.coverage > 0.01,
    "tryon": lambda worn: bool(worn.faces) and not np.array_equal(worn.picture, worn.image),
}


def clip(frames: int) -> Iterator[Image]:
    """A face and a hand that wander through the picture, leave it and come back."""
    astronaut: Image = skimage.data.astronaut()  # type: ignore[no-untyped-call]
    canvas = scene([(640, 300, "open_palm", "right")], 360, 1200)
    canvas[:, 760:] = canvas[:, :440] = 0
    canvas[:, 440:580] = 0
    canvas[:, 300:580] = astronaut[:360, 100:380]
    for number in range(frames):
        left = round(360 + 350 * np.sin(number / 40))
        yield np.ascontiguousarray(canvas[:, left : left + 480])


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@NEEDS_MODELS
@pytest.mark.parametrize("name", of_pictures())
def test_memory_stays_the_same(name: str) -> None:
    # In a process of its own: what other tests leave to be collected is none of it.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        before, after, seen = process.submit(watch, name).result()
    assert seen == {True, False}
    assert before and after - before < MOST_GROWTH_BYTES


def used() -> int:
    """Bytes in memory."""
    gc.collect()
    return memory_in_use() or 0


def watch(
    name: str,
    frames: int = FRAMES,
    backend: str = "cpu",
    measure: Callable[[], Any] = used,
    further: int = 0,
) -> tuple[Any, Any, set[bool]]:
    """What is measured after warming up and at the end, and whether results held anything.

    further: frames to warm up by, beside those of the kit.
    """
    seen: set[bool] = set()
    entry, holds = KITS[name], HOLDS.get(name, bool)
    with entry.load_kit()("video", backend=backend, **OPTIONS.get(name, {})) as kit:
        look = getattr(kit, entry.method)
        before, warm = None, WARM_UP_OF.get(name, WARM_UP) + further
        for number, frame in enumerate(clip(warm + frames)):
            if number == warm:
                before = measure()
            result = look(frame, number * 33.0)
            assert (result.height, result.width) == frame.shape[:2]
            seen.add(holds(result))
        after = measure()
    return before, after, seen
