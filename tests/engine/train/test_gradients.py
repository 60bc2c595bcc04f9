"""Every gradient against finite differences, over the cases that each op must get right."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.engine.model import Model
from palmkit.engine.ops import Case, Op, infer_types, registry
from palmkit.engine.train.gradients import FLAT, rules, with_gradients
from palmkit.engine.train.tape import Tape
from palmkit.engine.train.write_out import WRITTEN, write_out
from tests.engine.test_ops import by_op

MOST_ELEMENTS = 1200
STEP = 1e-6


def differentiable(case: Case) -> bool:
    floats = [x for x in case.inputs if isinstance(x, Type) and x.dtype == "float32"]
    sizes = [x.elements if isinstance(x, Type) else x.size for x in case.inputs if x is not None]
    return bool(floats) and all(x.elements for x in floats) and max(sizes) <= MOST_ELEMENTS


CASES = [
    (registry()[name], case)
    for name in sorted({*rules(), *WRITTEN} - {"cast"})
    for case in registry()[name].cases
    if differentiable(case)
]


def label(case: Case) -> str:
    shown = [str(x) if isinstance(x, Type) else str(x is not None) for x in case.inputs]
    return " ".join([*shown, *(f"{key}={attr}" for key, attr in case.attrs.items())])


every_case = by_op(CASES, label)


def one_node(op: Op, case: Case) -> tuple[Graph, dict[str, Array]]:
    """The op in float64 behind inputs that it is smooth at."""
    rng = np.random.default_rng(7)
    inputs: dict[str, Type] = {}
    constants: dict[str, Array] = {}
    arrays: dict[str, Array] = {}
    names: list[str] = []
    for place, x in enumerate(case.inputs):
        name = "" if x is None else f"x{place}"
        names.append(name)
        if isinstance(x, Type) and x.dtype == "float32":
            # Far from 0 and from each other: kinks and ties are no place for differences.
            values = rng.permutation(x.elements) * 0.037 + 0.0123
            values = values - values.mean() + 0.0061 * (1 + place)
            if op.name in ("log", "sqrt", "pow", "batch_normalization", "reciprocal"):
                values = np.abs(values) + 0.3
            arrays[name] = values.reshape(x.dims)
            inputs[name] = Type("float64", x.dims)
        elif isinstance(x, Type):
            constants[name] = np.zeros(x.dims, x.dtype)
            if x.dtype == "bool":
                constants[name] = rng.random(x.dims) < 0.5
        elif x is not None:
            constants[name] = x.astype(np.float64) if x.dtype == np.float32 else x
    outputs = tuple(f"y{place}" for place in range(case.outputs))
    graph = Graph(inputs, {}, (Node(op.name, tuple(names), outputs, case.attrs),), constants)
    types = infer_types(graph)
    graph = replace(graph, outputs={name: types[name] for name in outputs if name in types})
    return graph, arrays


def with_loss(graph: Graph) -> tuple[Graph, str]:
    """A weighted sum of the first output, other weights for each element."""
    tape = Tape(graph)
    y = next(iter(graph.outputs))
    dims = tape.dims(y)
    weights = np.random.default_rng(3).normal(size=dims).astype(tape.type(y).dtype)
    weighted = tape.add("mul", y, tape.constant(weights))
    loss = tape.sum(weighted, range(len(dims))) if dims else weighted
    return tape.graph([loss]), loss


def scored_with_gradients(
    graph: Graph, wrt: list[str]
) -> tuple[list[str], Graph, Graph, dict[str, str], str]:
    """Check gradients by all inputs, or by the first where the others have none."""
    reason = ""
    for names in (wrt, wrt[:1]):
        try:
            scored, loss = with_loss(write_out(graph, names))
            whole, found = with_gradients(scored, loss, names)
        except UnsupportedError as error:
            reason = str(error)
        else:
            return names, scored, whole, found, loss
    pytest.skip(reason[:120])


@every_case
def test_gradients_are_those_of_finite_differences(op: Op, case: Case) -> None:
    graph, arrays = one_node(op, case)
    if not infer_types(graph)["y0"].dtype.startswith("float"):
        pytest.skip("the result is no number of floating point")
    wrt, scored, whole, names, loss = scored_with_gradients(graph, [*arrays])
    exact = Model(whole, "reference")
    found = exact.run(arrays)
    alone = Model(scored, "reference")
    rng = np.random.default_rng(1)
    for name in wrt:
        gradient = found[names[name]]
        assert gradient.shape == arrays[name].shape
        for flat in rng.permutation(arrays[name].size)[:25].tolist():
            slope = 0.0
            for sign in (1, -1):
                moved = {**arrays, name: arrays[name].copy()}
                moved[name].reshape(-1)[flat] += sign * STEP
                slope += sign * float(alone.run(moved)[loss]) / (2 * STEP)
            assert gradient.flat[flat] == pytest.approx(slope, rel=2e-4, abs=2e-5), (name, flat)


def in_float32(graph: Graph) -> Graph:
    def type(each: Type) -> Type:
        return Type("float32", each.shape) if each.dtype == "float64" else each

    constants = {
        name: value.astype(np.float32) if value.dtype == np.float64 else value
        for name, value in graph.constants.items()
    }
    return replace(
        graph,
        inputs={name: type(each) for name, each in graph.inputs.items()},
        outputs={name: type(each) for name, each in graph.outputs.items()},
        constants=constants,
    )


@every_case
def test_gradients_run_on_the_native_kernels(op: Op, case: Case) -> None:
    graph, arrays = one_node(op, case)
    graph = in_float32(graph)
    arrays = {name: value.astype(np.float32) for name, value in arrays.items()}
    if infer_types(graph)["y0"].dtype != "float32":
        pytest.skip("the result is no number of floating point")
    _, _, whole, names, _ = scored_with_gradients(graph, [*arrays])
    native, exact = Model(whole), Model(whole, "reference")
    got, expected = native.run(arrays), exact.run(arrays)
    for name in names.values():
        scale = max(1.0, float(np.abs(expected[name]).max(initial=0)))
        np.testing.assert_allclose(got[name], expected[name], rtol=2e-4, atol=2e-5 * scale)


def chain(*nodes: Node, **inputs: tuple[int, ...]) -> Graph:
    graph = Graph({name: Type("float32", dims) for name, dims in inputs.items()}, {}, nodes)
    types = infer_types(graph)
    return replace(graph, outputs={name: types[name] for name in nodes[-1].outputs})


def test_a_cast_lets_the_gradient_through() -> None:
    graph = chain(
        Node("cast", ("x",), ("half",), {"to": "float16"}),
        Node("mul", ("half", "half"), ("y",)),
        x=(1,),
    )
    whole, names = with_gradients(graph, "y", ["x"])
    found = Model(whole).run({"x": np.array([3.0], np.float32)})[names["x"]]
    assert found.dtype == np.float32 and found == 6


def test_a_value_read_twice_gets_both_gradients() -> None:
    graph = chain(
        Node("mul", ("x", "x"), ("square",)),
        Node("add", ("square", "x"), ("y",)),
        x=(1,),
    )
    whole, names = with_gradients(graph, "y", ["x"])
    assert Model(whole).run({"x": np.array([3.0], np.float32)})[names["x"]] == pytest.approx(7)


def test_what_does_not_hang_on_an_input_is_zero() -> None:
    graph = chain(Node("neg", ("x",), ("y",)), x=(1,), other=(2, 3))
    whole, names = with_gradients(graph, "y", ["x", "other"])
    found = Model(whole).run({"x": np.ones(1, np.float32), "other": np.ones((2, 3), np.float32)})
    assert found[names["x"]] == -1
    assert not found[names["other"]].any() and found[names["other"]].shape == (2, 3)


def test_an_op_without_a_rule_is_named() -> None:
    graph = chain(Node("atanh", ("x",), ("y",), name="bend"), x=(1,))
    with pytest.raises(UnsupportedError, match=r"node bend: no gradient of atanh.*matmul"):
        with_gradients(graph, "y", ["x"])


def test_gradients_are_of_one_number_and_of_inputs() -> None:
    graph = chain(Node("neg", ("x",), ("y",)), x=(2,))
    with pytest.raises(ModelError, match="gradients are of one number"):
        with_gradients(graph, "y", ["x"])
    with pytest.raises(ModelError, match="no input 'z'; those there are: x"):
        with_gradients(graph, "y", ["z"])


def test_flat_ops_are_ops() -> None:
    known: dict[str, Any] = dict(registry())
    assert set(known) >= FLAT | set(rules()) | set(WRITTEN)
