"""Every case of every op: each backend against numpy, and numpy against ONNX Runtime."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from palmkit.engine.backends import BACKENDS
from palmkit.engine.ir import NARROW_DTYPES, Array, Attr, Graph, Known, Node, Type, numpy_dtype
from palmkit.engine.ops import (
    Case,
    Op,
    Undetermined,
    find,
    infer_node,
    infer_types,
    registry,
    run_reference,
)
from tests.case_groups import in_groups
from tests.engine.refusals import attempt, expected, expected_reason, supports

CASES = [(op, case) for op in registry().values() for case in op.cases]


def label(value: object) -> str:
    if isinstance(value, Op):
        return value.name
    assert isinstance(value, Case)
    inputs = [
        f"constant {Type.of(x)}" if isinstance(x, np.ndarray) else str(x).lower()
        for x in value.inputs
    ]
    return " ".join([*inputs, *(f"{key}={attr}" for key, attr in value.attrs.items())])


def by_op(
    cases: Iterable[tuple[Op, Case]], label: Callable[[Case], str] = label
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that makes a check of `op` and `case` a test for each op."""
    return in_groups("op, case", cases, lambda case: case[0].name, lambda case: label(case[1]))


every_case = by_op(CASES)


def random_array(type: Type, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if type.dtype == "bool":
        return np.asarray(rng.random(type.dims) < 0.5)
    if type.dtype.startswith("u"):
        return rng.integers(0, 100, type.dims).astype(type.dtype)
    if "int" in type.dtype:
        return rng.integers(-9, 9, type.dims).astype(type.dtype)
    return rng.normal(size=type.dims).astype(type.dtype)


def fed(case: Case) -> list[bool]:
    """Which inputs are fed; of all constants the first, lest backends compute it beforehand."""
    computed = [isinstance(x, Type) for x in case.inputs]
    first = case.inputs[0] if case.inputs else None
    if not any(computed) and isinstance(first, np.ndarray) and first.ndim:
        computed[0] = True
    return computed


def arrays(case: Case) -> list[Array | None]:
    return [random_array(x, i) if isinstance(x, Type) else x for i, x in enumerate(case.inputs)]


def one_node(op: Op, case: Case) -> Graph:
    names = tuple("" if x is None else f"x{i}" for i, x in enumerate(case.inputs))
    node = Node(op.name, names, tuple(f"y{i}" for i in range(case.outputs)), case.attrs)
    inputs: dict[str, Type] = {}
    constants: dict[str, Array] = {}
    for name, x, feed in zip(names, case.inputs, fed(case), strict=True):
        if isinstance(x, Type):
            inputs[name] = x
        elif feed and x is not None:
            inputs[name] = Type.of(x)
        elif x is not None:
            constants[name] = x
    graph = Graph(inputs, {}, (node,), constants)
    types = infer_types(graph)
    if any(name not in types for name in node.outputs):
        types |= dict(
            zip(node.outputs, map(Type.of, run_reference(node, arrays(case))), strict=False)
        )
    outputs = {name: Type(types[name].dtype, types[name].shape) for name in node.outputs}
    return Graph(graph.inputs, outputs, graph.nodes, graph.constants)


def assert_close(got: Array, wanted: Array, pure: bool = True) -> None:
    """Same type and, unless the op draws random numbers, nearly the same values."""
    assert Type.of(got) == Type.of(wanted)
    if not pure:
        return
    if wanted.dtype.name.startswith(("bfloat", "float8", "float4")):
        got, wanted = got.astype(np.float32), wanted.astype(np.float32)
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
    check_backend(backend, op, case)


def check_backend(backend: str, op: Op, case: Case) -> None:
    graph, inputs = one_node(op, case), arrays(case)
    if BACKENDS[backend].missing():
        pytest.skip(f"backend {backend} is not here")
    program, reason = attempt(backend, graph)
    assert reason == expected_reason(backend, op.name, label(case)), "see tests/engine/refused"
    if program is None:
        return
    given = {f"x{i}": x for i, x in enumerate(inputs) if x is not None and f"x{i}" in graph.inputs}
    outputs = program.run(given)
    wanted = run_reference(graph.nodes[0], inputs)
    for (name, type), y in zip(graph.outputs.items(), wanted, strict=False):
        assert_close(outputs[name], y, op.pure)
        assert Type.of(outputs[name]) == type


@pytest.mark.parametrize("backend", BACKENDS)
def test_expected_refusals_are_of_cases_of_ops_it_supports(backend: str) -> None:
    taken = {op.name for op, _ in CASES if supports(backend, op.name)}
    assert expected(backend).keys() <= {(op.name, label(c)) for op, c in CASES if op.name in taken}


SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0, 1e-42, -1e-42, 3e38, -3e38, 1], np.float32)
UNARY = [
    op
    for op in registry().values()
    if [str(x) for case in op.cases[:1] for x in case.inputs] == ["float32[]"]
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("op", UNARY, ids=label)
def test_nan_and_infinity_go_through(backend: str, op: Op) -> None:
    tiled = np.tile(SPECIAL, 7)
    check_backend(backend, op, Case((tiled,)))


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
    try:
        types = infer_node(node, constants)
    except Undetermined as error:
        pytest.skip(str(error))
    for type, y in zip(types, run_reference(node, arrays(case)), strict=True):
        assert (type.dtype, type.shape) == (y.dtype.name, y.shape)
        if isinstance(type, Known):
            np.testing.assert_array_equal(type.value, y)


DTYPE_ATTRS = {
    "output_datatype",
    "to",
    "dtype",
    "output_dtype",
    "precision",
    "stash_type",
    "softmax_precision",
}
OLDEST_COMPARED = 22
"""Operators are compared in this opset, or a newer one that changed them."""
LAST_OF_RUNTIME = {"roi_align": 21, "global_lp_pool": 21, "deform_conv": 21}
"""The newest opset of which ONNX Runtime has the operator, where that is older."""

WRONG_BEFORE_1_24 = {"attention", "dft", "quantize_linear", "stft"}
"""Operators that the last ONNX Runtime for Python 3.10, 1.23, has wrong in some forms."""


def skip_if_peer_is_wrong(op: Op) -> None:
    """ONNX Runtime is no peer for what it put right later."""
    runtime = pytest.importorskip("onnxruntime")
    version = tuple(map(int, runtime.__version__.split(".")[:2]))
    if version < (1, 24) and op.name in WRONG_BEFORE_1_24:
        pytest.skip(f"ONNX Runtime {runtime.__version__} has some of {op.name} wrong")


@cache
def foreign_names() -> dict[str, str]:
    """ONNX's operators by the names that the converter has for them."""
    onnx = pytest.importorskip("onnx")
    from palmkit.engine.converters.onnx import op_name

    schemas = onnx.defs.get_all_schemas()
    return {op_name(schema.name): schema.name for schema in schemas if not schema.domain}


@cache
def versions() -> dict[str, list[Any]]:
    """The schemas of each operator of ONNX itself, of all opsets."""
    import onnx

    found: dict[str, list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            found.setdefault(schema.name, []).append(schema)
    return found


def element_type(dtype: str) -> int:
    """ONNX's number of one of our dtypes."""
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype))


