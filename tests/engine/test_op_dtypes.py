"""Every op in every dtype that ONNX allows it: its rule, its meaning, and what backends make of it.

Values in the narrow dtypes are small, and few of them differ: that is all that fits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from palmkit.engine.backends import BACKENDS, chain
from palmkit.engine.backends.options import DEFAULTS
from palmkit.engine.backends.partition import compile_parts
from palmkit.engine.ir import DTYPES, Array, Graph, Known, Node, Type, numpy_dtype
from palmkit.engine.ops import Case, Op, Undetermined, infer_node, registry, run_reference
from tests.case_groups import in_groups
from tests.engine.test_ops import arrays, assert_close, foreign_names, versions

onnx: Any = pytest.importorskip("onnx")

OUR_NAMES = {
    "float": "float32",
    "double": "float64",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
}
NOT_TAKEN = {
    "grid_sample": set(DTYPES[3:12]),
    "dequantize_linear": {"float8_e8m0fnu"},
}
"""Dtypes that ONNX allows and we do not."""


@dataclass(frozen=True)
class Typed:
    """A case with the inputs of one type parameter in another dtype."""

    op: Op
    case: Case
    parameter: str
    places: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.op.name} {self.parameter}={self.dtype}"

    def arrays(self) -> list[Array | None]:
        found = arrays(self.case)
        for place in self.places:
            x = found[place]
            assert x is not None
            is_signed = not self.dtype.startswith(("u", "float8_e8m0"))
            found[place] = (x if is_signed else np.abs(x)).astype(numpy_dtype(self.dtype))
        return found


def schema_of(op: Op) -> Any:
    return max(versions()[foreign_names()[op.name]], key=lambda schema: schema.since_version)


def typed_cases() -> Iterator[Typed]:
    for op in registry().values():
        if op.name not in foreign_names() or not op.cases or op.name == "bit_cast":
            continue
        schema, case = schema_of(op), op.cases[min(2, len(op.cases) - 1)]
        for constraint in schema.type_constraints:
            parameter = constraint.type_param_str
            places = tuple(
                i
                for i, x in enumerate(case.inputs)
                if x is not None
                and schema.inputs[min(i, len(schema.inputs) - 1)].type_str == parameter
            )
            for written in constraint.allowed_type_strs:
                name = written.removeprefix("tensor(").removesuffix(")")
                dtype = OUR_NAMES.get(name, name)
                if places and dtype in DTYPES and dtype not in NOT_TAKEN.get(op.name, ()):
                    yield Typed(op, case, parameter, places, dtype)


@in_groups("typed", typed_cases(), lambda typed: typed.op.name, str)
def test_dtype(typed: Typed) -> None:
    op, inputs = typed.op, typed.arrays()
    names = tuple("" if x is None else f"x{i}" for i, x in enumerate(inputs))
    node = Node(op.name, names, tuple(f"y{i}" for i in range(typed.case.outputs)), typed.case.attrs)
    results = run_reference(node, inputs)
    try:
        types = infer_node(node, [None if x is None else Known.of(x) for x in inputs])
    except Undetermined:
        types = tuple(map(Type.of, results))
    for type, y in zip(types, results, strict=True):
        assert (type.dtype, type.shape) == (y.dtype.name, y.shape)
    if schema_of(op).outputs[0].type_str == typed.parameter:
        assert results[0].dtype.name == typed.dtype
    if BACKENDS["cpu"].missing() or not op.pure:
        return
    given = {name: x for name, x in zip(names, inputs, strict=True) if x is not None}
    fed = {name: x for name, x in given.items() if int(name[1:]) in typed.places}
    constants = {name: x for name, x in given.items() if name not in fed}
    outputs = {
        name: Type(type.dtype, type.shape) for name, type in zip(node.outputs, types, strict=False)
    }
    graph = Graph({name: Type.of(x) for name, x in fed.items()}, outputs, (node,), constants)
    got = compile_parts(graph, chain("cpu"), DEFAULTS).run(fed)
    for name, y in zip(node.outputs, results, strict=False):
        assert_close(got[name], y)
