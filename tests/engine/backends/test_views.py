"""Steps write and read parts of what is joined or split, bit for bit what copies give."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.backends import BACKENDS
from palmkit.engine.backends.cpu import Cpu
from palmkit.engine.backends.cpu.summary import plan_summaries
from palmkit.engine.backends.options import Options
from palmkit.engine.ir import Array, Attr, Graph, Node, Type
from palmkit.engine.steps.plan import Plan
from tests.engine.backends.plans import apart, feed_of, native, run, step_of

IMAGES, CHANNELS, SIDE = 2, 11, 15
THREADS = (1, 2, 3)


def graph(*nodes: Node, outputs: Mapping[str, int], channels: int = CHANNELS) -> Graph:
    """Of pictures x, and the same max-pooled by 1x1 as a. outputs: their channels."""
    rng = np.random.default_rng(0)
    shapes = {
        "one": (13, channels, 1, 1),
        "three": (20, channels, 3, 3),
        "many": (40, channels, 3, 3),
        "each": (channels, 1, 3, 3),
    }
    constants: dict[str, Array] = {
        name: rng.normal(0, 0.2, shape).astype(np.float32)
        for name, shape in shapes.items()
        if any(name in node.inputs for node in nodes)
    }
    if any(node.op == "pad" for node in nodes):
        constants["pads"] = np.array([0, 3, 0, 0, 0, 2, 0, 0], np.int64)
    first = Node("max_pool", ("x",), ("a",), {"kernel_shape": (1, 1)}, "first")
    return Graph(
        inputs={"x": Type("float32", (IMAGES, channels, SIDE, SIDE))},
        outputs={
            name: Type("float32", (IMAGES, count, SIDE, SIDE)) for name, count in outputs.items()
        },
        nodes=(first, *nodes),
        constants=constants,
    )


def conv(x: str, weights: str, y: str, **attrs: Attr) -> Node:
    pads = (0, 0, 0, 0) if weights == "one" else (1, 1, 1, 1)
    ends: dict[str, Attr] = {"activation": "clip", "activation_params": (0.0, 2.0)}
    return Node("fused_conv", (x, weights), (y,), {"pads": pads, **ends, **attrs}, f"{weights}-{y}")


def concat(*names: str, y: str = "c", axis: int = 1) -> Node:
    return Node("concat", names, (y,), {"axis": axis}, f"concat-{y}")


def relu(x: str, y: str = "y") -> Node:
    return Node("relu", (x,), (y,), {}, f"relu-{y}")


ONE, THREE, MANY = (conv("a", name, y) for name, y in (("one", "p"), ("three", "q"), ("many", "r")))
EACH = conv("a", "each", "d", group=CHANNELS)
CASES: Mapping[str, tuple[Graph, int]] = {
    "two": (graph(ONE, THREE, concat("p", "q"), relu("c"), outputs={"y": 33}), 0),
    "Winograd": (graph(ONE, MANY, concat("r", "p"), relu("c"), outputs={"y": 53}), 0),
    "three": (
        graph(ONE, THREE, MANY, concat("p", "q", "r"), relu("c"), outputs={"y": 73}),
        0,
    ),
    "a picture beside them": (graph(ONE, concat("a", "p"), relu("c"), outputs={"y": 24}), 1),
    "one twice": (graph(ONE, THREE, concat("p", "q", "p"), relu("c"), outputs={"y": 46}), 1),
    "one that is shown": (
        graph(ONE, THREE, concat("p", "q"), relu("c"), outputs={"y": 33, "p": 13}),
        0,
    ),
    "a depthwise one": (graph(EACH, ONE, concat("d", "p"), relu("c"), outputs={"y": 24}), 0),
    "a depthwise and a 1x1 one": (
        graph(EACH, conv("d", "one", "p"), THREE, concat("q", "p"), relu("c"), outputs={"y": 33}),
        0,
    ),
    "zeros around it": (
        graph(ONE, Node("pad", ("p", "pads"), ("c",), {}, "pad"), relu("c"), outputs={"y": 18}),
        0,
    ),
}


def copies(plan: Plan) -> int:
    """Those of what lies between input and output."""
    written = [step.outputs["y"] for step in plan.steps if step.kernel == "copy"]
    places = [plan.tensors[tensor].place for tensor in written]
    return places.count("arena") - (plan.steps[0].kernel == "copy")


@pytest.mark.parametrize(("made", "left"), CASES.values(), ids=CASES)
def test_convolutions_write_what_copies_would(made: Graph, left: int) -> None:
    feed, plan = feed_of(made), Cpu().compile(made).plan
    assert copies(plan) == left
    wanted = run(apart(made), made, feed, 1)
    for threads in THREADS:
        for name, value in run(plan, made, feed, threads).items():
            np.testing.assert_array_equal(value, wanted[name])
    reference = BACKENDS["reference"].compile(made).run(feed)
    for name, value in wanted.items():
        np.testing.assert_allclose(value, reference[name], rtol=1e-4, atol=1e-4)
    assert plan.arena_bytes <= apart(made).arena_bytes


@pytest.mark.parametrize("made", [made for made, _ in CASES.values()], ids=CASES)
def test_so_it_is_in_low_precision(made: Graph) -> None:
    feed = feed_of(made)
    low = Cpu().compile(made, Options(precision="low")).run(feed)
    for name, value in BACKENDS["reference"].compile(made).run(feed).items():
        np.testing.assert_allclose(low[name], value, atol=0.05)


def test_rows_of_two_pictures_each_are_joined_by_copies() -> None:
    other = conv("a", "one", "q")
    made = graph(ONE, other, concat("p", "q", axis=2), relu("c"), outputs={"y": 13})
    type = Type("float32", (IMAGES, 13, 2 * SIDE, SIDE))
    made = Graph(made.inputs, {"y": type}, made.nodes, made.constants)
    assert copies(Cpu().compile(made).plan) == 2


def test_what_a_convolution_computes_is_counted_without_the_other_channels() -> None:
    made = CASES["three"][0]
    weights = 13 * CHANNELS + 60 * CHANNELS * 9
    (plan,) = plan_summaries(made)
    assert plan.flop == 2 * IMAGES * SIDE * SIDE * weights


@pytest.mark.parametrize("kernel", ["conv", "separable_conv"])
@pytest.mark.parametrize("offset", [-1, 2**31, 2**62])
def test_channels_that_are_not_there_are_refused(kernel: str, offset: int) -> None:
    nodes = EACH, conv("d", "one", "p"), MANY, concat("r", "p"), relu("c")
    plan = Cpu().compile(graph(*nodes, outputs={"y": 53})).plan
    number = step_of(plan, kernel).outputs["y"]
    assert plan.tensors[number].strides
    tensors = list(plan.tensors)
    tensors[number] = replace(tensors[number], offset=offset)
    with pytest.raises(engine.ModelError, match="does not fit|reaches too far|negative slot"):
        native.Program(*replace(plan, tensors=tuple(tensors)).native())


@pytest.mark.parametrize("strides", [(1, 53, 53, 1), (11925, 795, 53, 2), (11925, 795, 12, 1)])
def test_channels_that_lie_otherwise_are_refused(strides: tuple[int, ...]) -> None:
    plan = Cpu().compile(graph(ONE, MANY, concat("r", "p"), relu("c"), outputs={"y": 53})).plan
    number = step_of(plan, "conv").outputs["y"]
    assert plan.tensors[number].strides == (11925, 795, 53, 1)
    tensors = list(plan.tensors)
    tensors[number] = replace(tensors[number], strides=strides)
    with pytest.raises(engine.ModelError, match="expected dense pixels|overlap"):
        native.Program(*replace(plan, tensors=tuple(tensors)).native())


@pytest.mark.parametrize("precision", ["high", "low"])
def test_a_product_of_matrices_may_stand_before_a_concat(precision: str) -> None:
    """In low precision it is a convolution without the attributes that most others have."""
    rng = np.random.default_rng(0)
    type = Type("float32", (6, 16))
    made = Graph(
        {"x": type},
        {"y": Type("float32", (6, 24))},
        (Node("matmul", ("x", "w"), ("p",)), Node("concat", ("p", "x"), ("y",), {"axis": 1})),
        {"w": rng.normal(size=(16, 8)).astype(np.float32)},
    )
    feed = feed_of(made)
    got = Cpu().compile(made, Options(precision=precision)).run(feed)["y"]
    reference = BACKENDS["reference"].compile(made).run(feed)["y"]
    np.testing.assert_allclose(got, reference, atol=0.1 if precision == "low" else 1e-5)
