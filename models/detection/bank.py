"""Training pictures and the objects in them, on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from palmkit.models.detection.example import Example
from palmkit.models.training.pixels import Pixels, cumulative

MOST_OBJECTS, MOST_IGNORED = 96, 24
SMALLEST_ALONE = 40


class Shape(NamedTuple):
    """Properties of the objects.

    mirrored: the point that each one is in the mirror image. spread_deg: standard deviation of
    rotations; one picture in ten rotates three times more. turned_anyhow: share of the pictures
    that rotate by any angle. hull: whether an object's box is the box round its points, else that
    of an ellipse. largest: largest size of an object, in sides of its picture's part of the
    composition.
    """

    mirrored: tuple[int, ...]
    spread_deg: float = 9.0
    turned_anyhow: float = 0.0
    hull: bool = False
    largest: float = 0.95


class Bank(Pixels):
    """All training pictures."""

    def __init__(self, examples: Sequence[Example], shape: Shape, device: torch.device) -> None:
        """Copy the pictures to `device`."""
        super().__init__([example.picture for example in examples], device)
        self.shape = shape
        most = min(max((len(each.objects) for each in examples), default=1), MOST_OBJECTS)
        self.objects, self.object_counts = self._rows(
            [each.objects for each in examples], max(most, 1), 4 + 2 * len(shape.mirrored)
        )
        self.ignored, self.ignored_counts = self._rows(
            [each.ignored for each in examples], MOST_IGNORED, 4
        )
        weights = np.array([example.weight for example in examples], np.float64)
        counts = np.array([len(example.objects) for example in examples])
        clear = np.array([len(example.ignored) == 0 for example in examples])
        sizes = np.array([_longest(example.objects) for example in examples])
        single = (counts == 1) & clear & (sizes >= SMALLEST_ALONE)
        self.all_weights = cumulative(weights, device)
        self.clean_weights = cumulative(np.where((counts == 0) & clear, weights, 0), device)
        self.single_weights = cumulative(np.where(single, weights, 0), device)

    def _rows(
        self, values: Sequence[NDArray[Any]], most: int, width: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        table = np.zeros((len(values), most, width), np.float32)
        counts = np.zeros(len(values), np.int64)
        for row, known in enumerate(values):
            kept = known.reshape(-1, width)[:most]
            table[row, : len(kept)], counts[row] = kept, len(kept)
        return (
            torch.from_numpy(table).to(self.device),
            torch.from_numpy(counts).to(self.device),
        )


def _longest(objects: NDArray[np.float32]) -> float:
    """Return the longer side of the first object's box."""
    return float((objects[0, 2:4] - objects[0, :2]).max()) if len(objects) else 0.0
