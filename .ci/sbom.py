#!/usr/bin/env python3
"""Put into wheels what they contain: `.ci/sbom.py [--zig FOLDER] WHEEL_OR_FOLDER ...`.

The document is CycloneDX 1.6 and lies where PEP 770 has it, in .dist-info/sboms/. It names the
native library, what is linked into it, and the models, each with its SHA-256 and licence. It has
a time only if SOURCE_DATE_EPOCH is set, so the same wheel always gets the same document.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any, NamedTuple

import wheel_files

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "sboms/palmkit.cdx.json"
MODELS = "palmkit/models/"
LIBRARIES = ("libpalm.so", "libpalm.dylib", "palm.dll")


class Linked(NamedTuple):
    """Somebody else's code in the native library.

    notice: the text that must go with it; LLVM's exception asks for none.
    """

    name: str
    version: str
    licence: str
    site: str
    notice: bytes = b""


def linked_by_zig(zig: Path, platform: str) -> list[Linked]:
    """Return what zig's compiler, installed in a folder, links into a library for a platform."""
    head = (zig / "lib/libcxx/include/__config").read_text()
    number = int(_found(r"_LIBCPP_VERSION +(\d+)", head))
    version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    with_exception = "Apache-2.0 WITH LLVM-exception"
    site = "https://github.com/llvm/llvm-project"
    linked = [Linked(name, version, with_exception, site) for name in ("libc++", "libc++abi")]
    if not platform.startswith("macosx"):
        linked.append(Linked("libunwind", version, with_exception, site))
    found = _found(r"\nVersion: (\S+)", _metadata(zig))
    notice = (zig / "LICENSE").read_bytes()
    linked.append(Linked("zig-compiler-rt", found, "MIT", "https://ziglang.org", notice))
    if platform.startswith("win"):
        head = (zig / "lib/libc/include/any-windows-any/_mingw_mac.h").read_text()
        parts = [_found(rf"__MINGW64_VERSION_{part} +(\d+)", head) for part in ("MAJOR", "MINOR")]
        notice = (zig / "lib/libc/mingw/COPYING").read_bytes()
        site = "https://www.mingw-w64.org"
        linked.append(Linked("mingw-w64", ".".join(parts), "ZPL-2.1", site, notice))
    return linked


def _metadata(zig: Path) -> str:
    found = [*zig.parent.glob("ziglang-*.dist-info/METADATA")]
    return found[0].read_text() if found else ""


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise SystemExit(f"zig's folder: expected {pattern!r} in its files, found none")
    return found[1]


def document(content: Mapping[str, bytes], info: str, linked: Sequence[Linked]) -> bytes:
    """Return the document of a wheel.

    content: what is in the wheel. info: its folder of metadata. linked: others' code in the
    library.
    """
    said = BytesHeaderParser().parsebytes(content[info + "METADATA"])
    name, version, licence = said["Name"], said["Version"], said["License-Expression"]
    own = f"pkg:pypi/{name}@{version}"
    components: list[dict[str, Any]] = []
    inner: list[str] = []
    for path in sorted(content):
        if path.rpartition("/")[2] in LIBRARIES:
            components.append(_file("library", path, content[path], version, licence))
            inner = [f"{each.name}@{each.version}" for each in linked]
    for each in linked if components else ():
        components.append(
            {
                "type": "library",
                "bom-ref": f"{each.name}@{each.version}",
                "name": each.name,
                "version": each.version,
                "licenses": _licences(each.licence),
                "externalReferences": [{"type": "vcs" if "git" in each.site else "website"}],
            }
        )
        components[-1]["externalReferences"][0]["url"] = each.site
    depends = [{"ref": components[0]["bom-ref"], "dependsOn": inner}] if inner else []
    outer = [each["bom-ref"] for each in components[:1]]
    for model in tomllib.loads(content[MODELS + "index.toml"].decode()).values():
        path = MODELS + model["file"]
        made = _file(
            "machine-learning-model", path, content[path], model["version"], model["licence"]
        )
        components.append(made)
        outer.append(made["bom-ref"])
    written: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": name,
                "version": version,
                "purl": own,
                "licenses": _licences(licence),
            },
        },
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": outer}, *depends],
        "compositions": [{"aggregate": "complete", "assemblies": [own]}],
    }
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        time = datetime.fromtimestamp(int(epoch), timezone.utc)
        written["metadata"]["timestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ")
    # No random one: it says the same of the same wheel.
    text = json.dumps(written, sort_keys=True)
    written["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, text).urn
    return (json.dumps(written, indent=1) + "\n").encode()


def _licences(licence: str) -> list[dict[str, Any]]:
    if " " in licence:
        return [{"expression": licence}]
    return [{"license": {"id": licence}}]


def _file(kind: str, path: str, data: bytes, version: str, licence: str) -> dict[str, Any]:
    return {
        "type": kind,
        "bom-ref": path,
        "name": path.rpartition("/")[2],
        "version": version,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}],
        "licenses": _licences(licence),
    }


def add(content: dict[str, bytes], info: str, linked: Sequence[Linked]) -> None:
    """Put the document, and others' notices, into a wheel's content, in place of earlier ones."""
    content[info + FILE] = document(content, info, linked)
    for each in linked:
        if each.notice:
            content[f"{info}licenses/{each.name}.txt"] = each.notice
            line = f"License-File: {each.name}.txt\n".encode()
            said = content[info + "METADATA"].replace(line, b"")
            first, own, rest = said.partition(b"License-File: LICENSE\n")
            content[info + "METADATA"] = first + own + line + rest


def main(arguments: Sequence[str] | None = None) -> None:
    """Put the document into each wheel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL_OR_FOLDER")
    parser.add_argument("--zig", type=Path, help="the folder of the compiler, if that was zig")
    options = parser.parse_args(arguments)
    for given in options.wheels:
        wheels = sorted(given.glob("*.whl")) if given.is_dir() else [given]
        if not wheels:
            parser.error(f"no wheel in {given}")
        for wheel in wheels:
            content = wheel_files.read(wheel)
            platform = wheel.stem.rpartition("-")[2]
            linked = linked_by_zig(options.zig, platform) if options.zig else []
            add(content, wheel_files.info_folder(wheel), linked)
            wheel_files.write(wheel, content)


if __name__ == "__main__":
    main()
