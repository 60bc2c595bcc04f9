"""Name each plan that allocates memory while it runs: python -m tests.engine.allocations THREADS.

Needs libpalm_allocations.so preloaded. What the binding allocates for a call is told from what the
plan does by a plan of no steps for the same arrays.
"""

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

import palmkit.models
from palmkit.engine import _native, convert
from palmkit.engine.backends.cpu import Cpu
from palmkit.engine.backends.partition import specialise
from palmkit.engine.errors import PalmError
from palmkit.engine.ir import Array, Type
from palmkit.engine.steps.plan import Plan
from tests.engine.test_ops import CASES, arrays, label, one_node

MODEL = Path(palmkit.models.__file__).parent / "face_detector" / "face_detector.palm"
RUNS = 5


@cache
def library() -> Any:
    """Return the process's own symbols: the counter and libc."""
    symbols: Any = ctypes.CDLL(None)
    symbols.palm_allocations.restype = ctypes.c_uint64
    symbols.malloc.restype = ctypes.c_void_p
    symbols.free.argtypes = [ctypes.c_void_p]
    return symbols


def allocations(run: Callable[[], object]) -> int:
    """Return how often a call allocates after a first run."""
    counter = library().palm_allocations
    counts: list[int] = []
    for _ in repeat(None, RUNS):
        before = counter()
        run()
        counts.append(counter() - before)
    return min(counts[1:])


def of_steps(plan: Plan, inputs: list[Array], threads: int) -> int:
    """Return how often the steps of a plan allocate in one run."""
    # The first tensor of an output is all of it.
    outputs = {
        each.slot: np.empty(each.dims, each.dtype)
        for each in reversed(plan.tensors)
        if each.place == "output"
    }
    arrays = [outputs[slot] for slot in sorted(outputs)]
    counts: list[int] = []
    for steps in (plan.steps, ()):
        program = _native.Program(*replace(plan, steps=steps).native())
        session = program.session(threads, eager=True)
        counts.append(allocations(partial(session.run, inputs, arrays)))
    return counts[0] - counts[1]


def plans() -> Iterator[tuple[str, Plan, list[Array]]]:
    """Yield plans of every op's cases, and of a whole network."""
    cpu = Cpu()
    for op, case in CASES:
        graph = one_node(op, case)
        given = {f"x{i}": x for i, x in enumerate(arrays(case)) if x is not None}
        if not cpu.supports(graph.nodes[0]):
            continue
        try:
            program = cpu.compile(graph)
        except PalmError:
            continue
        inputs = [np.ascontiguousarray(given[name]) for name in graph.inputs]
        yield f"{op.name} {label(case)}", program.plan, inputs
    image = np.zeros((1, 96, 160, 3), np.float32)
    network = specialise(convert(MODEL), {"image": Type.of(image)})
    yield "face_detector", cpu.compile(network).plan, [image]


def check_counter() -> None:
    """Fail if the counter misses a known allocation."""
    kept: list[object] = []
    deliberate: dict[str, Callable[[], object]] = {
        "malloc": lambda: library().free(library().malloc(100)),
        "mmap": lambda: kept.append(mmap.mmap(-1, 4096)),
        "a session's arena": lambda: _native.Program(
            [("arena", 0, "float32", [1 << 16])], [], [], 1 << 18
        ).session(1),
    }
    for name, allocate in deliberate.items():
        if allocations(allocate) < 1:
            raise SystemExit(f"the counter misses {name}")


def main(threads: int) -> None:
    """Print the plans that allocate, and how many there are."""
    check_counter()
    count = 0
    for name, plan, inputs in plans():
        count += 1
        if found := of_steps(plan, inputs, threads):
            print(f"{name}: {found}")
    print(f"{count} plans")


if __name__ == "__main__":
    main(int(sys.argv[1]))
