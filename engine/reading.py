"""Reading files as a whole."""

import errno
import os
import stat
from pathlib import Path


def check_readable(path: str | os.PathLike[str]) -> None:
    """Raise OSError for paths that could block or never end: named pipes and devices.

    A file that the process was started with, such as /dev/stdin, is read even if it is a pipe.
    Raises OSError also if there is nothing at the path.
    """
    mode = os.stat(path).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return
    if stat.S_ISFIFO(mode) and not os.path.exists(os.path.realpath(path)):
        return
    raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return a file's content.

    Raises OSError as check_readable does, or if the file cannot be read.
    """
    check_readable(path)
    return Path(path).read_bytes()


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the content of a UTF-8 file.

    Raises OSError as read_bytes does, and UnicodeDecodeError if the content is not UTF-8.
    """
    return read_bytes(path).decode("utf-8")
