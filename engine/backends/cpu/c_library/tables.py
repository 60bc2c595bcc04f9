"""A model's plan and weights as C++ (native/small/program.h has the tables), and its C header."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from palmkit.engine.backends.cpu.c_library.targets import Target
from palmkit.engine.backends.cpu.c_library.texts import ALONE, HEADER, MODEL, PROGRAM, SHARED
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array, Type
from palmkit.engine.steps.plan import Plan
from palmkit.engine.steps.step import StepAttr

_Number = TypeVar("_Number", int, float)
_ALIGNMENT = 64
# Tables are indexed by 16 bits, weights by 32.
_MOST, _MOST_BYTES = 1 << 15, 1 << 32
# TensorEntry::Place and DType of native/base/step.h.
_PLACES = ("arena", "constant", "input", "output")
_DTYPES = (
    *("float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32"),
    *("int64", "uint64", "bool", "bfloat16"),
)
_C_TYPES = {"float32": "float", "float64": "double", "float16": "uint16_t", "bool": "uint8_t"}
# Words of C++ that could be the name of an input.
_TAKEN = re.compile(
    "and|asm|auto|bool|break|case|catch|char|class|const|continue|default|delete|do|double|else|"
    "enum|export|extern|false|float|for|friend|goto|if|inline|int|long|mutable|namespace|new|not|"
    "operator|or|private|protected|public|register|return|short|signed|sizeof|static|struct|"
    "switch|template|this|throw|true|try|typedef|typename|union|unsigned|using|virtual|void|"
    "volatile|while|xor"
)


def header(
    name: str, inputs: Mapping[str, Type], outputs: Mapping[str, Type], threads: bool = False
) -> str:
    """Return the header of a model. threads: whether the library may start some."""
    return HEADER.substitute(
        SHARED if threads else ALONE,
        name=name,
        guard=f"{name.upper()}_H",
        inputs=_fields(inputs, "const "),
        outputs=_fields(outputs, ""),
    )


def _fields(types: Mapping[str, Type], const: str) -> str:
    lines: list[str] = []
    taken: set[str] = set()
    for name, type in types.items():
        field = re.sub(r"\W", "_", name, flags=re.ASCII)
        if not field or field[0].isdigit() or _TAKEN.fullmatch(field):
            field = f"value_{field}"
        while field in taken:
            field += "_"
        taken.add(field)
        kind = _C_TYPES.get(type.dtype, f"{type.dtype}_t")
        lines.append(f"  {const}{kind} *{field}; /* {' x '.join(map(str, type.dims)) or 1} */")
    return "\n".join(lines)


def model_source(
    name: str, plans: Sequence[Plan], targets: Sequence[Target], threads: bool = False
) -> str:
    """Return the source of a model.

    plans: one for each of the targets; they differ in attributes alone. threads: whether the
    library may start some.
    """
    plan = plans[0]
    kernels = list(dict.fromkeys(step.kernel for step in plan.steps))
    tables = _Tables(plan, kernels)
    programs = [
        PROGRAM.substitute(
            isa=target.simd if len(targets) > 1 else "one",
            needs=" | ".join(f"palm::{bit}" for bit in target.needs.split(" | ")),
            steps=_lines(steps),
            attrs=_lines(attrs or ["{}"]),
        )
        for target, (steps, attrs) in zip(targets, map(tables.program, plans), strict=True)
    ]
    names = [target.simd if len(targets) > 1 else "one" for target in targets]
    content, offsets = _constants(plan.constants)
    return MODEL.substitute(
        SHARED if threads else ALONE,
        name=name,
        makes="\n".join(f"StepPtr make_{each}(const Node& node);" for each in kernels),
        kernels=_row(f"palm::make_{each}" for each in kernels),
        numbers=_row(map(str, tables.numbers)),
        tensors=_lines(tables.tensors),
        operands=_row(map(str, tables.operands)),
        integers=_row(map(_integer, tables.integers)),
        doubles=_row(map(_double, tables.doubles)),
        texts="\n".join(f'  "{each}\\0"' for each in tables.texts) or '  ""',
        offsets=_row(map(str, offsets)),
        weights=_row(map(hex, np.frombuffer(content, "<u4").tolist())),
        arena_bytes=max(plan.arena_bytes, 1),
        programs="\n".join(programs),
        models=_row(f"model_of_{each}()" for each in names),
    )


class _Tables:
    """The tables of a plan; those of its steps' attributes are made for each target."""

    def __init__(self, plan: Plan, kernels: Sequence[str]) -> None:
        self.numbers: list[int] = []
        self.operands: list[int] = []
        self.integers: list[int] = []
        self.doubles: list[float] = []
        self.texts: dict[str, int] = {}
        self._texts_size = 0
        self._kernels = kernels
        self.tensors = [
            _entry(
                _PLACES.index(each.place),
                *(_DTYPES.index(each.dtype), len(each.dims), int(bool(each.strides))),
                *(_place(self.numbers, [*each.dims, *each.strides]), each.slot, each.offset),
            )
            for each in plan.tensors
        ]

    def program(self, plan: Plan) -> tuple[list[str], list[str]]:
        """Return the entries of the steps and of their attributes."""
        steps: list[str] = []
        attrs: list[str] = []
        for step in plan.steps:
            operands = [*step.inputs.values(), *step.outputs.values()]
            steps.append(
                _entry(
                    *(self._kernels.index(step.kernel), len(step.inputs), len(step.outputs)),
                    *(len(step.attrs), _place(self.operands, operands), len(attrs)),
                )
            )
            attrs += [self._attr(name, value) for name, value in step.attrs.items()]
        sizes = [len(self.tensors), len(self.numbers), len(self.operands), len(attrs)]
        sizes += [len(self.integers), len(self.doubles), self._texts_size]
        if max(sizes) >= _MOST:
            raise UnsupportedError(f"a plan with {_MOST:,} tensors, operands or attributes")
        return steps, attrs

    def _attr(self, name: str, value: StepAttr) -> str:
        def entry(kind: str, count: int, first: int) -> str:
            return _entry(self._text(name), f"palm::AttrEntry::{kind}", count, first)

        if isinstance(value, str):
            return entry("kText", 1, self._text(value))
        if isinstance(value, int | float):
            kind, values = "", [value]
        else:
            kind, values = "s", [*value]
        if len(values) > 255:
            raise UnsupportedError(f"attribute {name}: more than 255 numbers in a C library")
        integers = [each for each in values if isinstance(each, int)]
        if len(integers) == len(values):
            return entry(f"kInteger{kind}", len(values), _place(self.integers, integers))
        doubles = [float(each) for each in values]
        return entry(f"kNumber{kind}", len(values), _place(self.doubles, doubles))

    def _text(self, text: str) -> int:
        place = self.texts.setdefault(text, self._texts_size)
        if place == self._texts_size:
            self._texts_size += len(text.encode()) + 1
        return place


