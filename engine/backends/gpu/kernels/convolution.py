"""Convolutions: channels-last images, weights packed for vectors of four output channels.

A thread has the sums of some pixels side by side, four or eight output channels each, in registers,
so that each vector of weights and each of the image is read once for many products. Where there are
few outputs, the threads of a workgroup share out the input channels and the window's rows, and add
up in its memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palmkit.engine.backends.gpu.emission import Emission, kernel
from palmkit.engine.backends.gpu.kernels.attributes import has, integer, integers
from palmkit.engine.backends.gpu.kernels.grouped import emit_depthwise, emit_grouped
from palmkit.engine.backends.gpu.kernels.layer import (
    LANES,
    Convolution,
    Epilogue,
    Window,
    position,
    store,
    taps_of,
)
from palmkit.engine.backends.gpu.kernels.tiles import Product, choose_tiles
from palmkit.engine.backends.gpu.shader import Shader
from palmkit.engine.backends.gpu.wgsl import VECTOR, Access, split
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array
from palmkit.engine.steps.plan import PlannedStep
from palmkit.engine.steps.step import Step

# The column that a pixel of a thread reads for a column of the window, by both.
Taps = dict[tuple[int, int], int]
# Vectors that a thread reads before it uses the first of them.
_MOST_READ = 20


def _packed(weights: Array) -> Array:
    """Weights [m, kh, kw, c] as [kh, kw, c, m], m filled up to whole vectors."""
    turned, left = weights.transpose(1, 2, 3, 0), -weights.shape[0] % VECTOR
    return np.pad(turned, [(0, 0)] * 3 + [(0, left)]) if left else turned


def emit_convolution(conv: Convolution) -> None:
    """Write the dispatch of a convolution."""
    outputs, inputs = conv.weights.shape[0], conv.weights.shape[-1]
    if conv.group > 1 and inputs == 1 and outputs == conv.group:
        emit_depthwise(conv)
    elif conv.group > 1 and (outputs // conv.group) % VECTOR:
        emit_grouped(conv)
    else:
        _Tiled(conv).emit()


class _Tiled:
    """A convolution by tiles of the output, in the making."""

    def __init__(self, conv: Convolution) -> None:
        emission, step, x, y = conv.emission, conv.step, conv.x, conv.y
        weights, window, group = conv.weights, conv.window, conv.group
        outputs, inputs = weights.shape[0], weights.shape[-1]
        self._window, self._outputs, self._group = window, outputs, group
        self._shader = shader = Shader(emission, step, wide=y.is_wide(outputs))
        self._epilogue = Epilogue(emission, step, shader, outputs)
        images = [x]
        if has(step, "second_image"):
            images.append(emission.operand(step.inputs["second_image"]))
        inputs //= len(images)
        self._n, self._height, self._width, _ = x.dims
        _, self._rows, self._columns, _ = y.dims
        if window.is_point:
            # All pixels are one row.
            self._columns *= self._n * self._rows
            self._width *= self._n * self._height
            self._n = self._rows = self._height = 1
        wide = inputs % VECTOR == 0 and all(
            each.pixel % VECTOR == each.offset % VECTOR == 0 for each in images
        )
        width = VECTOR if wide else 1
        self._depth, self._vectors = inputs // width, -(-outputs // VECTOR)
        taps = window.kernel[0] * window.kernel[1]
        self._tiles = choose_tiles(
            emission.target,
            Product(
                self._n * self._rows * self._columns,
                1 if window.transposed else self._columns,
                self._vectors // group,
                self._depth,
                (taps, 1) if window.transposed else window.kernel,
                window.strides[1],
                wide,
                1 if window.transposed else window.kernel[0],
            ),
        )
        self._sources = [shader.access(each, width) for each in images]
        self._gate: Access | None = None
        if has(step, "gate"):
            self._gate = shader.access(emission.operand(step.inputs["gate"]), width)
        self._target = shader.access(y, VECTOR if y.is_wide(outputs) else 1)
        self._packed = shader.constant(_packed(weights), VECTOR)
        tiles = self._tiles
        self._sums = [[f"sum_{p}_{v}" for v in range(tiles.vectors)] for p in range(tiles.pixels)]

    def emit(self) -> None:
        """Write the dispatch."""
        tiles = self._tiles
        per_line = -(-self._columns // tiles.pixels)
        steps = self._n * self._rows * per_line
        per_row = self._vectors // tiles.vectors
        across, along = -(-per_row // tiles.columns), -(-steps // tiles.rows)
        flat = [name for pixel in self._sums for name in pixel]
        declared: list[str] = []
        if tiles.parts > 1:
            size = tiles.threads * len(flat)
            declared.append(f"var<workgroup> shared_parts: array<vec4<f32>, {size}>;")
        self._shader.run(self._body, across * along, tiles.threads, declared)

    def _body(self) -> list[str]:
        tiles, flat = self._tiles, [name for pixel in self._sums for name in pixel]
        per_line = -(-self._columns // tiles.pixels)
        steps = self._n * self._rows * per_line
        per_row = self._vectors // tiles.vectors
        across = -(-per_row // tiles.columns)
        body = [
            f"let lane = thread % {tiles.lanes}u;",
            f"let row = thread / {tiles.lanes}u;",
            f"let part = row % {tiles.splits}u;",
            f"let column = group % {across}u * {tiles.columns}u + lane % {tiles.columns}u;",
            f"let step = group / {across}u * {tiles.rows}u + lane / {tiles.columns}u;",
            f"let is_inside = column < {per_row}u && step < {steps}u;",
            # Threads that others wait for have to come along.
            "if (!is_inside) { return; }" if tiles.parts == 1 else "",
            f"let m = min(column, {per_row - 1}u) * {tiles.vectors}u;",
            f"let known = min(step, {steps - 1}u);",
            *split("known", [self._n, self._rows, per_line], ["b", "oy", "step_x"]),
            f"let ox = step_x * {tiles.pixels}u;",
            *[f"var {name} = vec4<f32>(0);" for name in flat],
            *self._products(),
        ]
        if tiles.parts > 1:
            body += _gather(flat, tiles.lanes, tiles.parts)
        return [*body, "if (is_inside) {", *self._ends(), "}"]

    def _ends(self) -> list[str]:
        """Bias, residual and activation of all sums, and where they are stored."""
        tiles, lines = self._tiles, list[str]()
        for p, names in enumerate(self._sums):
            pixel = f"(b * {self._rows}u + oy) * {self._columns}u + ox + {p}u"
            each: list[str] = []
            for v, name in enumerate(names):
                vector = f"(m + {v}u)"
                each.append(f"{name} += {self._epilogue.begin(vector)};")
                each += self._epilogue.lines(name, pixel, vector)
                each += store(self._shader, self._target, name, pixel, vector, self._outputs)
            if self._columns % tiles.pixels and p:
                each = [f"if (ox + {p}u < {self._columns}u) {{", *each, "}"]
            if tiles.parts > 1:
                each = [f"if (row == {p % tiles.parts}u) {{", *each, "}"]
            lines += each
        return lines

    def _products(self) -> list[str]:
        """The loops over the window and the input channels.

        Each column of the image that a thread's pixels read is known by a number: its distance
        from the first one.
        """
        w, pixels = self._window, range(self._tiles.pixels)
        pixel = self._sources[0].operand.pixel // self._sources[0].width
        group = f"(m / {self._vectors // self._group}u) * {self._depth}u"
        begin = group if self._group > 1 else "0u"
        rows_of_weights = self._depth * self._sources[0].width * self._vectors
        if w.is_point:
            lines = [
                f"let base_{p} = min(ox + {p}u, {self._columns - 1}u) * {pixel}u + {begin};"
                for p in pixels
            ]
            taps = {(p, 0): p for p in pixels}
            for i, source in enumerate(self._sources):
                lines += ["{", f"let weights_at = {i * rows_of_weights}u;"]
                lines += [*self._steps(source, taps, rows_of_weights), "}"]
            return lines
        source = self._sources[0]
        lines = [taps_of(w, 0, "i32(oy)", "ky")]
        if self._tiles.bands > 1:
            # One row for each thread.
            lines = [f"let band = i32(row / {self._tiles.splits}u);"]
            lines.append("for (var ky = band; ky <= band; ky++) {")
        lines += position(w, 0, "i32(oy)", "ky", self._height, "iy")
        lines.append(f"let line = (i32(b) * {self._height} + iy) * {self._width};")
        if w.transposed:
            # Which columns of the window reach a pixel differs from one pixel to the next.
            lines.append(taps_of(w, 1, "i32(ox)", "kx"))
            lines += position(w, 1, "i32(ox)", "kx", self._width, "ix")
            lines.append(f"let base_0 = u32(line + ix) * {pixel}u + {begin};")
            tap = f"u32(ky * {w.kernel[1]} + kx)"
            lines.append(f"let weights_at = {tap} * {rows_of_weights}u;")
            return [*lines, *self._steps(source, {(0, 0): 0}, rows_of_weights), "}", "}"]
        taps = {
            (p, kx): p * w.strides[1] + kx * w.dilations[1]
            for p in pixels
            for kx in range(w.kernel[1])
        }
        lines.append(f"let first = i32(ox) * {w.strides[1]} - {w.begins[1]};")
        for column in sorted(set(taps.values())):
            at = f"first + {column}"
            nearest = f"clamp({at}, 0, {self._width - 1})"
            lines.append(f"let inside_{column} = {at} >= 0 && {at} < {self._width};")
            lines.append(f"let base_{column} = u32(line + {nearest}) * {pixel}u + {begin};")
        lines.append(f"let weights_at = u32(ky) * {w.kernel[1] * rows_of_weights}u;")
        return [*lines, *self._steps(source, taps, rows_of_weights), "}"]

    def _steps(self, source: Access, taps: Taps, rows_of_weights: int) -> list[str]:
        """The loop over the input channels of an image, or over vectors of them.

        Some steps are written out, all reads before the products, so that many reads are under way
        at a time. taps: the column that each pixel reads for each column of the window.
        """
        splits = self._tiles.splits
        whole, rest = divmod(self._depth, splits)
        columns, window = len(set(taps.values())), len({kx for _, kx in taps})
        vectors = columns + window * source.width * self._tiles.vectors
        at_once = max(1, min(whole, _MOST_READ // vectors))
        first = "part" if splits > 1 else "0u"

        def written(steps: Sequence[str]) -> list[str]:
            return self._written_out(source, taps, rows_of_weights, steps)

        lines: list[str] = []
        if whole:
            lines.append(f"for (var i = 0u; i < {whole // at_once}u; i++) {{")
            steps = [f"{first} + (i * {at_once}u + {u}u) * {splits}u" for u in range(at_once)]
            lines += [*written(steps), "}"]
        left = range(whole - whole % at_once, whole)
        lines += written([f"{first} + {u * splits}u" for u in left])
        if rest:
            lines += [f"if (part < {rest}u) {{", *written([f"{first} + {whole * splits}u"]), "}"]
        return lines

    def _written_out(
        self, source: Access, taps: Taps, rows_of_weights: int, steps: Sequence[str]
    ) -> list[str]:
        """Steps along the input channels: their reads, then their products."""
        width, read = source.width, self._shader.read
        checked = not (self._window.is_point or self._window.transposed)
        reads: list[str] = []
        products: list[str] = []
        for u, k in enumerate(steps):
            reads.append(f"let k_{u} = {k};")
            if self._gate is not None:
                reads.append(f"let gate_{u} = {read(self._gate, f'k_{u}')};")
            for column in sorted(set(taps.values())):
                value = read(source, f"(base_{column} + k_{u})")
                value = f"{value} * gate_{u}" if self._gate is not None else value
                value = f"select({source.of}(0), {value}, inside_{column})" if checked else value
                reads.append(f"let x_{u}_{column} = {value};")
            for kx in sorted({kx for _, kx in taps}):
                for i in range(width):
                    for v in range(self._tiles.vectors):
                        row = f"{kx * rows_of_weights}u + (k_{u} * {width}u + {i}u)"
                        at = f"weights_at + {row} * {self._vectors}u + m + {v}u"
                        weight = read(self._packed, f"({at})")
                        reads.append(f"let w_{u}_{kx}_{i}_{v} = {weight};")
                    for p, names in enumerate(self._sums):
                        lane = f"x_{u}_{taps[p, kx]}" + (f".{LANES[i]}" if width > 1 else "")
                        products += [
                            f"{name} = fma(vec4<f32>({lane}), w_{u}_{kx}_{i}_{v}, {name});"
                            for v, name in enumerate(names)
                        ]
        return ["{", *reads, *products, "}"] if steps else []


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


def _pair(values: Sequence[int]) -> tuple[int, int]:
    first, second = values
    return first, second


def _check_weights(step: Step) -> None:
    for name in ("weights", "bias", "slope"):
        view = step.inputs.get(name)
        if view is not None and view.buffer.place != "constant":
            raise UnsupportedError(f"computed {name}")


@kernel(
    "conv",
    "image/pixels weights bias slope residual/pixels gate second_image/image",
    "y/pixels",
    check=_check_weights,
)
def emit_conv(emission: Emission, step: PlannedStep) -> None:
    """Convolve pictures of any kernel size, stride and group."""
    x, y = emission.operand(step.inputs["image"]), emission.operand(step.outputs["y"])
    weights = emission.value(step.inputs["weights"])
    window = Window(
        (weights.shape[1], weights.shape[2]),
        _pair(integers(step, "strides", (1, 1))),
        _pair(integers(step, "dilations", (1, 1))),
        _pair(integers(step, "pads", (0, 0, 0, 0))[:2]),
    )
    group = integer(step, "group", 1)
    emit_convolution(Convolution(emission, step, x, weights, y, window, group))


@kernel("conv_transpose", "image/pixels weights bias slope", "y/pixels", check=_check_weights)
def emit_conv_transpose(emission: Emission, step: PlannedStep) -> None:
    """Convolve the transposed way: each output pixel finds the input pixels that reach it."""
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
    emit_convolution(Convolution(emission, step, x, turned, y, window, group))
