"""The background work of a client: one thread that waits, works, tells watchers, and ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeAlias
from weakref import ReferenceType, ref

from palmkit.delivery.effects import log
from palmkit.engine.forks import renewed_in_children

Key: TypeAlias = tuple[str, str]


class Watcher(Protocol):
    """Follows what a client has, such as a kit that follows a model."""

    def poll(self) -> None:
        """Look for changes; called in the client's thread."""
        ...


@dataclass
class _Watched:
    """A watcher that is still there, and the time at which it looks next."""

    watcher: ReferenceType[Watcher]
    every_s: float
    due: float


class Background:
    """Does work for keys, such as a model and its channel, when it is due; any thread may ask.

    Watchers look every so often, and whenever something may have changed. The thread is there
    while a key or a watcher is.
    """

    def __init__(self, work: Callable[[list[Key]], None], ending: threading.Event) -> None:
        """Start without a thread.

        work: called in the thread with the keys that are due. ending: once it is set, and `stop` is
        called, nothing new begins.
        """
        self._work, self._ending = work, ending
        self._watched: dict[int, _Watched] = {}
        renewed_in_children(self, Background._renew)

    def _renew(self) -> None:
        """Start a forked child without a thread, until a key or a watcher comes there."""
        self._changed = threading.Condition()
        # The time at which each key is due, by time.monotonic.
        self._due: dict[Key, float] = {}
        self._thread: threading.Thread | None = None

    def ask(self, keys: Iterable[Key], in_s: float = 0.0) -> None:
        """Have the work done for keys in so many seconds, or earlier if asked for before."""
        due = time.monotonic() + in_s
        with self._changed:
            for key in keys:
                self._due[key] = min(due, self._due.get(key, due))
            self._go_on()

    def watch(self, watcher: Watcher, every_s: float) -> None:
        """Have it look every so many seconds, until `unwatch` or until nobody else holds it."""
        with self._changed:
            due = time.monotonic() + every_s
            self._watched[id(watcher)] = _Watched(ref(watcher, self._is_gone), every_s, due)
            self._go_on()

    def unwatch(self, watcher: Watcher) -> None:
        """Have it look no more."""
        with self._changed:
            known = self._watched.get(id(watcher))
            if known is not None and known.watcher() is watcher:
                del self._watched[id(watcher)]
                self._changed.notify()

    def _is_gone(self, _: object) -> None:
        """Wake the thread, which may end now; no lock may be waited for here."""
        if self._changed.acquire(blocking=False):
            self._changed.notify()
            self._changed.release()

    def forget(self) -> None:
        """Do nothing more for keys and watchers that came before."""
        with self._changed:
            self._due.clear()
            self._watched.clear()
            self._changed.notify()

    def tell(self) -> None:
        """Have all watchers look now: something may have changed.

        What a watcher changes as it looks is seen by all when they look next: one that fails each
        time does not look without end.
        """
        with self._changed:
            if threading.current_thread() is not self._thread:
                self._all_are_due()
                self._go_on()

    def look(self) -> None:
        """Let the watchers look that are due; for the work, which may take long, in the thread."""
        with self._changed:
            watchers = self._looking()
        self._tell(watchers)

    def stop(self, until_s: float) -> None:
        """Wait for the thread to end, but not beyond until_s (time.monotonic)."""
        thread = self._thread
        with self._changed:
            self._changed.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, until_s - time.monotonic()))

    def _all_are_due(self) -> None:
        for each in self._watched.values():
            each.due = 0.0

    def _go_on(self) -> None:
        """Wake the thread, or start it."""
        self._changed.notify()
        if not self._due and not self._watched:
            return
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._loop, name="palmkit delivery", daemon=True)
            # At the end of the process no thread can be started, and none is needed.
            with suppress(RuntimeError):
                thread.start()
                self._thread = thread

    def _loop(self) -> None:
        while True:
            keys, watchers = self._next()
            if not keys and not watchers:
                return
            self._tell(watchers)
            if keys:
                self._work(keys)
                with self._changed:
                    self._all_are_due()

    def _next(self) -> tuple[list[Key], list[Watcher]]:
        """Wait for what is due and return it; nothing means that the thread is to end."""
        with self._changed:
            while not self._ending.is_set():
                now = time.monotonic()
                keys = sorted(key for key, due in self._due.items() if due <= now)
                watchers = self._looking()
                if keys or watchers:
                    for key in keys:
                        del self._due[key]
                    return keys, watchers
                times = [*self._due.values(), *(each.due for each in self._watched.values())]
                if not times:
                    break
                self._changed.wait(min(times) - now)
            self._thread = None
            return [], []

    def _looking(self) -> list[Watcher]:
        """Return the watchers that are due, and forget those that are gone."""
        now = time.monotonic()
        found: list[Watcher] = []
        for place, each in list(self._watched.items()):
            watcher = each.watcher()
            if watcher is None:
                del self._watched[place]
            elif each.due <= now:
                each.due = now + each.every_s
                found.append(watcher)
        return found

    def _tell(self, watchers: list[Watcher]) -> None:
        # Held no longer than it looks: whoever drops it may wait for its end.
        while watchers and not self._ending.is_set():
            try:
                watchers.pop().poll()
            except Exception as error:
                log.warning("%s", error)
        watchers.clear()
