"""Kernels of each element: functions, operations on several, casts, fills, and levels."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from palmkit.engine.backends.gpu.dispatches import FLOATS
from palmkit.engine.backends.gpu.emission import Emission, kernel
from palmkit.engine.backends.gpu.functions import (
    COMPARISONS,
    FUNCTIONS,
    OPERATIONS,
    OPERATIONS_OF_FLOATS,
    activate,
    apply,
    operate,
    power,
)
from palmkit.engine.backends.gpu.kernels.attributes import has, integer, integers, numbers, text
from palmkit.engine.backends.gpu.kernels.attributes import number as number_of
from palmkit.engine.backends.gpu.kernels.pointwise import Expression, Walk, pointwise
from palmkit.engine.backends.gpu.shader import Shader
from palmkit.engine.backends.gpu.wgsl import Operand, is_nan, number
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.steps.plan import PlannedStep
from palmkit.engine.steps.step import Step, strides_of

_BITS = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16}
# What may leave the range of its dtype.
_ARITHMETIC = ("add", "sub", "mul", "div", "neg", "abs", "mod", "fmod")
_OTHERS = ("neg", "abs", "sign", "not", "is_nan", "where")


def _whole(
    emission: Emission, step: PlannedStep, names: Sequence[str], expression: Expression
) -> None:
    """Operands that are contiguous, of the output's shape."""
    y = emission.operand(step.outputs["y"])
    walks: list[Walk] = [
        (emission.operand(step.inputs[name]), strides_of(y.dims)) for name in names
    ]
    pointwise(emission, step, y.dims, walks, y, y.strides, expression)


def _check_unary(step: Step) -> None:
    if step.attrs["op"] not in FUNCTIONS:
        raise UnsupportedError(f"no function {step.attrs['op']}")


@kernel("unary", "x", check=_check_unary)
def emit_unary(emission: Emission, step: PlannedStep) -> None:
    """A function of each element."""

    def expression(shader: Shader, values: Sequence[str], of: str) -> str:
        return apply(text(step, "op"), values[0], of, step.attrs)

    _whole(emission, step, ["x"], expression)


@kernel("prelu", "x slope")
def emit_prelu(emission: Emission, step: PlannedStep) -> None:
    """Negative elements times a slope that is broadcast."""
    y = emission.operand(step.outputs["y"])
    shape = integers(step, "shape")
    own = strides_of(shape)
    walks: list[Walk] = [
        (emission.operand(step.inputs["x"]), own),
        (emission.operand(step.inputs["slope"]), integers(step, "slope_strides")),
    ]

    def expression(shader: Shader, values: Sequence[str], of: str) -> str:
        x, slope = values
        return f"select({x}, {slope} * {x}, {x} < {number(0, of)})"

    pointwise(emission, step, shape, walks, y, own, expression)


def _check_binary(step: Step) -> None:
    if step.attrs["op"] not in (*OPERATIONS_OF_FLOATS, "pow", "mul_add"):
        raise UnsupportedError(f"no operation {step.attrs['op']}")


@kernel("binary", "a b addend", check=_check_binary)
def emit_binary(emission: Emission, step: PlannedStep) -> None:
    """An operation on two operands, of floats."""
    op = text(step, "op")

    def expression(shader: Shader, values: Sequence[str], of: str) -> str:
        if op == "mul_add":
            result = f"fma({', '.join(values)})"
        elif op == "pow":
            result = power(values[0], values[1], of)
        else:
            result = operate(op, values[0], values[1], of)
        name = text(step, "activation")
        if not name:
            return result
        assert name == "clip"
        return activate(name, numbers(step, "activation_params"), f"({result})", of)

    _several(emission, step, expression, ("a", "b", "addend"))


def _several(
    emission: Emission, step: PlannedStep, expression: Expression, names: Sequence[str]
) -> None:
    """Operands that are walked along the output by strides."""
    y = emission.operand(step.outputs["y"])
    shape = integers(step, "shape")
    own = strides_of(shape)
    walks: list[Walk] = [
        (emission.operand(step.inputs[name]), integers(step, f"{name}_strides", own))
        for name in names
        if has(step, name)
    ]
    pointwise(emission, step, shape, walks, y, own, expression)


def _check_elementwise(step: Step) -> None:
    op, dtype = step.attrs["op"], step.input("a").dtype
    known = {*OPERATIONS, *COMPARISONS, *_OTHERS}
    if op not in known or (
        dtype in FLOATS and op not in (*OPERATIONS_OF_FLOATS, *COMPARISONS, *_OTHERS)
    ):
        raise UnsupportedError(f"no operation {op}")
    if dtype == "int64" and op in _ARITHMETIC:
        raise UnsupportedError(f"{op} of int64")


