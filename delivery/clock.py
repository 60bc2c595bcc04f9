"""The time by which signed metadata expires, proof against a clock that was set back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path

from palmkit.delivery import durable

# This version of PalmKit did not exist before this date, the first mark of a new device. Each
# release of PalmKit moves it on.
BUILT = datetime(2026, 11, 21, tzinfo=timezone.utc)
# A clock this little behind is wrong, not turned back.
TOLERANCE = timedelta(days=1)


def _wall() -> datetime:
    return datetime.now(timezone.utc)


class Clock:
    """The device's clock, held above a high-water mark: the latest time that was ever proved.

    Only the build date and times under a verified signature move the mark. An unsigned time (the
    Date of an HTTP answer) does not: one such time from far ahead would make all metadata look
    expired for good. Nor does the device's own clock, which may run ahead by mistake.
    """

    def __init__(
        self,
        file: Path | None = None,
        not_before: datetime | None = None,
        wall: Callable[[], datetime] = _wall,
    ) -> None:
        """Read the mark.

        file: where the mark is kept, None: nowhere. not_before: an aware time; wall: returns aware
        times.
        """
        self._file, self._wall = file, wall
        self._not_before = not_before or datetime(2000, 1, 1, tzinfo=timezone.utc)
        self.mark: datetime = self._not_before
        self._authority: str = ""
        if file is not None:
            # A mark that cannot be read counts as lost: the next signed time makes it anew.
            with contextlib.suppress(OSError, ValueError):
                kept, authority, *digest = durable.read(file).decode("ascii").split(" ")
                time = datetime.fromisoformat(kept).astimezone(timezone.utc)
                # One corrupt digit of a year would make everything expired for good.
                if not digest or digest == [_digest(f"{kept} {authority}")]:
                    self.mark, self._authority = max(self.mark, time), authority

    def now(self) -> datetime:
        """Return the clock's time, or the mark if the clock is over a day behind it (UTC)."""
        wall = self._wall()
        return self.mark if wall < self.mark - TOLERANCE else wall

    @property
    def is_behind(self) -> bool:
        """Return whether the clock is certainly wrong."""
        return self._wall() < self.mark - TOLERANCE

    def trust(self, authority: str) -> None:
        """Set whose signatures count; times that others proved are forgotten.

        So a stolen key that signed a time from far ahead does no harm once it was replaced.
        """
        if authority != self._authority:
            self.mark, self._authority = self._not_before, authority

    def learn(self, time: datetime) -> None:
        """Record an aware time that, by a verified signature, has passed.

        Raises OSError where the mark cannot be kept.
        """
        if time > self.mark:
            self.mark = time.astimezone(timezone.utc)
            if self._file is not None:
                text = f"{self.mark.isoformat()} {self._authority}"
                durable.write(self._file, f"{text} {_digest(text)}".encode("ascii"))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
