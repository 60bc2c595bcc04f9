"""Several backends in a chain: each part runs on the first that takes it."""

from collections.abc import Iterator

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.backends import BACKENDS
from palmkit.engine.errors import BackendError
from palmkit.engine.ir import Array, Graph, Node, Type
from tests.engine.backends.first import NAME, TRANSFERS, First

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
