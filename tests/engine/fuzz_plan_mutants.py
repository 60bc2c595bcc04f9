"""Mutations of steps for the fuzzer of plans: dims, dtypes, attributes, operands, numbers."""

import random
from dataclasses import replace
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.steps.step import strides_of
from tests.engine.fuzz_plan_cases import (
    ARRAY_LIMIT_BYTES,
    DIMS,
    EDGES,
    Case,
    Operand,
    bytes_of,
)

NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e30, -1e30, float("nan"), float("inf"))
DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64", "bool")


def changed_value(value: Any, rng: random.Random) -> Any:
    """Return another value for an attribute."""
    if isinstance(value, list) and rng.random() < 0.8:
        values = list(cast(Any, value))
        if values and rng.random() < 0.8:
            values[rng.randrange(len(values))] = changed_value(rng.choice(values), rng)
        elif values and rng.random() < 0.5:
            values.pop(rng.randrange(len(values)))
        else:
            values.insert(rng.randint(0, len(values)), rng.choice(EDGES))
        return values
    if isinstance(value, str) and rng.random() < 0.7:
        return rng.choice(["", "no", "max", "add", "relu", "linear", "sum", "average", value * 2])
    if isinstance(value, float) and rng.random() < 0.8:
        return rng.choice(NUMBERS)
    if isinstance(value, int) and rng.random() < 0.5:
        return max(min(value + rng.choice((-2, -1, 1, 2, value)), (1 << 63) - 1), -(1 << 63))
    return rng.choice([*EDGES, *NUMBERS, "no", [], [rng.choice(EDGES)] * rng.randint(1, 6)])


def changed_dims(dims: tuple[int, ...], rng: random.Random) -> tuple[int, ...]:
    """Return other dims, of nearly the same rank."""
    some = list(dims)
    if some and rng.random() < 0.8:
        i = rng.randrange(len(some))
        near = max(0, some[i] + rng.choice((-1, 1)))
        some[i] = near if rng.random() < 0.4 else rng.choice(DIMS)
    elif some and rng.random() < 0.5:
        some.pop(rng.randrange(len(some)))
    else:
        some.insert(rng.randint(0, len(some)), rng.choice((0, 1, 2, 3)))
    return tuple(some)


def renamed(case: Case, old: int, new: int) -> Case:
    """Return the case with one number replaced by another wherever it stands."""

    def dims(x: Operand | None) -> Operand | None:
        return x and replace(x, dims=tuple(new if d == old else d for d in x.dims))

    def attr(value: Any) -> Any:
        if isinstance(value, list):
            return [attr(each) for each in cast(Any, value)]
        return new if type(value) is int and value == old else value

    outputs = tuple(x for x in map(dims, case.outputs) if x is not None)
    attrs = {key: attr(value) for key, value in case.attrs.items()}
    return replace(case, inputs=tuple(map(dims, case.inputs)), outputs=outputs, attrs=attrs)


def mutant(case: Case, others: list[Case], rng: random.Random) -> Case:
    """Return the case, damaged once or a few times, or unchanged."""
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        tensors = [*case.inputs, *case.outputs]
        kind = rng.randrange(9)
        if kind <= 1 and case.attrs:
            key = rng.choice(sorted(case.attrs))
            case = replace(case, attrs={**case.attrs, key: changed_value(case.attrs[key], rng)})
        elif kind == 2:
            attrs = dict(case.attrs)
            if attrs and rng.random() < 0.5:
                attrs.pop(rng.choice(sorted(attrs)))
            else:
                attrs.update(rng.choice(others).attrs)
            case = replace(case, attrs=attrs)
        elif kind <= 4:
            numbers = sorted({d for x in tensors if x is not None for d in x.dims})
            if numbers:
                case = renamed(case, rng.choice(numbers), rng.choice(DIMS[:23]))
        else:
            i = rng.randrange(len(tensors))
            x = tensors[i]
            if x is None or (kind == 5 and i < len(case.inputs) and rng.random() < 0.3):
                tensors[i] = rng.choice([None, *case.inputs]) if i < len(case.inputs) else x
            elif kind == 5:
                tensors[i] = replace(x, dtype=rng.choice(DTYPES))
            elif kind == 6:
                tensors[i] = replace(x, dims=changed_dims(x.dims, rng))
            elif kind == 8:
                tensors[i] = seen_otherwise(x, rng)
            elif i < len(case.inputs):
                tensors[i] = replace(x, value=None if x.value is not None else filling(x, rng))
            n = len(case.inputs)
            case = replace(
                case, inputs=tuple(tensors[:n]), outputs=tuple(x for x in tensors[n:] if x)
            )
    return case


def seen_otherwise(x: Operand, rng: random.Random) -> Operand:
    """Return the array as channels of wider pixels, or with other strides or offset."""
    if x.value is not None:
        return x
    if x.dims and rng.random() < 0.6:
        before, behind = rng.choice((0, 0, 1, 3, 8)), rng.choice((0, 0, 1, 5, 16))
        pixel = x.dims[-1] + before + behind
        strides = strides_of((*x.dims[:-1], pixel))
        whole = max(1, prod(x.dims[:-1]) * pixel)
        return replace(x, strides=tuple(strides), offset=before, whole=whole)
    walks: list[Any] = list(x.strides or strides_of(x.dims))
    offset = x.offset
    if walks and rng.random() < 0.7:
        i = rng.randrange(len(walks))
        walks[i] = changed_value(walks[i], rng)
    else:
        offset = rng.choice([*DIMS, offset + 1])
    if not all(isinstance(each, int) for each in walks):
        return x
    return replace(x, strides=tuple(walks), offset=offset, whole=x.whole or prod(x.dims) or 1)


def filling(operand: Operand, rng: random.Random) -> NDArray[Any] | None:
    """Return numbers for an array, hostile ones among them; None if it is too large."""
    size = bytes_of(operand)
    if size > ARRAY_LIMIT_BYTES or operand.dtype == "bfloat16":
        return None
    if operand.value is not None and operand.value.nbytes == size and rng.random() < 0.9:
        return operand.value
    numbers = np.random.default_rng(rng.getrandbits(32))
    dtype = operand.dtype
    if dtype == "bool" or rng.random() < 0.1:
        raw = numbers.integers(0, 2 if dtype == "bool" else 256, size, np.uint8)
        return raw.view(dtype)
    if np.dtype(dtype).kind in "iu":
        least, most = rng.choice([(0, 2), (0, 4), (-2, 3), (-100, 100), (0, 250)])
        values = numbers.integers(least, most, size // np.dtype(dtype).itemsize)
        return values.astype(dtype)
    return numbers.standard_normal(size // np.dtype(dtype).itemsize).astype(dtype)
