"""Weights of matrix products lie in a model file as kernels read them where they are.

They need no packing when the file is loaded, nor memory of their own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from palmkit.engine.backends.cpu.costs import ranked_steps
from palmkit.engine.format.storage import half_of
from palmkit.engine.ir import Array
from palmkit.engine.steps.rewriting import Lowered
from palmkit.engine.steps.step import View

# Smaller weights are copied, and longer rows of them are read more slowly than packed ones.
_LEAST_BYTES = 4096
_MOST_OUTPUTS = 256
# More than that in small pages, as files have them, is read more slowly than in huge ones.
_MOST_BYTES = 4 << 20
_VECTOR = 8
_READING = {"gemm", "rows"}


def read_in_place(lowered: Lowered) -> Lowered:
    """Turn such weights so that their outputs come last, if the plan is for a file."""
    stored_as = lowered.purpose.weights
    whole_bytes = sum(value.nbytes for value in lowered.constants)
    if stored_as is None or stored_as == "smallest" or whole_bytes > _MOST_BYTES:
        return lowered
    candidates = ranked_steps(lowered.steps, lowered.constants)
    uses = Counter((id(v.buffer), v.dims) for step in lowered.steps for v in step.reads)
    steps, constants = list(lowered.steps), list(lowered.constants)
    for i, step in enumerate(steps):
        names = {each.algorithm for each in candidates[i]}
        is_gemm = names and names <= _READING and step.integer("group", 1) == 1
        if not (is_gemm or step.kernel == "separable_conv"):
            continue
        weights = step.input("weights")
        slot = weights.buffer.index
        if uses[id(weights.buffer), weights.dims] > 1 or not _is_worth(constants[slot], stored_as):
            continue
        constants[slot] = np.ascontiguousarray(np.moveaxis(constants[slot], 0, -1))
        turned = View(weights.buffer, weights.dtype, (*weights.dims[1:], weights.dims[0]))
        steps[i] = replace(
            step,
            inputs={**step.inputs, "weights": turned},
            attrs={**step.attrs, "outputs_last": 1},
        )
    return replace(lowered, steps=steps, constants=constants)


def _is_worth(value: Array, stored_as: str) -> bool:
    """Whether it suits the kernels, and lies in the file as it is."""
    if value.nbytes < _LEAST_BYTES or len(value) > _MOST_OUTPUTS or len(value) % _VECTOR:
        return False
    return stored_as == "float32" or half_of(value) is None
