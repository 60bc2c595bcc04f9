"""Pictures as inputs of networks, in the bytes that they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Levels:
    """Whole numbers from 0 to 255 for an input of float32, made floats where the model runs.

    A GPU is sent a quarter of the bytes so; elsewhere they are made floats first. The numbers are
    the same: 255 becomes 255.0.

    array: uint8, of the input's shape. Raises TypeError for another dtype.
    """

    array: NDArray[np.uint8]

    def __post_init__(self) -> None:
        """Check the dtype."""
        dtype = np.asarray(self.array).dtype
        if dtype != np.uint8:
            raise TypeError(f"levels: expected uint8, got {dtype}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return them as floats, for whatever takes arrays."""
        if copy is False:
            raise ValueError("levels: floats of them are always a copy")
        return self.array.astype(np.float32 if dtype is None else dtype)
