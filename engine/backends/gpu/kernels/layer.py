"""What convolutions share: the window, where its taps read, and what follows the sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from palmkit.engine.backends.gpu.emission import Emission
from palmkit.engine.backends.gpu.functions import activate
from palmkit.engine.backends.gpu.kernels.attributes import has, numbers, text
from palmkit.engine.backends.gpu.shader import Shader
from palmkit.engine.backends.gpu.wgsl import VECTOR, Access, Operand
from palmkit.engine.ir import Array
from palmkit.engine.steps.plan import PlannedStep

LANES = "xyzw"


@dataclass(frozen=True)
class Window:
    """A convolution in two dims, by pairs of numbers; transposed: strides are those of y over x."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    begins: tuple[int, int] = (0, 0)
    transposed: bool = False

    @property
    def is_point(self) -> bool:
        """Whether each output pixel is made of the input pixel in its place."""
        ones, nothing = (1, 1), (0, 0)
        return self.kernel == self.strides == ones and self.begins == nothing


@dataclass(frozen=True)
class Convolution:
    """A step that is a convolution.

    x, y: [n, rows, columns, channels]. weights: [m, kh, kw, c / group]. Of the step's other inputs
    it takes bias, slope, residual, gate and second_image.
    """

    emission: Emission
    step: PlannedStep
    x: Operand
    weights: Array
    y: Operand
    window: Window
    group: int = 1


def taps_of(window: Window, dim: int, out: str, tap: str) -> str:
    """The head of the loop over a window's rows or columns, those that can reach a place of y."""
    size, stride = window.kernel[dim], window.strides[dim]
    if window.transposed and window.dilations[dim] == 1:
        first = f"({out} + {window.begins[dim]}) % {stride}"
        return f"for (var {tap} = {first}; {tap} < {size}; {tap} += {stride}) {{"
    return f"for (var {tap} = 0; {tap} < {size}; {tap}++) {{"


def position(window: Window, dim: int, out: str, tap: str, size: int, name: str) -> list[str]:
    """Lines of a loop that say where in the image a tap reads, and pass over what is outside."""
    stride, dilation, begin = window.strides[dim], window.dilations[dim], window.begins[dim]
    if window.transposed:
        return [
            f"let {name}_whole = {out} + {begin} - {tap} * {dilation};",
            f"if ({name}_whole < 0 || {name}_whole % {stride} != 0) {{ continue; }}",
            f"let {name} = {name}_whole / {stride};",
            f"if ({name} >= {size}) {{ continue; }}",
        ]
    return [
        f"let {name} = {out} * {stride} + {tap} * {dilation} - {begin};",
        f"if ({name} < 0 || {name} >= {size}) {{ continue; }}",
    ]


class Epilogue:
    """What follows the sums: bias, residual and activation."""

    def __init__(
        self, emission: Emission, step: PlannedStep, shader: Shader, channels: int
    ) -> None:
        """Put a step's bias and slope, for so many output channels, into the weights."""
        self._step, self._shader = step, shader
        padded = -(-channels // VECTOR) * VECTOR

        def row(name: str) -> Access | None:
            if not has(step, name):
                return None
            value = emission.value(step.inputs[name]).reshape(-1).astype(np.float32)
            left = padded - len(value)
            return shader.constant(np.pad(value, (0, left)) if left else value, VECTOR)

        self.bias, self._slope = row("bias"), row("slope")
        self._residual: Operand | None = None
        if has(step, "residual"):
            self._residual = emission.operand(step.inputs["residual"])
        self._channels = channels
        self._z: Access | None = None
        if self._residual is not None:
            self._z = shader.access(self._residual, VECTOR if self.reads_wide() else 1)

    def reads_wide(self) -> bool:
        """Whether vectors of the residual can be read, if there is one."""
        z = self._residual
        return z is None or z.is_wide(z.dims[-1])

    def begin(self, vector: str) -> str:
        """What the sums of a vector of output channels begin with."""
        return "vec4<f32>(0)" if self.bias is None else self._shader.read(self.bias, vector)

    def lines(self, name: str, pixel: str, vector: str) -> list[str]:
        """Finish the sums of that name, of a pixel and a vector of output channels."""
        lines: list[str] = []
        z, step = self._residual, self._step
        if z is not None:
            wide = self.reads_wide()
            added: list[str] = []
            assert self._z is not None
            if wide:
                place = f"(({pixel}) * {z.pixel // VECTOR}u + {vector})"
                added.append(f"{name} += {self._shader.read(self._z, place)};")
            else:
                for i, lane in enumerate(LANES):
                    place = f"(({pixel}) * {z.pixel}u + ({vector}) * 4u + {i}u)"
                    add = f"{name}.{lane} += {self._shader.read(self._z, place)};"
                    added.append(f"if (({vector}) * 4u + {i}u < {z.dims[-1]}u) {{ {add} }}")
            if wide and z.dims[-1] < self._channels:
                added = [f"if ({vector} < {z.dims[-1] // VECTOR}u) {{", *added, "}"]
            lines += added
        activation = text(step, "activation")
        if activation == "prelu":
            assert self._slope is not None
            slope = self._shader.read(self._slope, vector)
            lines.append(f"{name} = select({name}, {name} * {slope}, {name} < vec4<f32>(0));")
        elif activation:
            done = activate(activation, numbers(step, "activation_params"), name, "vec4<f32>")
            lines.append(f"{name} = {done};")
        return lines


def store(
    shader: Shader, target: Access, name: str, pixel: str, vector: str, channels: int
) -> list[str]:
    """Lines that store four sums of a pixel, those of them that are of its channels."""
    y = target.operand
    if target.width == VECTOR:
        place = f"(({pixel}) * {y.pixel // VECTOR}u + {vector})"
        return [shader.write(target, place, name)]
    lines: list[str] = []
    for i, lane in enumerate(LANES):
        place = f"(({pixel}) * {y.pixel}u + ({vector}) * 4u + {i}u)"
        store = shader.write(target, place, f"{name}.{lane}")
        if channels % VECTOR:
            store = f"if (({vector}) * 4u + {i}u < {channels}u) {{ {store} }}"
        lines.append(store)
    return lines
