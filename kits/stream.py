"""A worker thread that always takes the newest frame."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from palmkit.engine.forks import done_at_the_end, finished, renewed_in_children
from palmkit.kits import opencv

Frame = TypeVar("Frame")


class Stream(Generic[Frame]):
    """Hands frames to a function in a thread of its own.

    At most one frame waits while another is worked on; a newer one takes its place. So memory
    and delay stay bounded however fast frames come.

    A stream that is dropped without close finishes the frames taken and ends its thread. A forked
    child has a thread of its own for what it puts; the frames taken before are the parent's. When
    Python ends, the frame that is worked on is finished, unless that takes more than 2 s.
    """

    def __init__(
        self, work: Callable[[Frame], None], on_error: Callable[[Exception], None] | None
    ) -> None:
        """Start the thread.

        work: called with each frame, never twice at a time.
        on_error: called in the thread with what `work` raised; left out, the next put or close
        raises it. What is no Exception, such as SystemExit, and what on_error raises, is raised
        there in any case, and ends no thread. What neither put nor close raised before the stream
        is dropped goes to threading.excepthook.
        """
        self._box: _Box[Frame] | None = None
        self._error: BaseException | None = None
        self._work = work
        self._on_error = on_error
        self._closed = False
        self._dropped = 0
        renewed_in_children(self, Stream[Any]._renew)
        self._open_box()
        done_at_the_end(self, Stream[Any].tell)

    def _renew(self) -> None:
        """Start without a thread, also in a forked child."""
        self._lock = threading.Lock()
        if self._box is not None:
            self._box.leave()
        self._box = None

    def _open_box(self) -> _Box[Frame]:
        if self._box is None:
            box = _Box[Frame]()
            box.thread.start()
            self._box = box
        return self._box

    @property
    def dropped(self) -> int:
        """How many frames were replaced by a newer one."""
        return self._dropped

    def put(self, frame: Frame) -> None:
        """Submit a frame and return at once; after close it is ignored."""
        self._raise_error()
        with self._lock:
            if not self._closed:
                self._dropped += self._open_box().put(self, frame)

    def close(self) -> None:
        """Finish the frames taken, then end the thread; it may be called twice."""
        with self._lock:
            self._closed = True
            box = self._box
        if box is not None:
            box.close()
            # The callback runs in the thread, and may be what closes it.
            if threading.current_thread() is not box.thread:
                box.thread.join()
        self._raise_error()

    def _raise_error(self) -> None:
        with self._lock:
            error, self._error = self._error, None
        if error is not None:
            raise error

    @finished
    def do(self, frame: Frame) -> None:
        """Work on a frame; called by the thread."""
        try:
            self._work(frame)
        except BaseException as error:  # It reaches the user, in another thread.
            self._report(error)

    def _report(self, error: BaseException) -> None:
        if self._on_error is not None and isinstance(error, Exception):
            try:
                return self._on_error(error)
            except BaseException as worse:
                error = worse
        with self._lock:
            # The first of them; but none hides what is to end the program.
            if self._error is None or not isinstance(error, Exception):
                self._error = error

    def tell(self) -> None:
        """Pass an error that neither put nor close raised to threading.excepthook."""
        error, self._error = self._error, None
        if error is not None:
            thread = None if self._box is None else self._box.thread
            told = (type(error), error, error.__traceback__, thread)
            threading.excepthook(threading.ExceptHookArgs(told))

    def __del__(self) -> None:
        """End the thread without waiting for a lock."""
        if self._box is not None:
            self._box.close()
        self.tell()


class _Box(Generic[Frame]):
    """Shared state of a stream and its thread; holds the stream only while a frame waits."""

    def __init__(self) -> None:
        # The one queue that a thread may put to when its memory is collected within get or put.
        self._told: SimpleQueue[None] = SimpleQueue()
        self._waiting: list[tuple[Stream[Frame], Frame]] = []
        self._closed = False
        self.thread = threading.Thread(target=self._loop, name="palmkit stream", daemon=True)

    def put(self, stream: Stream[Frame], frame: Frame) -> int:
        """Submit a frame; return how many were replaced. One caller at a time."""
        try:
            self._waiting.pop()
            dropped = 1
        except IndexError:
            dropped = 0
        self._waiting.append((stream, frame))
        self._told.put(None)
        return dropped

    def close(self) -> None:
        """Accept no more frames."""
        self._closed = True
        self._told.put(None)

    def leave(self) -> None:
        """Drop the parent's frames in a forked child; the thread itself may have forked."""
        self._waiting.clear()
        self.close()

    def _loop(self) -> None:
        while True:
            self._told.get()
            try:
                stream, frame = self._waiting.pop()
            except IndexError:
                # A newer one took its place, and is done.
                if self._closed:
                    return opencv.leave()
                continue
            stream.do(frame)
            del stream, frame
