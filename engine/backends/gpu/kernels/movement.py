"""Kernels that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from palmkit.engine.backends.gpu.emission import Emission, kernel
from palmkit.engine.backends.gpu.kernels.attributes import integer, integers
from palmkit.engine.backends.gpu.kernels.pointwise import pointwise
from palmkit.engine.backends.gpu.shader import Shader
from palmkit.engine.backends.gpu.wgsl import VECTOR
from palmkit.engine.errors import BackendError, UnsupportedError
from palmkit.engine.ir import Array
from palmkit.engine.steps.plan import PlannedStep
from palmkit.engine.steps.step import Step, strides_of


def the_value(shader: Shader, values: Sequence[str], of: str) -> str:
    """The one value as it is."""
    return values[0]


@kernel("copy", "x/strides", "y/strides")
def emit_copy(emission: Emission, step: PlannedStep) -> None:
    """Copy between views of any strides."""
    x = emission.operand(step.inputs["x"])
    y = emission.operand(step.outputs["y"])
    pointwise(emission, step, y.dims, [(x, x.strides)], y, y.strides, the_value)


def constant_indices(step: Step) -> None:
    """UnsupportedError for indices that a run gives: nobody would say that one is out of range."""
    if step.input("indices").buffer.place != "constant":
        raise UnsupportedError("indices that a run gives")


def within(node: str, indices: Array, size: int) -> Array:
    """Indices from 0 on; BackendError if one is out of range."""
    wrapped = np.where(indices < 0, indices + size, indices)
    if wrapped.size and not (wrapped.min() >= 0 and wrapped.max() < size):
        raise BackendError(f"{node}: backend gpu: an index is out of range of {size} elements")
    return wrapped.astype(np.int32)


def take(
    emission: Emission, step: PlannedStep, table: Array, outer: int, axis: int, inner: int
) -> None:
    """y[o, t, i] = x[o, table[t], i], for x[outer, axis, inner]; or table[o, t]."""
    y = emission.operand(step.outputs["y"])
    size = table.shape[-1]
    table_stride = size if table.ndim > 1 else 0
    source = emission.operand(step.inputs["x"])
    wide = inner % VECTOR == y.offset % VECTOR == source.offset % VECTOR == 0
    width = VECTOR if wide else 1
    shader = Shader(emission, step, wide)
    x = shader.access(source, width)
    row = inner // width
    target, places = shader.access(y, width), shader.constant(table.astype(np.int32))
    index = shader.read(places, f"(o * {table_stride}u + t)")
    shader.each(
        [outer, size, row],
        ["o", "t", "i"],
        [
            f"let place = u32({index});",
            f"let value = {shader.read(x, f'((o * {axis}u + place) * {row}u + i)')};",
            shader.write(target, "at", "value"),
        ],
    )


@kernel("gather", "x indices", check=constant_indices)
def emit_gather(emission: Emission, step: PlannedStep) -> None:
    """Runs of elements by constant indices along one axis."""
    outer, axis, inner = (integer(step, name) for name in ("outer", "axis", "inner"))
    table = within(step.node, emission.value(step.inputs["indices"]).reshape(-1), axis)
    take(emission, step, table, outer, axis, inner)


@kernel("gather_nd", "x indices", check=constant_indices)
def emit_gather_nd(emission: Emission, step: PlannedStep) -> None:
    """Runs of elements, each named by a constant tuple."""
    batch, dims, inner = integer(step, "batch"), integers(step, "dims"), integer(step, "inner")
    indices = emission.value(step.inputs["indices"])
    columns = indices.reshape(batch, -1, len(dims))
    table = np.zeros(columns.shape[:2], np.int64)
    for i, size in enumerate(dims):
        table = table * size + within(step.node, columns[:, :, i], size)
    take(emission, step, table, batch, prod(dims), inner)


@kernel("gather_elements", "x indices", check=constant_indices)
def emit_gather_elements(emission: Emission, step: PlannedStep) -> None:
    """An element for each constant index along one axis."""
    shape, dims, axis = integers(step, "shape"), integers(step, "dims"), integer(step, "axis")
    indices = within(step.node, emission.value(step.inputs["indices"]).reshape(shape), dims[axis])
    places = list(np.indices(shape))
    places[axis] = indices
    strides = strides_of(dims)
    table = sum(place * stride for place, stride in zip(places, strides, strict=True))
    take(emission, step, np.asarray(table).reshape(-1), 1, prod(dims), 1)


@kernel("interleave", "part*/pixels", "y/pixels")
def emit_interleave(emission: Emission, step: PlannedStep) -> None:
    """Runs of several inputs in turns along the last dim."""
    parts = [emission.operand(number) for number in step.inputs.values()]
    y = emission.operand(step.outputs["y"])
    n, inner = len(parts), integer(step, "inner", 1)
    runs = y.dims[-1] // (n * inner)
    wide = inner == 1 and VECTOR % n == 0 and y.is_wide(y.dims[-1])
    shader = Shader(emission, step, wide)
    reads: list[str] = []
    for part in parts:
        access = shader.access(part)
        reads.append(shader.read(access, f"(o * {part.pixel}u + {{place}})"))
    outer = y.elements // y.dims[-1]
    if wide:
        row = y.dims[-1] // VECTOR
        each = VECTOR // n
        values = [reads[i % n].format(place=f"q * {each}u + {i // n}u") for i in range(VECTOR)]
        target = shader.access(y, VECTOR)
        body = [
            f"let value = vec4<{y.scalar}>({', '.join(values)});",
            shader.write(target, f"(o * {y.pixel // VECTOR}u + q)", "value"),
        ]
        shader.each([outer, row], ["o", "q"], body)
        return
    target = shader.access(y)
    cases = [
        f"case {i}u: {{ value = {read.format(place=f'r * {inner}u + i')}; }}"
        for i, read in enumerate(reads[1:], 1)
    ]
    body = [
        f"var value = {reads[0].format(place=f'r * {inner}u + i')};",
        f"switch (j) {{ {' '.join(cases)} default: {{ }} }}",
        shader.write(target, f"(o * {y.pixel}u + at % {y.dims[-1]}u)", "value"),
    ]
    shader.each([outer, runs, n, inner], ["o", "r", "j", "i"], body)