def opsets(op: Op) -> list[int]:
    """The opset to compare the operator in, then the oldest that will do."""
    pytest.importorskip("onnx")
    operator = foreign_names().get(op.name)
    if operator is None:
        pytest.skip(f"ONNX has no operator {op.name}")
    since = [each.since_version for each in versions()[operator]]
    if op.name in LAST_OF_RUNTIME:
        return [LAST_OF_RUNTIME[op.name]]
    return sorted({max(OLDEST_COMPARED, end(since)) for end in (max, min)}, reverse=True)


def onnx_model(op: Op, case: Case, opset: int) -> Any:
    onnx = pytest.importorskip("onnx")
    operator = foreign_names()[op.name]
    graph = one_node(op, case)
    attrs: dict[str, Any] = dict(case.attrs)
    for name in DTYPE_ATTRS & attrs.keys():
        attrs[name] = element_type(attrs[name])

    def infos(types: Any) -> list[Any]:
        return [
            onnx.helper.make_tensor_value_info(name, element_type(type.dtype), type.shape)
            for name, type in types.items()
        ]

    node = graph.nodes[0]
    least = onnx.defs.get_schema(operator, opset).min_output
    unused = [f"unused{number}" for number in range(least - len(node.outputs))]
    body = onnx.helper.make_graph(
        [onnx.helper.make_node(operator, node.inputs, [*node.outputs, *unused], **attrs)],
        "one node",
        infos(graph.inputs),
        infos(graph.outputs),
        [onnx.numpy_helper.from_array(value, name) for name, value in graph.constants.items()],
    )
    imported = onnx.helper.make_opsetid("", opset)
    return onnx.helper.make_model(body, opset_imports=[imported], ir_version=10)


@every_case
def test_meaning_is_that_of_onnx_runtime(op: Op, case: Case) -> None:
    skip_if_peer_is_wrong(op)
    newest, *older = opsets(op)
    try:
        compare_with_runtime(op, case, newest)
    except pytest.skip.Exception:
        if not older:
            raise
        compare_with_runtime(op, case, *older)


