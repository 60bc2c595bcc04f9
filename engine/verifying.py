"""Whether a program gives what the graph means: it is compared with the definitions in numpy."""

from __future__ import annotations

import numpy as np

from palmkit.engine.backends import BACKENDS, Program
from palmkit.engine.errors import BackendError
from palmkit.engine.faults import output_errors
from palmkit.engine.ir import Array, Graph, Type

# Of an output's range. Float32 in another order stays below 1e-5; products of 10 or 11 bits, which
# are what devices call fast float32, do not reach it in a few dozen layers.
BOUND = 1e-3
# Differences up to this count as none: the tail of a sigmoid is as small as the rounding of what it
# is the tail of.
_NONE = 1e-5
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
    device = ", ".join(program.devices)
    for name, off in output_errors(wanted, found, _NONE).items():
        expected, got = Type.of(wanted[name]), Type.of(found[name])
        if expected != got:
            raise BackendError(f"{device}: output {name}: expected {expected}, got {got}")
        if not off <= bound:
            raise BackendError(
                f"{device}: output {name} is off by {off:.2g} of its range, more than {bound:.2g}"
            )


def _random(random: np.random.Generator, type: Type) -> Array:
    if np.dtype(type.dtype).kind == "f":
        return random.random(type.dims).astype(type.dtype)
    return random.integers(*_INTEGERS, type.dims).astype(type.dtype)
