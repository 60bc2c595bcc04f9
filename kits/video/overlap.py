"""Work that overlaps with that of the caller, in a thread of its own.

`Ahead` makes items before they are asked for, such as decoded frames; `Behind` does what is given
to it after the caller has gone on, such as encoding. Both hold only a few items, so that memory
stays bounded.

A forked child has none of these threads, nor those of the libraries that work in them: there, both
raise ImageError, and what they hold is never released, which would wait for those threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from palmkit.engine.errors import ImageError
from palmkit.engine.forks import finished, renewed_in_children
from palmkit.kits import opencv

Item = TypeVar("Item")

_left: list[_Line] = []


class _Line:
    """What a thread shares with who started it: no more than `depth` items are between the two."""

    def __init__(self, work: Callable[[_Line], None], depth: int) -> None:
        # Queues that a thread may put to when memory is collected within get or put of the same.
        self.items: SimpleQueue[Any] = SimpleQueue()
        self.places: SimpleQueue[None] = SimpleQueue()
        for _ in range(depth):
            self.places.put(None)
        self.is_dropped = False
        self.error: BaseException | None = None
        self.held: object = None
        self._work = work
        self._process: int | None = None
        self.thread = threading.Thread(target=self._run, name="palmkit video", daemon=True)
        renewed_in_children(self, _Line._enter)

    def _enter(self) -> None:
        """Note the process that has the thread; in a forked child, release nothing."""
        if self._process is None:
            self._process = os.getpid()
        else:
            _left.append(self)

    @property
    def is_ours(self) -> bool:
        """Whether this process has the thread."""
        return self._process == os.getpid()

    def check(self) -> None:
        """Raise ImageError in a forked child."""
        if not self.is_ours:
            raise ImageError("a video that was opened before a fork: open it anew in the child")

    def _run(self) -> None:
        try:
            self._work(self)
        except BaseException as error:  # It reaches the user, in another thread.
            self.error = error
        opencv.leave()

    def drop(self) -> None:
        """Have the thread end, without waiting for it."""
        self.is_dropped = True
        self.places.put(None)
        self.items.put(None)

    def join(self) -> None:
        """Wait for the end of the thread."""
        if self.is_ours:
            self.thread.join()


class Ahead(Generic[Item]):
    """An iterator whose items are made in a thread of its own, a few ahead."""

    def __init__(self, items: Iterator[Item], depth: int) -> None:
        """Start the thread.

        depth: the most items that wait to be taken.
        """

        def work(line: _Line) -> None:
            advance = finished(items.__next__)
            try:
                while not line.is_dropped:
                    line.places.get()
                    if line.is_dropped:
                        break
                    line.items.put((advance(),))
            except StopIteration:
                pass
            except BaseException as error:
                line.error = error
            finally:
                line.items.put(None)

        self._is_over = False
        self._line = _Line(work, depth)
        self._line.thread.start()

    def __iter__(self) -> Iterator[Item]:
        """Return itself."""
        return self

    def __next__(self) -> Item:
        """Return the next item, once it is made; raise what making it raised."""
        self._line.check()
        if self._is_over:
            raise StopIteration
        found: tuple[Item] | None = self._line.items.get()
        if found is None:
            self._is_over = True
            error, self._line.error = self._line.error, None
            if error is not None:
                raise error
            raise StopIteration
        self._line.places.put(None)
        return found[0]

    @property
    def is_ours(self) -> bool:
        """Whether this process has the thread: else, what its items came from cannot be closed."""
        return self._line.is_ours

    # Not `close`: a generator that yields from this would call it when it is dropped.
    def stop(self) -> None:
        """End the thread once it has made the item that it is at."""
        self._is_over = True
        self._line.drop()
        self._line.join()

    def __del__(self) -> None:
        """End the thread without waiting for it."""
        self._line.drop()


class Behind(Generic[Item]):
    """Hands items to a function in a thread of its own, in order."""

    def __init__(self, work: Callable[[Item], None], depth: int, held: object = None) -> None:
        """Start the thread.

        depth: the most items that are not done; `put` waits for a place among them.
        held: not released before this is, and never in a forked child.
        """
        do = finished(work)

        def run(line: _Line) -> None:
            while (found := line.items.get()) is not None and not line.is_dropped:
                try:
                    do(found[0])
                except BaseException as error:
                    line.error = error
                    line.drop()
                line.places.put(None)

        self._is_over = False
        self._line = _Line(run, depth)
        self._line.held = held
        self._line.thread.start()

    def put(self, item: Item) -> None:
        """Submit an item; raise what an earlier one raised, and ImageError after the end."""
        self._line.check()
        self._raise_error()
        if self._is_over:
            raise ImageError("the video is finished already")
        self._line.places.get()
        self._raise_error()
        self._line.items.put((item,))

    def finish(self) -> None:
        """Wait until all items are done, and end the thread; raise what one of them raised."""
        self._line.check()
        self._is_over = True
        self._line.items.put(None)
        self._line.join()
        self._raise_error()

    def _raise_error(self) -> None:
        if self._line.error is not None:
            raise self._line.error

    @property
    def is_ours(self) -> bool:
        """Whether this process has the thread: else, what the function uses cannot be closed."""
        return self._line.is_ours

    def stop(self) -> None:
        """End the thread once the item that it is at is done; what waits is left undone."""
        self._is_over = True
        self._line.drop()
        self._line.join()

    def __del__(self) -> None:
        """End the thread without waiting for it."""
        self._line.drop()
