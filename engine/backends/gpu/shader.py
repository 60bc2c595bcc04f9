"""A shader in the making: what it accesses, and its text, which equal ones have written once."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from palmkit.engine.backends.gpu.dispatches import window_bindings, window_name, workgroups
from palmkit.engine.backends.gpu.functions import helpers
from palmkit.engine.backends.gpu.storage import FUNCTIONS, Storage
from palmkit.engine.backends.gpu.wgsl import THREADS, VECTOR, Access, Operand, indent, split
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array
from palmkit.engine.steps.plan import PlannedStep

if TYPE_CHECKING:
    from palmkit.engine.backends.gpu.emission import Emission


# Lines of a shader, or what writes them.
Lines = Iterable[str] | Callable[[], Iterable[str]]
# A shader, and the slots of the accesses that write single elements.
_Text = tuple[str, frozenset[int]]
_TEXTS_KEPT = 1024
_texts: dict[Hashable, _Text] = {}
_lock = threading.Lock()


def _once(key: Hashable, write: Callable[[], _Text]) -> _Text:
    """What was written for a key; the last _TEXTS_KEPT are kept."""
    found = _texts.get(key)
    if found is None:
        found = write()
        with _lock:
            while len(_texts) >= _TEXTS_KEPT:
                del _texts[next(iter(_texts))]
            _texts[key] = found
    return found


def _behind(head: Sequence[str], body: Callable[[], Iterable[str]]) -> list[str]:
    return [*head, *body()]


def _part_of(slot: int) -> str:
    return f"arena_of_{slot}"


class Shader:
    """One dispatch's shader in the making.

    wide: whether the arena is written by vectors. It is read by either, at the cost of a choice
    where the widths differ.
    """

    def __init__(self, emission: Emission, step: PlannedStep, wide: bool) -> None:
        """Begin a shader for a step."""
        self._emission = emission
        self._step = step
        # Vectors of four words, or of two where vectors of four floats may be of half precision.
        words = 2 if emission.target.half else VECTOR
        self._arena = Storage("arena", words if wide else 1)
        self._weights = Storage("weights", words)
        self._numbers: list[int] = []
        self._accesses: list[Access] = []
        self._constants: list[tuple[Access, Array]] = []
        # The slots of accesses that write single elements.
        self._written_singly: set[int] = set()

    @property
    def _number_vectors(self) -> int:
        """How many vectors hold the numbers, one at least."""
        return max(1, -(-len(self._numbers) // VECTOR))

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
        value = operand.value
        half = operand.half if value is None else self._emission.pages.is_half(value)
        access = Access(operand, width, len(self._numbers), half)
        self._numbers.append(operand.offset // width)
        if value is not None:
            self._constants.append((access, value))
        else:
            self._accesses.append(access)
        return access

    def constant(self, array: Array, width: int = 1) -> Access:
        """Read an array that is put into the weights, by single elements or vectors."""
        return self.access(Operand.constant(array), width)

    def read(self, access: Access, index: str) -> str:
        """The element, or the vector, at an index; it counts in the access's unit."""
        at = f"({self._begin(access)} + {index})"
        return self._storage(access).read(at, access.of, access.width, access.half)

    def write(self, access: Access, index: str, value: str) -> str:
        """The statement that stores a value of the access's type."""
        if access.width == 1:
            self._written_singly.add(access.slot)
        at = f"{self._begin(access)} + {index}"
        at = f"({at})" if access.width * self._arena.words == 2 * VECTOR else at
        return self._storage(access).write(at, value, access.width, access.half)

    def _storage(self, access: Access) -> Storage:
        """The binding that it is in; of an arena in parts, by a name that `run` replaces."""
        if access.operand.binding == "weights":
            return self._weights
        if self._emission.is_whole:
            return self._arena
        return replace(self._arena, name=_part_of(access.slot))

    @staticmethod
    def _begin(access: Access) -> str:
        return f"numbers[{access.slot // 4}].{'xyzw'[access.slot % 4]}"

    def each(
        self,
        shape: Sequence[int],
        names: Sequence[str],
        body: Lines,
        declared: Iterable[str] = (),
    ) -> None:
        """Add a dispatch of one invocation for each index of a shape.

        names: what the index along each dim is called; without names it is not taken apart. body,
        declared: as for `run`; the lines see `at` as well, the index counted flat.
        """
        count = prod(shape)
        head = [
            f"let at = group * {THREADS}u + thread;",
            f"if (at >= {count}u) {{ return; }}",
            *(split("at", shape, names) if names else ()),
        ]
        lines = partial(_behind, head, body) if callable(body) else [*head, *body]
        self.run(lines, -(-count // THREADS), declared=declared)

    def run(
        self,
        body: Lines,
        groups: int,
        threads: int = THREADS,
        declared: Iterable[str] = (),
    ) -> None:
        """Add the dispatch.

        body: lines of the entry point, which see `group`, the workgroup's number, and `thread`, the
        invocation's in it; or what writes them, and depends on no more than `signature` has, the
        accesses that there are, and `declared`. It is then called once in a process for all that
        are equal in these. declared: functions and workgroup variables.
        """
        if groups == 0:
            return
        most = self._emission.target.groups
        columns, rows = workgroups(groups, most)
        if rows > most:
            raise UnsupportedError(f"{groups} workgroups, over the device's limit of {most * most}")
        parts, names = self._emission.windows(self._accesses, self._numbers)
        page = self._emission.put(self._constants, self._numbers)
        declared = tuple(declared)

        def write() -> _Text:
            lines = list(body() if callable(body) else body)
            source = self._source(lines, groups, threads, declared, len(parts), names)
            return source, frozenset(self._written_singly)

        if callable(body):
            accesses = (*self._accesses, *(access for access, _ in self._constants))
            key = (
                *(self._emission.signature(self._step), groups, threads, declared, len(parts)),
                *(tuple(names.items()), len(self._numbers), self._arena, self._weights),
                tuple((each.width, each.slot, each.half) for each in accesses),
            )
            source, written_singly = _once(key, write)
        else:
            source, written_singly = write()
        for access in self._accesses:
            if access.slot in written_singly:
                self._emission.written_singly.add(access.operand.tensor)
        left = self._number_vectors * VECTOR - len(self._numbers)
        padded = [*self._numbers, *[0] * left]
        self._emission.add(self._step, source, page, padded, parts, (columns, rows))

    def _source(
        self,
        lines: Sequence[str],
        groups: int,
        threads: int,
        declared: Sequence[str],
        parts: int,
        names: Mapping[int, str],
    ) -> str:
        """The text of the shader; names: of parts of the arena, by the accesses' slots."""
        columns, rows = workgroups(groups, self._emission.target.groups)
        text = "\n".join(lines)
        numbers = f"array<vec4<u32>, {self._number_vectors}>"
        group = "workgroup.x" if rows == 1 else f"workgroup.y * {columns}u + workgroup.x"
        guard = [] if rows == 1 else [f"if (group >= {groups}u) {{ return; }}"]
        source = "\n".join(
            [
                *(
                    f"@group(0) @binding({binding}) var<storage, read_write> "
                    f"{window_name(i)}: {self._arena.declared};"
                    for i, binding in enumerate(window_bindings(parts))
                ),
                f"@group(0) @binding(1) var<storage, read> weights: {self._weights.declared};",
                f"@group(0) @binding(2) var<uniform> numbers: {numbers};",
                *declared,
                *((FUNCTIONS,) if self._emission.target.half else ()),
                *helpers(text),
                f"@compute @workgroup_size({threads})",
                "fn main(@builtin(workgroup_id) workgroup: vec3<u32>,",
                "        @builtin(local_invocation_index) thread: u32) {",
                *indent([f"let group = {group};", *guard, *lines]),
                "}",
                "",
            ]
        )
        for slot, name in names.items():
            source = re.sub(rf"\b{_part_of(slot)}\b", name, source)
        return source
