"""Sums run as one step with what is before and behind them, bit for bit the same."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from palmkit.engine.backends import BACKENDS
from palmkit.engine.backends.cpu import Cpu
from palmkit.engine.ir import Array, Attr, Graph, Node, Type
from palmkit.engine.steps.plan import Plan
from tests.engine.backends.plans import apart, run

SMALL, LARGE = (2, 19, 5, 7), (2, 19, 10, 14)
THREADS = (1, 2, 3)


def graph(*nodes: Node, outputs: Sequence[str] = ("y",), small: bool = False) -> Graph:
    """Of x as a, and of z, which is as large as x doubled, or as x, as b: channels last."""
    sizes: Mapping[str, tuple[int, ...]] = {"a": SMALL, "b": (2, 19, 1, 1)}
    shape = SMALL if small else LARGE
    alone: dict[str, Attr] = {"kernel_shape": (1, 1)}
    first = [Node("max_pool", (x,), (y,), alone, x) for x, y in (("x", "a"), ("z", "b"))]
    constants: dict[str, Array] = {
        "two": np.array([1, 1, 2, 2], np.float32),
        "low": np.array(0.5, np.float32),
        "high": np.array(2, np.float32),
    }
    used = {name for node in nodes for name in node.inputs}
    return Graph(
        inputs={"x": Type("float32", SMALL), "z": Type("float32", shape)},
        outputs={name: Type("float32", sizes.get(name, shape)) for name in outputs},
        nodes=(*first, *nodes),
        constants={name: value for name, value in constants.items() if name in used},
    )


def node(op: str, inputs: str, output: str, **attrs: Attr) -> Node:
    names = tuple("" if name == "-" else name for name in inputs.split())
    return Node(op, names, (output,), attrs, f"{op}-{output}")


RESIZED = node("resize", "a - two", "r", mode="linear")
NEAREST = node("resize", "a - two", "r", mode="nearest")
CASES: Mapping[str, tuple[Graph, list[str]]] = {
    "sum and relu": (
        graph(node("add", "a b", "s"), node("relu", "s", "y"), small=True),
        ["binary"],
    ),
    "product and clip": (
        graph(node("mul", "a b", "s"), node("clip", "s low high", "y"), small=True),
        ["binary"],
    ),
    "resized": (graph(RESIZED, node("add", "r b", "y")), ["resize"]),
    "resized, the other way round": (graph(RESIZED, node("add", "b r", "y")), ["resize"]),
    "resized and relu": (
        graph(RESIZED, node("add", "b r", "s"), node("relu", "s", "y")),
        ["resize"],
    ),
    "nearest and clip": (
        graph(NEAREST, node("add", "b r", "s"), node("clip", "s - high", "y")),
        ["resize"],
    ),
    "a difference": (graph(RESIZED, node("sub", "b r", "y")), ["resize", "binary"]),
    "another function": (
        graph(node("add", "a b", "s"), node("tanh", "s", "y"), small=True),
        ["binary", "unary"],
    ),
    "read twice": (
        graph(node("add", "a b", "s"), node("relu", "s", "t"), node("mul", "s t", "y"), small=True),
        ["binary", "unary", "binary"],
    ),
}


def kernels(plan: Plan) -> list[str]:
    """Those that may become one."""
    kernels = (step.kernel for step in plan.steps)
    return [kernel for kernel in kernels if kernel in ("binary", "unary", "resize")]


def feed_of(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    feed = {
        name: rng.normal(size=type.dims).astype(np.float32) for name, type in graph.inputs.items()
    }
    feed["x"].flat[[3, 5]] = np.inf, -0.0
    return feed


@pytest.mark.parametrize(("made", "expected"), CASES.values(), ids=CASES)
def test_one_step_gives_what_several_give(made: Graph, expected: list[str]) -> None:
    feed, plan = feed_of(made), Cpu().compile(made).plan
    assert kernels(plan) == expected
    assert len(kernels(apart(made))) >= len(expected)
    wanted = run(apart(made), made, feed, 1)["y"]
    for threads in THREADS:
        np.testing.assert_array_equal(run(plan, made, feed, threads)["y"], wanted)
    reference = BACKENDS["reference"].compile(made).run(feed)["y"]
    np.testing.assert_allclose(wanted, reference, rtol=1e-5, atol=1e-5)
    assert plan.arena_bytes <= apart(made).arena_bytes


def test_what_others_read_stays() -> None:
    nodes = (RESIZED, node("add", "b r", "s"), node("relu", "s", "y"))
    for shown in ("r", "s"):
        made = graph(*nodes, outputs=("y", shown))
        assert len(kernels(Cpu().compile(made).plan)) == 2
        feed = feed_of(made)
        one = Cpu().compile(made).run(feed)["y"]
        np.testing.assert_array_equal(one, Cpu().compile(graph(*nodes)).run(feed)["y"])


def test_a_picture_is_not_written_over_while_it_is_read() -> None:
    """The lower half of a picture, doubled, on that picture."""
    mode = "tf_crop_and_resize"
    lower = node("resize", "a roi two", "r", mode="linear", coordinate_transformation_mode=mode)
    made = graph(lower, node("add", "r a", "y"), small=True)
    roi = np.array([0, 0, 0.5, 0, 1, 1, 1, 1], np.float32)
    made = replace(made, constants={"roi": roi, "two": np.ones(4, np.float32)})
    feed, plan = feed_of(made), Cpu().compile(made).plan
    assert kernels(plan) == ["resize"]
    wanted = run(apart(made), made, feed, 1)["y"]
    for threads in THREADS:
        np.testing.assert_array_equal(run(plan, made, feed, threads)["y"], wanted)


def test_the_first_step_does_not_wait_for_long() -> None:
    chain = [node("sigmoid", f"x{i}" if i else "b", f"x{i + 1}") for i in range(5)]
    made = graph(RESIZED, *chain, node("add", "x5 r", "y"))
    feed = feed_of(made)
    plan = Cpu().compile(made).plan
    assert kernels(plan) == ["resize", *5 * ["unary"], "binary"]
    np.testing.assert_array_equal(
        run(plan, made, feed, 2)["y"], run(apart(made), made, feed, 1)["y"]
    )
