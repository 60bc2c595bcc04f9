"""Random inputs, the same each time, that any model takes."""

from collections.abc import Mapping

import numpy as np

from palmkit.engine.ir import Array, Type

# Integers that indices, counts and sizes may all be.
_INTEGERS = (0, 2)


def random_inputs(types: Mapping[str, Type]) -> dict[str, Array]:
    """Return an array for each type, of known dims: floats from 0 to 1, integers and bools 0, 1."""
    random = np.random.default_rng(0)

    def made(type: Type) -> Array:
        if np.dtype(type.dtype).kind == "f":
            return random.random(type.dims).astype(type.dtype)
        return random.integers(*_INTEGERS, type.dims).astype(type.dtype)

    return {name: made(type) for name, type in types.items()}
