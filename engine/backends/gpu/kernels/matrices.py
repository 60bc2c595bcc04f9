"""Products of matrices: constant ones are 1x1 convolutions of rows."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from palmkit.engine.backends.gpu.emission import Emission, kernel
from palmkit.engine.backends.gpu.kernels.attributes import has, integer, integers
from palmkit.engine.backends.gpu.kernels.convolution import emit_convolution
from palmkit.engine.backends.gpu.kernels.layer import Convolution, Window
from palmkit.engine.backends.gpu.shader import Shader
from palmkit.engine.backends.gpu.wgsl import VECTOR, total
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.steps.plan import PlannedStep
from palmkit.engine.steps.step import Step, strides_of


def _check(step: Step) -> None:
    bias = step.inputs.get("bias")
    if bias is not None and bias.buffer.place != "constant":
        raise UnsupportedError("computed bias")


@kernel("matmul", "a b bias", check=_check)
def emit_matmul(emission: Emission, step: PlannedStep) -> None:
    """y[..., m, n] = a[..., m, k] b[..., k, n] + bias[n], b[..., n, k] with trans_b."""
    m, k, n = (integer(step, name) for name in ("m", "k", "n"))
    batch = integers(step, "batch")
    b, y = emission.operand(step.inputs["b"]), emission.operand(step.outputs["y"])
    a = emission.operand(step.inputs["a"])
    trans_b = bool(integer(step, "trans_b"))
    if b.value is not None and prod(batch) == 1:
        value = b.value.reshape((n, k) if trans_b else (k, n))
        weights = (value if trans_b else value.T).reshape(n, 1, 1, k)
        pixels = replace(a, dims=(1, 1, m, k), strides=tuple(strides_of((1, 1, m, k))))
        result = replace(y, dims=(1, 1, m, n), strides=tuple(strides_of((1, 1, m, n))))
        emit_convolution(Convolution(emission, step, pixels, weights, result, Window((1, 1))))
        return
    wide = n % VECTOR == 0 and y.offset % VECTOR == 0
    shader = Shader(emission, step, wide)
    both: list[str] = []
    inner = "(a_at + i)", f"(b_at + j * {k}u + i)" if trans_b else f"(b_at + i * {n}u + j)"
    by = VECTOR if wide else 1
    per_row = n // by
    batch_names = [f"n{i}" for i in range(len(batch))]
    a_begin = total(batch_names, integers(step, "a_strides", [0] * len(batch)))
    b_begin = total(batch_names, integers(step, "b_strides", [0] * len(batch)))
    left, right = shader.access(a), shader.access(b)
    target = shader.access(y, by)
    of = target.of
    for lane in range(by):
        place = inner[1].replace("j", f"(q * {by}u + {lane}u)")
        both.append(shader.read(right, place))
    products = both[0] if by == 1 else f"vec4<f32>({', '.join(both)})"
    begin = f"{of}(0)"
    if has(step, "bias"):
        bias = shader.constant(emission.value(step.inputs["bias"]).reshape(-1), by)
        begin = shader.read(bias, "q")
    body = [
        f"let a_at = {a_begin} + row * {k}u;",
        f"let b_at = {b_begin};",
        f"var sum = {begin};",
        f"for (var i = 0u; i < {k}u; i++) {{",
        f"  sum = fma({of}({shader.read(left, inner[0])}), {products}, sum);",
        "}",
        shader.write(target, "at", "sum"),
    ]
    shader.each([*batch, m, per_row], [*batch_names, "row", "q"], body)
