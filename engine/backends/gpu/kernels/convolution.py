"""Convolutions: channels-last images, weights packed for vectors of four output channels.

A thread has the sums of some pixels side by side, four or eight output channels each, in registers,
so that each vector of weights and each of the image is read once for many products. Where there are
few outputs, the threads of a workgroup share out the input channels, and add up in its memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from palmkit.engine.backends.gpu.emission import Access, Emission, Shader, Target, kernel
from palmkit.engine.backends.gpu.kernels.attributes import integer, integers
from palmkit.engine.backends.gpu.kernels.grouped import emit_depthwise, emit_grouped
from palmkit.engine.backends.gpu.kernels.layer import LANES, Epilogue, Window, position, store
from palmkit.engine.backends.gpu.wgsl import VECTOR, Operand, split
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array
from palmkit.engine.steps.plan import PlannedStep
from palmkit.engine.steps.step import Step


@dataclass(frozen=True)
class Tiles:
    """How a convolution is shared out.

    pixels, vectors: the outputs of one thread, side by side. splits: threads that share out the
    input channels of the same outputs.
    """

    pixels: int
    vectors: int
    splits: int


def choose_tiles(target: Target, pixels: int, row: int, vectors: int, depth: int) -> Tiles:
    """Choose as much work for one thread as leaves enough threads for the device.

    pixels: of the output; row: how many of them lie side by side. vectors: of output channels.
    depth: steps along the input channels.
    """
    best, least = Tiles(1, 1, 1), float("inf")
    for each in (1, 2, 4, 8):
        if each > max(1, row):
            continue
        for wide in (1, 2):
            if vectors % wide or each * wide > 8:
                continue
            threads = -(-row // each) * (pixels // row) * (vectors // wide)
            for splits in (1, 2, 4, 8, 16):
                if splits > 1 and (depth < 4 * splits or splits * VECTOR > target.threads):
                    continue
                # Reads and products of one thread, as often as the device has to begin anew.
                steps = -(-depth // splits) * (each + 4 * wide + 2 * each * wide)
                steps += 8 * each * wide + (4 * splits + 8 if splits > 1 else 0)
                rounds = max(1.0, threads * splits / target.invocations)
                if steps * rounds < least:
                    best, least = Tiles(each, wide, splits), steps * rounds
    return best


def _packed(weights: Array) -> Array:
    """Weights [m, kh, kw, c] as [kh, kw, c, m], m filled up to whole vectors."""
    turned = weights.transpose(1, 2, 3, 0).astype(np.float32)
    return np.pad(turned, [(0, 0)] * 3 + [(0, -turned.shape[-1] % VECTOR)])


def emit_convolution(
    emission: Emission,
    step: PlannedStep,
    x: Operand,
    weights: Array,
    y: Operand,
    window: Window,
    group: int = 1,
) -> None:
    """Write the dispatch of a convolution; weights: [m, kh, kw, c / group]."""
    outputs, inputs = weights.shape[0], weights.shape[-1]
    if group > 1 and inputs == 1 and outputs == group:
        emit_depthwise(emission, step, x, weights, y, window)
        return
    if group > 1 and (outputs // group) % VECTOR:
        emit_grouped(emission, step, x, weights, y, window, group)
        return
    n, height, width, _ = x.dims
    _, rows, columns, _ = y.dims
    wide_y = y.is_wide(outputs)
    probe = Shader(emission, step, wide_y)
    epilogue = Epilogue(emission, step, probe, outputs)
    vectors = -(-outputs // VECTOR)
    # A vector of outputs is of one group.
    group_vectors = vectors // group
    wide_x = inputs % VECTOR == 0 and x.pixel % VECTOR == x.offset % VECTOR == 0
    depth = inputs // VECTOR if wide_x else inputs
    point = window.is_point
    if point:
        # All pixels are one row.
        n, rows, columns, height, width = 1, 1, n * rows * columns, 1, n * height * width
    taps = window.kernel[0] * window.kernel[1]
    if window.transposed:
        tiles = choose_tiles(emission.target, n * rows * columns, 1, group_vectors, depth)
        tiles = Tiles(1, tiles.vectors, tiles.splits)
    else:
        tiles = choose_tiles(
            emission.target, n * rows * columns, columns, group_vectors, depth * taps
        )
        if tiles.splits * VECTOR > depth:
            most = max(1, depth // VECTOR)
            fitting = [s for s in (1, 2, 4, 8, 16) if s <= most]
            tiles = Tiles(tiles.pixels, tiles.vectors, fitting[-1])
    shader = probe
    source = shader.access(x, VECTOR if wide_x else 1)
    target = shader.access(y, VECTOR if wide_y else 1)
    packed = shader.constant(_packed(weights), VECTOR)
    steps = -(-columns // tiles.pixels)
    per_row = vectors // tiles.vectors
    count = n * rows * steps * per_row
    lanes = max(VECTOR, 64 // tiles.splits)
    threads = lanes * tiles.splits
    body = [
        f"let lane = thread % {lanes}u;",
        f"let row = thread / {lanes}u;",
        f"let at = group * {lanes}u + lane;",
        *(
            [f"if (at >= {count}u) {{ return; }}", "let known = at;"]
            if tiles.splits == 1
            else [f"let known = min(at, {count - 1}u);"]
        ),
        *split("known", [n, rows, steps, per_row], ["b", "oy", "step_x", "column"]),
        f"let m = column * {tiles.vectors}u;",
        f"let ox = step_x * {tiles.pixels}u;",
    ]
    sums = [[f"sum_{p}_{v}" for v in range(tiles.vectors)] for p in range(tiles.pixels)]
    flat = [name for pixel in sums for name in pixel]
    body += [f"var {name} = vec4<f32>(0);" for name in flat]
    pixel_begin = f"(m / {group_vectors}u) * {depth}u" if group > 1 else "0u"
    loop = _Loop(shader, source, packed, window, tiles, sums)
    body += loop.text(
        (height, width), columns, depth, vectors, x.pixel // source.width, pixel_begin, point
    )
    if tiles.splits > 1:
        body += _gather(flat, lanes, tiles.splits)
    ends: list[str] = []
    for p in range(tiles.pixels):
        pixel = f"(b * {rows}u + oy) * {columns}u + ox + {p}u"
        each: list[str] = []
        for v in range(tiles.vectors):
            vector, name = f"(m + {v}u)", sums[p][v]
            each.append(f"{name} += {epilogue.begin(vector)};")
            each += epilogue.lines(name, pixel, vector)
            each += store(shader, target, name, pixel, vector, outputs)
        if columns % tiles.pixels and p:
            each = [f"if (ox + {p}u < {columns}u) {{", *each, "}"]
        if tiles.splits > 1:
            each = [f"if (row == {p % tiles.splits}u) {{", *each, "}"]
        ends += each
    if tiles.splits > 1:
        ends = [f"if (at < {count}u) {{", *ends, "}"]
    declared: list[str] = []
    if tiles.splits > 1:
        size = threads * len(flat)
        declared.append(f"var<workgroup> shared_parts: array<vec4<f32>, {size}>;")
    shader.run([*body, *ends], -(-count // lanes), threads, declared)


def _gather(sums: Sequence[str], lanes: int, splits: int) -> list[str]:
    """Lines that add up the sums of the threads of one lane; each of them then has them all."""
    lines = [
        f"shared_parts[(row * {len(sums)}u + {i}u) * {lanes}u + lane] = {name};"
        for i, name in enumerate(sums)
    ]
    lines.append("workgroupBarrier();")
    for i, name in enumerate(sums):
        lines.append(f"{name} = vec4<f32>(0);")
        lines.append(
            f"for (var r = 0u; r < {splits}u; r++) {{ "
            f"{name} += shared_parts[(r * {len(sums)}u + {i}u) * {lanes}u + lane]; }}"
        )
    return lines


@dataclass
class _Loop:
    """The products of a convolution over its window and its input channels."""

    shader: Shader
    source: Access
    packed: Access
    window: Window
    tiles: Tiles
    sums: Sequence[Sequence[str]]

    def text(
        self,
        size: tuple[int, int],
        columns: int,
        depth: int,
        vectors: int,
        pixel: int,
        begin: str,
        point: bool,
    ) -> list[str]:
        """Lines of it; pixel: from one to the next in units of the source's access."""
        (height, width), w = size, self.window
        inner = self._steps(depth, vectors, checked=not point)
        if point:
            bases = [
                f"let base_{p} = min(ox + {p}u, {columns - 1}u) * {pixel}u + {begin};"
                for p in range(self.tiles.pixels)
            ]
            return [*bases, "let weights_at = 0u;", *inner]
        lines = [f"for (var ky = 0; ky < {w.kernel[0]}; ky++) {{"]
        lines += position(w, 0, "i32(oy)", "ky", height, "iy")
        lines.append(f"for (var kx = 0; kx < {w.kernel[1]}; kx++) {{")
        for p in range(self.tiles.pixels):
            single = self.tiles.pixels == 1
            lines += position(w, 1, f"i32(ox + {p}u)", "kx", width, f"ix_{p}", single)
            inside = f"ix_{p} >= 0 && ix_{p} < {width}"
            at = f"((i32(b) * {height} + iy) * {width} + clamp(ix_{p}, 0, {width - 1}))"
            lines.append(f"let inside_{p} = {inside};")
            lines.append(f"let base_{p} = u32({at}) * {pixel}u + {begin};")
        lines.append(
            f"let weights_at = u32(ky * {w.kernel[1]} + kx) * "
            f"{depth * self.source.width * vectors}u;"
        )
        return [*lines, *inner, "}", "}"]

    def _steps(self, depth: int, vectors: int, checked: bool) -> list[str]:
        """The loop over input channels, or vectors of them."""
        splits, width = self.tiles.splits, self.source.width
        lines = [f"for (var k = {'row' if splits > 1 else '0u'}; k < {depth}u; k += {splits}u) {{"]
        for p in range(self.tiles.pixels):
            value = self.shader.read(self.source, f"(base_{p} + k)")
            if checked and self.tiles.pixels > 1:
                value = f"select({self.source.of}(0), {value}, inside_{p})"
            lines.append(f"let x_{p} = {value};")
        for i in range(width):
            for v in range(self.tiles.vectors):
                at = f"(weights_at + (k * {width}u + {i}u) * {vectors}u + m + {v}u)"
                lines.append(f"let w_{i}_{v} = {self.shader.read(self.packed, at)};")
            for p in range(self.tiles.pixels):
                lane = f"x_{p}.{LANES[i]}" if width > 1 else f"x_{p}"
                for v in range(self.tiles.vectors):
                    name = self.sums[p][v]
                    lines.append(f"{name} = fma(vec4<f32>({lane}), w_{i}_{v}, {name});")
        return [*lines, "}"]


