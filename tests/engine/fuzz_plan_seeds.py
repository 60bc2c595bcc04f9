"""The steps that the fuzzer of plans begins with; they are made in a process without sanitizers."""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from palmkit.engine.errors import PalmError
from palmkit.engine.steps.step import strides_of
from tests.engine.fuzz_plan_cases import CONSTANT_LIMIT_BYTES, DIMS, Case, Operand

ROOT = Path(__file__).parents[2]


def steps_of(plan: Any) -> Iterator[Case]:
    """Yield every step of a plan by itself."""
    tensors, steps, *_ = plan.native()
    for kernel, inputs, outputs, attrs in steps:

        def operand(index: int) -> Operand:
            place, slot, dtype, dims, offset, strides = tensors[index]
            value = plan.constants[slot] if place == "constant" else None
            if not (offset or strides):
                return Operand(dtype, tuple(dims), value)
            # So much of the whole as the part needs.
            walks = strides or strides_of(dims)
            first = sum((d - 1) * s for d, s in zip(dims, walks, strict=True) if s < 0)
            last = sum((d - 1) * s for d, s in zip(dims, walks, strict=True) if s > 0)
            own = offset if value is not None else min(offset, 64) - first
            whole = value.size if value is not None else own + last + 1
            return Operand(dtype, tuple(dims), value, tuple(strides), own, whole)

        taken = tuple(operand(i) if i >= 0 else None for i in inputs)
        attrs = {key: value for key, value in attrs.items() if key != "branch"}
        case = Case(kernel, taken, tuple(map(operand, outputs)), attrs)
        known = [x.value for x in taken if x is not None and x.value is not None]
        if sum(value.nbytes for value in known) <= CONSTANT_LIMIT_BYTES:
            yield case


def plans(seed: int, variants: int) -> Iterator[Any]:
    """Yield plans of many graphs, and of each op's cases with `variants` other dims."""
    from palmkit.engine import convert
    from palmkit.engine.backends.cpu import Cpu
    from palmkit.engine.backends.options import Options
    from palmkit.engine.backends.partition import specialise
    from palmkit.engine.ir import Type
    from palmkit.engine.ops import registry
    from tests.engine.test_ops import arrays, one_node

    rng = random.Random(seed)
    cpu = Cpu()

    def compiled(graph: Any, precision: str) -> Iterator[Any]:
        try:
            if all(map(cpu.supports, graph.nodes)):
                yield cpu.compile(graph, Options(precision=precision)).plan
        except (PalmError, ValueError, ArithmeticError, LookupError, TypeError):
            pass  # a case whose dims were changed need not make sense

    cases = [(op, case) for op in registry().values() for case in op.cases]
    for op, case in tqdm(cases, desc="seeds", disable=None):
        tried = [case]
        for _ in range(variants):
            shapes = [x.shape for x in case.inputs if isinstance(x, Type)]
            dims: dict[Any, int] = {d: rng.choice(DIMS[1:23]) for shape in shapes for d in shape}
            changed = tuple(
                replace(x, shape=tuple(dims[d] for d in x.shape)) if isinstance(x, Type) else x
                for x in case.inputs
            )
            tried.append(replace(case, inputs=changed))
        # Weights are constants where they are computed in the case.
        for variant in list(tried) if len(case.inputs) > 1 else ():
            if all(
                not isinstance(x, Type) or x.size_bytes < CONSTANT_LIMIT_BYTES
                for x in variant.inputs
            ):
                tried.append(replace(variant, inputs=(variant.inputs[0], *arrays(variant)[1:])))
        for variant in tried:
            try:
                graph = one_node(op, variant)
            except Exception:  # noqa: BLE001, S112  dims that do not fit the case
                continue
            for precision in ("high", "low"):
                yield from compiled(graph, precision)
    for path in sorted((ROOT / "models").glob("*/*.palm")):
        graph = convert(path)
        types = {
            name: Type(t.dtype, tuple(d if isinstance(d, int) else 32 for d in t.shape))
            for name, t in graph.inputs.items()
        }
        for precision in ("high", "medium", "low"):
            try:
                yield from compiled(specialise(graph, types), precision)
            except PalmError:
                continue


def seeds(seed: int, variants: int) -> list[Case]:
    """Return the steps, each once."""
    found: dict[bytes, Case] = {}
    for plan in plans(seed, variants):
        for case in steps_of(plan):
            mark = repr(
                replace(case, inputs=tuple(x and replace(x, value=None) for x in case.inputs))
            )
            found.setdefault(hashlib.sha256(mark.encode()).digest(), case)
    return list(found.values())
