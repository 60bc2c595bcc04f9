"""A cache of what peers' converters make of a model, in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palmkit.engine.bench.engines.engine import Job


def cached(job: Job, maker: str, convert: Callable[[Path], None]) -> Path:
    """Return the folder with what `convert` made of the job's file, now or in an earlier run.

    maker: what else the result depends on, such as the converter's version.
    convert: fills the empty folder that it is given; if it raises, nothing is kept.
    """
    digest = hashlib.sha256(job.file.read_bytes()).hexdigest()
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", maker)
    folder = job.cache / f"{name}-{job.form}-{digest[:32]}"
    if folder.is_dir():
        return folder
    job.cache.mkdir(parents=True, exist_ok=True)
    temporary = job.cache / f".{secrets.token_hex(8)}.part"
    temporary.mkdir()
    try:
        convert(temporary)
        try:
            os.rename(temporary, folder)
        except OSError:
            # Another process was faster; its result is the same.
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder
