"""Budgets: what is left out of a video so that a frame takes no longer than it may."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Generic, TypeVar

from palmkit.kits.camera_motion import CameraMotion, Similarity

if TYPE_CHECKING:
    from palmkit.kits.image import Image, Part
    from palmkit.kits.results.result import PictureResult

Result = TypeVar("Result", bound="PictureResult")

# What a look at the next frame will take is told from so many before, and it is taken as soon as
# this part of that time is saved: times vary by more.
LOOKS, ENOUGH = 5, 0.9


# What is left out of the picture that this thread looks at.
_left_out: ContextVar[list[str] | None] = ContextVar("left_out", default=None)


@contextmanager
def noting() -> Generator[list[str]]:
    """Within a with block, collect what is said to be left out."""
    said: list[str] = []
    token = _left_out.set(said)
    try:
        yield said
    finally:
        _left_out.reset(token)


def leave_out(what: str) -> None:
    """Say that something is left out of the picture that this thread looks at."""
    said = _left_out.get()
    if said is not None and what not in said:
        said.append(what)


class Budget:
    """A budget of milliseconds a frame: what is saved by some frames others may spend."""

    def __init__(self, budget_ms: float) -> None:
        """Start before the first frame, with nothing saved."""
        self._budget_ms = budget_ms
        self._saved_ms = 0.0
        self._looks_ms: deque[float] = deque(maxlen=LOOKS)

    def begin(self) -> bool:
        """Begin a frame, and return whether there is time to look at it."""
        # The median; the standard library's module imports much else.
        expected_ms = sorted(self._looks_ms)[len(self._looks_ms) // 2] if self._looks_ms else 0.0
        # No more is saved than what one look needs, and the frame itself brings.
        most_ms = expected_ms + self._budget_ms
        self._saved_ms = min(self._saved_ms + self._budget_ms, most_ms)
        return self._saved_ms >= expected_ms * ENOUGH

    def end(self, took_ms: float, *, looked: bool) -> None:
        """End the frame, which took so long."""
        self._saved_ms -= took_ms
        if looked:
            self._looks_ms.append(took_ms)


class Pace(Generic[Result]):
    """Says which frames of a video are looked at, and where the others show what was last found.

    There things move as the camera does, by what is seen of the frames outside of them.
    """

    def __init__(self, budget_ms: float) -> None:
        """Start before the first frame."""
        self._budget = Budget(budget_ms)
        self._camera = CameraMotion()
        self._last: tuple[Result, Part | None, Similarity] | None = None
        self._start_s = math.nan

    def begin(self, picture: Image, roi: Part | None) -> Result | None:
        """Begin a frame; return its result if there is no time to look at it."""
        self._start_s = time.perf_counter()
        has_time = self._budget.begin()
        if self._last is None or has_time:
            return None
        result, known_roi, view = self._last
        if known_roi != roi or (result.height, result.width) != picture.shape[:2]:
            return None
        self._camera.update(picture, result.corners())
        moved = result.moved(self._camera.view.after(view.inverse), picture)
        self._end(looked=False)
        return moved

    def looked(self, picture: Image, roi: Part | None, result: Result) -> None:
        """End a frame that was looked at, with what was found."""
        self._camera.update(picture, result.corners())
        self._last = (result, roi, self._camera.view)
        self._end(looked=True)

    def _end(self, *, looked: bool) -> None:
        self._budget.end((time.perf_counter() - self._start_s) * 1e3, looked=looked)
