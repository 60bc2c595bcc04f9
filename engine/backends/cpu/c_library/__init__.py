"""Models as a C library of their own: their plans, their weights, and the kernels that they need.

The folder holds a header of four functions a model, C++17 sources without exceptions, threads or a
file format, and how to build them. A run takes no memory, and gives bit for bit what the runtime
gives with one thread and the same instruction set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from palmkit.engine.backends.cpu.c_library.sources import Needs, copied, folder
from palmkit.engine.backends.cpu.c_library.tables import header, model_source
from palmkit.engine.backends.cpu.c_library.targets import TARGETS, Target
from palmkit.engine.backends.cpu.c_library.texts import BUILD
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Graph, Type
from palmkit.engine.replacing import move
from palmkit.engine.steps.plan import Plan, PlannedStep
from palmkit.engine.steps.step import BRANCH

__all__ = ["TARGETS", "Exported", "export_c", "files_of"]

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
) -> Path:
    """Write a C library into a new folder, and return its path.

    models: one or more, of different names. isas: the instruction sets that it is for, of one
    processor, out of TARGETS; of several, the best that a machine has is used there. name: the
    library's; the first model's if left out.
    Raises UnsupportedError if a model needs more than the native kernels, ShapeError if inputs
    have sizes that are not known, ValueError for names or instruction sets that do not go, and
    FileExistsError if the folder is there; then nothing is written.
    """
    files = files_of(models, isas, name)
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


def files_of(
    models: Sequence[Exported], isas: Sequence[str], name: str | None = None
) -> dict[str, str]:
    """Return what `export_c` writes, by paths in the folder."""
    targets = _targets(isas)
    names = [each.name for each in models]
    for given in (*names, *([name] if name else [])):
        if not _NAME.fullmatch(given):
            raise ValueError(
                f"name: expected small letters, digits and underscores, got {given[:80]!r}"
            )
    if not names or len(set(names)) < len(names):
        raise ValueError("models: expected one or more, of different names")
    needs = Needs()
    native = folder()
    files: dict[str, str] = {}
    for each in models:
        plan, inputs, outputs = _planned(each)
        plans = [_chosen(plan, target) for target in targets]
        for one in plans:
            needs.add(one)
        files[f"{each.name}.h"] = header(each.name, inputs, outputs)
        files[f"{each.name}.cc"] = model_source(each.name, plans, targets)
    files.update(copied(native, needs, targets))
    files["CMakeLists.txt"] = _build(name or names[0], files, targets)
    return files


def _targets(isas: Sequence[str]) -> list[Target]:
    unknown = [isa for isa in isas if isa not in TARGETS]
    if unknown or not isas:
        known, got = ", ".join(TARGETS), ", ".join(unknown) or "none"
        raise ValueError(f"isas: expected some of {known}, got {got}")
    # The best first, as they are tried.
    targets = [target for isa, target in TARGETS.items() if isa in isas]
    if len({target.processor for target in targets}) > 1:
        raise ValueError(f"isas: expected those of one processor, got {', '.join(isas)}")
    return targets


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


def _chosen(plan: Plan, target: Target) -> Plan:
    """The plan with the algorithm of each convolution written down, for one thread."""
    from palmkit.engine import _native
    from palmkit.engine.backends.cpu.costs import ranked

    isa = target.simd if target.simd in _native.isas() else target.ranked_as
    steps: list[PlannedStep] = []
    for step, candidates in zip(plan.steps, ranked(plan, isa), strict=True):
        attrs = {key: value for key, value in step.attrs.items() if key != BRANCH}
        if step.kernel == "conv":
            attrs.setdefault("algorithm", candidates[0].algorithm)
        steps.append(replace(step, attrs=attrs))
    return replace(plan, steps=tuple(steps))


def _build(name: str, files: Mapping[str, str], targets: Sequence[Target]) -> str:
    """The CMakeLists.txt: each file for each of the instruction sets that it is for."""
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
        f'palm_set({isa} "{flags[isa]}"{_listed(paths)})\n' for isa, paths in by_set.items()
    )
    return BUILD.substitute(name=name, sources=_listed(plain), sets=sets)


def _listed(paths: Sequence[str]) -> str:
    return "".join(f"\n  {path}" for path in sorted(paths))
