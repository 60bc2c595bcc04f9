"""Convolutions of groups: one filter a channel, or a few channels each."""

from __future__ import annotations

from palmkit.engine.backends.gpu.kernels.layer import (
    Convolution,
    Epilogue,
    position,
    store,
    taps_of,
)
from palmkit.engine.backends.gpu.shader import Shader
from palmkit.engine.backends.gpu.wgsl import VECTOR


def emit_depthwise(conv: Convolution) -> None:
    """One filter a channel: some pixels of a row share the columns that they read."""
    emission, x, y, window = conv.emission, conv.x, conv.y, conv.window
    n, height, width, channels = x.dims
    _, rows, columns, _ = y.dims
    kh, kw = window.kernel
    (sy, sx), (dy, dx), (top, left) = window.strides, window.dilations, window.begins
    if window.transposed or not (x.is_wide(channels) and y.is_wide(channels)):
        emit_grouped(conv)
        return
    shader = Shader(emission, conv.step, wide=True)
    epilogue = Epilogue(emission, conv.step, shader, channels)
    vectors = -(-channels // VECTOR)
    pixels = 1
    while pixels < 4 and pixels * 2 <= columns:
        threads = n * rows * -(-columns // (pixels * 2)) * vectors
        if threads < emission.target.invocations:
            break
        pixels *= 2
    source, target = shader.access(x, VECTOR), shader.access(y, VECTOR)
    turned = conv.weights[..., 0].transpose(1, 2, 0)
    packed = shader.constant(turned, VECTOR)
    steps = -(-columns // pixels)

    def body() -> list[str]:
        lines = [
            f"let ox = step_x * {pixels}u;",
            *[f"var sum_{p} = {epilogue.begin('m')};" for p in range(pixels)],
            f"let begin = i32(ox) * {sx} - {left};",
            f"for (var ky = 0; ky < {kh}; ky++) {{",
            f"let iy = i32(oy) * {sy} + ky * {dy} - {top};",
            f"let base = (i32(b) * {height} + clamp(iy, 0, {height - 1})) * {width};",
            f"let is_row = iy >= 0 && iy < {height};",
        ]
        reads = sorted({p * sx + k * dx for p in range(pixels) for k in range(kw)})
        for c in reads:
            value = shader.read(
                source,
                f"(u32(base + clamp(begin + {c}, 0, {width - 1})) * {x.pixel // VECTOR}u + m)",
            )
            inside = f"is_row && begin + {c} >= 0 && begin + {c} < {width}"
            lines.append(f"let x_{c} = select(vec4<f32>(0), {value}, {inside});")
        for k in range(kw):
            lines.append(
                f"let w_{k} = {shader.read(packed, f'(u32(ky * {kw} + {k}) * {vectors}u + m)')};"
            )
            lines += [f"sum_{p} = fma(x_{p * sx + k * dx}, w_{k}, sum_{p});" for p in range(pixels)]
        lines.append("}")
        for p in range(pixels):
            pixel = f"(b * {rows}u + oy) * {columns}u + ox + {p}u"
            each = epilogue.lines(f"sum_{p}", pixel, "m")
            each += store(shader, target, f"sum_{p}", pixel, "m", channels)
            if columns % pixels and p:
                each = [f"if (ox + {p}u < {columns}u) {{", *each, "}"]
            lines += each
        return lines

    shader.each([n, rows, steps, vectors], ["b", "oy", "step_x", "m"], body)


def emit_grouped(conv: Convolution) -> None:
    """Any number of channels a group: a thread for each element of the output."""
    x, weights, y, window = conv.x, conv.weights, conv.y, conv.window
    n, height, width, _ = x.dims
    _, rows, columns, outputs = y.dims
    each, inputs = outputs // conv.group, weights.shape[-1]
    kw = window.kernel[1]
    shader = Shader(conv.emission, conv.step, wide=False)
    epilogue = Epilogue(conv.emission, conv.step, shader, outputs)
    source, target = shader.access(x), shader.access(y)
    packed = shader.constant(weights.transpose(1, 2, 3, 0))
    value = shader.read(source, "(base + c)")
    weight = shader.read(packed, f"((u32(ky * {kw} + kx) * {inputs}u + c) * {outputs}u + m)")
    pixel = f"(b * {rows}u + oy) * {columns}u + ox"
    body = [
        "var sum = 0.0;",
        taps_of(window, 0, "i32(oy)", "ky"),
        *position(window, 0, "i32(oy)", "ky", height, "iy"),
        taps_of(window, 1, "i32(ox)", "kx"),
        *position(window, 1, "i32(ox)", "kx", width, "ix"),
        f"let pixel = u32((i32(b) * {height} + iy) * {width} + ix);",
        f"let base = pixel * {x.pixel}u + m / {each}u * {inputs}u;",
        f"for (var c = 0u; c < {inputs}u; c++) {{ sum += {value} * {weight}; }}",
        "}",
        "}",
        # The four channels round about, of which one is kept.
        "let vector = m / 4u;",
        f"var all = vec4<f32>(sum) + {epilogue.begin('vector')};",
        *epilogue.lines("all", pixel, "vector"),
        shader.write(target, f"(({pixel}) * {y.pixel}u + m)", "all[m % 4u]"),
    ]
    shader.each([n, rows, columns, outputs], ["b", "oy", "ox", "m"], body)
