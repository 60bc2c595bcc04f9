"""The models that came with PalmKit, which kits run when there is nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

_TABLE = re.compile(r"\[(\w+)\]")
_ENTRY = re.compile(r'(\w+)\s*=\s*(?:"([^"]*)"|(\d+))')


@dataclass(frozen=True)
class Embedded:
    """A model that lies in the wheel; releases below its version do not replace it."""

    model: str
    version: str
    path: Path
    sha256: str | None = None


@cache
def shipped() -> Mapping[str, Embedded]:
    """Return every model of the wheel, by name, as models/index.toml lists them."""
    folder = files("palmkit.models")
    # Python 3.10 has no tomllib, and the index uses tables of texts and whole numbers only.
    tables: dict[str, dict[str, str]] = {}
    table: dict[str, str] = {}
    for line in (folder / "index.toml").read_text(encoding="utf-8").splitlines():
        if found := _TABLE.fullmatch(line.strip()):
            table = tables[found[1]] = {}
        elif found := _ENTRY.fullmatch(line.strip()):
            table[found[1]] = found[2] if found[2] is not None else found[3]
    return {
        name: Embedded(name, entry["version"], Path(str(folder / entry["file"])), entry["sha256"])
        for name, entry in tables.items()
    }


def is_older(release: str, embedded: Embedded | None) -> bool:
    """Return whether a release is below the model that came with PalmKit, which is then better."""
    from packaging.version import Version

    return embedded is not None and Version(release) < Version(embedded.version)
