"""Whether a program gives what the graph means: it is compared with the definitions in numpy."""

from __future__ import annotations

import numpy as np

from palmkit.engine.backends import BACKENDS, Program
from palmkit.engine.errors import BackendError
from palmkit.engine.ir import Array, Graph, Type

# Of an output's range. Float32 in another order stays below 1e-5; products of 10 or 11 bits, which
# are what devices call fast float32, do not reach it in a few dozen layers.
BOUND = 1e-3
# Outputs that are all smaller than this are held to the bound of this range: the tail of a sigmoid
# is as small as the rounding of what it is the tail of.
_SMALLEST_RANGE = 1e-2
# Integers that indices, counts and sizes may all be.
_INTEGERS = (0, 2)


def verify(graph: Graph, program: Program, bound: float = BOUND) -> None:
    """Raise BackendError, with the output and how far it is off, if a program is wrong.

    It runs once, on random inputs that are the same each time: floats from 0 to 1, integers 0 and
    1, and each output is compared with backend reference, which takes seconds for large networks.
    bound: the largest difference, of the range of the output's numbers.
    """
    random = np.random.default_rng(0)
    inputs = {name: _random(random, type) for name, type in graph.inputs.items()}
    with np.errstate(all="ignore"):
        wanted = BACKENDS["reference"].compile(graph).run(inputs)
    found = program.run(inputs)
    for name, truth in wanted.items():
        if (found[name].shape, found[name].dtype) != (truth.shape, truth.dtype):
            raise BackendError(
                f"{program.device}: output {name}: expected {Type.of(truth)}, "
                f"got {Type.of(found[name])}"
            )
        off = _difference(found[name], truth)
        if not off <= bound:
            raise BackendError(
                f"{program.device}: output {name} is off by {off:.2g} of its range, "
                f"more than {bound:.2g}"
            )


def _random(random: np.random.Generator, type: Type) -> Array:
    if np.dtype(type.dtype).kind == "f":
        return random.random(type.dims).astype(type.dtype)
    return random.integers(*_INTEGERS, type.dims).astype(type.dtype)


def _difference(found: Array, truth: Array) -> float:
    """The largest difference, of the range of the truth; what is no number must be none in both."""
    if not truth.size:
        return 0.0
    a, b = found.astype(np.float64), truth.astype(np.float64)
    is_number = np.isfinite(b)
    if not np.array_equal(is_number, np.isfinite(a)):
        return float("inf")
    a, b = a[is_number], b[is_number]
    if not b.size:
        return 0.0
    span = max(float(b.max() - b.min()), float(np.abs(b).max()), _SMALLEST_RANGE)
    return float(np.abs(a - b).max()) / span
