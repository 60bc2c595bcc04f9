"""Random numbers: those of numpy's RandomState, as onnx.reference draws them."""

import numpy as np

from palmkit.engine.ir import Type
from palmkit.engine.ops.dtypes import FLOATS


def generator(seed: float | None) -> np.random.RandomState:
    """Return a generator: equal seeds give equal numbers, no seed gives new ones each time."""
    return np.random.RandomState(None if seed is None else int(seed))


def float_type(op: str, dtype: str, dims: tuple[int, ...]) -> Type:
    """Return the type of random numbers; raise ValueError unless they are floats."""
    if dtype not in FLOATS:
        raise ValueError(f"{op}: expected one of {', '.join(FLOATS)}, got {dtype}")
    return Type(dtype, dims)
