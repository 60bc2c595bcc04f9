"""Kernels of windows over images without weights: channels-last."""

from __future__ import annotations

from palmkit.engine.backends.gpu.emission import Emission, kernel
from palmkit.engine.backends.gpu.kernels.attributes import integer, integers, text
from palmkit.engine.backends.gpu.shader import Shader
from palmkit.engine.backends.gpu.wgsl import VECTOR, is_nan, number
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.steps.plan import PlannedStep
from palmkit.engine.steps.step import Step


@kernel("pool", "image/pixels", "y/pixels")
def emit_pool(emission: Emission, step: PlannedStep) -> None:
    """The greatest of each window, or the mean."""
    x, y = emission.operand(step.inputs["image"]), emission.operand(step.outputs["y"])
    _, height, width, channels = x.dims
    n, rows, columns, _ = y.dims
    (kh, kw), (sy, sx) = integers(step, "kernel"), integers(step, "strides", (1, 1))
    dy, dx = integers(step, "dilations", (1, 1))
    top, left, bottom, right = integers(step, "pads", (0, 0, 0, 0))
    is_max, counted = text(step, "mode") == "max", integer(step, "count_include_pad")
    wide = x.is_wide(channels) and y.is_wide(channels)
    by = VECTOR if wide else 1
    shader = Shader(emission, step, wide)
    source, target = shader.access(x, by), shader.access(y, by)
    of, row = source.of, channels // by
    place = f"(((b * {height}u + u32(iy)) * {width}u + u32(ix)) * {x.pixel // by}u + c)"
    value = shader.read(source, place)
    if is_max:
        begin = f"{of}({shader.float(float('-inf'))})"
        either = f"(value > result) | {is_nan('value', of)}"
        greater = f"select(select(result, value, {either}), result, {is_nan('result', of)})"
        each = f"let value = {value}; result = {greater};"
    else:
        begin, each = f"{of}(0)", f"result += {value}; taps += 1.0;"
    padded = f"if (iy < {height + bottom} && ix < {width + right}) {{ taps += 1.0; }}"
    inside = f"iy >= 0 && iy < {height} && ix >= 0 && ix < {width}"
    if not is_max and counted:
        each = f"result += {value};"
    body = [
        f"var result: {of} = {begin};",
        *([] if is_max else ["var taps = 0.0;"]),
        f"for (var ky = 0; ky < {kh}; ky++) {{",
        f"  let iy = i32(oy) * {sy} + ky * {dy} - {top};",
        f"  for (var kx = 0; kx < {kw}; kx++) {{",
        f"    let ix = i32(ox) * {sx} + kx * {dx} - {left};",
        *([f"    {padded}"] if not is_max and counted else []),
        f"    if ({inside}) {{ {each} }}",
        "  }",
        "}",
        *([] if is_max else ["result = result / taps;"]),
        shader.write(
            target, f"(((b * {rows}u + oy) * {columns}u + ox) * {y.pixel // by}u + c)", "result"
        ),
    ]
    shader.each([n, rows, columns, row], ["b", "oy", "ox", "c"], body)


@kernel("max_pool_indices", "image", "y indices")
def emit_max_pool_indices(emission: Emission, step: PlannedStep) -> None:
    """The greatest of each window and where it is, in the image or, as MediaPipe has it, in it."""
    x, y = emission.operand(step.inputs["image"]), emission.operand(step.outputs["y"])
    places = emission.operand(step.outputs["indices"])
    _, height, width, channels = x.dims
    n, rows, columns, _ = y.dims
    (kh, kw), (sy, sx) = integers(step, "kernel"), integers(step, "strides", (1, 1))
    dy, dx = integers(step, "dilations", (1, 1))
    top, left = integers(step, "pads", (0, 0, 0, 0))[:2]
    in_window = integer(step, "in_window")
    shader = Shader(emission, step, wide=False)
    source, target, indices = shader.access(x), shader.access(y), shader.access(places)
    value = shader.read(
        source, f"(((b * {height}u + u32(iy)) * {width}u + u32(ix)) * {channels}u + c)"
    )
    if in_window:
        begin, place = number(-3.4028234663852886e38), f"f32(ky * {kw} + kx) + 0.1"
        first, better = "var place = 0.1;", "value > best"
    else:
        # Seen as [n, c, h, w], counted flat.
        flat = f"((i32(b) * {channels} + i32(c)) * {height} + iy) * {width} + ix"
        begin, place = shader.float(float("-inf")), flat
        first = "var place = 0;"
        numbers = is_nan("best", "f32"), is_nan("value", "f32")
        better = f"!{numbers[0]} && (value > best || {numbers[1]}) || !found"
    body = [
        f"var best = {begin};",
        first,
        *([] if in_window else ["var found = false;"]),
        f"for (var ky = 0; ky < {kh}; ky++) {{",
        f"  let iy = i32(oy) * {sy} + ky * {dy} - {top};",
        f"  for (var kx = 0; kx < {kw}; kx++) {{",
        f"    let ix = i32(ox) * {sx} + kx * {dx} - {left};",
        f"    if (iy >= 0 && iy < {height} && ix >= 0 && ix < {width}) {{",
        f"      let value = {value};",
        f"      if ({better}) {{ best = value; place = {place}; }}",
        *([] if in_window else ["      found = true;"]),
        "    }",
        "  }",
        "}",
        shader.write(target, "at", "best"),
        shader.write(indices, "at", "place"),
    ]
    shader.each([n, rows, columns, channels], ["b", "oy", "ox", "c"], body)


def _check_apart(step: Step) -> None:
    apart = zip(step.integers("kernel"), step.integers("strides"), strict=True)
    if any(kernel > stride for kernel, stride in apart):
        raise UnsupportedError("windows that overlap")


@kernel("max_unpool", "image indices", check=_check_apart)
def emit_max_unpool(emission: Emission, step: PlannedStep) -> None:
    """Zeros, and each element where its index says in its window."""
    x, places = (emission.operand(step.inputs[name]) for name in ("image", "indices"))
    y = emission.operand(step.outputs["y"])
    _, height, width, channels = x.dims
    n, rows, columns, _ = y.dims
    kernel_width, (sy, sx) = integers(step, "kernel")[1], integers(step, "strides", (1, 1))
    top, left = integers(step, "begins", (0, 0))
    zeros = Shader(emission, step, wide=False)
    written = zeros.access(y)
    zeros.each([y.elements], [], [zeros.write(written, "at", "0.0")])
    shader = Shader(emission, step, wide=False)
    source, indices, target = shader.access(x), shader.access(places), shader.access(y)
    place = f"((b * {rows}u + u32(row)) * {columns}u + u32(column)) * {channels}u + c"
    body = [
        f"let index = {shader.read(indices, 'at')};",
        # Far outside in either case; a float that is larger has no integer.
        "if (abs(index) > 1e9) { return; }",
        f"let down = i32(index) / {kernel_width};",
        f"let row = i32(i) * {sy} - {top} + down;",
        f"let column = i32(j) * {sx} - {left} + i32(index) - down * {kernel_width};",
        f"if (row < 0 || row >= {rows} || column < 0 || column >= {columns}) {{ return; }}",
        shader.write(target, f"({place})", shader.read(source, "at")),
    ]
    shader.each([n, height, width, channels], ["b", "i", "j", "c"], body)
