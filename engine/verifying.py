"""Whether a program gives what the graph means: it is compared with the definitions in numpy."""

from __future__ import annotations

import numpy as np

from palmkit.engine.backends import BACKENDS, Program
from palmkit.engine.errors import BackendError
from palmkit.engine.faults import output_errors
from palmkit.engine.ir import Graph, Type
from palmkit.engine.random_inputs import random_inputs

# Of an output's range. Float32 in another order stays below 1e-5; products of 10 or 11 bits, which
# are what devices call fast float32, do not reach it in a few dozen layers.
BOUND = 1e-3
# Differences up to this count as none: the tail of a sigmoid is as small as the rounding of what it
# is the tail of.
_NONE = 1e-5


def verify(graph: Graph, program: Program, bound: float = BOUND) -> None:
    """Raise BackendError, with the output and how far it is off, if a program is wrong.

    It runs once, on random inputs that are the same each time: floats from 0 to 1, integers 0 and
    1, and each output is compared with backend reference, which takes seconds for large networks.
    bound: the largest difference, of the range of the output's numbers.
    """
    inputs = random_inputs(graph.inputs)
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
