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
from palmkit.engine.backends.cpu.costs import Candidate, ranked_steps
from palmkit.engine.backends.cpu.timings import TimingsFile
from palmkit.engine.ir import Array, dtype_name
from palmkit.engine.steps.placing import aligned
from palmkit.engine.steps.plan import NativeStep, NativeTensor
from palmkit.engine.steps.rewriting import Lowered
from palmkit.engine.steps.step import Buffer, Step, View, view_bytes

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


def choose_algorithms(lowered: Lowered) -> Lowered:
    """Choose the fastest algorithm for each convolution, if asked to; times are kept on disk.

    What has one candidate, or was timed before on this CPU with this library, is not timed.
    """
    if not lowered.purpose.tune:
        return lowered
    threads = lowered.purpose.threads
    every = ranked_steps(lowered.steps, lowered.constants)
    open_steps = {i: names for i, each in enumerate(every) if len(names := worth_timing(each)) > 1}
    file = TimingsFile()
    known = file.read()
    keys = {i: signature(lowered, lowered.steps[i]) for i in open_steps}
    wanted = {
        keys[i]: i
        for i, names in open_steps.items()
        if not set(names) <= set(known.get(keys[i], ()))
    }
    from tqdm import tqdm

    fresh: dict[str, dict[str, float]] = {}
    for key, i in tqdm(wanted.items(), "tuning", unit="step", leave=False, disable=None):
        fresh[key] = time_step(lowered, lowered.steps[i], open_steps[i], threads)
    if fresh:
        file.add(fresh)
    timings = {**known, **fresh}
    steps = list(lowered.steps)
    for i, names in open_steps.items():
        best = fastest({name: timings[keys[i]][name] for name in names}, names[0])
        steps[i] = replace(steps[i], attrs={**steps[i].attrs, "algorithm": best})
    return replace(lowered, steps=steps)


def worth_timing(candidates: Sequence[Candidate]) -> list[str]:
    """The kernel's own choice, and what may be faster if the cost model errs."""
    limit = _HOPELESS_BY_MODEL * candidates[0].seconds if candidates else 0.0
    return [each.algorithm for each in candidates if each.seconds <= limit]


def fastest(seconds: Mapping[str, float], default: str) -> str:
    """The algorithm that takes least; the default unless the gain is more than noise."""
    best = min(seconds, key=lambda name: (seconds[name], name))
    return best if seconds[best] < seconds[default] * (1 - LEAST_GAIN) else default


def signature(lowered: Lowered, step: Step) -> str:
    """All that a step's time hangs on, as text: types, attributes and threads, not the values.

    Of weights that are mostly zeros it counts how many.
    """
    views = [*step.inputs.values(), *step.outputs.values()]
    types = [_text(view) if view else "" for view in views]
    asked = {name: value for name, value in sorted(step.attrs.items()) if name != "algorithm"}
    constants = [view for view in views if view and view.buffer.place == "constant"]
    zeros = [_percent_of_zeros(lowered.value(view)) for view in constants]
    if max(zeros, default=0) >= _MOSTLY:
        return json.dumps([step.kernel, types, asked, lowered.purpose.threads, zeros])
    return json.dumps([step.kernel, types, asked, lowered.purpose.threads])


def _text(view: View) -> str:
    strides = "" if view.strides is None else f" in strides of {[*view.strides]}"
    return f"{view.dtype}{[*view.dims]}{strides}"


def _percent_of_zeros(array: Array) -> int:
    return 100 - round(100 * np.count_nonzero(array) / array.size) if array.size else 0


def time_step(
    lowered: Lowered, step: Step, algorithms: Sequence[str], threads: int, isa: str = ""
) -> dict[str, float]:
    """Seconds of one step by each algorithm: the least of runs taken in turns.

    isa: the instruction set to use; left out, the best there is.
    """
    sessions = {name: _session(lowered, step, name, threads, isa) for name in algorithms}
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


def _session(
    lowered: Lowered, step: Step, algorithm: str, threads: int, isa: str
) -> _native.Session:
    """The step alone, after copies that write its inputs, as a network's steps would."""
    tensors: list[NativeTensor] = []
    constants: list[Array] = []
    steps: list[NativeStep] = []
    end = 0

    def constant(array: Array, dims: Sequence[int]) -> int:
        constants.append(array)
        tensors.append(("constant", len(constants) - 1, dtype_name(array.dtype), [*dims], 0, []))
        return len(tensors) - 1

    def memory(view: View) -> int:
        nonlocal end
        strides = [*(view.strides or ())]
        tensors.append(("arena", end, view.dtype, [*view.dims], 0, strides))
        first, last = view.ends
        end += aligned(view_bytes(view.dtype, (last - first,)))
        return len(tensors) - 1

    def written(view: View) -> int:
        values = np.full(view.dims, 0.5, np.float32)
        source, target = constant(values, view.dims), memory(view)
        steps.append(("copy", [source], [target], {}))
        return target

    def read(view: View | None) -> int:
        if view is None:
            return -1
        if view.buffer.place == "constant":
            return constant(lowered.constants[view.buffer.index], view.dims)
        is_float = view.dtype == "float32"
        return written(view) if is_float else memory(view)

    written(View(Buffer("arena", _FLUSHED_BYTES), "float32", (_FLUSHED_BYTES // 4,)))
    inputs = [read(view) for view in step.inputs.values()]
    outputs = [memory(view) for view in step.writes]
    steps.append((step.kernel, inputs, outputs, {**step.attrs, "algorithm": algorithm}))
    return _native.Program(tensors, steps, constants, end, isa).session(threads)
