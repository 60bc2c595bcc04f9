"""Every case of every op: each backend against numpy, and numpy against ONNX Runtime."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from palmkit.engine.backends import BACKENDS
from palmkit.engine.errors import ModelError, PalmError, ShapeError, UnsupportedError
from palmkit.engine.ir import Array, Graph, Known, Node, Type
from palmkit.engine.ops import Case, Op, find, infer_node, infer_types, registry, run_reference

CASES = [(op, case) for op in registry().values() for case in op.cases]


def label(value: object) -> str:
    if isinstance(value, Op):
        return value.name
    assert isinstance(value, Case)
    inputs = [
        str(Type.of(x)) if isinstance(x, np.ndarray) else str(x).lower() for x in value.inputs
    ]
    return " ".join([*inputs, *(f"{key}={attr}" for key, attr in value.attrs.items())])


every_case = pytest.mark.parametrize(("op", "case"), CASES, ids=label)


def random_array(type: Type, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if type.dtype == "bool":
        return np.asarray(rng.random(type.dims) < 0.5)
    if type.dtype.startswith("u"):
        return rng.integers(0, 100, type.dims).astype(type.dtype)
    if "int" in type.dtype:
        return rng.integers(-9, 9, type.dims).astype(type.dtype)
    return rng.normal(size=type.dims).astype(type.dtype)


def arrays(case: Case) -> list[Array | None]:
    return [random_array(x, i) if isinstance(x, Type) else x for i, x in enumerate(case.inputs)]


def one_node(op: Op, case: Case) -> Graph:
    names = tuple("" if x is None else f"x{i}" for i, x in enumerate(case.inputs))
    named = list(zip(names, case.inputs, strict=True))
    node = Node(op.name, names, tuple(f"y{i}" for i in range(case.outputs)), case.attrs)
    graph = Graph(
        {name: x for name, x in named if isinstance(x, Type)},
        {},
        (node,),
        {name: x for name, x in named if isinstance(x, np.ndarray)},
    )
    types = infer_types(graph)
    outputs = {name: Type(types[name].dtype, types[name].shape) for name in node.outputs}
    return Graph(graph.inputs, outputs, graph.nodes, graph.constants)


def assert_close(got: Array, wanted: Array) -> None:
    assert Type.of(got) == Type.of(wanted)
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(got, wanted)
        return
    finite = np.abs(wanted[np.isfinite(wanted)], dtype=np.float64)
    resolution = float(np.finfo(wanted.dtype).eps) * 8
    atol = resolution * float(finite.max(initial=0))
    np.testing.assert_allclose(got, wanted, rtol=max(1e-5, resolution), atol=atol)


@pytest.mark.parametrize("backend", BACKENDS)
@every_case
def test_backend(backend: str, op: Op, case: Case) -> None:
    graph, inputs = one_node(op, case), arrays(case)
    chosen = BACKENDS[backend]
    if not chosen.available() or not chosen.supports(graph.nodes[0]):
        pytest.skip(f"{backend} does not run {op.name}")
    try:
        program = chosen.compile(graph)
    except UnsupportedError as error:
        pytest.skip(str(error))
    given = {f"x{i}": x for i, x in enumerate(inputs) if x is not None and f"x{i}" in graph.inputs}
    outputs = program.run(given)
    wanted = run_reference(graph.nodes[0], inputs)
    for (name, type), y in zip(graph.outputs.items(), wanted, strict=False):
        assert_close(outputs[name], y)
        assert Type.of(outputs[name]) == type


@every_case
def test_inputs_are_left_alone(op: Op, case: Case) -> None:
    inputs = arrays(case)
    for x in inputs:
        if x is not None:
            x.flags.writeable = False
    run_reference(one_node(op, case).nodes[0], inputs)


@every_case
def test_rule_gives_plain_types(op: Op, case: Case) -> None:
    """A rule that hands on its input's type would hand on a constant's value with it."""
    constants = [None if x is None else Known.of(x) for x in arrays(case)]
    node = one_node(op, case).nodes[0]
    for type, y in zip(infer_node(node, constants), run_reference(node, arrays(case)), strict=True):
        assert (type.dtype, type.shape) == (y.dtype.name, y.shape)
        if isinstance(type, Known):
            np.testing.assert_array_equal(type.value, y)


def foreign_name(op: str) -> str | None:
    """The ONNX operator that the converter calls `op`; None if there is none."""
    onnx = pytest.importorskip("onnx")
    from palmkit.engine.converters.onnx import op_name

    names = {schema.name for schema in onnx.defs.get_all_schemas()}
    return next((name for name in names if op_name(name) == op), None)


def onnx_model(op: Op, case: Case) -> Any:
    onnx = pytest.importorskip("onnx")
    operator = foreign_name(op.name)
    if operator is None:
        pytest.skip(f"ONNX has no operator {op.name}")
    graph = one_node(op, case)
    attrs: dict[str, Any] = dict(case.attrs)
    if op.name == "cast":
        attrs["to"] = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(attrs["to"]))

    def infos(types: Any) -> list[Any]:
        return [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(type.dtype)), type.shape
            )
            for name, type in types.items()
        ]

    node = graph.nodes[0]
    body = onnx.helper.make_graph(
        [onnx.helper.make_node(operator, node.inputs, node.outputs, **attrs)],
        "one node",
        infos(graph.inputs),
        infos(graph.outputs),
        [onnx.numpy_helper.from_array(value, name) for name, value in graph.constants.items()],
    )
    opset = onnx.helper.make_opsetid("", 22)
    return onnx.helper.make_model(body, opset_imports=[opset], ir_version=10)


@every_case
def test_meaning_is_that_of_onnx_runtime(op: Op, case: Case) -> None:
    runtime = pytest.importorskip("onnxruntime")
    model = onnx_model(op, case)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    inputs = arrays(case)
    given = {i.name: inputs[int(i.name[1:])] for i in session.get_inputs()}
    try:
        wanted: Sequence[Array] = session.run(None, given)
    except runtime.capi.onnxruntime_pybind11_state.InvalidArgument as error:
        if "not supported" not in str(error):
            raise
        pytest.skip(str(error))
    got = run_reference(one_node(op, case).nodes[0], inputs)
    for y, peer in zip(got, wanted, strict=False):
        assert_close(y, np.asarray(peer))


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        (
            "add",
            ["float32[2]", "float32[3]"],
            {},
            r"add: cannot broadcast float32\[2\] with float32\[3\]",
        ),
    ],
)
def test_errors(op: str, inputs: list[str], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        find(op).infer(Type("float32", (2,)), Type("float32", (3,)))
