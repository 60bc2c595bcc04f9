"""Windows' manners with files, on a machine that has others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from palmkit.delivery import durable
from palmkit.engine import replacing

HANDLES, MAPPED = Path("/proc/self/fd"), Path("/proc/self/maps")


def is_open(path: str | os.PathLike[str]) -> bool:
    """Whether this process has a file open, or mapped into its memory."""
    try:
        wanted = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    for handle in os.listdir(HANDLES):
        with suppress(OSError):
            found = os.stat(HANDLES / handle)
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                return True
    inodes = {line.split()[4] for line in MAPPED.read_text().splitlines()}
    return str(wanted.st_ino) in inodes


def _refuse(path: str | os.PathLike[str]) -> None:
    """Raise what Windows raises when a name is taken from a file that is open or read-only."""
    if is_open(path):
        raise PermissionError(13, "another process has the file open", str(path))
    with suppress(FileNotFoundError):
        found = os.stat(path, follow_symlinks=False)
        if not found.st_mode & 0o200:
            raise PermissionError(13, "access is denied", str(path))


def _without_right(source: Any, target: Any, is_folder: bool = False) -> None:
    raise OSError(22, "a required privilege is not held by the client", str(target))


@contextmanager
def windows() -> Generator[None]:
    """Let open files keep their names, folders open as no files, and nothing fork, meanwhile."""
    if not HANDLES.is_dir():
        pytest.skip("needs Linux's list of open files")
    taken: dict[str, Callable[..., Any]] = {
        name: getattr(os, name) for name in ("replace", "rename", "unlink", "remove")
    }

    def renamed(name: str) -> Callable[..., None]:
        def rename(source: Any, target: Any, **options: Any) -> None:
            _refuse(source)
            _refuse(target)
            if name == "rename" and os.path.lexists(target):
                raise FileExistsError(17, "the file exists", str(target))
            taken[name](source, target, **options)

        return rename

    def removed(name: str) -> Callable[..., None]:
        def remove(path: Any, **options: Any) -> None:
            if options.get("dir_fd") is None:
                _refuse(path)
            taken[name](path, **options)

        return remove

    opened = os.open

    def open_(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if os.path.isdir(path) and options.get("dir_fd") is None and not flags & os.O_DIRECTORY:
            raise PermissionError(13, "permission denied", str(path))
        return opened(path, flags, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        for name in taken:
            made = renamed(name) if name in ("replace", "rename") else removed(name)
            patch.setattr(os, name, made)
        patch.setattr(os, "open", open_)
        patch.setattr(shutil, "_use_fd_functions", False)
        for name in ("fork", "fchmod"):
            patch.delattr(os, name)
        patch.setattr(os, "symlink", _without_right)
        patch.setattr(durable, "_IS_WINDOWS", True)
        patch.setattr(durable, "_NO_LINK", 0)
        patch.setattr(durable, "_FLAGS", 0)
        patch.setattr(replacing, "_PATIENCE_S", 0.2)
        patch.setattr(replacing, "_SYNCS_FOLDERS", False)
        yield
