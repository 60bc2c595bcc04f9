"""Golden inputs: a release's outputs for known inputs, computed on the publisher's machine.

A device reproduces them before the release may go live.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from palmkit.engine import load
from palmkit.engine.array_files import read_arrays
from palmkit.engine.errors import PalmError, RepositoryError
from palmkit.engine.ir import NARROW_DTYPES, Array, Type

Cases: TypeAlias = Mapping[str, Mapping[str, Array]]
# Keeps a golden file far smaller than most models.
_CELL = 8
MOST_DRAWN = 1000
_OPEN = 128


def write_golden(model: Path, cases: Cases | Path | int, target: Path, rtol: float = 0.0) -> None:
    """Run a model on known inputs, and write both as `target`, an .npz.

    cases: inputs by the name of a case; an .npz with arrays in/<case>/<input>, or only
    <case>/<input>; or how many to draw. rtol: outputs are rounded to a sixteenth of it, which makes
    the file smaller; 0: exact.
    Raises RepositoryError if the model cannot be loaded or run, or gives non-finite numbers.
    """
    try:
        loaded = load(model)
        if isinstance(cases, int):
            if not 1 <= cases <= MOST_DRAWN:
                raise RepositoryError(
                    f"golden inputs: expected 1 to {MOST_DRAWN} to draw, got {cases}"
                )
            # The range of inputs, as the models of kits state it.
            top = 255.0 if "0..255" in loaded.metadata.get("input", "") else 1.0
            given: Cases = {f"drawn_{n}": draw(loaded.inputs, n, top) for n in range(cases)}
        else:
            given = _read(cases) if isinstance(cases, Path) else cases
        arrays: dict[str, Any] = {}
        for case, inputs in given.items():
            arrays |= {f"in/{case}/{name}": array for name, array in inputs.items()}
            for name, array in loaded.run(dict(inputs)).items():
                if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
                    raise RepositoryError(
                        f"{model}: output {name!r} is not finite for the golden input {case!r}"
                    )
                arrays[f"out/{case}/{name}"] = shortened(array, rtol)
    except RepositoryError:
        raise
    except PalmError as error:
        raise RepositoryError(f"the release does not run: {error}") from error
    if not arrays:
        raise RepositoryError(f"{model}: expected at least one golden input, got none")
    np.savez_compressed(target, **arrays)


def shortened(array: Array, rtol: float) -> Array:
    """Return the array with float32 rounded to a sixteenth of a relative tolerance."""
    bits = 23 if rtol <= 0 else min(max(math.ceil(-math.log2(rtol)) + 3, 1), 23)
    if array.dtype != np.float32 or bits == 23:
        return array
    dropped = 23 - bits
    # Rounded, not truncated: half of the dropped part is added first.
    whole = np.ascontiguousarray(array).view(np.uint32) + np.uint32(1 << (dropped - 1))
    short = (whole >> np.uint32(dropped) << np.uint32(dropped)).view(np.float32)
    # The largest numbers cannot be rounded up.
    return np.where(np.isfinite(short), short, array)


def _read(path: Path) -> Cases:
    cases: dict[str, dict[str, Array]] = {}
    try:
        for key, array in read_arrays(path).items():
            case, _, name = key.removeprefix("in/").partition("/")
            if not key.startswith("out/"):
                cases.setdefault(case, {})[name] = array
    except (OSError, ValueError) as error:
        raise RepositoryError(f"golden inputs: cannot be read: {path}: {error}") from error
    return cases


def draw(inputs: Mapping[str, Type], seed: int, top: float = 1.0) -> dict[str, Array]:
    """Return inputs of even patches, in [0, top) or a whole type's range: smooth as a picture.

    An open size is 1 in the first dim, 128 in others.
    Raises RepositoryError if no such inputs can be drawn; they must then be given.
    """
    random = np.random.default_rng(seed)
    drawn: dict[str, Array] = {}
    for name, type in inputs.items():
        dtype = np.dtype(type.dtype) if type.dtype not in NARROW_DTYPES else None
        if dtype is None or not type.has_rank or dtype.kind not in "fiub":
            raise RepositoryError(f"golden inputs: cannot be drawn, give some: {name} {type}")
        dims = [
            dim if isinstance(dim, int) else _OPEN if axis else 1
            for axis, dim in enumerate(type.shape)
        ]
        coarse = random.random([math.ceil(dim / _CELL) for dim in dims])
        for axis, dim in enumerate(dims):
            coarse = coarse.repeat(_CELL, axis).take(range(dim), axis)
        if dtype.kind == "b":
            drawn[name] = coarse < 0.5
            continue
        values = coarse * (top if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).max)
        drawn[name] = values.astype(dtype)
    return drawn
