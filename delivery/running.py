"""Which processes are alive: each holds the lock of a file until it ends, in whatever way."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from palmkit.delivery import durable
from palmkit.delivery.lock import FileLock, Held

TOKEN = re.compile(r"[0-9a-f]{16}", re.ASCII)
# Wait for a lock that nobody else can have.
LOCK_S = 5.0


class Processes:
    """The processes that use a folder; each is named by a token."""

    def __init__(self, folder: Path) -> None:
        """Use a folder.

        folder: the folder of the lock files, made on first use.
        """
        self._folder = folder
        self._lock: FileLock | None = None
        self._token = ""
        self._process = 0
        self._told = 0

    def token(self) -> str:
        """Return this process's own token; a forked child gets another.

        Raises OSError if the file cannot be made.
        """
        if self._lock is None or self._process != os.getpid():
            durable.make_folder(self._folder, self._folder)
            token = secrets.token_hex(8)
            lock = FileLock(self._path(token))
            try:
                lock.acquire(LOCK_S)
            except Held:
                raise OSError(f"{self._path(token)}: another process has its lock") from None
            self._lock, self._token, self._process = lock, token, os.getpid()
        return self._token

    def is_dead(self, token: str) -> bool:
        """Return whether the process of a token has ended."""
        if token == self._token and self._process == os.getpid():
            return False
        if not TOKEN.fullmatch(token) or not self._path(token).exists():
            return True
        lock = FileLock(self._path(token))
        try:
            lock.acquire(0)
        except (Held, OSError):
            return False
        lock.release()
        # As far as possible: Windows removes no file that another process looks at, too.
        durable.remove(self._path(token))
        return True

    def leave(self) -> None:
        """Note that this process ends in good order."""
        if self._lock is not None and self._process == os.getpid():
            self._lock.release()
            durable.remove(self._path(self._token))
            self._lock, self._token = None, ""

    def at_end_of_worker(self, close: Callable[[], None]) -> None:
        """Have it called at the end of a worker of multiprocessing, which skips atexit."""
        process = sys.modules.get("multiprocessing.process")
        if process is None or process.parent_process() is None or self._told == os.getpid():
            return
        from multiprocessing.util import Finalize

        Finalize(None, close, exitpriority=10)
        self._told = os.getpid()

    def _path(self, token: str) -> Path:
        return self._folder / f"{token}.lock"
