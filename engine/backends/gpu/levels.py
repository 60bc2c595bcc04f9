"""Bytes that a device makes floats of before a run, and floats that it makes bytes of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.backends.gpu.dispatches import ELEMENT_BYTES, Border, Dispatch, workgroups
from palmkit.engine.backends.gpu.wgsl import THREADS
from palmkit.engine.backends.gpu.windows import windows
from palmkit.engine.levels import Levels

# For fewer numbers a dispatch takes as long as their bytes save: docs/gpu.md.
LEAST = 1 << 17
KERNEL = "floats_of_bytes"
# The numbers: how many there are, the word of the bytes where they begin, the element of the
# arena's part where the floats do, and the workgroups in a row.
SHADER = f"""@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@group(0) @binding(1) var<storage, read> bytes: array<u32>;
@group(0) @binding(2) var<uniform> numbers: vec4<u32>;
@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {{
  let at = (workgroup.y * numbers.w + workgroup.x) * {THREADS}u + thread;
  let first = at * 4u;
  if (first >= numbers.x) {{ return; }}
  let levels = vec4<f32>(vec4<u32>(bytes[numbers.y + at]) >> vec4<u32>(0u, 8u, 16u, 24u)
                         & vec4<u32>(255u));
  for (var i = 0u; i < min(4u, numbers.x - first); i++) {{
    arena[numbers.z + first + i] = bitcast<u32>(levels[i]);
  }}
}}
"""
TO_BYTES = "bytes_of_floats"
# The other way, for floats that are whole numbers from 0 to 255: the word of the arena where they
# begin, the word where their bytes do, 0, the workgroups in a row, and how many words of bytes.
BYTES_SHADER = f"""@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@group(0) @binding(2) var<uniform> numbers: array<vec4<u32>, 2>;
@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {{
  let at = (workgroup.y * numbers[0].w + workgroup.x) * {THREADS}u + thread;
  if (at >= numbers[1].x) {{ return; }}
  var word = 0u;
  for (var i = 0u; i < 4u; i++) {{
    word |= (u32(bitcast<f32>(arena[numbers[0].x + at * 4u + i])) & 255u) << (8u * i);
  }}
  arena[numbers[0].y + at] = word;
}}
"""


def are_few(given: Levels) -> bool:
    """Whether the host makes floats of these sooner."""
    return given.array.size < LEAST


def words_of(array: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return bytes as words, filled up with zeros."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return np.pad(flat, (0, -flat.size % ELEMENT_BYTES)).view(np.uint32)


def dispatches(
    inputs: Mapping[str, Border], arena_bytes: int, binding_bytes: int, groups: int
) -> tuple[list[Dispatch], dict[str, int]]:
    """Return what makes these inputs floats, and the word at which the bytes of each begin.

    Their page is the buffer of the bytes. groups: workgroups along x or y, at most.
    Raises UnsupportedError for an input over what a binding may be.
    """
    made: list[Dispatch] = []
    begins: dict[str, int] = {}
    word = 0
    for name, border in inputs.items():
        begins[name] = word
        words = -(-border.elements // ELEMENT_BYTES)
        span = (border.offset * ELEMENT_BYTES, (border.offset + border.elements) * ELEMENT_BYTES)
        parts, _ = windows([span], arena_bytes, binding_bytes)
        needed = workgroups(-(-words // THREADS), groups)
        begin = border.offset - parts[0][0] // ELEMENT_BYTES
        numbers = (border.elements, word, begin, needed[0])
        made.append(Dispatch(f"input {name}", KERNEL, 0, 0, numbers, parts, needed))
        word += words
    return made, begins
