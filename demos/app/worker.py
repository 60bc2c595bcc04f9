"""Threads that read frames and work on them; the newest result goes to the window."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from palmkit.demos.app.page import LivePage, Outcome
from palmkit.demos.app.source import Camera, Shot, Source, SourceError, frames
from palmkit.kits.stream import Stream

# A reader that hangs in a driver is abandoned after this time.
LEAVE_S = 2.0


@dataclass(frozen=True)
class Shown:
    """A page's result for a frame, and its cost.

    page: the page that made it. shot: the frame. spent_ms: from taking the frame to the outcome.
    """

    page: LivePage
    shot: Shot
    outcome: Outcome
    spent_ms: float


class Worker(QObject):
    """Two threads: one reads the source, one works; a newer frame replaces a waiting one.

    ready: emitted once when a result can be taken. failed: emitted with a message when a page could
    not work on a frame. broken: emitted with the source and a SourceError when it gives no more
    frames. opened: emitted with the source at its first frame.
    """

    ready = Signal()
    failed = Signal(str)
    broken = Signal(object, object)
    opened = Signal(object)

    def __init__(self) -> None:
        """Start the working thread, without a source."""
        super().__init__()
        self._lock = threading.Lock()
        self._page: LivePage | None = None
        self._reader: _Reader | None = None
        self._last: Shot | None = None
        self._shown: Shown | None = None
        self._is_told = False
        self._jobs: deque[Callable[[], None]] = deque()
        self._is_paused = False
        self._stream: Stream[Shot] = Stream(self._work, self._report)

    def open(self, source: Source) -> None:
        """Read another source from now on, without waiting for it."""
        before = self._reader
        if before is not None:
            before.over.set()
        with self._lock:
            self._last = None
            page = self._page
        if page is not None:
            self._jobs.append(page.forget)
        reader = self._reader = _Reader(self, source, before)
        reader.start()

    def close_source(self) -> None:
        """Stop reading; a reader that hangs in a driver is abandoned."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.over.set()
            reader.join(LEAVE_S)

    def show(self, page: LivePage | None) -> None:
        """Work for another page from now on, or for none."""
        with self._lock:
            before, self._page, self._shown = self._page, page, None
        if before is not None and before is not page:
            self._jobs.append(before.release)
        self.refresh()

    def pause(self, is_paused: bool) -> None:
        """Hold the frame; settings still act on it."""
        self._is_paused = is_paused

    @property
    def is_paused(self) -> bool:
        """Return whether the frame is held."""
        return self._is_paused

    @property
    def dropped(self) -> int:
        """Return how many frames were replaced by newer ones."""
        return self._stream.dropped

    def refresh(self) -> None:
        """Work on the last frame again, if no other follows by itself."""
        with self._lock:
            last = self._last
        if last is not None and (last.is_still or self._is_paused):
            self._stream.put(last)

    def take(self) -> Shown | None:
        """Return the newest result that was not taken yet."""
        with self._lock:
            shown, self._shown, self._is_told = self._shown, None, False
        return shown

    def stop(self) -> None:
        """End both threads; the current frame is finished."""
        self.close_source()
        self._stream.close()
        with self._lock:
            page, self._page = self._page, None
        if page is not None:
            self._jobs.append(page.release)
        self._do_jobs()

    def receive(self, reader: _Reader, shot: Shot, is_first: bool) -> None:
        """Take a frame of a reader, in its thread."""
        with self._lock:
            if reader is not self._reader or (self._is_paused and not is_first):
                return
            self._last = shot
        if is_first:
            self.opened.emit(reader.source)
        self._stream.put(shot)

    def lose(self, reader: _Reader, error: SourceError) -> None:
        """Handle the end of a reader's frames, in its thread."""
        if reader is self._reader:
            self.broken.emit(reader.source, error)

    def _work(self, shot: Shot) -> None:
        self._do_jobs()
        with self._lock:
            page = self._page
        if page is None:
            return
        start = time.perf_counter()
        try:
            outcome = page.look(shot)
        except Exception as error:  # An error of one page or file: it is reported.
            self.failed.emit(str(error) or type(error).__name__)
            outcome = Outcome(shot.image, shot.image, {})
        spent_ms = (time.perf_counter() - start) * 1e3
        with self._lock:
            if page is not self._page:
                return
            self._shown = Shown(page, shot, outcome, spent_ms)
            is_told, self._is_told = self._is_told, True
        if not is_told:
            self.ready.emit()

    def _do_jobs(self) -> None:
        while self._jobs:
            self._jobs.popleft()()

    def _report(self, error: Exception) -> None:
        self.failed.emit(str(error) or type(error).__name__)


def is_same_camera(one: Source, other: Source) -> bool:
    """Return whether both are one camera, mirrored or not."""
    if not isinstance(one, Camera) or not isinstance(other, Camera):
        return False
    return one.number == other.number


class _Reader(threading.Thread):
    def __init__(self, worker: Worker, source: Source, before: _Reader | None) -> None:
        super().__init__(name="palmkit demo source", daemon=True)
        self.source = source
        self.over = threading.Event()
        self._worker = worker
        self._before = before

    def run(self) -> None:
        before, self._before = self._before, None
        if before is not None and is_same_camera(before.source, self.source):
            # The camera can be opened once the other reader has released it.
            before.join(LEAVE_S)
        is_first = True
        try:
            for shot in frames(self.source, self.over.is_set):
                if self.over.is_set():
                    return
                self._worker.receive(self, shot, is_first)
                is_first = False
        except SourceError as error:
            self._worker.lose(self, error)
        except Exception as error:  # A driver or codec may raise any error: the window goes on.
            self._worker.lose(self, SourceError("unreadable", str(error) or type(error).__name__))
