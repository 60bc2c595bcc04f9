"""Plans in a model file: what is needed to run it without reading, or even looking at, its graph.

They lie at the end of the data section, which older readers leave alone, and end with a footer,
so that they are found from the trailer without reading the tables. Layout, little-endian; native
code reads it (native/plans.cc) and trusts nothing of it:

    section     texts inputs outputs metadata plans
    footer      8 bytes "PALMPLAN", uint64 size of the section, uint32 version, uint32 0, or the
                section's size before it was deflated
    texts       uint32 count, each uint32 size and UTF-8; what follows names a text by its number
    value       uint32 name, uint32 dtype, dims: uint32 rank, each int64, or -1 and a uint32 name
    inputs      uint32 count, values; outputs likewise
    metadata    uint32 count, each uint32 key, uint32 value
    plans       uint32 count, each uint64 size of a plan, uint32 backend, the plan
    plan        dims of each input; uint32 dtype and dims of each output; uint64 arena, uint64 lower
                bound; constants tensors steps
    constants   uint32 count, each uint32 dtype, uint64 elements, uint64 offset in the data section,
                uint8 0 as they are, 1 float32 as float16, or 2 with a recipe behind it
                (native/entropy/stored.h)
    tensors     uint32 count, each uint8 place, uint64 slot, uint32 dtype, dims, uint64 offset in
                elements; strides: uint32 count, 0 of what is contiguous, each int64, in elements
    steps       uint32 count, each uint32 node, uint32 kernel, inputs and outputs: uint32 count,
                int32 each; attributes: uint32 count, each uint32 name, uint8 kind, value
    kinds       0 int64, 1 float64, 2 text, 3 list of int64, 4 list of float64

A plan is for inputs of certain sizes, in full precision, and for any machine: weights are packed
when it is loaded.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from palmkit.engine.format import PLAN_FOOTER, PLAN_MARK, PLAN_VERSION
from palmkit.engine.ir import Dim, Graph, Type, dtype_name
from palmkit.engine.steps.plan import Plan
from palmkit.engine.steps.step import StepAttr

_Item = TypeVar("_Item")
_PLACES = ("arena", "constant", "input", "output")


@dataclass(frozen=True)
class ReadyPlan:
    """A plan, with the backend and the shapes that it is for.

    backend: the name of the backend that runs it. shapes: one for each input; outputs: the type of
    each output, all in the graph's order.
    """

    backend: str
    shapes: tuple[tuple[int, ...], ...]
    outputs: tuple[Type, ...]
    plan: Plan


@dataclass(frozen=True)
class Stored:
    """Where a plan's constant lies.

    offset: in the data section. half: whether float32 is stored as float16. recipe: how to decode
    it; empty if it is stored plainly.
    """

    offset: int
    half: bool
    recipe: bytes = b""


def section(
    graph: Graph,
    plans: Sequence[ReadyPlan],
    place: Callable[[int, int], Stored],
    deflated: bool = False,
) -> bytes:
    """Return the plans as bytes, footer included.

    place: place(p, c) tells where constant c of plan p lies.
    """
    content = _Section(graph, plans, place).content
    packed = zlib.compress(content, 9) if deflated else content
    size = len(content) if deflated else 0
    return packed + PLAN_FOOTER.pack(PLAN_MARK, len(packed), PLAN_VERSION, size)


class _Section:
    def __init__(
        self, graph: Graph, plans: Sequence[ReadyPlan], place: Callable[[int, int], Stored]
    ) -> None:
        self._texts: dict[str, int] = {}
        self._place = place
        body = self._values(graph.inputs) + self._values(graph.outputs)
        body += self._list(
            graph.metadata.items(), lambda entry: self._text(entry[0]) + self._text(entry[1])
        )
        body += struct.pack("<I", len(plans))
        for number, ready in enumerate(plans):
            plan = self._plan(number, ready)
            body += struct.pack("<Q", len(plan)) + self._text(ready.backend) + plan
        texts = [text.encode() for text in self._texts]
        head = self._list(texts, lambda text: struct.pack("<I", len(text)) + text)
        self.content = head + body

    def _text(self, text: str) -> bytes:
        return struct.pack("<I", self._texts.setdefault(text, len(self._texts)))

    def _list(self, items: Iterable[_Item], one: Callable[[_Item], bytes]) -> bytes:
        parts = [one(item) for item in items]
        return struct.pack("<I", len(parts)) + b"".join(parts)

    def _dims(self, dims: Sequence[Dim]) -> bytes:
        return self._list(
            dims,
            lambda dim: (
                struct.pack("<q", dim)
                if isinstance(dim, int)
                else struct.pack("<q", -1) + self._text(dim)
            ),
        )

    def _values(self, values: Mapping[str, Type]) -> bytes:
        return self._list(
            values.items(),
            lambda value: (
                self._text(value[0]) + self._text(value[1].dtype) + self._dims(value[1].shape)
            ),
        )

    def _plan(self, number: int, ready: ReadyPlan) -> bytes:
        plan = ready.plan
        parts = [self._dims(shape) for shape in ready.shapes]
        parts += [self._text(type.dtype) + self._dims(type.dims) for type in ready.outputs]
        parts.append(struct.pack("<QQ", plan.arena_bytes, plan.lower_bound_bytes))
        parts.append(struct.pack("<I", len(plan.constants)))
        for index, value in enumerate(plan.constants):
            stored = self._place(number, index)
            parts.append(self._text(dtype_name(value.dtype)))
            kind = 2 if stored.recipe else int(stored.half)
            parts.append(struct.pack("<QQB", value.size, stored.offset, kind) + stored.recipe)
        parts.append(struct.pack("<I", len(plan.tensors)))
        for tensor in plan.tensors:
            parts.append(struct.pack("<BQ", _PLACES.index(tensor.place), tensor.slot))
            parts.append(self._text(tensor.dtype) + self._dims(tensor.dims))
            strides = tensor.strides
            parts.append(struct.pack(f"<QI{len(strides)}q", tensor.offset, len(strides), *strides))
        parts.append(struct.pack("<I", len(plan.steps)))
        for step in plan.steps:
            parts.append(self._text(step.node) + self._text(step.kernel))
            parts.append(_ints([*step.inputs.values()]) + _ints([*step.outputs.values()]))
            parts.append(self._list(step.attrs.items(), lambda attr: self._attr(*attr)))
        return b"".join(parts)

    def _attr(self, name: str, value: StepAttr) -> bytes:
        head = self._text(name)
        if isinstance(value, str):
            return head + b"\2" + self._text(value)
        if isinstance(value, int):
            return head + struct.pack("<Bq", 0, value)
        if isinstance(value, float):
            return head + struct.pack("<Bd", 1, value)
        if all(isinstance(each, int) for each in value):
            return head + struct.pack(f"<BI{len(value)}q", 3, len(value), *value)
        return head + struct.pack(f"<BI{len(value)}d", 4, len(value), *value)


def _ints(values: Sequence[int]) -> bytes:
    return struct.pack(f"<I{len(values)}i", len(values), *values)
