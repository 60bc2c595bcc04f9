"""Operators in the form that each opset gave them: our cases, written as of old, against peers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from palmkit.engine.backends.reference import Reference
from palmkit.engine.converters.onnx import convert
from palmkit.engine.ir import NARROW_DTYPES as NARROW
from palmkit.engine.ir import Array, Attr, Type
from palmkit.engine.ops import Case, Op, registry
from tests.case_groups import in_groups
from tests.engine.test_ops import (
    DTYPE_ATTRS,
    arrays,
    assert_close,
    element_type,
    foreign_names,
    label,
    one_node,
    skip_if_peer_is_wrong,
    versions,
)

onnx: Any = pytest.importorskip("onnx")

OLDEST_OF_PEERS = 7
MOST_CASES = 6
NARROW_DTYPES = frozenset(NARROW)
"""ONNX Runtime does not share these with numpy."""
ATTRIBUTES_OF_INPUTS = {"constant_value": "value", "K": "k"}
"""What an input was called as an attribute, where that is not its name."""


@dataclass(frozen=True)
class OldForm:
    """A case as an older opset writes it.

    kept: which of the case's inputs are inputs there; attrs: the attributes there.
    """

    op: Op
    case: Case
    opset: int
    kept: tuple[int, ...]
    attrs: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.op.name} {self.opset}: {label(self.case)}"


def old_form(op: Op, case: Case, newest: Any, schema: Any) -> OldForm | None:
    """The case in the form of `schema`; None if that cannot say it."""
    if not NARROW_DTYPES.isdisjoint(map(str, case.attrs.values())):
        return None
    allowed = set(schema.attributes)
    attrs: dict[str, Any] = {}
    for name, value in case.attrs.items():
        if name in allowed:
            attrs[name] = element_type(str(value)) if name in DTYPE_ATTRS else value
        elif name not in newest.attributes or not is_default(newest.attributes[name], value):
            return None
    kept: list[int] = []
    for index, x in enumerate(case.inputs):
        formal = formal_at(newest, index)
        if formal_at(schema, index) == formal:
            if x is None and schema.inputs[index].option.name == "Single":
                return None
            kept.append(index)
        elif x is not None:
            name = ATTRIBUTES_OF_INPUTS.get(formal, formal)
            if name not in allowed or not isinstance(x, np.ndarray):
                return None
            is_list = schema.attributes[name].type.name in ("INTS", "FLOATS")
            attrs[name] = x.reshape(-1).tolist() if is_list else x.item()
    if any(
        attribute.required and name not in attrs for name, attribute in schema.attributes.items()
    ):
        return None
    if not takes(schema, [case.inputs[index] for index in kept]):
        return None
    if case.outputs > len(schema.outputs) and not is_variadic(schema.outputs):
        return None
    return OldForm(op, case, schema.since_version, tuple(kept), attrs)


def is_variadic(parameters: Any) -> bool:
    return bool(parameters) and parameters[-1].option.name == "Variadic"


def formal_at(schema: Any, index: int) -> str:
    """The parameter's name, whatever case it is written in."""
    parameters = schema.inputs
    if index < len(parameters):
        return str(parameters[index].name).replace("input_", "")
    return str(parameters[-1].name) if is_variadic(parameters) else ""


def is_default(attribute: Any, value: Attr) -> bool:
    if not attribute.default_value.name:
        return False
    default = onnx.helper.get_attribute_value(attribute.default_value)
    return bool((default.decode() if isinstance(default, bytes) else default) == value)


def takes(schema: Any, inputs: list[Type | Array | None]) -> bool:
    """The schema allows these dtypes."""
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    names = {"float32": "float", "float64": "double"}
    for index, x in enumerate(inputs):
        if x is None:
            continue
        parameter = schema.inputs[min(index, len(schema.inputs) - 1)]
        dtype = Type.of(x).dtype if isinstance(x, np.ndarray) else x.dtype
        written = f"tensor({names.get(dtype, dtype)})"
        if written not in allowed.get(parameter.type_str, [parameter.type_str]):
            return False
    return True


def old_forms() -> Iterator[OldForm]:
    """A few cases of every operator in every opset that changed it."""
    for op in registry().values():
        operator = foreign_names().get(op.name)
        if operator is None or not op.pure:
            continue
        schemas = sorted(versions()[operator], key=lambda schema: schema.since_version)
        for schema, following in pairwise(schemas):
            if following.since_version <= OLDEST_OF_PEERS:
                continue
            forms = (old_form(op, case, schemas[-1], schema) for case in op.cases)
            yield from [form for form in forms if form is not None][:MOST_CASES]


def model_of(form: OldForm) -> bytes:
    graph = one_node(form.op, form.case)

    def infos(types: Mapping[str, Type]) -> list[Any]:
        return [
            onnx.helper.make_tensor_value_info(name, element_type(type.dtype), type.shape)
            for name, type in types.items()
        ]

    names = [graph.nodes[0].inputs[index] for index in form.kept]
    node = onnx.helper.make_node(
        foreign_names()[form.op.name], names, graph.nodes[0].outputs, **form.attrs
    )
    outputs = [onnx.ValueInfoProto(name=name) for name in graph.outputs]
    body = onnx.helper.make_graph(
        [node],
        "one node",
        infos({name: type for name, type in graph.inputs.items() if name in names}),
        outputs,
        [
            onnx.numpy_helper.from_array(value, name)
            for name, value in graph.constants.items()
            if name in names
        ],
    )
    opset = onnx.helper.make_opsetid("", max(OLDEST_OF_PEERS, form.opset))
    model = onnx.helper.make_model(body, opset_imports=[opset], ir_version=8)
    made: bytes = onnx.shape_inference.infer_shapes(model).SerializeToString()
    return made


def run_peer(source: bytes, inputs: Mapping[str, Array]) -> list[Array]:
    """Run ONNX Runtime, or onnx.reference where that has no kernel."""
    runtime: Any = pytest.importorskip("onnxruntime")
    runtime.set_default_logger_severity(3)
    errors = runtime.capi.onnxruntime_pybind11_state
    try:
        session = runtime.InferenceSession(source, providers=["CPUExecutionProvider"])
        return list(session.run(None, dict(inputs)))
    except errors.NotImplemented:
        from onnx.reference import ReferenceEvaluator

        model = onnx.ModelProto.FromString(source)
        with np.errstate(all="ignore"):
            evaluator: Any = ReferenceEvaluator(model)
            return list(evaluator.run(None, dict(inputs)))
    except (
        errors.InvalidGraph,
        errors.Fail,
        errors.InvalidArgument,
        errors.RuntimeException,
    ) as error:
        pytest.skip(f"ONNX Runtime refuses it: {error}")


@in_groups("form", old_forms(), lambda form: form.op.name, str)
def test_old_form_means_what_it_meant(form: OldForm) -> None:
    skip_if_peer_is_wrong(form.op)
    source = model_of(form)
    given = {f"x{i}": x for i, x in enumerate(arrays(form.case)) if x is not None}
    fed = onnx.ModelProto.FromString(source).graph.input
    inputs = {value.name: given[value.name] for value in fed}
    # First the peer: it skips what is no old form.
    peer = run_peer(source, inputs)
    got = Reference().compile(convert(source)).run(inputs)
    for y, wanted in zip(got.values(), peer, strict=True):
        assert_close(y, np.asarray(wanted))
