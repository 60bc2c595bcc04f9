"""Which processes are alive: each holds the lock of a file until it ends, however it ends."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import BaseFileLock


class Processes:
    """The processes that use a folder; each is named by a token."""

    def __init__(self, folder: Path) -> None:
        """folder: of the files; made on first use."""
        self._folder = folder
        self._lock: BaseFileLock | None = None
        self._token = ""
        self._process = 0
        self._told = 0

    def token(self) -> str:
        """This process's own; a forked child gets another.

        Raises OSError if the file cannot be made.
        """
        if self._lock is None or self._process != os.getpid():
            self._folder.mkdir(parents=True, exist_ok=True)
            token = secrets.token_hex(8)
            lock = self._of(token)
            lock.acquire()
            self._lock, self._token, self._process = lock, token, os.getpid()
        return self._token

    def is_dead(self, token: str) -> bool:
        """Whether the process of a token has ended."""
        from filelock import Timeout

        if token == self._token and self._process == os.getpid():
            return False
        if not self._path(token).exists():
            return True
        lock = self._of(token)
        try:
            lock.acquire(timeout=0)
        except (Timeout, OSError):
            return False
        lock.release()
        self._path(token).unlink(missing_ok=True)
        return True

    def leave(self) -> None:
        """This process ends in good order."""
        if self._lock is not None and self._process == os.getpid():
            self._lock.release()
            self._path(self._token).unlink(missing_ok=True)
            self._lock, self._token = None, ""

    def at_end_of_worker(self, close: Callable[[], None]) -> None:
        """Have it called at the end of a worker of multiprocessing, which leaves out atexit."""
        process = sys.modules.get("multiprocessing.process")
        if process is None or process.parent_process() is None or self._told == os.getpid():
            return
        from multiprocessing.util import Finalize

        Finalize(None, close, exitpriority=10)
        self._told = os.getpid()

    def _path(self, token: str) -> Path:
        return self._folder / f"{token}.lock"

    def _of(self, token: str) -> BaseFileLock:
        from filelock import FileLock

        return FileLock(self._path(token), thread_local=False)
