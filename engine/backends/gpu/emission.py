"""What the emitters of kernels register with, and write the dispatches of a plan's steps to."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from dataclasses import dataclass
from math import prod

from palmkit.engine.backends.gpu.dispatches import (
    ELEMENT_BYTES,
    Border,
    Dispatch,
    DispatchList,
    Window,
    window_name,
)
from palmkit.engine.backends.gpu.pages import Pages
from palmkit.engine.backends.gpu.storage import element_bytes
from palmkit.engine.backends.gpu.wgsl import VECTOR, Access, Operand
from palmkit.engine.backends.gpu.windows import windows
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array
from palmkit.engine.steps.placing import aligned
from palmkit.engine.steps.plan import Plan, PlannedStep, Tensor
from palmkit.engine.steps.step import Kernels, Step, strides_of


@dataclass(frozen=True)
class Target:
    """What dispatches are made for.

    invocations: how many the device wants to have at a time before each does more. threads: of a
    workgroup, at most. groups: workgroups along x or y, at most. binding_bytes, shared_bytes: the
    most that one binding may be, and a workgroup's memory. bindings: of storage, at most. half:
    whether floats are stored in half precision where that can be.
    """

    invocations: int = 1 << 16
    threads: int = 256
    groups: int = 65535
    binding_bytes: int = 1 << 27
    shared_bytes: int = 1 << 14
    bindings: int = 8
    half: bool = False


class Emission:
    """Dispatches of a plan, step by step."""

    def __init__(
        self, plan: Plan, target: Target, halves: Set[int] = frozenset(), is_trial: bool = False
    ) -> None:
        """Begin with nothing emitted.

        halves: the tensors in half precision, by their numbers. is_trial: only how tensors are
        written is wanted, so that no weights are stored.
        """
        self.target = target
        self._plan, self._halves, self._is_trial = plan, halves, is_trial
        self._shaders: dict[str, int] = {}
        self._dispatches: list[Dispatch] = []
        self.pages = Pages(target.binding_bytes, target.half)
        # The tensors of which elements are written one by one.
        self.written_singly: set[int] = set()
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
            half = number in self._halves
            offset = tensor.slot // element_bytes(half) + tensor.offset
            return Operand("arena", offset, dtype, dims, strides, half=half, tensor=number)
        offset = self._borders[tensor.place, tensor.slot] + tensor.offset
        return Operand("arena", offset, dtype, dims, strides, tensor=number)

    def signature(self, step: PlannedStep) -> Hashable:
        """All that a step's shaders may depend on but numbers, values, and the accesses' places."""

        def of(number: int) -> Hashable:
            if number < 0:
                return None
            each = self._plan.tensors[number]
            known = (each.place, each.dtype, each.dims, each.strides, each.offset % VECTOR)
            return (*known, number in self._halves)

        operands = (*step.inputs.items(), *step.outputs.items())
        named = tuple((name, of(number)) for name, number in operands)
        return step.kernel, self.target, self.is_whole, repr(step.attrs), named

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
        if self._is_trial:
            return 0
        page, begins = self.pages.put(array for _, array in constants)
        for access, array in constants:
            numbers[access.slot] = (begins[id(array)] + access.operand.offset) // access.width
        return page

    @property
    def is_whole(self) -> bool:
        """Whether one binding may be all of the arena."""
        return self._end * ELEMENT_BYTES <= self.target.binding_bytes

    def windows(
        self, accesses: Sequence[Access], numbers: list[int]
    ) -> tuple[tuple[Window, ...], dict[int, str]]:
        """Find what a dispatch binds of the arena; where operands begin counts from there on.

        Returns the windows and, of an arena in parts, the name of each access's by its slot.
        """
        spans: list[tuple[int, int]] = []
        for access in accesses:
            first, end = access.operand.ends
            size = element_bytes(access.half)
            # Vectors are read as a whole.
            spans.append((first * size, -(-end // VECTOR) * VECTOR * size))
        found, places = windows(spans, self._end * ELEMENT_BYTES, self.target.binding_bytes)
        if len(found) + 1 > self.target.bindings:
            raise UnsupportedError(f"{len(found)} parts of an arena over what one binding may be")
        for access, place in zip(accesses, places, strict=True):
            unit_bytes = element_bytes(access.half) * access.width
            numbers[access.slot] -= found[place][0] // unit_bytes
        if self.is_whole:
            return found, {}
        names = [window_name(place) for place in places]
        return found, {each.slot: name for each, name in zip(accesses, names, strict=True)}

    def add(
        self,
        step: PlannedStep,
        source: str,
        page: int,
        numbers: Sequence[int],
        parts: tuple[Window, ...],
        workgroups: tuple[int, int],
    ) -> None:
        """Add a dispatch; equal shaders are one."""
        shader = self._shaders.setdefault(source, len(self._shaders))
        self._dispatches.append(
            Dispatch(step.node, step.kernel, shader, page, tuple(numbers), parts, workgroups)
        )

    def result(self, inputs: Iterable[str], outputs: Iterable[str]) -> DispatchList:
        """All that was emitted; the names of inputs and outputs in the graph's order."""
        return DispatchList(
            tuple(self._shaders),
            tuple(self._dispatches),
            self.pages.result(),
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