@kernel("elementwise", "a b c", check=_check_elementwise)
def emit_elementwise(emission: Emission, step: PlannedStep) -> None:
    """An operation on operands of any dtype."""
    op = text(step, "op")
    result = emission.tensor(step.outputs["y"]).dtype

    def expression(shader: Shader, values: Sequence[str], of: str) -> str:
        a, *rest = values
        if op in COMPARISONS:
            return f"select({of}(0), {of}(1), {a} {COMPARISONS[op]} {rest[0]})"
        if op == "where":
            return f"select({rest[1]}, {rest[0]}, {a} != {_zero(of)})"
        if op == "not":
            return f"{of}(1) - {a}"
        if op == "is_nan":
            return f"select({of}(0), {of}(1), {is_nan(a, of.replace('i32', 'f32'))})"
        if op in ("neg", "abs", "sign"):
            return _wrapped({"neg": f"-{a}"}.get(op, f"{op}({a})"), result, of)
        return _wrapped(operate(op, a, rest[0], of), result, of)

    _several(emission, step, expression, ("a", "b", "c"))


def _zero(of: str) -> str:
    """Zero of the type of a condition that is chosen by, beside values of a type."""
    return "vec4<i32>(0)" if of.startswith("vec") else "0i"


def _wrapped(value: str, dtype: str, of: str) -> str:
    """A result modulo the range of a narrow integer."""
    bits = _BITS.get(dtype)
    if bits is None:
        return value
    if dtype.startswith("u"):
        return f"({value}) & {number((1 << bits) - 1, of)}"
    unsigned = of.replace("i32", "u32")
    shift = number(32 - bits, unsigned)
    return f"(({value}) << {shift}) >> {shift}"


def _check_cast(step: Step) -> None:
    source, target = step.input("x").dtype, step.y.dtype
    if source in FLOATS and target == "int64":
        raise UnsupportedError("from floats to int64")
    if source == "int64" and target in _BITS:
        raise UnsupportedError(f"from int64 to {target}")


@kernel("cast", "x", check=_check_cast)
def emit_cast(emission: Emission, step: PlannedStep) -> None:
    """Cast each dtype as numpy does."""
    source = emission.tensor(step.inputs["x"]).dtype
    target = emission.tensor(step.outputs["y"]).dtype

    def expression(shader: Shader, values: Sequence[str], of: str) -> str:
        x = values[0]
        if target == "bool":
            zero = (
                "0"
                if not of.startswith("vec")
                else f"vec4<{'f32' if source in FLOATS else 'i32'}>(0)"
            )
            return f"select({of}(0), {of}(1), {x} != {zero})"
        if target == "float16" and source != "float16":
            return _halves(shader, f"{of}({x})", of)
        return _wrapped(f"{of}({x})", target if source != "bool" else "", of)

    _whole(emission, step, ["x"], expression)


def _halves(shader: Shader, value: str, of: str) -> str:
    """A value rounded to half precision; beyond its range infinite."""
    most = number(65520.0, of)
    infinity = shader.float(float("inf"))
    limited = f"clamp({value}, -{number(65504.0, of)}, {number(65504.0, of)})"
    beyond = f"select({value}, sign({value}) * {infinity}, abs({value}) >= {most})"
    return f"select({beyond}, quantizeToF16({limited}), abs({value}) < {most})"


@kernel("fill", "", check=None)
def emit_fill(emission: Emission, step: PlannedStep) -> None:
    """One number everywhere."""
    value = number_of(step, "value")

    def expression(shader: Shader, values: Sequence[str], of: str) -> str:
        if isfinite(value):
            return number(value, of)
        return f"{of}({shader.float(value)})"

    _whole(emission, step, [], expression)


@kernel("quantize", "x scale zero_point")
def emit_quantize(emission: Emission, step: PlannedStep) -> None:
    """To levels, from levels, or to the level nearest to each float."""
    op = text(step, "op")
    y = emission.operand(step.outputs["y"])
    shape = [integer(step, name) for name in ("outer", "axis", "inner")]
    scale = emission.value(step.inputs["scale"])
    zero = np.zeros(1, np.int32)
    if has(step, "zero_point"):
        zero = emission.value(step.inputs["zero_point"]).astype(np.int32)
    narrow = {"quantize": y.dtype, "dequantize": ""}.get(op, text(step, "dtype"))
    own = strides_of(shape)
    walks: list[Walk] = [(emission.operand(step.inputs["x"]), own)]
    walks += [(Operand.constant(each), [0, int(each.size > 1), 0]) for each in (scale, zero)]

    def expression(shader: Shader, values: Sequence[str], of: str) -> str:
        x, s, z = values
        floats = of.replace("i32", "f32")
        if op == "dequantize":
            return f"{floats}({x} - {z}) * {s}"
        limits = np.iinfo(narrow)
        low, high = number(float(limits.min), floats), number(float(limits.max), floats)
        level = f"clamp(round({x} / {s}) + {floats}({z}), {low}, {high})"
        return f"{of}({level})" if op == "quantize" else f"({level} - {floats}({z})) * {s}"

    pointwise(emission, step, shape, walks, y, own, expression)
