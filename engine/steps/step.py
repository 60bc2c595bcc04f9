"""Steps over views of buffers, with operands by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeAlias

from palmkit.engine.cached import cached
from palmkit.engine.ir import numpy_dtype

# Between the names of the nodes that one step does.
JOINED = " + "
# The attribute of steps one after the other that two threads share out: 1 or 2. What those of one
# touch no step of the other writes.
BRANCH = "branch"
# Ends the name of an operand that may come any number of times.
_MANY = "*"
# Which views an operand may be: any, or those of pixels.
_ANY, _PIXELS = "strides", "pixels"

StepAttr: TypeAlias = int | float | str | list[int] | list[float]


@dataclass(eq=False)
class Buffer:
    """A run of bytes: in the arena, or a constant, an input or an output of the graph.

    place: "arena", "constant", "input" or "output". index: which constant, input or output it is;
    unused in the arena.
    """

    place: str
    size_bytes: int
    index: int = 0


@dataclass(frozen=True)
class View:
    """An array in a buffer: all of it, or a part; `dims` are in the order of memory.

    strides: the elements from one index to the next, for each dim; None for a C-contiguous array,
    which `of` finds out. offset: the element of the buffer that the view begins at.
    """

    buffer: Buffer
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    offset: int = 0

    @staticmethod
    def of(
        buffer: Buffer, dtype: str, dims: Iterable[int], strides: Iterable[int], offset: int = 0
    ) -> View:
        """Return the view with these strides; those of dims of 1 do not matter."""
        dims, walks = tuple(dims), list(strides)
        if is_dense(dims, walks):
            return View(buffer, dtype, dims, None, offset)
        # Views that are alike are equal.
        for i in reversed(range(len(dims))):
            if dims[i] == 1:
                walks[i] = walks[i + 1] * dims[i + 1] if i + 1 < len(dims) else 1
        return View(buffer, dtype, dims, tuple(walks), offset)

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.dims)

    @property
    def is_whole(self) -> bool:
        """Whether the view is all of its buffer, as a C-contiguous array."""
        size_bytes = view_bytes(self.dtype, self.dims)
        return self.strides is None and self.offset == 0 and size_bytes == self.buffer.size_bytes

    @property
    def all_strides(self) -> tuple[int, ...]:
        """The elements from one index to the next, for each dim."""
        return tuple(strides_of(self.dims)) if self.strides is None else self.strides

    @cached
    def pixel(self) -> int | None:
        """The elements from one run along the last dim, a pixel, to the next.

        None unless all pixels lie at the same distance and each is contiguous: so do those of a
        C-contiguous array, and so do some channels of wider pixels.
        """
        if self.strides is None:
            return self.dims[-1] if self.dims else 1
        long = [(d, s) for d, s in zip(self.dims, self.strides, strict=True) if d > 1]
        is_one = self.dims[-1] == 1
        if not is_one and long.pop()[1] != 1:
            return None
        pixel = expected = long[-1][1]
        for dim, stride in reversed(long):
            if stride != expected:
                return None
            expected *= dim
        return pixel if pixel >= self.dims[-1] else None

    @cached
    def ends(self) -> tuple[int, int]:
        """The first element of the buffer that the view reaches, and the one behind its last."""
        return ends_of(self.offset, self.dims, self.all_strides)

    def within(self, part: View) -> View | None:
        """Where the view lies if all of its buffer lies where `part`, of another buffer, is.

        None where strides do not say it: part must be contiguous, or of pixels that the view does
        not cut across.
        """
        pixel = part.pixel
        if pixel is None or part.dtype != self.dtype:
            return None
        channels = part.dims[-1] if part.dims else 1
        if part.strides is None:
            return replace(self, buffer=part.buffer, offset=part.offset + self.offset)
        strides: list[int] = []
        last = self.offset % channels
        for dim, stride in zip(self.dims, self.all_strides, strict=True):
            if dim == 1:
                strides.append(0)
            elif stride % channels == 0:
                strides.append(stride // channels * pixel)
            elif stride > 0:
                strides.append(stride)
                last += (dim - 1) * stride
            else:
                return None
        if last >= channels:
            return None
        offset = part.offset + self.offset // channels * pixel + self.offset % channels
        return View.of(part.buffer, self.dtype, self.dims, strides, offset)


def is_apart(one: View, other: View) -> bool:
    """Whether no element of a buffer is of both views, as far as their ends and pixels say."""
    if one.buffer is not other.buffer or one.ends[1] <= other.ends[0]:
        return True
    if other.ends[1] <= one.ends[0]:
        return True
    pixel = one.pixel
    if pixel is None or pixel != other.pixel or not pixel or one.dtype != other.dtype:
        return False
    first, second = one.offset % pixel, other.offset % pixel
    of_one, of_other = (view.dims[-1] if view.dims else 1 for view in (one, other))
    return max(first + of_one, second + of_other) <= pixel and (
        first + of_one <= second or second + of_other <= first
    )


def strides_of(dims: Sequence[int]) -> list[int]:
    """Return the elements from one index to the next, for each dim of a C-contiguous array."""
    strides = [1] * len(dims)
    for i in range(len(dims) - 2, -1, -1):
        strides[i] = strides[i + 1] * dims[i + 1]
    return strides


def ends_of(offset: int, dims: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return the first element that an array at an offset reaches, and the one behind its last."""
    if 0 in dims:
        return offset, offset
    reaches = [(dim - 1) * stride for dim, stride in zip(dims, strides, strict=True)]
    first = offset + sum(reach for reach in reaches if reach < 0)
    return first, offset + sum(reach for reach in reaches if reach > 0) + 1


