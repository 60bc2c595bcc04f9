"""Element-wise operators and reductions."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.tensorflow.site import Site, rule
from palmkit.engine.errors import ModelError

_UNARY = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Elu": "elu",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "Inv": "reciprocal",
    "Invert": "bitwise_not",
    "IsInf": "is_inf",
    "IsNan": "is_nan",
    "Log": "log",
    "LogicalNot": "not",
    "Neg": "neg",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Rint": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}


@rule(*_UNARY)
def _unary(n: Site) -> None:
    n.finish(n.emit(_UNARY[n.op], n.value(0)))


@rule("Round")
def _round(n: Site) -> None:
    is_float = "float" in n.dtype()
    n.finish(n.emit("round", n.value(0)) if is_float else n.raw(0))


@rule("Selu")
def _selu(n: Site) -> None:
    n.finish(n.emit("selu", n.value(0)))


@rule("Relu6")
def _relu6(n: Site) -> None:
    low, high = n.constant(0, n.dtype()), n.constant(6, n.dtype())
    n.finish(n.emit("clip", n.value(0), low, high))


@rule("LeakyRelu")
def _leaky_relu(n: Site) -> None:
    n.finish(n.emit("leaky_relu", n.value(0), alpha=n.real("alpha", 0.2)))


@rule("Rsqrt")
def _rsqrt(n: Site) -> None:
    n.finish(n.emit("reciprocal", n.emit("sqrt", n.value(0))))


@rule("Square")
def _square(n: Site) -> None:
    n.finish(n.emit("mul", n.value(0), n.value(0)))


@rule("Log1p")
def _log1p(n: Site) -> None:
    n.finish(n.emit("log", n.emit("add", n.value(0), n.constant(1, n.dtype()))))


@rule("Expm1")
def _expm1(n: Site) -> None:
    n.finish(n.emit("sub", n.emit("exp", n.value(0)), n.constant(1, n.dtype())))


@rule("Erfc")
def _erfc(n: Site) -> None:
    n.finish(n.emit("sub", n.constant(1, n.dtype()), n.emit("erf", n.value(0))))


@rule("IsFinite")
def _is_finite(n: Site) -> None:
    broken = n.emit("or", n.emit("is_nan", n.value(0)), n.emit("is_inf", n.value(0)))
    n.finish(n.emit("not", broken))


@rule("Softmax")
def _softmax(n: Site) -> None:
    n.finish(n.emit("softmax", n.value(0), axis=-1))


@rule("LogSoftmax")
def _log_softmax(n: Site) -> None:
    n.finish(n.emit("log_softmax", n.value(0), axis=-1))


@rule("L2Loss")
def _l2_loss(n: Site) -> None:
    squares = n.emit("mul", n.value(0), n.value(0))
    total = n.emit("reduce_sum", squares, keepdims=0)
    n.finish(n.emit("mul", total, n.constant(0.5, n.dtype())))


_BINARY = {
    "Add": "add",
    "AddV2": "add",
    "Atan2": "atan2",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Div": "div",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterEqual": "greater_or_equal",
    "Less": "less",
    "LessEqual": "less_or_equal",
    "LogicalAnd": "and",
    "LogicalOr": "or",
    "Maximum": "max",
    "Minimum": "min",
    "Mul": "mul",
    "Pow": "pow",
    "RealDiv": "div",
    "Sub": "sub",
    "TruncateDiv": "div",
}


@rule(*_BINARY)
def _binary(n: Site) -> None:
    n.finish(n.emit(_BINARY[n.op], n.value(0), n.value(1)))


@rule("NotEqual")
def _not_equal(n: Site) -> None:
    n.finish(n.emit("not", n.emit("equal", n.value(0), n.value(1))))


@rule("AddN")
def _add_n(n: Site) -> None:
    total = n.value(0)
    for value in n.values(1):
        total = n.emit("add", total, value)
    n.finish(total)


@rule("SquaredDifference")
def _squared_difference(n: Site) -> None:
    difference = n.emit("sub", n.value(0), n.value(1))
    n.finish(n.emit("mul", difference, difference))


@rule("DivNoNan", "MulNoNan")
def _no_nan(n: Site) -> None:
    zero = n.constant(0, n.dtype())
    y = n.emit("div" if n.op == "DivNoNan" else "mul", n.value(0), n.value(1))
    n.finish(n.emit("where", n.emit("equal", n.value(1), zero), zero, y))


@rule("Xdivy", "Xlogy")
def _x_first(n: Site) -> None:
    zero, x, y = n.constant(0, n.dtype()), n.value(0), n.value(1)
    result = n.emit("div", x, y) if n.op == "Xdivy" else n.emit("mul", x, n.emit("log", y))
    n.finish(n.emit("where", n.emit("equal", x, zero), zero, result))


@rule("FloorDiv")
def _floor_div(n: Site) -> None:
    n.finish(_floor_quotient(n))


@rule("FloorMod")
def _floor_mod(n: Site) -> None:
    product = n.emit("mul", _floor_quotient(n), n.value(1))
    n.finish(n.emit("sub", n.value(0), product))


def _floor_quotient(n: Site) -> str:
    """Write x // y: div rounds towards zero, one too high for a rest and different signs."""
    a, b, dtype = n.value(0), n.value(1), n.dtype()
    quotient = n.emit("div", a, b)
    if "float" in dtype:
        return n.emit("floor", quotient)
    if dtype.startswith("u"):
        return quotient
    zero = n.constant(0, dtype)
    rest = n.emit("sub", a, n.emit("mul", quotient, b))
    uneven = n.emit("not", n.emit("equal", rest, zero))
    turned = n.emit("less", n.emit("mul", n.emit("sign", rest), n.emit("sign", b)), zero)
    both = n.emit("cast", n.emit("and", uneven, turned), to=dtype)
    return n.emit("sub", quotient, both)


