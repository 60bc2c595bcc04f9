"""Steps over views of buffers, with operands by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from palmkit.engine.ir import numpy_dtype

# Between the names of the nodes that one step does.
JOINED = " + "
# The attribute of steps one after the other that two threads share out: 1 or 2. What those of one
# touch no step of the other writes.
BRANCH = "branch"
# Ends the name of an operand that may come any number of times.
_MANY = "*"

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
    """A buffer seen as a C-contiguous array; `dims` are in the order of memory."""

    buffer: Buffer
    dtype: str
    dims: tuple[int, ...]

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.dims)


@dataclass(frozen=True)
class Step:
    """One call of a kernel. `Kernels.step` makes one, with the operands in the kernel's order.

    node: the name of the node it came from, or of all with JOINED between; for messages and
    profiles. inputs: by operand name; None for one that is left out before one that is not.
    outputs: by name; steps that each write a part of a buffer name it by the same view.
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
        """
        self._operands = {
            name: (tuple(inputs.split()), tuple(outputs.split())) for name, inputs, outputs in rows
        }

    def operands(self, kernel: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of a kernel's inputs and outputs; KeyError if there is no such kernel."""
        return self._operands[kernel]

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

        Raises KeyError for a kernel, and ValueError for an operand, that the runtime does not have.
        """
        known_inputs, known_outputs = self._operands[kernel]
        ordered = _ordered(kernel, known_inputs, inputs)
        written = _ordered(kernel, known_outputs, outputs)
        results = {name: view for name, view in written.items() if view is not None}
        if len(results) < len(written):
            raise ValueError(f"kernel {kernel}: an output is left out before {[*written][-1]}")
        if in_place is not None and ordered.get(in_place) is None:
            raise ValueError(f"kernel {kernel}: nothing to write over: {in_place}")
        return Step(kernel, node, ordered, results, attrs or {}, in_place)


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
