"""Releases that are not networks: data that a kit reads, such as a look for try-on.

A data file is JSON and is never executed. The kit that it is for parses and checks it where it is
published, and on each device before it may go live.
"""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from palmkit.engine.errors import ModelError

SUFFIX = ".json"
MOST_BYTES = 1 << 16
# The reader of each kind of file, by the field that states the kind. Kits are above this package,
# so they are named here and imported when such a file arrives.
_READERS = {"palmkit_look": ("palmkit.kits.tryon.look", "Look")}


def is_data_file(name: str | os.PathLike[str]) -> bool:
    """Return whether a release's main file of this name is a data file."""
    return os.fspath(name).endswith(SUFFIX)


def check(path: Path) -> None:
    """Have its kit read a data file.

    Raises PalmError if it is no data file, of no kit, or refused by its kit; OSError.
    """
    with open(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ModelError(f"{path}: expected at most {MOST_BYTES} bytes of JSON, got more")
    try:
        found: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: expected JSON: {error}") from None
    for field, (module, reader) in _READERS.items():
        if isinstance(found, dict) and field in found:
            getattr(import_module(module), reader).read(path)
            return
    raise ModelError(f"{path}: expected an object with one of {', '.join(_READERS)}")
