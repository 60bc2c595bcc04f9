"""Inputs for a model from a folder of pictures or arrays."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.engine import Graph, Model
from palmkit.engine.array_files import read_arrays
from palmkit.engine.errors import CompressionError, PalmError
from palmkit.kits import image
from palmkit.kits.cli.inputs import gather
from palmkit.kits.image import Image

_Sample = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Files:
    """Pictures or .npz files of a folder, always the same ones for one seed."""

    folder: Path
    paths: Sequence[Path]

    @property
    def classes(self) -> list[str]:
        """The folders in it, if every file lies in one."""
        below = [path.relative_to(self.folder).parts for path in self.paths]
        return sorted({parts[0] for parts in below}) if all(len(p) > 1 for p in below) else []


def find(folder: Path, most: int, seed: int = 0) -> Files:
    """Choose at most `most` files at random: arrays if there are any, else pictures.

    Raises CompressionError if the folder does not exist or has neither.
    """
    if not folder.is_dir():
        raise CompressionError(f"data: not a folder: {folder}")
    paths = sorted(folder.rglob("*.npz"))
    if not paths:
        inputs, _ = gather([str(folder)])
        paths = sorted(each.path for each in inputs if not each.is_video)
    if not paths:
        raise CompressionError(f"data: neither a picture nor an .npz file in {folder}")
    chosen = random.Random(seed).sample(paths, min(most, len(paths)))
    return Files(folder, chosen)


def pictures(files: Files, told: Callable[[], object]) -> list[Image]:
    """Return the pictures, without invalid ones; raise CompressionError if none is left."""
    found: list[Image] = []
    for path in files.paths:
        told()
        try:
            found.append(image.read_image(path))
        except PalmError:
            continue
    if not found:
        raise CompressionError(f"data: no file in {files.folder} is a picture that can be read")
    return found


def samples(
    files: Files, graph: Graph, span: tuple[float, float], told: Callable[[], object]
) -> tuple[list[_Sample], list[str]]:
    """Return an input for each file, and its class, the first folder below the one given.

    span: what 0 and 255 become in an input of floats.
    Raises CompressionError if the model takes something else than one picture.
    """
    found: list[_Sample] = []
    labels: list[str] = []
    for path in files.paths:
        told()
        try:
            found.append(_sample(path, graph, span))
        except (PalmError, OSError, ValueError) as error:
            if isinstance(error, CompressionError):
                raise
            continue
        labels.append(path.relative_to(files.folder).parts[0])
    if not found:
        raise CompressionError(f"data: no file in {files.folder} can be read")
    return found, labels


class Accuracy:
    """The share of samples whose largest output is that of their class, in order of the names."""

    def __init__(self, found: Sequence[tuple[_Sample, str]], names: Sequence[str]) -> None:
        """Keep the samples.

        found: samples, each with the name of its class; names: of all, in order.
        """
        self._samples = [sample for sample, _ in found]
        self._classes = [names.index(label) for _, label in found]

    def __call__(self, graph: Graph) -> float:
        """Return the accuracy of a graph, 0 to 1."""
        model = Model(graph)
        right = 0
        for sample, wanted in zip(self._samples, self._classes, strict=True):
            (scores,) = model.run(sample).values()
            right += int(np.argmax(scores)) == wanted
        return right / len(self._samples)


def classes_of(graph: Graph) -> int | None:
    """Return how many classes a model has: the last dim of its one output [1, n], or None."""
    if len(graph.outputs) != 1:
        return None
    (type,) = graph.outputs.values()
    last = type.shape[-1] if len(type.shape) == 2 else None
    return last if isinstance(last, int) and last > 1 else None


def _sample(path: Path, graph: Graph, span: tuple[float, float]) -> _Sample:
    if path.suffix == ".npz":
        return read_arrays(path)
    if len(graph.inputs) != 1:
        raise CompressionError(
            f"data: the model takes {', '.join(graph.inputs)}, not one picture: expected .npz files"
        )
    ((name, type),) = graph.inputs.items()
    dims = [dim if isinstance(dim, int) else 1 for dim in type.shape]
    if len(dims) != 4 or 3 not in (dims[1], dims[3]) or type.dtype not in ("float32", "uint8"):
        raise CompressionError(f"data: input {name} is no picture, {type}: expected .npz files")
    first = dims[3] != 3
    height, width = (dims[2], dims[3]) if first else (dims[1], dims[2])
    if height < 2 or width < 2:
        raise CompressionError(f"data: input {name} has an open size: see --input-shape: {type}")
    picture = image.resize(image.read_image(path), height, width)
    value = picture[None].transpose(0, 3, 1, 2) if first else picture[None]
    if type.dtype == "uint8":
        return {name: np.ascontiguousarray(value)}
    low, high = span
    scaled = value.astype(np.float32) * np.float32((high - low) / 255) + np.float32(low)
    return {name: np.ascontiguousarray(scaled)}