def is_dense(dims: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether an array with these strides is C-contiguous; those of dims of 1 do not matter."""
    if 0 in dims:
        return True
    own = strides_of(dims)
    return all(
        dim == 1 or stride == each for dim, stride, each in zip(dims, strides, own, strict=True)
    )


@dataclass(frozen=True)
class Step:
    """One call of a kernel. `Kernels.step` makes one, with the operands in the kernel's order.

    node: the name of the node it came from, or of all with JOINED between; for messages and
    profiles. inputs: by operand name; None for one that is left out before one that is not.
    outputs: by name.
    in_place: the input that the first output may overwrite when nobody reads it later.
    """

    kernel: str
    node: str
    inputs: Mapping[str, View | None]
    outputs: Mapping[str, View]
    attrs: Mapping[str, StepAttr] = field(default_factory=dict[str, StepAttr])
    in_place: str | None = None

    @property
    def reads(self) -> list[View]:
        """The views it reads, in the order of its operands."""
        return [view for view in self.inputs.values() if view is not None]

    @property
    def writes(self) -> Iterable[View]:
        """The views it writes, in the order of its operands."""
        return self.outputs.values()

    @property
    def y(self) -> View:
        """The first output."""
        return next(iter(self.outputs.values()))

    def input(self, name: str) -> View:
        """The input of that name; KeyError if it is left out."""
        view = self.inputs[name]
        if view is None:
            raise KeyError(name)
        return view

    def has(self, name: str) -> bool:
        """Whether it has the input of that name."""
        return self.inputs.get(name) is not None

    def integers(self, name: str, default: Iterable[int] = ()) -> list[int]:
        """An attribute that is a list of integers."""
        value = self.attrs.get(name)
        return [int(each) for each in value] if isinstance(value, list) else list(default)

    def integer(self, name: str, default: int = 0) -> int:
        """An attribute that is an integer."""
        value = self.attrs.get(name, default)
        assert isinstance(value, int)
        return value


class Kernels:
    """The kernels of a runtime and the names of their operands, as the runtime tells them."""

    def __init__(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Take (kernel, names of inputs, names of outputs), the names separated by spaces.

        A last name that ends in an asterisk, "part*", stands for inputs "part0", "part1" ...
        Behind a slash stands which views an operand may be besides contiguous ones: "/pixels" those
        that View.pixel knows, "/strides" any, another operand's name those whose pixels are as far
        from one another as that one's.
        """
        self._operands: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._views: dict[str, dict[str, str]] = {}
        for kernel, *both in rows:
            words = [[each.partition("/") for each in names.split()] for names in both]
            inputs, outputs = (tuple(name for name, _, _ in each) for each in words)
            self._operands[kernel] = inputs, outputs
            self._views[kernel] = {name: views for each in words for name, _, views in each}

    def __contains__(self, kernel: str) -> bool:
        """Whether there is such a kernel."""
        return kernel in self._operands

    def operands(self, kernel: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of a kernel's inputs and outputs; KeyError if there is no such kernel."""
        return self._operands[kernel]

    def takes(self, step: Step) -> bool:
        """Whether the kernel takes all of the step's views."""
        marks = self._views[step.kernel]
        for name, view in (*step.inputs.items(), *step.outputs.items()):
            if view is None:
                continue
            mark = marks.get(name)
            if mark is None:
                mark = marks.get(name.rstrip("0123456789") + _MANY, "")
            if mark in marks:
                if view.pixel != step.input(mark).pixel:
                    return False
            elif not (view.strides is None or mark == _ANY or (mark == _PIXELS and view.pixel)):
                return False
        return True

    def step(
        self,
        kernel: str,
        node: str,
        inputs: Mapping[str, View | None],
        outputs: Mapping[str, View],
        attrs: Mapping[str, StepAttr] | None = None,
        in_place: str | None = None,
    ) -> Step:
        """A step with its operands in the kernel's order.

        Raises KeyError for a kernel, and ValueError for an operand, that the runtime does not have,
        and what `check` raises.
        """
        known_inputs, known_outputs = self._operands[kernel]
        ordered = _ordered(kernel, known_inputs, inputs)
        written = _ordered(kernel, known_outputs, outputs)
        results = {name: view for name, view in written.items() if view is not None}
        if len(results) < len(written):
            raise ValueError(f"kernel {kernel}: an output is left out before {[*written][-1]}")
        if in_place is not None and ordered.get(in_place) is None:
            raise ValueError(f"kernel {kernel}: nothing to write over: {in_place}")
        step = Step(kernel, node, ordered, results, attrs or {}, in_place)
        self.check(step)
        return step

    def check(self, step: Step) -> None:
        """Raise UnsupportedError for a step that the kernels cannot do; these can do all."""


def _ordered(
    kernel: str, known: tuple[str, ...], given: Mapping[str, View | None]
) -> dict[str, View | None]:
    names = known
    if names and names[-1].endswith(_MANY):
        single, stem = known[:-1], known[-1].removesuffix(_MANY)
        names = (*single, *(f"{stem}{i}" for i in range(len(given) - len(single))))
    ordered = {name: given.get(name) for name in names}
    if not given.keys() <= ordered.keys():
        strange = ", ".join(name for name in given if name not in ordered)
        raise ValueError(f"kernel {kernel}: expected operands {', '.join(known)}, got {strange}")
    while ordered and next(reversed(ordered.values())) is None:
        ordered.popitem()
    return ordered


def view_bytes(dtype: str, dims: Iterable[int]) -> int:
    """The bytes of a C-contiguous array."""
    # Inside of a plan bfloat16 needs no package that knows it.
    return prod(dims) * (2 if dtype == "bfloat16" else numpy_dtype(dtype).itemsize)