def compare_with_runtime(op: Op, case: Case, opset: int) -> None:
    runtime = pytest.importorskip("onnxruntime")
    graph = one_node(op, case)
    if any(t.dtype in NARROW_DTYPES for t in (*graph.inputs.values(), *graph.outputs.values())):
        pytest.skip("ONNX Runtime does not share such dtypes with numpy")
    model = onnx_model(op, case, opset)
    inputs = arrays(case)
    peer_errors = runtime.capi.onnxruntime_pybind11_state
    try:
        session = runtime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        given = {i.name: inputs[int(i.name[1:])] for i in session.get_inputs()}
        wanted: Sequence[Array] = session.run(None, given)
    except peer_errors.NotImplemented as error:
        pytest.skip(str(error))
    except peer_errors.InvalidGraph as error:
        # It has not caught up with the operator's opset, or that one has it for fewer dtypes.
        dtype = re.search(r"Type 'tensor\(\w+\)' of input parameter .* is invalid", str(error))
        if dtype is None and "Unrecognized attribute" not in str(error):
            raise
        pytest.skip(str(error))
    except (peer_errors.InvalidArgument, peer_errors.RuntimeException, peer_errors.Fail) as error:
        # NoTransposeReduce: up to 1.23, the last for Python 3.10, noop_with_empty_axes fails there.
        # Same bit-width: our bit_cast is TFLite's, too, which has no such rule.
        known = ("not supported", "NoTransposeReduce", "is under development", "same bit-width")
        if not any(each in str(error) for each in known):
            raise
        pytest.skip(str(error))
    got = run_reference(one_node(op, case).nodes[0], inputs)
    for y, peer in zip(got, wanted, strict=False):
        assert_close(y, np.asarray(peer), op.pure)


@every_case
def test_converter_keeps_the_meaning(op: Op, case: Case) -> None:
    from palmkit.engine.converters.onnx import convert

    graph = convert(onnx_model(op, case, opsets(op)[0]).SerializeToString())
    inputs = arrays(case)
    outputs = (
        BACKENDS["reference"]
        .compile(graph)
        .run(
            {
                name: x
                for i, x in enumerate(inputs)
                if (name := f"x{i}") in graph.inputs and x is not None
            }
        )
    )
    wanted = run_reference(one_node(op, case).nodes[0], inputs)
    for name, y in zip(graph.outputs, wanted, strict=False):
        assert_close(outputs[name], y, op.pure)


@pytest.mark.parametrize("case", find("fused_conv").cases, ids=label)
def test_fused_conv_is_its_parts(case: Case) -> None:
    """An op that ONNX has not, from ops that it has."""
    x, w, b, z, slope = (*arrays(case), None, None, None)[:5]
    y = run("conv", x, w, b, **without_activation(case))
    if z is not None:
        missing = y.shape[1] - z.shape[1]
        pads = np.array([0, 0, 0, 0, 0, missing, 0, 0])
        y = run("add", y, run("pad", z, pads))
    assert_close(run("fused_conv", x, w, b, z, slope, **case.attrs), activated(y, slope, case))


@pytest.mark.parametrize("case", find("fused_conv_transpose").cases, ids=label)
def test_fused_conv_transpose_is_its_parts(case: Case) -> None:
    x, w, b, slope = (*arrays(case), None, None)[:4]
    y = run("conv_transpose", x, w, b, **without_activation(case))
    got = run("fused_conv_transpose", x, w, b, slope, **case.attrs)
    assert_close(got, activated(y, slope, case))


def without_activation(case: Case) -> dict[str, Attr]:
    return {k: v for k, v in case.attrs.items() if not k.startswith("activation")}


def activated(y: Array, slope: Array | None, case: Case) -> Array:
    activation, params = case.attrs.get("activation", ""), case.attrs.get("activation_params", ())
    assert isinstance(params, tuple)
    bounds = [np.array(param, y.dtype) for param in params]
    match activation:
        case "":
            return y
        case "clip":
            return run("clip", y, *bounds)
        case "prelu":
            return run("prelu", y, slope)
        case "hard_sigmoid":
            return run("hard_sigmoid", y, alpha=params[0], beta=params[1])
        case "leaky_relu" | "elu" | "swish":
            return run(activation, y, alpha=params[0])
        case _:
            return run(str(activation), y)


def run(op: str, *inputs: Array | None, **attrs: Attr) -> Array:
    names = tuple("" if x is None else f"x{i}" for i, x in enumerate(inputs))
    return run_reference(Node(op, names, ("y",), attrs), inputs)[0]
