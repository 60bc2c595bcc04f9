"""Kernels that read images between their pixels: channels-last."""

from __future__ import annotations

from palmkit.engine.backends.gpu.emission import Emission, kernel
from palmkit.engine.backends.gpu.kernels.attributes import integer, text
from palmkit.engine.backends.gpu.kernels.movement import constant_indices
from palmkit.engine.backends.gpu.shader import Shader
from palmkit.engine.backends.gpu.wgsl import VECTOR
from palmkit.engine.steps.plan import PlannedStep


@kernel("resize", "image rows next_rows row_weights columns next_columns column_weights")
def emit_resize(emission: Emission, step: PlannedStep) -> None:
    """Two rows and two columns for each pixel, by tables; of "nearest" one."""
    x, y = emission.operand(step.inputs["image"]), emission.operand(step.outputs["y"])
    _, height, width, channels = x.dims
    n, rows, columns, _ = y.dims
    wide = x.is_wide(channels) and y.is_wide(channels)
    by = VECTOR if wide else 1
    shader = Shader(emission, step, wide)
    source, target = shader.access(x, by), shader.access(y, by)
    row = channels // by

    def table(name: str, index: str) -> str:
        return shader.read(shader.constant(emission.value(step.inputs[name])), index)

    def pixel(at_row: str, at_column: str) -> str:
        place = f"((b * {height}u + u32({at_row})) * {width}u + u32({at_column})) * {row}u + c"
        return shader.read(source, f"({place})")

    lines = [
        f"let iy = {table('rows', 'oy')};",
        f"let ix = {table('columns', 'ox')};",
    ]
    if text(step, "mode") == "linear":
        lines += [
            f"let jy = {table('next_rows', 'oy')};",
            f"let jx = {table('next_columns', 'ox')};",
            f"let wy = {table('row_weights', 'oy')};",
            f"let wx = {table('column_weights', 'ox')};",
            f"let upper = {pixel('iy', 'ix')} * (1.0 - wx) + {pixel('iy', 'jx')} * wx;",
            f"let lower = {pixel('jy', 'ix')} * (1.0 - wx) + {pixel('jy', 'jx')} * wx;",
            "let result = upper * (1.0 - wy) + lower * wy;",
        ]
    else:
        lines.append(f"let result = {pixel('iy', 'ix')};")
    shader.each(
        [n, rows, columns, row],
        ["b", "oy", "ox", "c"],
        [
            *lines,
            shader.write(target, "at", "result"),
        ],
    )


@kernel("resample", "x indices weights", check=constant_indices)
def emit_resample(emission: Emission, step: PlannedStep) -> None:
    """Weighted sums of elements along one axis."""
    outer, axis, inner, taps = (integer(step, name) for name in ("outer", "axis", "inner", "taps"))
    x, y = emission.operand(step.inputs["x"]), emission.operand(step.outputs["y"])
    indices, weights = (emission.value(step.inputs[name]) for name in ("indices", "weights"))
    size = indices.shape[0]
    wide = inner % VECTOR == x.offset % VECTOR == y.offset % VECTOR == 0
    by = VECTOR if wide else 1
    shader = Shader(emission, step, wide)
    source, target = shader.access(x, by), shader.access(y, by)
    places, factors = shader.constant(indices), shader.constant(weights.astype("float32"))
    row = inner // by
    shader.each(
        [outer, size, row],
        ["o", "p", "i"],
        [
            f"var result = {source.of}(0);",
            f"for (var t = 0u; t < {taps}u; t++) {{",
            f"  let place = u32({shader.read(places, f'(p * {taps}u + t)')});",
            f"  let weight = {shader.read(factors, f'(p * {taps}u + t)')};",
            f"  result += weight * {shader.read(source, f'((o * {axis}u + place) * {row}u + i)')};",
            "}",
            shader.write(target, "at", "result"),
        ],
    )


_PLACE = """fn place(at: f32, size: f32) -> f32 {{
  var p = {unscaled};
  {nearest}
  {padded}
  // Also what is no number is far outside.
  return select(-2.0, p, p >= -2.0 && p <= size + 1.0);
}}"""
_NEAREST = "p = round(p);"
_PADDED = {
    "zeros": "",
    "border": "p = min(max(p, 0.0), size - 1.0);",
    "reflection": """let low = {low}; let span = {span};
  if (span <= 0.0) {{ return 0.0; }}
  var over = abs(p - low) % (2.0 * span);
  if (over > span) {{ over = 2.0 * span - over; }}
  p = min(max(over + low, 0.0), size - 1.0); {nearest}""",
}


@kernel("grid_sample", "image grid")
def emit_grid_sample(emission: Emission, step: PlannedStep) -> None:
    """The image at the points of a grid; modes "linear" and "nearest"."""
    x, grid = (emission.operand(step.inputs[name]) for name in ("image", "grid"))
    y = emission.operand(step.outputs["y"])
    _, height, width, channels = x.dims
    n, rows, columns, _ = y.dims
    corners, linear = bool(integer(step, "align_corners")), text(step, "mode") == "linear"
    nearest = "" if linear else _NEAREST
    padded = _PADDED[text(step, "padding_mode") or "zeros"].format(
        low="0.0" if corners else "-0.5", span="size - 1.0" if corners else "size", nearest=nearest
    )
    unscaled = "(at + 1.0) / 2.0 * (size - 1.0)" if corners else "((at + 1.0) * size - 1.0) / 2.0"
    shader = Shader(emission, step, wide=False)
    source, points, target = shader.access(x), shader.access(grid), shader.access(y)
    inside = f"row >= 0 && row < {height} && column >= 0 && column < {width} && weight != 0.0"
    at_pixel = f"((b * {height}u + u32(row)) * {width}u + u32(column)) * {channels}u + c"
    place = f"((b * {rows}u + oy) * {columns}u + ox) * 2u"
    shader.each(
        [n, rows, columns, channels],
        ["b", "oy", "ox", "c"],
        [
            f"let py = place({shader.read(points, f'({place} + 1u)')}, {float(height)!r});",
            f"let px = place({shader.read(points, f'({place})')}, {float(width)!r});",
            "let fy = py - floor(py); let fx = px - floor(px);",
            "var result = 0.0;",
            f"for (var k = 0; k < {4 if linear else 1}; k++) {{",
            "  let row = i32(floor(py)) + k / 2; let column = i32(floor(px)) + k % 2;",
            "  let weight = select(1.0 - fy, fy, k / 2 == 1) * select(1.0 - fx, fx, k % 2 == 1);",
            f"  if ({inside}) {{ result += {shader.read(source, f'({at_pixel})')} * weight; }}",
            "}",
            shader.write(target, "at", "result"),
        ],
        declared=[_PLACE.format(unscaled=unscaled, nearest=nearest, padded=padded)],
    )
