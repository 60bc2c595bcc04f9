"""The runtime with the kernels of some model files, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from palmkit.engine.backends.cpu.c_library.choosing import chosen
from palmkit.engine.backends.cpu.c_library.folders import build_of, modules_of, write_folder
from palmkit.engine.backends.cpu.c_library.sources import Needs, of_runtime, unpacked
from palmkit.engine.backends.cpu.c_library.targets import WASM, Target, targets_of
from palmkit.engine.backends.cpu.c_library.texts import RUNTIME
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.steps.plan import Plan

NAME = "palm"


def export_runtime(
    models: Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    isas: Sequence[str],
) -> Path:
    """Write a runtime for model files into a new folder, as sources of C++17, and return its path.

    It has palm.h, all of it, and opens any file whose plans need no other kernels than those of
    these files. models: `.palm` files with plans. isas: the instruction sets that it is for, of one
    processor, out of TARGETS; of several, the best that a machine has is used there.
    Raises UnsupportedError if a file has no plans for the native kernels, what `engine.load` raises
    for other files, ValueError for instruction sets that do not go, and FileExistsError if the
    folder is there; then nothing is written.
    """
    targets = targets_of(isas)
    if not models:
        raise ValueError("models: expected one or more")
    needs = Needs()
    for each in models:
        for plan in _plans(Path(each), targets, needs):
            needs.add(plan)
    with unpacked() as native:
        files = of_runtime(native, needs, targets)
    files["palm.h"] = files.pop("palm/palm.h")
    if targets[0].processor == WASM:
        files["CMakeLists.txt"] = modules_of(files, targets)
    else:
        files["CMakeLists.txt"] = build_of(RUNTIME, NAME, files, targets, threads=True)
    return write_folder(path, files)


def _plans(path: Path, targets: Sequence[Target], needs: Needs) -> Iterator[Plan]:
    """The plans of a file, made anew: they say the shapes, which a file's own do not tell here.

    What kernels those in the file have is added.
    """
    from palmkit.engine.backends import cpu
    from palmkit.engine.backends.cpu.ready import ready_plan
    from palmkit.engine.format.model_file import ModelFile

    file = ModelFile(path)
    numbers = {shapes: n for (backend, shapes), n in file.plans.items() if backend == cpu.NAME}
    if not numbers:
        raise UnsupportedError(
            f"{path}: it has no plans for backend {cpu.NAME}: write it again by palmkit convert"
        )
    graph = file.graph
    for shapes, number in numbers.items():
        needs.kernels.update(dict.fromkeys(kernel for _, kernel in file.steps(number)))
        ready = ready_plan(graph, dict(zip(graph.inputs, shapes, strict=True)), "auto", threads=1)
        if ready is None:
            raise ModelError(f"{path}: the plans in it are not of this model")
        for target in targets:
            yield chosen(ready.plan, target)
