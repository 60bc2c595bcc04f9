"""The times of frames that are written."""

from __future__ import annotations

from numbers import Real

from palmkit.engine.errors import ImageError

# A time that jumps back by less is that of a frame that belongs behind the one before.
JUMP_S = 1.0
# Where all frames last as long, a gap is filled with the frame before it; with so many at most.
MOST_FILLED_S = 60.0
_MOST_MS = 1e15


class Clock:
    """Gives frames their times in a file, which never decrease."""

    def __init__(self, frames_per_s: float, is_absolute: bool) -> None:
        """Begin at 0.

        frames_per_s: of frames that come without a time, each a period after the one before.
        is_absolute: whether times are those of a sound, with its beginning; otherwise the first
        frame is at 0.
        """
        self._period_s = 1 / frames_per_s
        self._before_s = 0.0 if is_absolute else None
        self._last_s: float | None = None

    def place(self, timestamp_ms: float | None) -> float:
        """Return the time of the next frame, in seconds.

        timestamp_ms: its time for its maker. What jumps back by more than JUMP_S, such as a source
        that begins again, goes on a period after the frame before.
        Raises ImageError if it is no finite number.
        """
        last_s = self._last_s
        after_s = 0.0 if last_s is None else last_s + self._period_s
        if timestamp_ms is None:
            found_s = after_s
        else:
            given_s = _checked(timestamp_ms) / 1e3
            if self._before_s is None:
                self._before_s = given_s - after_s
            found_s = max(given_s - self._before_s, 0.0)
            if last_s is not None and found_s < last_s:
                if found_s < last_s - JUMP_S:
                    self._before_s = given_s - after_s
                    found_s = after_s
                else:
                    found_s = last_s
        self._last_s = found_s
        return found_s


def _checked(timestamp_ms: object) -> float:
    # What is not finite is no less than the most, either.
    if isinstance(timestamp_ms, Real) and abs(float(timestamp_ms)) <= _MOST_MS:
        return float(timestamp_ms)
    raise ImageError(f"timestamp_ms: expected a number of milliseconds, got {timestamp_ms!r}")


class Grid:
    """Gives frames their places where all last as long: none is left out, none shares its place."""

    def __init__(self, frames_per_s: float) -> None:
        """Begin before the first place."""
        self._frames_per_s = frames_per_s
        self._most = max(round(MOST_FILLED_S * frames_per_s), 1)
        self._late = 0
        self._last = -1

    def place(self, time_s: float) -> int:
        """Return the number of the frame's place, 0 or more; they increase.

        time_s: its time; gaps of more than MOST_FILLED_S are shortened to that.
        """
        wanted = round(time_s * self._frames_per_s) - self._late
        if wanted > self._last + self._most:
            self._late += wanted - self._last - self._most
            wanted = self._last + self._most
        self._last = max(wanted, self._last + 1)
        return self._last
