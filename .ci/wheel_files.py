"""Reading and writing wheels: the same content becomes the same bytes."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

SOURCES = "palmkit/engine/native"


def read(wheel: Path) -> dict[str, bytes]:
    """Return what is in a wheel, by the names in it."""
    with zipfile.ZipFile(wheel) as source:
        return {each.filename: source.read(each) for each in source.infolist() if not each.is_dir()}


def info_folder(wheel: Path) -> str:
    """Return the folder of metadata in a wheel of this file name, with a slash behind it."""
    distribution, version = wheel.name.split("-")[:2]
    return f"{distribution}-{version}.dist-info/"


def write(wheel: Path, content: Mapping[str, bytes]) -> None:
    """Write a wheel whole or not at all, the runtime's sources packed, with a RECORD of its own."""
    info = info_folder(wheel)
    files = {path: data for path, data in content.items() if path != info + "RECORD"}
    _pack_sources(files)
    files[info + "RECORD"] = _record(files, info + "RECORD")
    part = wheel.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
        for path in sorted(files, key=lambda path: (path.startswith(info), path)):
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            # As on Unix, whatever machine writes it.
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            target.writestr(entry, files[path], zipfile.ZIP_DEFLATED, 9)
    part.replace(wheel)


def _pack_sources(files: dict[str, bytes]) -> None:
    """Put an archive in the place of the runtime's sources, if there are any.

    They are many, small and alike: together they take 200 KB where one by one they take 410.
    `palmkit.engine.backends.cpu.c_library.sources` unpacks them.
    """
    sources = sorted(path for path in files if path.startswith(SOURCES + "/"))
    if not sources:
        return
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:xz", preset=9) as packed:
        for path in sources:
            data = files.pop(path)
            entry = tarfile.TarInfo(path.removeprefix("palmkit/engine/"))
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))
    files[SOURCES + ".tar.xz"] = archive.getvalue()


def _record(files: Mapping[str, bytes], own: str) -> bytes:
    """Return what RECORD says of the files, itself without a hash."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for path in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[path]).digest())
        writer.writerow([path, f"sha256={digest.rstrip(b'=').decode()}", len(files[path])])
    writer.writerow([own, "", ""])
    return text.getvalue().encode()
