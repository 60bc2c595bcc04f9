"""Small files that travel in the wheel: labels, anchors, presets."""

from importlib.resources import files
from pathlib import Path


def path(name: str) -> Path:
    """Return the path of an asset on disk.

    name: its path under assets/, with forward slashes.
    Raises FileNotFoundError if there is no such asset.
    """
    folder = Path(str(files("palmkit.assets")))
    found = folder / name
    if folder not in found.parents or ".." in found.parts or not found.is_file():
        raise FileNotFoundError(f"no such asset: {name!r}")
    return found


def read(name: str) -> bytes:
    """Return the bytes of an asset.

    name: its path under assets/, with forward slashes.
    Raises FileNotFoundError if there is no such asset.
    """
    return path(name).read_bytes()
