"""Kernels that make few numbers of many: a row of a workgroup's threads shares out each line."""

from __future__ import annotations

from math import prod

from palmkit.engine.backends.gpu.emission import Emission, kernel
from palmkit.engine.backends.gpu.functions import operate
from palmkit.engine.backends.gpu.kernels.attributes import has, integer, integers, number, text
from palmkit.engine.backends.gpu.shader import Shader
from palmkit.engine.backends.gpu.wgsl import THREADS, VECTOR, is_nan, split, total
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.steps.lowering import collapse
from palmkit.engine.steps.plan import PlannedStep
from palmkit.engine.steps.step import Step

# How two partial results become one, and what a thread's part begins with, if not with an element.
_FOLDS = {"sum": "add", "mean": "add", "l2": "add", "prod": "mul", "max": "max", "min": "min"}
_BEGINS = {"add": "0", "mul": "1"}


def rows_of(most: int, length: int, least: int = 1) -> int:
    """How many threads share a line: a power of two, not more than the line has elements."""
    rows = least
    while rows * 2 <= min(most, length):
        rows *= 2
    return rows


def fold(variable: str, rows: int, lanes: int, op: str, of: str) -> list[str]:
    """Lines that make `variable` of each lane's first row what all rows' are together.

    op: of `operate`. Threads are numbered row by row: `row` and `lane` are thread / lanes and
    thread % lanes. Lanes lie in the workgroup array `shared_parts`; all threads have to come along.
    """
    if rows == 1:
        return []
    lines = [f"shared_parts[thread] = {variable};", "workgroupBarrier();"]
    half = rows // 2
    while half:
        both = f"let one = shared_parts[thread]; let two = shared_parts[thread + {half * lanes}u];"
        joined = f"shared_parts[thread] = {operate(op, 'one', 'two', of)};"
        lines.append(f"if (row < {half}u) {{ {both} {joined} }}")
        lines.append("workgroupBarrier();")
        half //= 2
    return [*lines, f"{variable} = shared_parts[lane];"]


def declared_parts(threads: int, of: str) -> str:
    """The declaration of `shared_parts`."""
    return f"var<workgroup> shared_parts: array<{of}, {threads}>;"


def _check_integers(step: Step) -> None:
    dtypes = ("int32", "int64") if step.attrs["op"] in ("max", "min") else ("int32",)
    if step.input("x").dtype not in dtypes:
        raise UnsupportedError(f"{step.attrs['op']} of {step.input('x').dtype}")


