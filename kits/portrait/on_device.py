"""Frames of videos on the device of a network, where that is faster than to cut them up here."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from palmkit.engine import Model
from palmkit.engine.errors import DeviceLostError, PalmError
from palmkit.engine.frames import Frames
from palmkit.kits.image import Image
from palmkit.kits.kit import Runnable, input_side, pixels
from palmkit.kits.portrait import refine
from palmkit.kits.portrait.views import shrink, shrinkings

_log = logging.getLogger("palmkit.kits")

# The best of so many turns counts. What takes less than this part of the time here is better: one
# may be wrong about the other work of a machine, and the device's numbers are rounded to bytes.
TURNS = 5
BETTER = 0.9
# Longer frames, in sides of what the network sees, stay here: devices halve no more often.
LONGEST = 40
# By device, height, width and the network's side: seconds here, with what the network's input takes
# to get there, and seconds there.
_times: dict[tuple[str, int, int, int], tuple[float, float]] = {}


class OnDevice:
    """What keeps the frames of one kit on its network's device, if that has a memory of its own."""

    def __init__(self) -> None:
        """Begin without a network."""
        self._model: Model | None = None
        self._frames: Frames | None = None
        self._side = 0

    def adopt(self, model: Runnable) -> None:
        """Take the network that is current from here on."""
        self._model = model if isinstance(model, Model) else None
        self._frames = None if self._model is None else self._model.frames("image")
        self._side = input_side(model)

    def frames(self, image: Image, looked_at: int) -> Frames | None:
        """Return what keeps frames like this one there if that is faster than the work here.

        looked_at: how many pixels of the frame are, and get a mask.
        """
        model, frames = self._model, self._frames
        if model is None or frames is None or frames.is_software:
            return None
        height, width = image.shape[:2]
        if max(height, width) > LONGEST * self._side:
            return None
        here_s, there_s = _timed(model, frames, height, width, self._side)
        # There a frame is sent as a whole.
        share = looked_at / (height * width)
        return frames if there_s < BETTER * share * here_s else None


def _timed(model: Model, frames: Frames, height: int, width: int, side: int) -> tuple[float, float]:
    """Return the seconds of the work on a whole frame here and there, without the network's."""
    key = (frames.name, height, width, side)
    if key not in _times:
        try:
            _times[key] = _time(model, frames, height, width, side)
        except DeviceLostError:
            return 0.0, np.inf
        except PalmError as error:
            _log.info("frames of %dx%d stay here: %s", width, height, error)
            _times[key] = 0.0, np.inf
        else:
            told = (width, height, *(1e3 * each for each in _times[key]), frames.name)
            _log.info("frames of %dx%d: %.3g ms here, %.3g ms on %s", *told)
    return _times[key]


def _time(model: Model, frames: Frames, height: int, width: int, side: int) -> tuple[float, float]:
    image = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    mask = np.empty((height, width), np.float32)
    # A disc with an edge of a few places.
    line = np.linspace(-1, 1, side)
    disc = np.clip((0.6 - np.hypot(line[:, None], line)) * side / 8 + 0.5, 0, 1)
    coarse = np.asarray(disc, np.float32)
    box, steps, whole = (0, 0, width, height), shrinkings(width, height, side), slice(0, side)
    frames.send(image)
    given: Any = {"image": frames.see(box, steps, whole, whole)}

    def here() -> None:
        small = shrink(image, side)
        model.run({"image": pixels(model, small)})
        refine.refine(image, coarse, small, mask)

    def there() -> None:
        frames.send(image)
        model.run({"image": frames.see(box, steps, whole, whole)})
        refine.refine_on_device(frames, box, coarse, frames.seen(), mask)

    here_s, there_s, network_s = map(_least, (here, there, lambda: model.run(given)))
    return here_s - network_s, there_s - network_s


def _least(work: Callable[[], object]) -> float:
    work()
    found: list[float] = []
    for _ in range(TURNS):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)
