"""Operators of two tensors, element by element: arithmetic, comparisons, logic, bits."""

from __future__ import annotations

from palmkit.engine.converters.tflite.builder import Builder, fused_activation, rule
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.errors import UnsupportedError

_BINARY = {
    "ADD": "add",
    "SUB": "sub",
    "MUL": "mul",
    "DIV": "div",
    "MAXIMUM": "max",
    "MINIMUM": "min",
    "POW": "pow",
    "PRELU": "prelu",
    "LOGICAL_AND": "and",
    "LOGICAL_OR": "or",
    "BITWISE_XOR": "bitwise_xor",
    "ATAN2": "atan2",
    "STABLEHLO_ADD": "add",
    "STABLEHLO_MULTIPLY": "mul",
    "STABLEHLO_MAXIMUM": "max",
    "STABLEHLO_MINIMUM": "min",
}
_ACTIVATED = ("ADD", "SUB", "MUL", "DIV")


_COMPARISONS = {
    "EQUAL": "equal",
    "GREATER": "greater",
    "GREATER_EQUAL": "greater_or_equal",
    "LESS": "less",
    "LESS_EQUAL": "less_or_equal",
}
_COMPARED_STEPS = 256.0


def _compared(b: Builder, o: Operator) -> list[str]:
    """Return the operands of a comparison; LiteRT compares bytes in 256ths of a real unit.

    Source: tensorflow/lite/kernels/internal/reference/comparisons.h.
    """
    levels = [b.quantization(index) for index in o.inputs]
    if any(each is None or each.zero_point.dtype.itemsize != 1 for each in levels):
        return [b.value(index) for index in o.inputs]
    steps = b.scalar(_COMPARED_STEPS)
    return [b.emit("round", b.emit("mul", b.value(index), steps)) for index in o.inputs]


@rule(*_COMPARISONS)
def _comparison(b: Builder, o: Operator) -> None:
    b.finish(o, b.emit(_COMPARISONS[o.op], *_compared(b, o)))


@rule("NOT_EQUAL")
def _not_equal(b: Builder, o: Operator) -> None:
    b.finish(o, b.emit("not", b.emit("equal", *_compared(b, o))))


@rule(*_BINARY)
def _binary(b: Builder, o: Operator) -> None:
    y = b.emit(_BINARY[o.op], b.value(o.inputs[0]), b.value(o.inputs[1]))
    b.finish(o, y, fused_activation(o) if o.op in _ACTIVATED else 0)


@rule("STABLEHLO_AND")
def _logic(b: Builder, o: Operator) -> None:
    """Write a logical op for booleans, a bitwise one for integers."""
    op = "and" if b.dtype(o.inputs[0]) == "bool" else "bitwise_and"
    b.finish(o, b.emit(op, b.value(o.inputs[0]), b.value(o.inputs[1])))


@rule("ADD_N")
def _add_n(b: Builder, o: Operator) -> None:
    first, *rest = (b.value(index) for index in o.inputs)
    for each in rest:
        first = b.emit("add", first, each)
    b.finish(o, first)


@rule("SQUARED_DIFFERENCE")
def _squared_difference(b: Builder, o: Operator) -> None:
    difference = b.emit("sub", b.value(o.inputs[0]), b.value(o.inputs[1]))
    b.finish(o, b.emit("mul", difference, difference))


def floored_quotient(b: Builder, x: str, y: str, dtype: str) -> str:
    """Return x / y rounded down; div of integers rounds towards zero."""
    if "int" not in dtype:
        return b.emit("floor", b.emit("div", x, y))
    quotient = b.emit("div", x, y)
    rest = b.emit("sub", x, b.emit("mul", quotient, y))
    one_less = b.emit("cast", _other_sign(b, rest, y, dtype), to=dtype)
    return b.emit("sub", quotient, one_less)


def _other_sign(b: Builder, rest: str, y: str, dtype: str) -> str:
    """Return where the remainder is not zero and has another sign than the divisor."""
    zero = b.scalar(0, dtype)
    signs_agree = b.emit("equal", b.emit("less", rest, zero), b.emit("less", y, zero))
    return b.emit("not", b.emit("or", b.emit("equal", rest, zero), signs_agree))


@rule("FLOOR_DIV")
def _floor_div(b: Builder, o: Operator) -> None:
    x, y = b.value(o.inputs[0]), b.value(o.inputs[1])
    b.finish(o, floored_quotient(b, x, y, b.dtype(o.inputs[0])))


@rule("FLOOR_MOD")
def _floor_mod(b: Builder, o: Operator) -> None:
    """Write the remainder that has the sign of the divisor."""
    x, y, dtype = b.value(o.inputs[0]), b.value(o.inputs[1]), b.dtype(o.inputs[0])
    if "int" in dtype:
        b.finish(o, b.emit("mod", x, y))
        return
    rest = b.emit("mod", x, y, fmod=1)
    b.finish(o, b.emit("where", _other_sign(b, rest, y, dtype), b.emit("add", rest, y), rest))


@rule("RIGHT_SHIFT")
def _right_shift(b: Builder, o: Operator) -> None:
    """Shift, keeping the sign of signed numbers: divide by a power of two, rounded down."""
    dtype = b.dtype(o.inputs[0])
    if dtype.startswith("u"):
        b.finish(
            o, b.emit("bit_shift", b.value(o.inputs[0]), b.value(o.inputs[1]), direction="RIGHT")
        )
        return
    if dtype not in ("int8", "int16", "int32"):
        raise UnsupportedError(f"node {b.current}: {o.op}: {dtype}")
    x, places = (b.emit("cast", b.value(index), to="int64") for index in o.inputs)
    divisor = b.emit("pow", b.scalar(2, "int64"), places)
    b.finish(o, b.emit("cast", floored_quotient(b, x, divisor, "int64"), to=dtype))


@rule("STABLEHLO_SHIFT_LEFT")
def _shift_left(b: Builder, o: Operator) -> None:
    x, places = (b.emit("cast", b.value(index), to="int64") for index in o.inputs)
    shifted = b.emit("mul", x, b.emit("pow", b.scalar(2, "int64"), places))
    b.finish(o, b.emit("cast", shifted, to=b.dtype(o.inputs[0])))


@rule("SELECT", "SELECT_V2")
def _select(b: Builder, o: Operator) -> None:
    """Write a select; SELECT also takes one condition a row."""
    condition, x, y = (b.value(index) for index in o.inputs)
    rank = b.rank(o.inputs[1])
    if o.op == "SELECT" and b.rank(o.inputs[0]) == 1 < rank:
        condition = b.emit("unsqueeze", condition, b.int64(*range(1, rank)))
    b.finish(o, b.emit("where", condition, x, y))