@kernel("reduce_integers", "x", check=_check_integers)
@kernel("reduce", "x")
def emit_reduce(emission: Emission, step: PlannedStep) -> None:
    """Reduce over any dims."""
    op = text(step, "op")
    y = emission.operand(step.outputs["y"])
    out_shape, (out_strides,) = collapse(integers(step, "out_shape"), integers(step, "out_strides"))
    red_shape, (red_strides,) = collapse(integers(step, "red_shape"), integers(step, "red_strides"))
    x = emission.operand(step.inputs["x"])
    length = prod(red_shape)
    strides = (*out_strides[:-1], *red_strides)
    wide = (
        out_strides[-1] == 1
        and out_shape[-1] % VECTOR == 0
        and all(stride % VECTOR == 0 for stride in (*strides, x.offset, y.offset))
    )
    width = VECTOR if wide else 1
    shader = Shader(emission, step, wide)
    source, target = shader.access(x, width), shader.access(y, width)
    of = source.of
    shape = [*out_shape[:-1], out_shape[-1] // width]
    walks = [*(s // width for s in out_strides[:-1]), out_strides[-1]]
    red_walks = [stride // width for stride in red_strides]
    count = prod(shape)
    # Neighbouring threads read neighbouring elements, of one line or of several.
    along = red_strides[-1] == 1 and not wide
    rows = rows_of(emission.target.threads if along else 16, length)
    lanes = max(1, THREADS // rows) if along else 16
    threads = rows * lanes
    names = [f"o{i}" for i in range(len(shape))]
    red = [f"r{i}" for i in range(len(red_shape))]
    joined = _FOLDS[op]
    place = f"({total(names, walks)} + {total(red, red_walks)})"
    value = shader.read(source, place)
    value = f"{value} * {value}" if op == "l2" else value
    first = shader.read(source, f"({total(names, walks)})")
    start = f"{of}({_BEGINS[joined]})" if joined in _BEGINS else first
    finish = {
        "mean": f"result * {of}({1 / length!r})" if y.scalar == "f32" else "result",
        "l2": "sqrt(result)",
    }.get(op, "result")
    body = [
        *_own_line(count, lanes),
        *split("known", shape, names),
        f"var result: {of} = {start};",
        f"for (var r = row; r < {length}u; r += {rows}u) {{",
        *[f"  {line}" for line in split("r", red_shape, red)],
        f"  let value = {value};",
        f"  result = {operate(joined, 'result', 'value', of)};",
        "}",
        *fold("result", rows, lanes, joined, of),
        f"if (row == 0u && at < {count}u) {{ {shader.write(target, 'at', finish)} }}",
    ]
    shader.run(body, -(-count // lanes), threads, [declared_parts(threads, of)])


def _own_line(count: int, lanes: int) -> list[str]:
    """Lines that say which line is a thread's: `at`, and one that there is, `known`."""
    return [
        f"let lane = thread % {lanes}u;",
        f"let row = thread / {lanes}u;",
        f"let at = group * {lanes}u + lane;",
        f"let known = min(at, {count - 1}u);",
    ]


def _lines(
    emission: Emission, count: int, length: int, least_lanes: int = 1
) -> tuple[int, int, list[str]]:
    """How many threads share a line, how many lines a workgroup has, and lines of text for it."""
    rows = rows_of(emission.target.threads, length)
    lanes = max(least_lanes, THREADS // rows)
    return rows, lanes, _own_line(count, lanes)


@kernel("softmax", "x")
def emit_softmax(emission: Emission, step: PlannedStep) -> None:
    """Write the softmax of each line x[outer, :, inner]."""
    outer, axis, inner = (integer(step, name) for name in ("outer", "axis", "inner"))
    x, y = emission.operand(step.inputs["x"]), emission.operand(step.outputs["y"])
    count = outer * inner
    rows, lanes, text_of = _lines(emission, count, axis)
    shader = Shader(emission, step, wide=False)
    source, target = shader.access(x), shader.access(y)
    value = shader.read(source, f"(base + i * {inner}u)")
    loop = f"for (var i = row; i < {axis}u; i += {rows}u) {{"
    is_log = integer(step, "log")
    result = f"{value} - most - log(sum)" if is_log else f"exp({value} - most) / sum"
    body = [
        *text_of,
        f"let base = (known / {inner}u) * {axis * inner}u + known % {inner}u;",
        f"var most = {shader.read(source, 'base')};",
        loop,
        f"  let value = {value};",
        f"  most = {operate('max', 'most', 'value', 'f32')};",
        "}",
        *fold("most", rows, lanes, "max", "f32"),
        *(["workgroupBarrier();"] if rows > 1 else []),
        "var sum = 0.0;",
        loop,
        f"  sum += exp({value} - most);",
        "}",
        *fold("sum", rows, lanes, "add", "f32"),
        f"if (at < {count}u) {{",
        f"  {loop}",
        f"    {shader.write(target, f'(base + i * {inner}u)', result)}",
        "  }",
        "}",
    ]
    threads = rows * lanes
    shader.run(body, -(-count // lanes), threads, [declared_parts(threads, "f32")])


@kernel("normalize", "x scale bias")
def emit_normalize(emission: Emission, step: PlannedStep) -> None:
    """Groups of x[items, rows, groups, n], each by its mean and variance over rows and n."""
    items, height, groups, n = (integer(step, name, 1) for name in ("items", "rows", "groups", "n"))
    x, y = emission.operand(step.inputs["x"]), emission.operand(step.outputs["y"])
    count, length = items * groups, height * n
    rows, lanes, text_of = _lines(emission, count, length)
    shader = Shader(emission, step, wide=False)
    source, target = shader.access(x), shader.access(y)
    place = f"(base + i / {n}u * {groups * n}u + i % {n}u)"
    value = shader.read(source, place)
    column = f"(known % {groups}u * {n}u + i % {n}u)"
    scaled = "(value - mean) * inverse"
    for name, joined in (("scale", "({}) * {}"), ("bias", "{} + {}")):
        if has(step, name):
            each = shader.constant(emission.value(step.inputs[name]).reshape(-1))
            scaled = joined.format(scaled, shader.read(each, column))
    loop = f"for (var i = row; i < {length}u; i += {rows}u) {{"
    apart = ["workgroupBarrier();"] if rows > 1 else []
    centre = [
        "var mean = 0.0;",
        loop,
        f"  mean += {value};",
        "}",
        *fold("mean", rows, lanes, "add", "f32"),
        f"mean = mean / {float(length)!r};",
        *apart,
    ]
    body = [
        *text_of,
        f"let base = known / {groups}u * {height * groups * n}u + known % {groups}u * {n}u;",
        *(centre if integer(step, "centre", 1) else ["let mean = 0.0;"]),
        "var variance = 0.0;",
        loop,
        f"  let off = {value} - mean;",
        "  variance += off * off;",
        "}",
        *fold("variance", rows, lanes, "add", "f32"),
        f"let inverse = 1.0 / sqrt(variance / {float(length)!r} + {number(step, 'epsilon')!r});",
        f"if (at < {count}u) {{",
        f"  {loop}",
        f"    let value = {value};",
        f"    {shader.write(target, place, scaled)}",
        "  }",
        "}",
    ]
    threads = rows * lanes
    shader.run(body, -(-count // lanes), threads, [declared_parts(threads, "f32")])


@kernel("local_response", "x")
def emit_local_response(emission: Emission, step: PlannedStep) -> None:
    """Each element by the squares of its neighbours along the last dim."""
    channels, size = integer(step, "channels", 1), integer(step, "size", 1)
    x, y = emission.operand(step.inputs["x"]), emission.operand(step.outputs["y"])
    shader = Shader(emission, step, wide=False)
    source, target = shader.access(x), shader.access(y)
    before = (size - 1) // 2
    after = size - 1 - before
    count = y.elements
    scale = number(step, "alpha") / size
    body = [
        f"let c = at % {channels}u;",
        "let base = at - c;",
        "var sum = 0.0;",
        f"let last = min({channels - 1}u, c + {after}u);",
        f"for (var k = max(c, {before}u) - {before}u; k <= last; k++) {{",
        f"  let value = {shader.read(source, '(base + k)')};",
        "  sum += value * value;",
        "}",
        f"let base_of = {number(step, 'bias')!r} + {scale!r} * sum;",
        f"let result = {shader.read(source, 'at')} / pow(base_of, {number(step, 'beta')!r});",
        shader.write(target, "at", "result"),
    ]
    shader.each([count], [], body)


@kernel("arg_max", "x")
def emit_arg_max(emission: Emission, step: PlannedStep) -> None:
    """Where along an axis the greatest, or least, element is; the first NaN if there is one."""
    outer, axis, inner = (integer(step, name) for name in ("outer", "axis", "inner"))
    x, y = emission.operand(step.inputs["x"]), emission.operand(step.outputs["y"])
    shader = Shader(emission, step, wide=False)
    source, target = shader.access(x), shader.access(y)
    count = outer * inner
    sign = ">" if text(step, "op") == "max" else "<"
    sign = f"{sign}=" if integer(step, "last") else sign
    floats = x.scalar == "f32"
    better = f"value {sign} best"
    if floats:
        known, strange = (is_nan(name, "f32") for name in ("best", "value"))
        ahead = "true" if integer(step, "last") else f"!{known}"
        better = f"({better}) && !{known} || {strange} && ({ahead})"
    body = [
        f"let base = at / {inner}u * {axis * inner}u + at % {inner}u;",
        f"var best = {shader.read(source, 'base')};",
        "var place = 0;",
        f"for (var i = 1u; i < {axis}u; i++) {{",
        f"  let value = {shader.read(source, f'(base + i * {inner}u)')};",
        f"  if ({better}) {{ best = value; place = i32(i); }}",
        "}",
        shader.write(target, "at", "place"),
    ]
    shader.each([count], [], body)


def _check_cum_sum(step: Step) -> None:
    if step.input("x").dtype not in ("float32", "int32"):
        raise UnsupportedError(f"sums of {step.input('x').dtype}")


@kernel("cum_sum", "x", check=_check_cum_sum)
def emit_cum_sum(emission: Emission, step: PlannedStep) -> None:
    """Sums of what comes before each element along an axis."""
    outer, axis, inner = (integer(step, name) for name in ("outer", "axis", "inner"))
    x, y = emission.operand(step.inputs["x"]), emission.operand(step.outputs["y"])
    shader = Shader(emission, step, wide=False)
    source, target = shader.access(x), shader.access(y)
    count = outer * inner
    at = f"{axis - 1}u - i" if integer(step, "reverse") else "i"
    both = ["let value = " + shader.read(source, "place") + ";"]
    written = shader.write(target, "place", "sum")
    both += [written, "sum += value;"] if integer(step, "exclusive") else ["sum += value;", written]
    body = [
        f"let base = at / {inner}u * {axis * inner}u + at % {inner}u;",
        f"var sum = {x.scalar}(0);",
        f"for (var i = 0u; i < {axis}u; i++) {{",
        f"  let place = base + ({at}) * {inner}u;",
        *[f"  {line}" for line in both],
        "}",
    ]
    shader.each([count], [], body)
