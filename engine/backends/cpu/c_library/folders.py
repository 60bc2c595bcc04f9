"""The folder of sources: its build, and how it is written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory

from palmkit.engine.backends.cpu.c_library.targets import Target
from palmkit.engine.backends.cpu.c_library.texts import MODULES, THREADS
from palmkit.engine.replacing import move


def write_folder(path: str | os.PathLike[str], files: Mapping[str, str]) -> Path:
    """Write files into a new folder, which appears whole; FileExistsError if it is there."""
    target = Path(path)
    if target.exists():
        raise FileExistsError(f"{target}: expected a folder that is not there yet")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside it, so that it appears at once and whole.
    with TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as beside:
        made = Path(beside, target.name)
        for each, text in files.items():
            (made / each).parent.mkdir(parents=True, exist_ok=True)
            (made / each).write_text(text, "utf-8", newline="\n")
        move(made, target)
    return target


def build_of(
    text: Template,
    name: str,
    files: Mapping[str, str],
    targets: Sequence[Target],
    threads: bool = False,
) -> str:
    """Return the CMakeLists.txt: each file for each of the instruction sets that it is for."""
    plain: list[str] = []
    by_set: dict[str, list[str]] = {}
    flags = {isa: flag for target in targets for isa, flag in target.flags.items()}
    for path in files:
        if path.endswith(".cc"):
            file = path.rpartition("/")[2]
            isas = dict.fromkeys(each for target in targets for each in target.sets_of(file) or ())
            for isa in isas:
                by_set.setdefault(isa, []).append(path)
            if not isas:
                plain.append(path)
    sets = "".join(
        f'palm_set({isa} "{flags[isa]}"{_listed(sorted(paths))})\n' for isa, paths in by_set.items()
    )
    linked = THREADS.substitute(name=name) if threads else ""
    return text.substitute(name=name, sources=_listed(sorted(plain)), sets=sets, threads=linked)


def modules_of(files: Mapping[str, str], targets: Sequence[Target]) -> str:
    """Return the CMakeLists.txt of WebAssembly: a module for each set, alone and with threads."""
    modules = "".join(
        f'palm_module({target.simd} "{target.flags[target.simd]}")\n' for target in targets
    )
    sources = sorted(path for path in files if path.endswith(".cc"))
    # zig has its libraries before all objects: what stands in for a part of them is to come first.
    sources.sort(key=lambda path: not path.startswith("palm/wasm/"))
    return MODULES.substitute(sources=_listed(sources), modules=modules)


def _listed(paths: Sequence[str]) -> str:
    return "".join(f"\n  {path}" for path in paths)