def _place(pool: list[_Number], values: list[_Number]) -> int:
    """Return where the values lie in a row in the pool, which grows by them if they do not yet."""
    count = len(values)
    for first in range(len(pool) - count + 1):
        if pool[first : first + count] == values:
            return first
    for value in values:
        pool.append(value)
    return len(pool) - count


def _constants(constants: Sequence[Array]) -> tuple[bytes, list[int]]:
    """Return the arrays one behind the other, each on a cache line, and where each begins."""
    content, offsets = bytearray(), list[int]()
    for each in constants:
        offsets.append(len(content))
        data = np.ascontiguousarray(each).tobytes()
        content += data + bytes(-len(data) % _ALIGNMENT)
        if len(content) >= _MOST_BYTES:
            raise UnsupportedError("weights of 4 GB in a C library")
    return bytes(content), offsets


def _entry(*fields: int | str) -> str:
    return "{" + ", ".join(map(str, fields)) + "}"


def _integer(value: int) -> str:
    # The least one has no literal of its own.
    return f"{value + 1} - 1" if value == -(1 << 63) else str(value)


def _double(value: float) -> str:
    if np.isfinite(value):
        return value.hex()
    return '__builtin_nan("")' if np.isnan(value) else f"{'-' * (value < 0)}__builtin_inf()"


def _row(items: Iterable[str], width: int = 96) -> str:
    """Return the items with commas, as many on a line as there is room for; 0 if there are none."""
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) + 2 > width:
            lines.append("")
        lines[-1] += f"{' ' * bool(lines[-1])}{item},"
    return "\n".join(lines) if lines[0] else "0,"


def _lines(items: Sequence[str]) -> str:
    return "\n".join(f"{each}," for each in items)
