"""The last step of a guided filter on a device: every pixel of a part by its brightness."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.backends.gpu.resizing import PIXEL
from palmkit.engine.backends.gpu.wgsl import THREADS

KERNEL = "guided_upsample"
HEAD = 8
# Pixels of an invocation, a word of bytes.
PIXELS = 4

# The numbers: the word where the part is described, the word of the results, 0, the workgroups in a
# row, and the words of the largest result. Of the part: pixels, pixels in a row, the byte of the
# frame where it begins, the bytes of the frame's row, rows and columns of the offsets and of the
# slopes, and these themselves.
SHADER = f"""@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@group(0) @binding(1) var<storage, read> bytes: array<u32>;
@group(0) @binding(2) var<uniform> numbers: array<vec4<u32>, 2>;
{PIXEL}
struct Place {{ low: u32, high: u32, weight: f32 }}
fn place(i: u32, count: u32, length: u32) -> Place {{
  let at = (f32(i) + 0.5) * (f32(length) / f32(count)) - 0.5;
  let inside = clamp(at, 0.0, f32(length - 1u));
  let low = min(u32(inside), max(length, 2u) - 2u);
  return Place(low, min(low + 1u, length - 1u), inside - f32(low));
}}
fn number(at: u32) -> f32 {{ return bitcast<f32>(arena[at]); }}
fn grid(begin: u32, columns: u32, y: Place, x: Place) -> f32 {{
  let upper = begin + y.low * columns; let lower = begin + y.high * columns;
  let first = number(upper + x.low) + (number(upper + x.high) - number(upper + x.low)) * x.weight;
  let second = number(lower + x.low) + (number(lower + x.high) - number(lower + x.low)) * x.weight;
  return first + (second - first) * y.weight;
}}
@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {{
  let at = (workgroup.y * numbers[0].w + workgroup.x) * {THREADS}u + thread;
  let head = numbers[0].x;
  let first = at * {PIXELS}u; let count = arena[head]; let width = arena[head + 1u];
  if (first >= count) {{ return; }}
  let size = vec4<u32>(arena[head + 4u], arena[head + 5u], arena[head + 6u], arena[head + 7u]);
  let height = count / width;
  let offsets = head + {HEAD}u; let slopes = offsets + size.x * size.y;
  var found = 0u;
  for (var i = 0u; i < min({PIXELS}u, count - first); i++) {{
    let row = (first + i) / width; let column = (first + i) % width;
    var value = grid(offsets, size.y, place(row, height, size.x), place(column, width, size.y));
    let slope = grid(slopes, size.w, place(row, height, size.z), place(column, width, size.w));
    if (slope != 0.0) {{
      let rgb = pixel(arena[head + 2u] + row * arena[head + 3u] + column * 3u);
      value += slope * f32((rgb.x * 9798u + rgb.y * 19235u + rgb.z * 3735u + 16384u) >> 15u);
    }}
    found |= u32(round(clamp(value, 0.0, 1.0) * 255.0)) << (8u * i);
  }}
  arena[numbers[0].y + at] = found;
}}
"""


def part(
    begin: int,
    stride: int,
    size: tuple[int, int],
    offset: NDArray[np.float32],
    slopes: NDArray[np.float32],
) -> NDArray[np.uint32]:
    """Describe a part of so many pixels across and down for the shader."""
    width, height = size
    head = np.array([width * height, width, begin, stride, *offset.shape, *slopes.shape], np.uint32)
    grids = (np.ascontiguousarray(each).view(np.uint32).reshape(-1) for each in (offset, slopes))
    return np.concatenate([head, *grids])
