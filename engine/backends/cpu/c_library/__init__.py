"""Models as a C library of their own: their plans, their weights, and the kernels that they need.

The folder holds a header of four functions a model, C++17 sources without exceptions, a file format
or, unless asked for, threads, and how to build them. A run takes no memory, and gives bit for bit
what the runtime gives with the same instruction set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from palmkit.engine.backends.cpu.c_library.choosing import chosen
from palmkit.engine.backends.cpu.c_library.folders import build_of, write_folder
from palmkit.engine.backends.cpu.c_library.runtime import export_runtime
from palmkit.engine.backends.cpu.c_library.sources import Needs, of_models, unpacked
from palmkit.engine.backends.cpu.c_library.tables import header, model_source
from palmkit.engine.backends.cpu.c_library.targets import TARGETS, targets_of
from palmkit.engine.backends.cpu.c_library.texts import BUILD
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Graph, Type
from palmkit.engine.steps.plan import Plan

__all__ = ["TARGETS", "Exported", "export_c", "export_runtime", "files_of"]

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass(frozen=True)
class Exported:
    """A model that goes into a library.

    name: what its header and its functions begin with: small letters, digits, underscores.
    graph: the model. shapes: those of its inputs, by name; left out, the graph's own.
    """

    name: str
    graph: Graph
    shapes: Mapping[str, Sequence[int]] | None = None


def export_c(
    models: Sequence[Exported],
    path: str | os.PathLike[str],
    isas: Sequence[str],
    name: str | None = None,
    threads: bool = False,
) -> Path:
    """Write a C library into a new folder, and return its path.

    models: one or more, of different names. isas: the instruction sets that it is for, of one
    processor, out of TARGETS; of several, the best that a machine has is used there. name: the
    library's; the first model's if left out. threads: whether runs can be shared among some: each
    model's start then takes how many.
    Raises UnsupportedError if a model needs more than the native kernels, ShapeError if inputs
    have sizes that are not known, ValueError for names or instruction sets that do not go, and
    FileExistsError if the folder is there; then nothing is written.
    """
    files = files_of(models, isas, name, threads)
    return write_folder(path, files)


def files_of(
    models: Sequence[Exported],
    isas: Sequence[str],
    name: str | None = None,
    threads: bool = False,
) -> dict[str, str]:
    """Return what `export_c` writes, by paths in the folder."""
    targets = targets_of(isas)
    names = [each.name for each in models]
    for given in (*names, *([name] if name else [])):
        if not _NAME.fullmatch(given):
            raise ValueError(
                f"name: expected small letters, digits and underscores, got {given[:80]!r}"
            )
    if not names or len(set(names)) < len(names):
        raise ValueError("models: expected one or more, of different names")
    needs = Needs()
    files: dict[str, str] = {}
    for each in models:
        plan, inputs, outputs = _planned(each)
        plans = [chosen(plan, target) for target in targets]
        for one in plans:
            needs.add(one)
        files[f"{each.name}.h"] = header(each.name, inputs, outputs, threads)
        files[f"{each.name}.cc"] = model_source(each.name, plans, targets, threads)
    with unpacked() as native:
        files.update(of_models(native, needs, targets, threads))
    files["CMakeLists.txt"] = build_of(BUILD, name or names[0], files, targets, threads)
    return files


def _planned(model: Exported) -> tuple[Plan, dict[str, Type], dict[str, Type]]:
    from palmkit.engine.backends.cpu.ready import ready_plan

    graph = model.graph
    shapes = model.shapes
    if shapes is None:
        shapes = {name: type.dims for name, type in graph.inputs.items()}
    ready = ready_plan(graph, shapes, "float32", threads=1)
    if ready is None:
        raise UnsupportedError(
            f"{model.name}: only what runs whole on backend cpu can be a C library"
        )
    inputs = {
        name: Type(type.dtype, dims)
        for (name, type), dims in zip(graph.inputs.items(), ready.shapes, strict=True)
    }
    return ready.plan, inputs, dict(zip(graph.outputs, ready.outputs, strict=True))
