"""Named shades and looks, from assets/tryon."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from palmkit import assets

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FILES = {
    "lipstick": "lipsticks",
    "blush": "blushes",
    "eye_shadow": "eye_shadows",
    "eyeliner": "eyeliners",
    "iris": "irises",
    "foundation": "foundations",
    "hair": "hair_dyes",
    "glasses": "glasses",
}
EFFECTS = tuple(_FILES)


@lru_cache(maxsize=16)
def shades(effect: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the options of an effect by the names of its shades.

    effect: "lipstick", "hair", ...
    """
    return _read(_FILES[effect])


@lru_cache(maxsize=1)
def presets() -> Mapping[str, Mapping[str, Any]]:
    """Return whole looks by name, as palmkit.kits.tryon.look.Look.to_dict returns them."""
    return _read("looks")


def _read(name: str) -> Mapping[str, Mapping[str, Any]]:
    return MappingProxyType(tomllib.loads(assets.read(f"tryon/{name}.toml").decode()))
