"""What kernels share that make each element of their output by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from palmkit.engine.backends.gpu.emission import Emission
from palmkit.engine.backends.gpu.shader import Shader
from palmkit.engine.backends.gpu.wgsl import VECTOR, Operand, total, vector
from palmkit.engine.steps.lowering import collapse
from palmkit.engine.steps.plan import PlannedStep

# An operand and its strides along the output's shape.
Walk = tuple[Operand, Sequence[int]]
# The result, from the values of the operands, for their WGSL types and that of the result.
Expression = Callable[[Shader, Sequence[str], str], str]


def pointwise(
    emission: Emission,
    step: PlannedStep,
    shape: Sequence[int],
    walks: Sequence[Walk],
    y: Operand,
    y_strides: Sequence[int],
    expression: Expression,
) -> None:
    """Write y at each index of a shape, from operands that are walked by strides along it."""
    dims, strides = collapse(shape, y_strides, *(strides for _, strides in walks))
    wide = _is_wide(dims, strides[0], y)
    shader = Shader(emission, step, wide)
    inner = dims[-1]
    counted = [*dims[:-1], inner // VECTOR] if wide else dims
    names = [f"i{i}" for i in range(len(counted))]
    body: list[str] = []
    values: list[str] = []
    for i, ((operand, _), walk) in enumerate(zip(walks, strides[1:], strict=True)):
        text = _read(shader, operand, walk, names, wide)
        of = vector(operand.scalar) if wide else operand.scalar
        body.append(f"let v{i} = {of}({text});")
        values.append(f"v{i}")
    of = vector(y.scalar) if wide else y.scalar
    target = shader.access(y, VECTOR if wide else 1)
    body.append(f"let result: {of} = {expression(shader, values, of)};")
    body.append(shader.write(target, _index(names, strides[0], wide), "result"))
    shader.each(counted, names, body)


def _is_wide(dims: Sequence[int], strides: Sequence[int], y: Operand) -> bool:
    """Whether y is written by vectors: they lie along the last dim, and on whole vectors."""
    outer = all(stride % VECTOR == 0 for stride in strides[:-1])
    return dims[-1] % VECTOR == 0 and strides[-1] == 1 and outer and y.offset % VECTOR == 0


def _index(names: Sequence[str], strides: Sequence[int], wide: bool) -> str:
    if wide:
        strides = [*(stride // VECTOR for stride in strides[:-1]), strides[-1]]
    return f"({total(names, strides)})"


def _read(
    shader: Shader, operand: Operand, walk: Sequence[int], names: Sequence[str], wide: bool
) -> str:
    if not wide:
        return shader.read(shader.access(operand), _index(names, walk, False))
    whole = all(stride % VECTOR == 0 for stride in (*walk[:-1], operand.offset))
    if walk[-1] == 1 and whole:
        return shader.read(shader.access(operand, VECTOR), _index(names, walk, True))
    access = shader.access(operand)
    if walk[-1] == 0:
        return shader.read(access, _index(names, walk, False))
    parts: list[str] = []
    for i in range(VECTOR):
        each = [*names[:-1], f"({names[-1]} * {VECTOR}u + {i}u)"]
        parts.append(shader.read(access, _index(each, walk, False)))
    return ", ".join(parts)
