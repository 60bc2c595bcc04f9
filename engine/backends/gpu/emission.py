"""What the emitters of kernels register with, and write the dispatches of a plan's steps to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.backends.gpu.dispatches import (
    ELEMENT_BYTES,
    Border,
    Dispatch,
    DispatchList,
    to_device,
)
from palmkit.engine.backends.gpu.functions import helpers
from palmkit.engine.backends.gpu.wgsl import VECTOR, Operand, indent, split
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array
from palmkit.engine.steps.placing import aligned
from palmkit.engine.steps.plan import Plan, PlannedStep, Tensor
from palmkit.engine.steps.step import Kernels, Step, strides_of

THREADS = 64
MOST_GROUPS = 65535


@dataclass(frozen=True)
class Target:
    """What dispatches are made for.

    invocations: how many the device wants to have at a time before each does more. threads: of a
    workgroup, at most. binding_bytes: the most that one binding may be.
    """

    invocations: int = 1 << 16
    threads: int = 256
    binding_bytes: int = 1 << 27


@dataclass(frozen=True)
class Access:
    """How a shader reads or writes an operand.

    width: by single elements or by vectors. offset: of the shader's numbers, which one says where
    the operand begins, in that unit.
    """

    operand: Operand
    width: int
    slot: int

    @property
    def of(self) -> str:
        """The WGSL type of what is read."""
        scalar = self.operand.scalar
        return scalar if self.width == 1 else f"vec4<{scalar}>"


class Shader:
    """One dispatch's shader in the making.

    wide: whether the arena is written by vectors. It is read by either, at the cost of a choice
    where the widths differ.
    """

    def __init__(self, emission: Emission, step: PlannedStep, wide: bool) -> None:
        """Begin a shader for a step."""
        self._emission = emission
        self._step = step
        self._wide = wide
        self._numbers: list[int] = []
        self._constants: list[tuple[Access, Array]] = []

    def number(self, bits: int) -> str:
        """An expression for one of the shader's numbers, u32."""
        slot = len(self._numbers)
        self._numbers.append(bits)
        return f"numbers[{slot // 4}].{'xyzw'[slot % 4]}"

    def float(self, value: float) -> str:
        """An expression for a float that may be infinite or NaN."""
        bits = int(np.array(value, np.float32).view(np.uint32))
        return f"bitcast<f32>({self.number(bits)})"

    def access(self, operand: Operand, width: int = 1) -> Access:
        """Read or write an operand by single elements or vectors."""
        access = Access(operand, width, len(self._numbers))
        self._numbers.append(operand.offset // width)
        if operand.value is not None:
            self._constants.append((access, operand.value))
        return access

    def constant(self, array: Array, width: int = 1) -> Access:
        """Read an array that is put into the weights, by single elements or vectors."""
        return self.access(Operand.constant(array), width)

    def read(self, access: Access, index: str) -> str:
        """The element, or the vector, at an index; it counts in the access's unit."""
        begin = f"numbers[{access.slot // 4}].{'xyzw'[access.slot % 4]}"
        name = access.operand.binding
        wide = self._wide or name == "weights"
        at = f"({begin} + {index})"
        if access.width == 1:
            element = f"{name}[{at} >> 2u][{at} & 3u]" if wide else f"{name}[{at}]"
            return f"bitcast<{access.of}>({element})"
        if wide:
            return f"bitcast<{access.of}>({name}[{at}])"
        parts = ", ".join(f"{name}[{at} * 4u + {i}u]" for i in range(VECTOR))
        return f"bitcast<{access.of}>(vec4<u32>({parts}))"

    def write(self, access: Access, index: str, value: str) -> str:
        """The statement that stores a value of the access's type."""
        begin = f"numbers[{access.slot // 4}].{'xyzw'[access.slot % 4]}"
        of = "u32" if access.width == 1 else "vec4<u32>"
        return f"arena[{begin} + {index}] = bitcast<{of}>({value});"

    def each(
        self,
        shape: Sequence[int],
        names: Sequence[str],
        body: Iterable[str],
        declared: Iterable[str] = (),
    ) -> None:
        """Add a dispatch of one invocation for each index of a shape.

        names: what the index along each dim is called; without names it is not taken apart. body,
        declared: as for `run`; the lines see `at` as well, the index counted flat.
        """
        count = prod(shape)
        lines = [
            f"let at = group * {THREADS}u + thread;",
            f"if (at >= {count}u) {{ return; }}",
            *(split("at", shape, names) if names else ()),
            *body,
        ]
        self.run(lines, -(-count // THREADS), declared=declared)

    def run(
        self,
        body: Iterable[str],
        groups: int,
        threads: int = THREADS,
        declared: Iterable[str] = (),
    ) -> None:
        """Add the dispatch.

        body: lines of the entry point, which see `group`, the workgroup's number, and `thread`, the
        invocation's in it. declared: functions and workgroup variables.
        """
        if groups == 0:
            return
        rows = -(-groups // MOST_GROUPS)
        columns = -(-groups // rows)
        if rows > MOST_GROUPS:
            raise UnsupportedError(f"{groups} workgroups")
        page = self._emission.put(self._constants, self._numbers)
        lines = list(body)
        text = "\n".join(lines)
        numbers = max(1, -(-len(self._numbers) // VECTOR))
        group = "workgroup.x" if rows == 1 else f"workgroup.y * {columns}u + workgroup.x"
        guard = [] if rows == 1 else [f"if (group >= {groups}u) {{ return; }}"]
        source = "\n".join(
            [
                "@group(0) @binding(0) var<storage, read_write> arena: "
                f"array<{'vec4<u32>' if self._wide else 'u32'}>;",
                "@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>;",
                f"@group(0) @binding(2) var<uniform> numbers: array<vec4<u32>, {numbers}>;",
                *declared,
                *helpers(text),
                f"@compute @workgroup_size({threads})",
                "fn main(@builtin(workgroup_id) workgroup: vec3<u32>,",
                "        @builtin(local_invocation_index) thread: u32) {",
                *indent([f"let group = {group};", *guard, *lines]),
                "}",
                "",
            ]
        )
        padded = [*self._numbers, *[0] * (numbers * VECTOR - len(self._numbers))]
        self._emission.add(self._step, source, page, padded, (columns, rows))


def _rounded(size: int) -> int:
    return -(-size // VECTOR) * VECTOR


class Emission:
    """Dispatches of a plan, step by step."""

    def __init__(self, plan: Plan, target: Target) -> None:
        """Begin with nothing emitted."""
        self.target = target
        self._plan = plan
        self._shaders: dict[str, int] = {}
        self._dispatches: list[Dispatch] = []
        self._pages: list[list[NDArray[np.uint32]]] = [[]]
        self._filled = 0
        self._places: dict[tuple[int, int], int] = {}
        self._kept: list[Array] = []
        self._borders: dict[tuple[str, int], int] = {}
        self._end = plan.arena_bytes // ELEMENT_BYTES
        for tensor in plan.tensors:
            key = (tensor.place, tensor.slot)
            if tensor.place in ("input", "output") and key not in self._borders:
                self._borders[key] = self._end
                self._end += aligned(prod(tensor.dims) * ELEMENT_BYTES) // ELEMENT_BYTES

    def operand(self, number: int) -> Operand:
        """The tensor of that number."""
        tensor = self._plan.tensors[number]
        strides = tensor.strides or tuple(strides_of(tensor.dims))
        dtype, dims = tensor.dtype, tensor.dims
        if tensor.place == "constant":
            value = self._plan.constants[tensor.slot]
            return Operand("weights", tensor.offset, dtype, dims, strides, value)
        if tensor.place == "arena":
            begin = tensor.slot // ELEMENT_BYTES
        else:
            begin = self._borders[tensor.place, tensor.slot]
        return Operand("arena", begin + tensor.offset, dtype, dims, strides)

    def tensor(self, number: int) -> Tensor:
        """The tensor of that number."""
        return self._plan.tensors[number]

    def value(self, number: int) -> Array:
        """The array that a constant tensor is."""
        tensor = self._plan.tensors[number]
        if tensor.place != "constant":
            raise UnsupportedError("an operand that a run gives")
        return self._plan.constants[tensor.slot].reshape(tensor.dims)

    def emit(self, step: PlannedStep) -> None:
        """Add the dispatches of a step."""
        written = [self._plan.tensors[number] for number in step.outputs.values()]
        if any(prod(tensor.dims) for tensor in written):
            EMITTERS[step.kernel](self, step)

    def put(self, constants: Sequence[tuple[Access, Array]], numbers: list[int]) -> int:
        """Find a page of weights for constants of one shader, and fill in where they begin."""
        most = self.target.binding_bytes // ELEMENT_BYTES
        arrays = {id(array): array for _, array in constants}
        page = next(
            (i for i in range(len(self._pages)) if all((key, i) in self._places for key in arrays)),
            len(self._pages) - 1,
        )
        new = [each for key, each in arrays.items() if (key, page) not in self._places]
        size = sum(_rounded(each.size) for each in new)
        if self._filled + size > most and new:
            self._pages.append([])
            self._filled, page, new = 0, page + 1, list(arrays.values())
            size = sum(_rounded(each.size) for each in new)
        if size > most:
            raise UnsupportedError(
                f"weights of {size * ELEMENT_BYTES} bytes, over the device's limit of "
                f"{self.target.binding_bytes} for one binding"
            )
        for array in new:
            # It is kept, lest another one get its id.
            self._kept.append(array)
            self._places[id(array), page] = self._filled
            words = to_device(array)
            self._pages[page].append(np.pad(words, (0, _rounded(words.size) - words.size)))
            self._filled += _rounded(words.size)
        for access, array in constants:
            begin = self._places[id(array), page] + access.operand.offset
            numbers[access.slot] = begin // access.width
        return page

    def add(
        self,
        step: PlannedStep,
        source: str,
        page: int,
        numbers: Sequence[int],
        workgroups: tuple[int, int],
    ) -> None:
        """Add a dispatch; equal shaders are one."""
        shader = self._shaders.setdefault(source, len(self._shaders))
        kernel = step.kernel
        self._dispatches.append(
            Dispatch(step.node, kernel, shader, page, tuple(numbers), workgroups)
        )

    def result(self, inputs: Iterable[str], outputs: Iterable[str]) -> DispatchList:
        """All that was emitted; the names of inputs and outputs in the graph's order."""
        nothing = np.zeros(VECTOR, np.uint32)
        return DispatchList(
            tuple(self._shaders),
            tuple(self._dispatches),
            tuple(np.concatenate(page) if page else nothing for page in self._pages),
            self._end,
            self._border_table("input", inputs),
            self._border_table("output", outputs),
        )

    def _border_table(self, place: str, names: Iterable[str]) -> dict[str, Border]:
        found: dict[str, Border] = {}
        for index, name in enumerate(names):
            tensor = next(t for t in self._plan.tensors if (t.place, t.slot) == (place, index))
            found[name] = Border(self._borders[place, index], tensor.dtype, tensor.dims)
        return found


Emitter = Callable[[Emission, PlannedStep], None]
Check = Callable[[Step], None]
EMITTERS: dict[str, Emitter] = {}
_ROWS: list[tuple[str, str, str]] = []
_CHECKS: dict[str, Check] = {}


def kernel(
    name: str, inputs: str, outputs: str = "y", check: Check | None = None
) -> Callable[[Emitter], Emitter]:
    """Register the decorated function as what writes a kernel's dispatches.

    inputs, outputs: the operands as `Kernels` takes them. check: raises UnsupportedError for a step
    that there are no dispatches for.
    """

    def register(emitter: Emitter) -> Emitter:
        EMITTERS[name] = emitter
        _ROWS.append((name, inputs, outputs))
        if check is not None:
            _CHECKS[name] = check
        return emitter

    return register


class GpuKernels(Kernels):
    """The kernels, and which steps they are not for."""

    def __init__(self, dtypes: Sequence[str]) -> None:
        """Take all that are registered, for operands of these dtypes."""
        super().__init__(_ROWS)
        self._dtypes = dtypes

    def check(self, step: Step) -> None:
        """Raise UnsupportedError for a step that there are no dispatches for."""
        for view in (*step.reads, *step.writes):
            if view.dtype not in self._dtypes:
                raise UnsupportedError(f"{view.dtype} is not supported")
        if step.kernel in _CHECKS:
            _CHECKS[step.kernel](step)
