"""Semi-automatic search: each convolution's algorithm, by the kernels' own rule or timed here.

After MNN (Jiang et al., MNN: A Universal and Efficient Inference Engine, arXiv 2002.12418), which
ranks its kernels by their cost before it runs; the timing on top is as in TVM and oneDNN.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from palmkit.engine import _native
from palmkit.engine.backends.cpu.timings import TimingsFile
from palmkit.engine.ir import Array
from palmkit.engine.placing import aligned
from palmkit.engine.plan import Plan, StepAttr, view_bytes

# What is not this much faster than the kernel's own choice may be noise.
LEAST_GAIN = 0.03
# Written before each timed run, so that weights come from where a network's other layers leave
# them: beyond the L2 cache.
_FLUSHED_BYTES = 2 << 20
_ROUNDS = 12
_LEAST_ROUNDS = 4
_SECONDS_PER_STEP = 0.04
# Slower than the best by this factor after a few rounds: timed no longer.
_HOPELESS = 1.5
# Expected to be slower than the best by this factor: not timed.
_HOPELESS_BY_MODEL = 3.0
# Per cent of zeros from which on they are counted.
_MOSTLY = 50

_Tensor = tuple[str, int, str, list[int]]
_PlanStep = tuple[str, list[int], list[int], dict[str, StepAttr]]


def tuned(plan: Plan, threads: int) -> Plan:
    """The plan with the fastest algorithm for each convolution; timings are kept on disk.

    What has one candidate, or was timed before on this CPU with this library, is not timed.
    """
    ranked = _native.conv_algorithms(plan.tensors, plan.steps, "", plan.constants)
    candidates = [worth_timing(each) for each in ranked]
    open_steps = {i: names for i, names in enumerate(candidates) if len(names) > 1}
    file = TimingsFile()
    known = file.read()
    keys = {i: signature(plan, i, threads) for i in open_steps}
    wanted = {
        keys[i]: i
        for i, names in open_steps.items()
        if not set(names) <= set(known.get(keys[i], ()))
    }
    from tqdm import tqdm

    fresh: dict[str, dict[str, float]] = {}
    for key, i in tqdm(wanted.items(), "tuning", unit="step", leave=False, disable=None):
        fresh[key] = time_step(plan, i, open_steps[i], threads)
    if fresh:
        file.add(fresh)
    timings = {**known, **fresh}
    steps = list(plan.steps)
    for i, names in open_steps.items():
        best = fastest({name: timings[keys[i]][name] for name in names}, names[0])
        kernel, inputs, outputs, attrs = steps[i]
        steps[i] = (kernel, inputs, outputs, {**attrs, "algorithm": best})
    return replace(plan, steps=steps)


def worth_timing(candidates: Sequence[tuple[str, float, list[float]]]) -> list[str]:
    """The kernel's own choice, and what may be faster if the cost model errs."""
    limit = _HOPELESS_BY_MODEL * candidates[0][1] if candidates else 0.0
    return [name for name, seconds, _ in candidates if seconds <= limit]


def fastest(seconds: Mapping[str, float], default: str) -> str:
    """The algorithm that takes least; the default unless the gain is more than noise."""
    best = min(seconds, key=lambda name: (seconds[name], name))
    return best if seconds[best] < seconds[default] * (1 - LEAST_GAIN) else default


def signature(plan: Plan, index: int, threads: int) -> str:
    """All that a step's time hangs on, as text: types, attributes and threads, not the values.

    Of weights that are mostly zeros it counts how many.
    """
    kernel, inputs, outputs, attrs = plan.steps[index]
    tensors = [plan.tensors[i] if i >= 0 else None for i in (*inputs, *outputs)]
    types = [f"{t[2]}{t[3]}" if t else "" for t in tensors]
    asked = {name: value for name, value in sorted(attrs.items()) if name != "algorithm"}
    zeros = [_percent_of_zeros(plan.constants[t[1]]) for t in tensors if t and t[0] == "constant"]
    if max(zeros, default=0) >= _MOSTLY:
        return json.dumps([kernel, types, asked, threads, zeros])
    return json.dumps([kernel, types, asked, threads])


def _percent_of_zeros(array: Array) -> int:
    return 100 - round(100 * np.count_nonzero(array) / array.size) if array.size else 0


def time_step(
    plan: Plan, index: int, algorithms: Sequence[str], threads: int, isa: str = ""
) -> dict[str, float]:
    """Seconds of one step by each algorithm: the least of runs taken in turns.

    isa: the instruction set to use; left out, the best there is.
    """
    sessions = {name: _session(plan, index, name, threads, isa) for name in algorithms}
    seconds = {name: float("inf") for name in algorithms}
    for session in sessions.values():
        session.profile([], [])
    start = perf_counter()
    for turn in range(_ROUNDS):
        for name, session in sessions.items():
            seconds[name] = min(seconds[name], session.profile([], [])[-1])
        if turn + 1 >= _LEAST_ROUNDS:
            if perf_counter() - start > _SECONDS_PER_STEP:
                break
            limit = _HOPELESS * min(seconds.values())
            sessions = {name: each for name, each in sessions.items() if seconds[name] < limit}
    return seconds


def _session(plan: Plan, index: int, algorithm: str, threads: int, isa: str) -> _native.Session:
    """The step alone, after copies that write its inputs, as a network's steps would."""
    kernel, inputs, outputs, attrs = plan.steps[index]
    tensors: list[_Tensor] = []
    constants: list[Array] = []
    steps: list[_PlanStep] = []
    end = 0

    def constant(array: Array, dims: list[int]) -> int:
        constants.append(array)
        tensors.append(("constant", len(constants) - 1, array.dtype.name, dims))
        return len(tensors) - 1

    def memory(dtype: str, dims: list[int]) -> int:
        nonlocal end
        tensors.append(("arena", end, dtype, dims))
        end += aligned(view_bytes(dtype, dims))
        return len(tensors) - 1

    def write(dims: list[int]) -> int:
        values = np.full(dims, 0.5, np.float32)
        source, target = constant(values, dims), memory("float32", dims)
        whole: dict[str, StepAttr] = {"shape": [values.size], "x_strides": [1], "y_strides": [1]}
        steps.append(("copy", [source], [target], whole))
        return target

    def tensor(i: int, is_output: bool) -> int:
        if i < 0:
            return i
        place, slot, dtype, dims = plan.tensors[i]
        if place == "constant":
            return constant(plan.constants[slot], dims)
        return memory(dtype, dims) if is_output or dtype != "float32" else write(dims)

    write([_FLUSHED_BYTES // 4])
    read = [tensor(i, False) for i in inputs]
    written = [tensor(i, True) for i in outputs]
    steps.append((kernel, read, written, {**attrs, "algorithm": algorithm}))
    return _native.Program(tensors, steps, constants, end, isa).session(threads)
