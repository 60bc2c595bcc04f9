"""Files are written whole or not at all."""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[Path]:
    """Write a whole file or none: yields a path beside `path` that takes its place at the end.

    The path yielded has the suffix of `path`. On any error the file at `path` stays as it was.
    """
    target = Path(path)
    part = target.with_name(f".{target.stem}.{secrets.token_hex(8)}.part{target.suffix}")
    try:
        yield part
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
