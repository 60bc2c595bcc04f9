"""File locks: held by one thread of one process at a time, and free once it has ended."""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

from palmkit.delivery import durable
from palmkit.engine.forks import renewed_in_children

POLL_S = 0.05


class Held(Exception):
    """Raised when another thread or process has the lock."""


class FileLock:
    """One holder of a lock; each thread has its own."""

    def __init__(self, path: Path) -> None:
        """Name the lock.

        path: the file, made on first use.
        """
        self._path = path
        self._descriptor: int | None = None
        renewed_in_children(self, FileLock.after_fork)

    def acquire(self, wait_s: float) -> None:
        """Take the lock; wait up to wait_s for another holder. Raises Held, OSError."""
        ends = time.monotonic() + wait_s
        while not self._try():
            left_s = ends - time.monotonic()
            if left_s <= 0:
                raise Held
            time.sleep(min(POLL_S, left_s))

    def _try(self) -> bool:
        descriptor = durable.open_or_create(self._path)
        try:
            is_held = _lock(descriptor)
            # The former holder may have removed the file meanwhile.
            if is_held and os.name != "nt":
                mine, named = os.fstat(descriptor), self._path.lstat()
                is_held = (mine.st_dev, mine.st_ino) == (named.st_dev, named.st_ino)
        except FileNotFoundError:
            is_held = False
        except BaseException:
            os.close(descriptor)
            raise
        if is_held:
            self._descriptor = descriptor
        else:
            os.close(descriptor)
        return is_held

    def release(self) -> None:
        """Release the lock if it is held."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            try:
                _unlock(descriptor)
            finally:
                os.close(descriptor)

    def after_fork(self) -> None:
        """Drop the parent's lock in a forked child, where it must not live on."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            # Not unlocked: that would unlock it for all processes that share the open file.
            os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EDEADLK):
                return False
            raise
        return True

    def _unlock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK):
                return False
            raise
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
