"""Weights of matrix products lie in a model file as kernels read them where they are.

They need no packing when the file is loaded, nor memory of their own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from palmkit.engine import _native
from palmkit.engine.backends.cpu.costs import ranked_steps
from palmkit.engine.format.storage import half_of
from palmkit.engine.ir import Array
from palmkit.engine.steps.rewriting import Lowered
from palmkit.engine.steps.step import Step, View

# Those whose weights may have their outputs last.
_KERNELS = frozenset({"conv", "separable_conv"})


def read_in_place(lowered: Lowered) -> Lowered:
    """Turn such weights so that their outputs come last, if the plan is for a file."""
    stored_as = lowered.purpose.weights
    whole_bytes = sum(value.nbytes for value in lowered.constants)
    is_large = whole_bytes > _native.most_bytes_in_place()
    if stored_as is None or stored_as == "smallest" or is_large:
        return lowered
    uses = Counter((id(v.buffer), v.dims) for step in lowered.steps for v in step.reads)
    steps, constants = list(lowered.steps), list(lowered.constants)
    turned: dict[int, Step] = {}
    for i, step in enumerate(steps):
        weights = step.inputs.get("weights")
        if step.kernel in _KERNELS and weights and weights.buffer.place == "constant":
            is_only = uses[id(weights.buffer), weights.dims] == 1
            if is_only and _is_stored_as_is(constants[weights.buffer.index], stored_as):
                turned[i] = _turned(step, weights)
    before = ranked_steps([steps[i] for i in turned], constants)
    after = ranked_steps([*turned.values()], constants)
    for (i, step), old, new in zip(turned.items(), before, after, strict=True):
        # Whatever the kernel may choose, here or on another machine, has to read them so.
        if new and {each.algorithm for each in old} <= {each.algorithm for each in new}:
            slot = step.input("weights").buffer.index
            constants[slot] = np.ascontiguousarray(np.moveaxis(constants[slot], 0, -1))
            steps[i] = step
    return replace(lowered, steps=steps, constants=constants)


def _turned(step: Step, weights: View) -> Step:
    last = View(weights.buffer, weights.dtype, (*weights.dims[1:], weights.dims[0]))
    inputs = {**step.inputs, "weights": last}
    return replace(step, inputs=inputs, attrs={**step.attrs, "outputs_last": 1})


def _is_stored_as_is(value: Array, stored_as: str) -> bool:
    return stored_as == "float32" or half_of(value) is None
