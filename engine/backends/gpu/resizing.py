"""Pictures of bytes made larger or smaller on a device: the shader, and what it is told of a part.

Numbers are those of OpenCV: means of two by two and of two are rounded at each step, what is
between four pixels is computed with weights of 11 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.backends.gpu.wgsl import THREADS
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.frames import Method, Resizing

KERNEL = "resize_bytes"
# The steps of halving that the shader has.
MOST_HALVINGS = 5
# Words that a part is described by, before the tables of its columns and rows; of a place in them.
_HEAD, _ENTRY = 8, 5
# Shares of a pixel below it count for nothing.
_NOTHING = 1e-3

PIXEL = """fn pixel(at: u32) -> vec3<u32> {
  let shift = (at & 3u) * 8u;
  let low = bytes[at >> 2u] >> shift;
  // The buffer has a word more than the frame.
  let high = select(bytes[(at >> 2u) + 1u] << (32u - shift), 0u, shift == 0u);
  return (vec3<u32>(low | high) >> vec3<u32>(0u, 8u, 16u)) & vec3<u32>(255u);
}"""

_LEVEL = """fn level_{i}(x: u32, y: u32) -> vec3<u32> {{
  let across = 1u + ((halvings >> {across}u) & 1u);
  let down = 1u + ((halvings >> {down}u) & 1u);
  var sum = vec3<u32>();
  for (var i = 0u; i < down; i++) {{
    for (var j = 0u; j < across; j++) {{
      sum += level_{before}(x * across + j, y * down + i);
    }}
  }}
  let half = sum >> vec3<u32>(1u);
  if (across * down == 4u) {{ return (sum + 2u) >> vec3<u32>(2u); }}
  return select(sum, half + (sum & half & vec3<u32>(1u)), across * down == 2u);
}}"""

_LEVELS = "\n".join(
    _LEVEL.format(i=i, before=i - 1, across=2 * (i - 1), down=2 * i - 1)
    for i in range(1, MOST_HALVINGS + 1)
)
# Each has a bit for each axis; what is not halved goes through no loops.
_CHOICES = "\n".join(
    f"  if (halvings < {1 << 2 * i}u) {{ return level_{i}(x, y); }}" for i in range(MOST_HALVINGS)
)
_SUITED = f"""fn level(x: u32, y: u32) -> vec3<u32> {{
{_CHOICES}
  return level_{MOST_HALVINGS}(x, y);
}}"""

# The numbers: the word where the part is described, the word of the floats, the input's columns,
# the workgroups in a row, and the input's pixels.
SHADER = f"""@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@group(0) @binding(1) var<storage, read> bytes: array<u32>;
@group(0) @binding(2) var<uniform> numbers: array<vec4<u32>, 2>;
var<private> begin: u32;
var<private> stride: u32;
var<private> halvings: u32;
{PIXEL}
fn level_0(x: u32, y: u32) -> vec3<u32> {{ return pixel(begin + y * stride + x * 3u); }}
{_LEVELS}
{_SUITED}
fn between(row: u32, column: u32) -> vec3<u32> {{
  var sum = vec3<u32>();
  for (var i = 0u; i < 2u; i++) {{
    var line = vec3<u32>();
    for (var j = 0u; j < 2u; j++) {{
      line += level(arena[column + j], arena[row + i]) * arena[column + 2u + j];
    }}
    sum += (arena[row + 2u + i] * (line >> vec3<u32>(4u))) >> vec3<u32>(16u);
  }}
  return (sum + 2u) >> vec3<u32>(2u);
}}
fn share(entry: u32, i: u32) -> f32 {{
  let slot = select(select(3u, 4u, i + 1u == arena[entry + 1u]), 2u, i == 0u);
  return bitcast<f32>(arena[entry + slot]);
}}
fn covered(row: u32, column: u32) -> vec3<u32> {{
  var sum = vec3<f32>();
  for (var i = 0u; i < arena[row + 1u]; i++) {{
    var line = vec3<f32>();
    for (var j = 0u; j < arena[column + 1u]; j++) {{
      line += vec3<f32>(level(arena[column] + j, arena[row] + i)) * share(column, j);
    }}
    sum += share(row, i) * line;
  }}
  return vec3<u32>(clamp(round(sum), vec3<f32>(), vec3<f32>(255.0)));
}}
@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {{
  let at = (workgroup.y * numbers[0].w + workgroup.x) * {THREADS}u + thread;
  if (at >= numbers[1].x) {{ return; }}
  let head = numbers[0].x;
  let y = at / numbers[0].z - arena[head + 4u];
  let x = at % numbers[0].z - arena[head + 5u];
  var found = vec3<u32>();
  // Before the first of them the differences are large, too.
  if (y < arena[head + 6u] && x < arena[head + 7u]) {{
    begin = arena[head]; stride = arena[head + 1u]; halvings = arena[head + 2u];
    let column = head + {_HEAD}u + x * {_ENTRY}u;
    let row = head + {_HEAD}u + (arena[head + 7u] + y) * {_ENTRY}u;
    if (arena[head + 3u] == 0u) {{ found = between(row, column); }}
    else {{ found = covered(row, column); }}
  }}
  let to = numbers[0].y + at * 3u;
  arena[to] = bitcast<u32>(f32(found.x));
  arena[to + 1u] = bitcast<u32>(f32(found.y));
  arena[to + 2u] = bitcast<u32>(f32(found.z));
}}
"""


def words_of_part(rows: int, columns: int) -> int:
    """Return the most words that the description of a part takes for an input so large."""
    return _HEAD + _ENTRY * (rows + columns)


def part(
    begin: int,
    stride: int,
    size: tuple[int, int],
    steps: Sequence[Resizing],
    place: tuple[int, int],
) -> NDArray[np.uint32]:
    """Describe a part for the shader.

    begin: the byte of the frame where it begins; stride: bytes of the frame's row; size: its width
    and height. steps: as Frames.see has them, to what is left at the row and column `place`.
    Raises UnsupportedError for steps that the shader has not.
    """
    *first, last = steps or [Resizing(*size, "linear")]
    before = (first[-1].width, first[-1].height) if first else size
    if _is_halving(*before, last):
        first, last = [*first, last], last._replace(method="linear")
    width, height = size
    if len(first) > MOST_HALVINGS:
        raise UnsupportedError(f"a picture that is halved {len(first)} times before it is seen")
    bits = 0
    for i, step in enumerate(first):
        if not _is_halving(width, height, step):
            raise UnsupportedError(f"{step} of {width}x{height} pixels before the last step")
        bits |= (step.width < width) << (2 * i) | (step.height < height) << (2 * i + 1)
        width, height = step.width, step.height
    head = [begin, stride, bits, last.method == "area", *place, last.height, last.width]
    tables = (_table(width, last.width, last.method), _table(height, last.height, last.method))
    return np.concatenate([np.array(head, np.uint32), *tables])


def _is_halving(width: int, height: int, step: Resizing) -> bool:
    """Whether a step takes means of two or four; OpenCV does so for exact halves by any method."""
    lengths = ((width, step.width), (height, step.height))
    halved = [length == 2 * to for length, to in lengths]
    fits = all(length == to or half for (length, to), half in zip(lengths, halved, strict=True))
    return fits and any(halved) and (step.method == "area" or all(halved))


@lru_cache(64)
def _table(length: int, count: int, method: Method) -> NDArray[np.uint32]:
    """For each of `count` pixels along an axis what it takes of `length`, an entry each.

    "linear": the first, the second, and their weights of 11 bits. "area": the first, how many, and
    the shares of the first, of those between, and of the last.
    """
    entries = np.zeros((count, _ENTRY), np.uint32)
    scale = 1 / (count / length) if method == "linear" else length / count
    to = np.arange(count)
    if method == "linear":
        at = ((to + 0.5) * scale - 0.5).astype(np.float32)
        first = np.floor(at).astype(np.int64)
        weight = at - first.astype(np.float32)
        entries[:, 0] = np.clip(first, 0, length - 1)
        entries[:, 1] = np.clip(first + 1, 0, length - 1)
        entries[:, 2] = np.rint((1 - weight) * np.float32(2048))
        entries[:, 3] = np.rint(weight * np.float32(2048))
        return entries.reshape(-1)
    begin = to * scale
    end, cell = begin + scale, np.minimum(scale, length - begin)
    last = np.minimum(np.floor(end), length - 1)
    first = np.minimum(np.ceil(begin), last)
    before, behind = first - begin > _NOTHING, end - last > _NOTHING
    whole, rest = 1 / cell, np.minimum(np.minimum(end - last, 1), cell) / cell
    shares = [
        np.where(before, (first - begin) / cell, np.where(last > first, whole, rest)),
        whole,
        np.where(behind, rest, whole),
    ]
    entries[:, 0] = first - before
    entries[:, 1] = before + (last - first) + behind
    entries[:, 2:] = np.stack(shares, 1).astype(np.float32).view(np.uint32)
    return entries.reshape(-1)
