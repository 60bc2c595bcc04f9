"""Functions of each element in WGSL, of a scalar type or of vectors of it.

Comparisons let NaN through where `max`, `min` and `clamp` need not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isinf, pi, sqrt

from palmkit.engine.backends.gpu.wgsl import is_nan, number
from palmkit.engine.errors import UnsupportedError

# Of a function with its parameters: the result of the value of that name, of a WGSL type.
_Function = Callable[[str, str, Sequence[float]], str]


@dataclass(frozen=True)
class Function:
    """One function.

    text: its result as an expression. parameters: the attributes that it takes, and what stands
    for those that are left out.
    """

    text: _Function
    parameters: Mapping[str, float]


def _plain(template: str, **parameters: float) -> Function:
    """A function by text: {x} is the value, {t} its type, {0} and {1} its parameters."""

    def text(x: str, of: str, values: Sequence[float]) -> str:
        return template.format(*(number(value, of) for value in values), x=x, t=of)

    return Function(text, parameters)


def clip(x: str, of: str, bounds: Sequence[float]) -> str:
    """The value within two bounds; an infinite one bounds nothing."""
    low, high = bounds
    found = x
    for bound, sign, nothing in ((low, "<", low < 0), (high, ">", high > 0)):
        if not (isinf(bound) and nothing):
            if isinf(bound):
                raise UnsupportedError(f"a bound of {bound}")
            limit = number(bound, of)
            found = f"select({found}, {limit}, {found} {sign} {limit})"
    # Some compilers make `max` and `min` of that.
    return found if found == x else f"select({found}, {x}, {is_nan(x, of)})"


ERF = """fn erf(x: f32) -> f32 {
  // Abramowitz and Stegun, 7.1.26, is off by 1.5e-7; below 0.5 its power series is exact.
  let a = abs(x);
  let t = 1.0 / (1.0 + 0.3275911 * a);
  let p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 +
    t * 1.061405429))));
  let s = x * x;
  let series = x * (1.1283791671 + s * (-0.3761263890 + s * (0.1128379167 + s * (-0.0268661706 +
    s * 0.0052239776))));
  return select(sign(x) * (1.0 - p * exp(-s)), series, a < 0.5);
}"""
EXPM1 = """fn expm1(x: f32) -> f32 {
  let series = x * (1.0 + x * (0.5 + x * (0.16666667 + x * (0.041666668 + x * 0.008333334))));
  return select(exp(x) - 1.0, series, abs(x) < 0.125);
}"""
LOG1P = """fn log1p(x: f32) -> f32 {
  let u = 1.0 + x;
  return select(log(u) * x / (u - 1.0), x, u == 1.0);
}"""
TANH = """fn tanh_of(x: f32) -> f32 {
  let s = x * x;
  let series = x * (1.0 + s * (-0.33333334 + s * (0.13333334 + s * -0.053968254)));
  let e = exp(-2.0 * abs(x));
  return select(sign(x) * (1.0 - e) / (1.0 + e), series, abs(x) < 0.25);
}"""
POWER = """fn power(x: f32, y: f32) -> f32 {
  let magnitude = pow(abs(x), y);
  let odd = (abs(y) % 2.0) == 1.0;
  let whole = floor(y) == y;
  let signed = select(magnitude, -magnitude, odd && x < 0.0);
  return select(select(signed, bitcast<f32>(bitcast<u32>(y) | 0x7fc00000u), x < 0.0 && !whole),
    1.0, y == 0.0);
}"""
ARCS = """fn nothing(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) | 0x7fc00000u); }
fn within_one(x: f32) -> bool { return x >= -1.0 && x <= 1.0; }
fn asin_of(x: f32) -> f32 {
  return select(nothing(x), atan2(x, sqrt((1.0 - x) * (1.0 + x))), within_one(x));
}
fn acos_of(x: f32) -> f32 {
  return select(nothing(x), atan2(sqrt((1.0 - x) * (1.0 + x)), x), within_one(x));
}
fn atanh_of(x: f32) -> f32 {
  return select(nothing(x), 0.5 * log((1.0 + x) / (1.0 - x)), within_one(x));
}
fn atan_of(x: f32) -> f32 {
  return select(atan(x), x, (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u);
}"""
AREAS = """// Above 1e9 a square is as good as that square and one.
fn acosh_of(x: f32) -> f32 {
  let large = select(log(x + sqrt((x - 1.0) * (x + 1.0))), log(x) + 0.6931472, x > 1e9);
  return select(large, bitcast<f32>(bitcast<u32>(x) | 0x7fc00000u), x < 1.0);
}
fn asinh_of(x: f32) -> f32 {
  let a = abs(x);
  let large = select(log(a + sqrt(a * a + 1.0)), log(a) + 0.6931472, a > 1e9);
  return select(sign(x) * large, x - x * x * x / 6.0, a < 0.02);
}
fn sinh_of(x: f32) -> f32 {
  let e = exp(abs(x) * 0.5);
  let large = sign(x) * (0.5 * e * e - 0.5 / e / e);
  return select(large, x + x * x * x * (0.16666667 + x * x * 0.008333334), abs(x) < 0.25);
}"""
# By the calls of what each source defines.
_HELPERS = {
    ("erf(",): ERF,
    ("expm1(",): EXPM1,
    ("log1p(",): LOG1P,
    ("tanh_of(",): TANH,
    ("power(",): POWER,
    ("asin_of(", "acos_of(", "atan_of(", "atanh_of("): ARCS,
    ("asinh_of(", "acosh_of(", "sinh_of("): AREAS,
}


def _each(of: str, function: str, *arguments: str) -> str:
    """A helper's result: helpers take scalars, so that of a vector it is asked for each."""
    if not of.startswith("vec"):
        return f"{function}({', '.join(arguments)})"
    parts = (f"{function}({', '.join(f'{a}.{c}' for a in arguments)})" for c in "xyzw")
    return f"{of}({', '.join(parts)})"


def helpers(text: str) -> list[str]:
    """The definitions of the helpers that a text calls."""
    return [source for names, source in _HELPERS.items() if any(name in text for name in names)]


def _of_helper(name: str, wrap: str = "{h}", inner: str = "{x}", **parameters: float) -> Function:
    def text(x: str, of: str, values: Sequence[float]) -> str:
        numbers = [number(value, of) for value in values]
        argument = inner.format(*numbers, x=x, t=of)
        # The components of an expression need brackets.
        called = _each(of, name, argument if argument == x else f"({argument})")
        return wrap.format(*numbers, x=x, t=of, h=called)

    return Function(text, parameters)


def _within(value: str) -> str:
    """The value from 0 to 1, as text."""
    return f"select(select({value}, {{t}}(0), {value} < {{t}}(0)), {{t}}(1), {value} > {{t}}(1))"


def _hard_sigmoid(x: str, of: str, values: Sequence[float]) -> str:
    alpha, beta = (number(value, of) for value in values)
    limited = _within(f"({alpha} * {x} + {beta})").format(t=of)
    return f"select({limited}, {x}, {is_nan(x, of)})"


_SIGMOID = "{t}(1) / ({t}(1) + exp(-({x})))"
_GELU_TANH = f"{{t}}({sqrt(2 / pi)!r}) * ({{x}} + {{t}}(0.044715) * {{x}} * {{x}} * {{x}})"
_SOFTPLUS = "(max({x}, {t}(0)) + {h})"
FUNCTIONS: dict[str, Function] = {
    "abs": _plain("abs({x})"),
    "acos": _of_helper("acos_of"),
    "acosh": _of_helper("acosh_of"),
    "asin": _of_helper("asin_of"),
    "asinh": _of_helper("asinh_of"),
    "atan": _of_helper("atan_of"),
    "atanh": _of_helper("atanh_of"),
    "ceil": _plain("ceil({x})"),
    "celu": _of_helper(
        "expm1", "select({x}, {0} * {h}, {x} < {t}(0))", "min({x}, {t}(0)) / {0}", alpha=1.0
    ),
    "clip": Function(clip, {"min": float("-inf"), "max": float("inf")}),
    "cos": _plain("cos({x})"),
    "cosh": _plain("cosh({x})"),
    "elu": _of_helper(
        "expm1", "select({x}, {0} * {h}, {x} < {t}(0))", "min({x}, {t}(0))", alpha=1.0
    ),
    "erf": _of_helper("erf"),
    "exp": _plain("exp({x})"),
    "floor": _plain("floor({x})"),
    "gelu": _of_helper("erf", "{t}(0.5) * {x} * ({t}(1) + {h})", f"{{x}} * {{t}}({sqrt(0.5)!r})"),
    "gelu_tanh": _of_helper("tanh_of", "{t}(0.5) * {x} * ({t}(1) + {h})", _GELU_TANH),
    "hard_sigmoid": Function(_hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "hard_swish": _plain("{x} * " + _within(f"({{x}} * {{t}}({1 / 6!r}) + {{t}}(0.5))")),
    "leaky_relu": _plain("select({x}, {0} * {x}, {x} < {t}(0))", alpha=0.01),
    "log": _plain("log({x})"),
    "mish": _of_helper("tanh_of", "{x} * {h}", "max({x}, {t}(0)) + log({t}(1) + exp(-abs({x})))"),
    "neg": _plain("-({x})"),
    "reciprocal": _plain("{t}(1) / {x}"),
    "relu": Function(lambda x, of, _: clip(x, of, (0.0, float("inf"))), {}),
    "round": _plain("round({x})"),
    "selu": _of_helper(
        "expm1",
        "{1} * select({x}, {0} * {h}, {x} < {t}(0))",
        "min({x}, {t}(0))",
        alpha=1.67326319,
        gamma=1.05070102,
    ),
    "sigmoid": _plain(_SIGMOID),
    "sign": _plain("select(select({x}, {t}(-1), {x} < {t}(0)), {t}(1), {x} > {t}(0))"),
    "sin": _plain("sin({x})"),
    "sinh": _of_helper("sinh_of"),
    "softplus": _of_helper("log1p", _SOFTPLUS, "exp(-abs({x}))"),
    # What is divided by may be no larger than 2^126.
    "softsign": _plain(
        "select({x} / ({t}(1) + abs({x})), sign({x}), "
        "(abs({x}) > {t}(1e37)) & (abs({x}) < {t}(3.4e38)))"
    ),
    "sqrt": _plain("sqrt({x})"),
    "swish": _plain("{x} / ({t}(1) + exp(-({0} * {x})))", alpha=1.0),
    "tan": _plain("tan({x})"),
    "tanh": _of_helper("tanh_of"),
    "thresholded_relu": _plain("select({t}(0), {x}, {x} > {0})", alpha=1.0),
}


def apply(name: str, x: str, of: str, values: Mapping[str, object]) -> str:
    """The function's result; UnsupportedError for one that there is none of.

    x: a name. values: its parameters by name, as far as they are given.
    """
    function = FUNCTIONS.get(name)
    if function is None:
        raise UnsupportedError(f"no function {name}")
    given = {key: values.get(key, default) for key, default in function.parameters.items()}
    numbers = [value for value in given.values() if isinstance(value, int | float)]
    return function.text(x, of, numbers)


def activate(name: str, params: Sequence[float], x: str, of: str) -> str:
    """A layer's activation; its numbers stand in the function's order."""
    if not name:
        return x
    function = FUNCTIONS.get(name)
    names = () if function is None else tuple(function.parameters)
    return apply(name, x, of, dict(zip(names, params, strict=False)))


def power(x: str, y: str, of: str) -> str:
    """The power of two values."""
    return _each(of, "power", x, y)


_BINARY: dict[str, str] = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "{a} / {b}",
}
_BINARY_FLOATS: dict[str, str] = {
    **_BINARY,
    # A comparison with NaN fails, so that b stays where it is one.
    "max": "select(select({b}, {a}, {a} > {b}), {a}, {nan})",
    "min": "select(select({b}, {a}, {a} < {b}), {a}, {nan})",
    "mod": "({a} - {b} * floor({a} / {b}))",
    "fmod": "({a} % {b})",
}
_BINARY_INTEGERS: dict[str, str] = {
    **_BINARY,
    "max": "max({a}, {b})",
    "min": "min({a}, {b})",
    "mod": "((({a} % {b}) + {b}) % {b})",
    "fmod": "({a} % {b})",
    "and": "({a} & {b})",
    "or": "({a} | {b})",
    "xor": "({a} ^ {b})",
}
OPERATIONS = tuple(_BINARY_INTEGERS)
OPERATIONS_OF_FLOATS = tuple(_BINARY_FLOATS)


def operate(op: str, a: str, b: str, of: str) -> str:
    """The result of one of OPERATIONS on two values of a WGSL type, which stand there by name."""
    if "f32" in of:
        return _BINARY_FLOATS[op].format(a=a, b=b, nan=is_nan(a, of))
    return _BINARY_INTEGERS[op].format(a=a, b=b)


COMPARISONS: dict[str, str] = {
    "equal": "==",
    "less": "<",
    "less_or_equal": "<=",
    "greater": ">",
    "greater_or_equal": ">=",
}
