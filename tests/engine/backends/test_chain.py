"""Several backends in a chain: each part runs on the first that takes it."""

import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.backends import BACKENDS, again_if_lost
from palmkit.engine.errors import BackendError, DeviceLostError
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.engine.steps.lowering import Lowering, plain
from palmkit.engine.steps.refusal import RefusedError
from tests.engine.backends.first import NAME, RULES, TRANSFERS, First

SHAPE = (2, 3, 4)


@pytest.fixture(autouse=True)
def _first(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(BACKENDS, NAME, First())
    TRANSFERS.update(dict.fromkeys(TRANSFERS, 0))
    yield


def graph(*nodes: Node, outputs: tuple[str, ...] = ("y",)) -> Graph:
    type = Type("float32", SHAPE)
    read = {name for node in nodes for name in node.inputs}
    written = {name for node in nodes for name in node.outputs}
    return Graph(
        {name: type for name in sorted(read - written)},
        {name: type for name in outputs},
        nodes,
        {},
    )


def node(op: str, inputs: str, output: str) -> Node:
    return Node(op, tuple(inputs.split()), (output,), {}, f"{op}-{output}")


def feed_of(made: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {n: rng.uniform(0.1, 1, t.dims).astype(np.float32) for n, t in made.inputs.items()}


def check(made: Graph, *backends: str) -> engine.Model:
    model, feed = engine.Model(made, backends), feed_of(made)
    wanted = BACKENDS["reference"].compile(made).run(feed)
    got = model.run(feed)
    assert list(got) == list(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6)
    return model


def ops(model: engine.Model) -> list[str]:
    return [each.op for each in model.profile(feed_of(model.graph), 1)]


def test_what_one_backend_takes_whole_runs_there() -> None:
    model = check(graph(node("exp", "x", "e"), node("add", "e x", "y")), NAME, "cpu")
    assert ops(model) == [NAME]
    assert model.fallbacks == {}
    assert TRANSFERS["to device"] > 0


def test_the_next_backend_takes_what_the_first_refuses() -> None:
    pytest.importorskip("palmkit.engine._native")
    made = graph(node("exp", "x", "e"), node("log", "e", "l"), node("mul", "l x", "y"))
    model = check(made, NAME, "cpu")
    assert ops(model) == [NAME, "unary", NAME]
    assert model.fallbacks == {}
    assert ops(check(made, "cpu", NAME)) == ["unary", "unary", "binary"]


def test_what_nobody_takes_runs_in_numpy_and_is_named() -> None:
    pytest.importorskip("palmkit.engine._native")
    made = graph(node("exp", "x", "e"), node("hardmax", "e", "h"), node("neg", "h", "y"))
    assert not BACKENDS["cpu"].supports(made.nodes[1])
    model = check(made, NAME, "cpu")
    assert list(model.fallbacks) == ["h"]
    assert "no kernel for hardmax" in model.fallbacks["h"]


def test_values_stay_on_the_device_between_its_parts() -> None:
    """The first part's result is read by the second in numpy and by the third on the device."""
    made = graph(
        node("exp", "x", "e"),
        node("hardmax", "e", "h"),
        node("add", "h e", "s"),
        node("neg", "s", "y"),
    )
    model, feed = engine.Model(made, (NAME,)), feed_of(made)
    model.run(feed)
    # To the device: x and h. To the host: e for numpy, and y, the result.
    assert TRANSFERS == {"to device": 2, "to host": 2}


def lower_transpose(lowering: Lowering, node: Node) -> None:
    """Renames the axes of a view; where a step wants them in memory order, a copy follows."""
    x, y = node.inputs[0], node.outputs[0]
    order = plain(len(lowering.dims(x)))
    perm = node.attrs["perm"]
    assert isinstance(perm, tuple)
    lowering.alias(y, lowering.get(x, order), tuple(perm.index(axis) for axis in order))


def turned(x: str, y: str) -> Node:
    return Node("transpose", (x,), (y,), {"perm": (0, 2, 1)}, f"transpose-{y}")


# What needs a kernel that the backend does not have, and the node that is refused for it.
LACKING = {
    "a copy into an output": ([node("exp", "x", "e"), turned("e", "y")], "y"),
    "a copy of an input": ([turned("x", "y")], "y"),
    "a copy for a node": ([turned("x", "t"), node("neg", "t", "n"), node("add", "n z", "y")], "y"),
    "a copy for the next backend": (
        [node("exp", "x", "e"), turned("e", "t"), node("log", "t", "y")],
        "y",
    ),
}


@pytest.mark.parametrize("case", LACKING)
@pytest.mark.parametrize("others", [(), ("cpu",)], ids=lambda names: "then " + str(names))
def test_a_kernel_that_is_missing_is_a_reason_to_refuse(
    monkeypatch: pytest.MonkeyPatch, case: str, others: tuple[str, ...]
) -> None:
    if others:
        pytest.importorskip("palmkit.engine._native")
    monkeypatch.setitem(RULES, "transpose", lower_transpose)
    nodes, refused = LACKING[case]
    x = Type("float32", (2, 4, 4))
    free = sorted({name for n in nodes for name in n.inputs} - {n.outputs[0] for n in nodes})
    made = Graph(dict.fromkeys(free, x), {"y": x}, tuple(nodes), {})
    with pytest.raises(RefusedError, match=f"^backend {NAME} cannot run 1 of ") as error:
        First().compile(made)
    assert error.value.reasons.keys() == {refused}
    model = check(made, NAME, *others)
    assert bool(model.fallbacks) is not bool(others)


def test_half_precision_is_left_to_a_backend_that_casts() -> None:
    pytest.importorskip("palmkit.engine._native")
    half = Type("float16", SHAPE)
    made = Graph({"x": half}, {"y": half}, (node("exp", "x", "y"),), {})
    with pytest.raises(RefusedError, match=f"exp-y \\(exp\\): backend {NAME} has no kernel cast"):
        First().compile(made)
    model = engine.Model(made, (NAME, "cpu"))
    got = model.run(feed_of(made) | {"x": np.ones(SHAPE, np.float16)})["y"]
    np.testing.assert_allclose(got, np.exp(np.ones(SHAPE, np.float16)), rtol=1e-3)
    assert model.fallbacks == {}


def test_nothing_to_fill_with_is_a_reason_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave_alone(lowering: Lowering, node: Node) -> None:
        lowering.put(node.outputs[0])

    monkeypatch.setitem(RULES, "exp", leave_alone)
    none = Type("float32", (0, 3))
    made = Graph({"x": none}, {"y": none}, (node("exp", "x", "y"),), {})
    with pytest.raises(RefusedError, match=f"backend {NAME} has no kernel fill"):
        First().compile(made)
    assert engine.Model(made, NAME).run({"x": np.ones((0, 3), np.float32)})["y"].shape == (0, 3)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "expected a backend; known: "),
        (("first", "second"), "no backend 'second'; known: "),
        ("second", "no backend 'second'; known: "),
        (("cpu", "cpu"), "backend is named twice: cpu"),
    ],
)
def test_a_chain_that_cannot_be_is_refused(names: tuple[str, ...] | str, said: str) -> None:
    with pytest.raises(BackendError, match=said):
        engine.Model(graph(node("exp", "x", "y")), names)


def test_a_plan_in_a_file_is_for_the_first_backend(tmp_path: object) -> None:
    pytest.importorskip("palmkit.engine._native")
    path = f"{tmp_path}/exp.palm"
    made = graph(node("exp", "x", "e"), node("log", "e", "y"))
    engine.save(made, path)
    for backends in ("cpu", (NAME, "cpu"), ("cpu", NAME)):
        model = engine.load(path, backend=backends)
        got = model.run(feed_of(made))["y"]
        np.testing.assert_allclose(got, feed_of(made)["x"], rtol=1e-5)
    assert ops(engine.load(path, backend=(NAME, "cpu"))) == [NAME, "unary"]


def test_what_a_failed_run_held_is_freed_before_the_next(caplog: pytest.LogCaptureFixture) -> None:
    held: list[weakref.ref[Node]] = []

    def run() -> bool:
        if held:
            return held[0]() is None
        large = Node("relu", ("x",), ("y",))
        held.append(weakref.ref(large))
        raise DeviceLostError("gone")

    with caplog.at_level("WARNING", "palmkit.engine"):
        assert again_if_lost(run)
    assert "gone; trying again" in caplog.text
