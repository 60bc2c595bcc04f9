"""Files that are read as a whole."""

import errno
import os
import stat
from pathlib import Path


def check_readable(path: str | os.PathLike[str]) -> None:
    """Refuse what may be waited for, or read for ever: named pipes and devices.

    What the process was started with, such as /dev/stdin, is read even if it is a pipe.
    Raises OSError, also if there is nothing at the path.
    """
    mode = os.stat(path).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return
    if stat.S_ISFIFO(mode) and not os.path.exists(os.path.realpath(path)):
        return
    raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """What is in a file. Raises OSError as check_readable does, or if it cannot be read."""
    check_readable(path)
    return Path(path).read_bytes()


def read_text(path: str | os.PathLike[str]) -> str:
    """What is in a file of UTF-8. Raises OSError as read_bytes does, UnicodeDecodeError."""
    return read_bytes(path).decode("utf-8")
