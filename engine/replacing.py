"""Files are written whole or not at all."""

import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

# Names have 255 bytes at most, and what is added takes some.
_KEPT_CHARACTERS = 32


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[Path]:
    """Write a whole file or none: yields a path beside `path` that takes its place at the end.

    The path yielded has the suffix of `path`. On any error the file at `path` stays as it was. A
    link stays, and what it leads to is replaced. What is no file, such as /dev/null or a pipe,
    stays as well: what was written is copied to it at the end.
    Raises IsADirectoryError for a folder.
    """
    try:
        mode: int | None = os.stat(path).st_mode
    except OSError:
        # It is not there, or what is wrong with it shows when it is written.
        mode = None
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if mode is not None and not stat.S_ISREG(mode):
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder, f"part{Path(path).suffix}")
            yield part
            with part.open("rb") as written, _opened(path) as to:
                shutil.copyfileobj(written, to)
        return
    if not os.fspath(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "")
    target = Path(os.path.realpath(path))
    stem = target.stem[:_KEPT_CHARACTERS]
    part = target.with_name(f".{stem}.{secrets.token_hex(8)}.part{Path(path).suffix}")
    try:
        yield part
        if mode is not None:
            with suppress(OSError):
                part.chmod(stat.S_IMODE(mode))
        os.replace(part, target)
    except OSError as error:
        # Nobody knows the other name.
        if error.filename == os.fspath(part):
            error.filename, error.filename2 = os.fspath(path), None
        raise
    finally:
        # An error here would hide what went wrong.
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    """What is no file, to be written. A pipe that nobody reads is an error, not waited for."""
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    if hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)
    return open(descriptor, "wb")