def _pair(values: Sequence[int]) -> tuple[int, int]:
    first, second = values
    return first, second


def _check_conv(step: Step) -> None:
    if step.inputs.get("gate") or step.inputs.get("second_image"):
        raise UnsupportedError("a gate")
    _check_weights(step)


def _check_weights(step: Step) -> None:
    for name in ("weights", "bias", "slope"):
        view = step.inputs.get(name)
        if view is not None and view.buffer.place != "constant":
            raise UnsupportedError(f"computed {name}")


@kernel("conv", "image/pixels weights bias slope residual/pixels", "y/pixels", check=_check_conv)
def emit_conv(emission: Emission, step: PlannedStep) -> None:
    """Of pictures."""
    x, y = emission.operand(step.inputs["image"]), emission.operand(step.outputs["y"])
    weights = emission.value(step.inputs["weights"])
    window = Window(
        (weights.shape[1], weights.shape[2]),
        _pair(integers(step, "strides", (1, 1))),
        _pair(integers(step, "dilations", (1, 1))),
        _pair(integers(step, "pads", (0, 0, 0, 0))[:2]),
    )
    emit_convolution(emission, step, x, weights, y, window, integer(step, "group", 1))


@kernel("conv_transpose", "image/pixels weights bias slope", "y/pixels", check=_check_weights)
def emit_conv_transpose(emission: Emission, step: PlannedStep) -> None:
    """Of pictures: each output pixel finds the input pixels that reach it."""
    x, y = emission.operand(step.inputs["image"]), emission.operand(step.outputs["y"])
    weights, group = emission.value(step.inputs["weights"]), integer(step, "group", 1)
    # From [c, kh, kw, m / group].
    c, kh, kw, each = weights.shape
    split_up = weights.reshape(group, c // group, kh, kw, each)
    turned = split_up.transpose(0, 4, 2, 3, 1).reshape(group * each, kh, kw, c // group)
    window = Window(
        (kh, kw),
        _pair(integers(step, "strides", (1, 1))),
        _pair(integers(step, "dilations", (1, 1))),
        _pair(integers(step, "pads", (0, 0, 0, 0))[:2]),
        transposed=True,
    )
    emit_convolution(emission, step, x, turned, y, window, group)