@rule("Mod", "TruncateMod")
def _truncate_mod(n: Site) -> None:
    n.finish(n.emit("mod", n.value(0), n.value(1), fmod=1))


@rule("ClipByValue")
def _clip(n: Site) -> None:
    x, low, high = n.values()
    facts = [n.building.facts.get(bound) for bound in (low, high)]
    if all(fact is not None and fact.shape == () for fact in facts):
        n.finish(n.emit("clip", x, low, high))
    else:
        n.finish(n.emit("max", n.emit("min", x, high), low))


@rule("Select")
def _select(n: Site) -> None:
    """Write a select; a condition of one dim chooses whole rows."""
    condition = n.value(0)
    if n.rank(0) == 1 and n.rank(1) > 1:
        condition = n.emit("unsqueeze", condition, n.int64(*range(1, n.rank(1))))
    n.finish(n.emit("where", condition, n.value(1), n.value(2)))


@rule("SelectV2")
def _select_v2(n: Site) -> None:
    n.finish(n.emit("where", *n.values()))


_REDUCTIONS = {
    "EuclideanNorm": "reduce_l2",
    "Max": "reduce_max",
    "Mean": "reduce_mean",
    "Min": "reduce_min",
    "Prod": "reduce_prod",
    "Sum": "reduce_sum",
}


@rule(*_REDUCTIONS)
def _reduce(n: Site) -> None:
    n.finish(_reduced(n, _REDUCTIONS[n.op], n.value(0)))


@rule("All", "Any")
def _all(n: Site) -> None:
    numbers = n.emit("cast", n.value(0), to="int32")
    y = _reduced(n, "reduce_min" if n.op == "All" else "reduce_max", numbers)
    n.finish(n.emit("cast", y, to="bool"))


def _reduced(n: Site, op: str, value: str) -> str:
    """Write a reduction; without any axes the value stays as it is."""
    axes = n.as_vector(n.value(1))
    keepdims = int(n.flag("keep_dims"))
    return n.emit(op, value, axes, keepdims=keepdims, noop_with_empty_axes=1)


@rule("ArgMax", "ArgMin")
def _arg_max(n: Site) -> None:
    axis = n.integers(1)[0] if n.count > 1 else 0
    op = "arg_max" if n.op == "ArgMax" else "arg_min"
    y = n.emit(op, n.value(0), axis=axis, keepdims=0)
    n.finish(as_dtype(n, y, n.dtype("output_type", "int64")))


def as_dtype(n: Site, value: str, dtype: str) -> str:
    """Write an int64 value in another dtype."""
    return value if dtype == "int64" else n.emit("cast", value, to=dtype)


@rule("Cumsum")
def _cumsum(n: Site) -> None:
    axis = n.emit("reshape", n.as_int64(n.value(1)), n.int64())
    attrs = {"exclusive": int(n.flag("exclusive")), "reverse": int(n.flag("reverse"))}
    n.finish(n.emit("cum_sum", n.value(0), axis, **attrs))


@rule("Cumprod")
def _cumprod(n: Site) -> None:
    if n.flag("exclusive") or n.flag("reverse"):
        raise n.unsupported("exclusive or reverse")
    axis = n.emit("reshape", n.as_int64(n.value(1)), n.int64())
    n.finish(n.emit("cum_prod", n.value(0), axis))


@rule("LeftShift", "RightShift")
def _shift(n: Site) -> None:
    direction = n.op.removesuffix("Shift").upper()
    n.finish(n.emit("bit_shift", n.value(0), n.value(1), direction=direction))


@rule("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def _fake_quant(n: Site) -> None:
    """Round to the steps of an integer range that includes zero.

    The steps are those of tensorflow/core/kernels/fake_quant_ops_functor.h.
    """
    bits = n.integer("num_bits", 8)
    if not 2 <= bits <= 16:
        raise ModelError(f"node {n.name}: expected num_bits of 2..16, got {bits}")
    levels = float(2**bits - 1)
    first = float(n.flag("narrow_range"))
    if n.op == "FakeQuantWithMinMaxArgs":
        ends = np.array([n.real("min", -6), n.real("max", 6)], np.float32)
    else:
        ends = np.stack([n.array(1), n.array(2)]).astype(np.float32)
    low, high = ends
    if not (np.isfinite(ends).all() and (low < high).all()):
        raise ModelError(f"node {n.name}: expected a range, got {low} to {high}")
    scale = np.asarray((high - low) / np.float32(levels - first), np.float32)
    zero = np.clip(np.floor(first - low / scale + np.float32(0.5)), first, levels)
    low, high = (np.float32(first) - zero) * scale, (np.float32(levels) - zero) * scale
    bounds: list[str] = [n.constant(each, "float32") for each in (low, high, scale)]
    x = n.emit("min", n.emit("max", n.value(0), bounds[0]), bounds[1])
    steps = n.emit("div", n.emit("sub", x, bounds[0]), bounds[2])
    steps = n.emit("floor", n.emit("add", steps, n.constant(0.5, "float32")))
    n.finish(n.emit("add", n.emit("mul", steps, bounds[2]), bounds[0]))
