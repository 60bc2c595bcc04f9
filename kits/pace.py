"""Budgets: what is left out of a video so that a frame takes no longer than it may."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

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


class Allowance(Protocol):
    """Says of each frame whether there is time to look at it."""

    def begin(self) -> bool:
        """Begin a frame, and return whether there is time to look at it."""
        ...

    def end(self, took_ms: float, *, looked: bool) -> None:
        """End the frame, which took so long."""
        ...


class _Times:
    """What some of the last times were, in milliseconds."""

    def __init__(self) -> None:
        """Start without any."""
        self._last_ms: deque[float] = deque(maxlen=LOOKS)

    def add(self, took_ms: float) -> None:
        """Take another one."""
        self._last_ms.append(took_ms)

    @property
    def expected_ms(self) -> float:
        """What the next one will be: their median, 0 without any."""
        # The standard library's module imports much else.
        return sorted(self._last_ms)[len(self._last_ms) // 2] if self._last_ms else 0.0


class Budget:
    """A budget of milliseconds a frame: what is saved by some frames others may spend."""

    def __init__(self, budget_ms: float) -> None:
        """Start before the first frame, with nothing saved."""
        self._budget_ms = budget_ms
        self._saved_ms = 0.0
        self._looks = _Times()

    def begin(self) -> bool:
        """Begin a frame, and return whether there is time to look at it."""
        expected_ms = self._looks.expected_ms
        # No more is saved than what one look needs, and the frame itself brings.
        most_ms = expected_ms + self._budget_ms
        self._saved_ms = min(self._saved_ms + self._budget_ms, most_ms)
        return self._saved_ms >= expected_ms * ENOUGH

    def end(self, took_ms: float, *, looked: bool) -> None:
        """End the frame, which took so long."""
        self._saved_ms -= took_ms
        if looked:
            self._looks.add(took_ms)


class Shares:
    """A budget of milliseconds a frame that looks of several kinds share.

    Whatever else a frame needs comes first, but takes no more than half of the budget from them:
    where that alone takes longer than the budget, frames do, too. What is left goes to the kind of
    look that has waited longest, by its weight: one of weight 3 is made three times as often.
    """

    def __init__(self, budget_ms: float, weights: Mapping[str, float]) -> None:
        """Start before the first frame. weights: of each kind of look."""
        self._budget_ms, self._weights = budget_ms, dict(weights)
        self.reset()

    def reset(self) -> None:
        """Forget the frames so far."""
        self._saved_ms = self._looked_ms = 0.0
        self._frame = 0
        self._rest = _Times()
        self._looks = {kind: _Times() for kind in self._weights}
        # The frames in which each kind was asked for, and made, last.
        self._asked = dict.fromkeys(self._weights, -1)
        self._made = dict.fromkeys(self._weights, -1)

    def share(self, kind: str) -> Share:
        """Return what says when a kind of look has its turn."""
        return Share(self, kind)

    def begin(self) -> None:
        """Begin a frame."""
        self._frame += 1
        self._looked_ms = 0.0
        dearest_ms = max(each.expected_ms for each in self._looks.values())
        most_ms = dearest_ms + self._rest_ms(self._rest.expected_ms) + self._budget_ms
        self._saved_ms = min(self._saved_ms + self._budget_ms, most_ms)

    def end(self, took_ms: float) -> None:
        """End the frame, which took so long with all that was looked at."""
        rest_ms = max(took_ms - self._looked_ms, 0.0)
        self._rest.add(rest_ms)
        self._saved_ms -= self._looked_ms + self._rest_ms(rest_ms)

    def has_time(self, kind: str) -> bool:
        """Return whether the frame has time for a look of a kind."""
        self._asked[kind] = self._frame
        if self._made[kind] < 0:
            return True
        needed_ms = self._looks[kind].expected_ms * ENOUGH
        needed_ms += self._rest_ms(self._rest.expected_ms)
        for other, looks in self._looks.items():
            is_asked_for = self._asked[other] >= self._frame - 1
            if is_asked_for and self._urgency(other) > self._urgency(kind):
                needed_ms += looks.expected_ms
        return self._saved_ms - self._looked_ms >= needed_ms

    def spent(self, kind: str, took_ms: float) -> None:
        """Take note of a look, which took so long."""
        self._looks[kind].add(took_ms)
        self._looked_ms += took_ms
        self._made[kind] = self._frame

    def _urgency(self, kind: str) -> float:
        return (self._frame - self._made[kind]) * self._weights[kind]

    def _rest_ms(self, took_ms: float) -> float:
        return min(took_ms, self._budget_ms / 2)


class Share:
    """The share of a kind of look in the budget of a frame."""

    def __init__(self, shares: Shares, kind: str) -> None:
        """Belong to a budget, as one of its kinds."""
        self._shares, self._kind = shares, kind

    def begin(self) -> bool:
        """Return whether there is time for a look at the frame."""
        return self._shares.has_time(self._kind)

    def end(self, took_ms: float, *, looked: bool) -> None:
        """Take note of how long the look took; what was done without one is the frame's."""
        if looked:
            self._shares.spent(self._kind, took_ms)


class Pace(Generic[Result]):
    """Says which frames of a video are looked at, and where the others show what was last found.

    There things move as the camera does, by what is seen of the frames outside of them.
    """

    def __init__(self, budget: Allowance) -> None:
        """Start before the first frame; the budget says which ones there is time to look at."""
        self._budget = budget
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
