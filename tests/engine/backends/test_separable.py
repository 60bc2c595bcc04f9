"""A depthwise convolution and the 1x1 one behind it run as one step, bit for bit the same."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.backends import BACKENDS
from palmkit.engine.backends.cpu import Cpu
from palmkit.engine.backends.cpu.summary import plan_summaries
from palmkit.engine.backends.options import Options
from palmkit.engine.bench.nodes import time_alone
from palmkit.engine.ir import Array, Attr, Graph, Node, Type
from palmkit.engine.steps.step import JOINED
from tests.engine.backends.plans import apart, run, step_of, with_step

native = pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")

CHANNELS, OUT, SIDE = 24, 40, 13
THREADS = (1, 2, 3, 7)


def block(
    out: int = OUT,
    stride: int = 1,
    residual: str = "",
    side: int = SIDE,
    between: str = "",
    images: int = 2,
    kernel: int = 3,
    dilation: int = 1,
    group: int = 1,
    weights: Array | None = None,
) -> Graph:
    """exp, a depthwise convolution, one of 1x1 that may add a picture, relu.

    residual: "x", what the depthwise one reads; "other", of all channels; "narrow", of fewer.
    """
    rng = np.random.default_rng(0)
    reach = (kernel - 1) * dilation // 2
    small = (side + 2 * reach - (kernel - 1) * dilation - 1) // stride + 1
    types = {"x": Type("float32", (images, CHANNELS, side, side))}
    narrow = CHANNELS if residual == "x" else out - 5 if residual == "narrow" else out
    depthwise: dict[str, Attr] = {
        "pads": (reach,) * 4,
        "strides": (stride,) * 2,
        "dilations": (dilation,) * 2,
        "group": CHANNELS,
        "activation": between,
    }
    pointwise: dict[str, Attr] = {
        "group": group,
        "activation": "clip",
        "activation_params": (0.0, 2.0),
    }
    slope = ("s",) if between == "prelu" else ()
    z = {"": (), "x": ("e",)}.get(residual, ("f",))
    nodes = [
        Node("exp", ("x",), ("e",), {}, "grow"),
        Node("fused_conv", ("e", "w", "b", "", *slope), ("d",), depthwise, "depthwise"),
        Node("fused_conv", ("d", "p", "c", *z), ("r",), pointwise, "pointwise"),
        Node("exp", ("r",), ("y",), {}, "end"),
    ]
    if z == ("f",):
        types["z"] = Type("float32", (images, narrow, small, small))
        nodes.insert(2, Node("exp", ("z",), ("f",), {}, "other"))
    constants = {
        "w": rng.normal(size=(CHANNELS, 1, kernel, kernel)).astype(np.float32),
        "b": rng.normal(size=CHANNELS).astype(np.float32),
        "s": rng.normal(size=(CHANNELS, 1, 1)).astype(np.float32),
        "p": rng.normal(size=(out, CHANNELS // group, 1, 1)).astype(np.float32)
        if weights is None
        else weights,
        "c": rng.normal(size=out).astype(np.float32),
    }
    used = {name for node in nodes for name in node.inputs}
    return Graph(
        types,
        {"y": Type("float32", (images, out, small, small))},
        tuple(nodes),
        {name: value for name, value in constants.items() if name in used},
    )


def feed_of(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    return {name: rng.random(type.dims, np.float32) for name, type in graph.inputs.items()}


def kernels(graph: Graph, precision: str = "high") -> list[str]:
    plan = Cpu().compile(graph, Options(precision=precision)).plan
    return [step.kernel for step in plan.steps]


CASES = {
    "plain": block(),
    "stride": block(stride=2, between="sigmoid"),
    "prelu": block(between="prelu", kernel=5),
    "dilation": block(dilation=2, between="hard_swish"),
    "over x": block(out=CHANNELS, residual="x"),
    "fewer channels of x": block(residual="x"),
    "another": block(residual="other"),
    "fewer channels": block(stride=2, residual="narrow"),
    "one image": block(images=1, side=32, residual="other"),
}


@pytest.mark.parametrize("graph", CASES.values(), ids=CASES)
def test_one_step_gives_what_two_give(graph: Graph) -> None:
    feed = feed_of(graph)
    plan = Cpu().compile(graph).plan
    assert [step.kernel for step in plan.steps].count("separable_conv") == 1
    assert not any(step.kernel == "conv" for step in plan.steps)
    expected = run(apart(graph), graph, feed, 1)["y"]
    for threads in THREADS:
        assert np.array_equal(run(plan, graph, feed, threads)["y"], expected), threads
    reference = BACKENDS["reference"].compile(graph).run(feed)["y"]
    np.testing.assert_allclose(expected, reference, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("graph", CASES.values(), ids=CASES)
def test_what_lies_between_takes_no_memory(graph: Graph) -> None:
    one, two = Cpu().compile(graph).plan, apart(graph)
    assert one.arena_bytes <= two.arena_bytes
    written = [
        sum(plan.tensors[step.outputs["y"]].place == "arena" for step in plan.steps)
        for plan in (one, two)
    ]
    assert written[0] == written[1] - 1


def test_a_picture_to_add_is_written_over_unless_it_is_the_image() -> None:
    places = {}
    for name in ("over x", "another"):
        (plan,) = plan_summaries(CASES[name])
        (step,) = (step for step in plan.steps if step.kernel == "separable_conv")
        places[name] = step.in_place
    assert places == {"over x": None, "another": 7}


STAY = {
    "few rows": block(side=2),
    "groups": block(group=2),
    "many weights": block(out=400 * 1024 // 4 // CHANNELS + 1),
    "wide": block(images=1, side=700),
}


@pytest.mark.parametrize("graph", STAY.values(), ids=STAY)
def test_what_would_not_gain_stays_apart(graph: Graph) -> None:
    assert kernels(graph).count("conv") == 2


def test_float32_of_any_precision_is_joined() -> None:
    assert kernels(block(), "normal") == kernels(block())


def test_what_others_read_stays() -> None:
    graph = block()
    between = Type("float32", (2, CHANNELS, SIDE, SIDE))
    shown = replace(graph, outputs={**graph.outputs, "d": between})
    twice = replace(
        shown,
        nodes=(*graph.nodes, Node("exp", ("d",), ("more",))),
        outputs={**graph.outputs, "more": between},
    )
    feed = feed_of(graph)
    for each in (shown, twice):
        assert kernels(each).count("conv") == 2
        assert np.array_equal(
            Cpu().compile(each).run(feed)["y"], Cpu().compile(graph).run(feed)["y"]
        )


def test_the_image_is_not_kept_for_long() -> None:
    graph = block()
    first, *rest = graph.nodes[1:]
    chain = [Node("exp", (f"x{i}",), (f"x{i + 1}",)) for i in range(5)]
    nodes = (graph.nodes[0], first, Node("exp", ("z",), ("x0",)), *chain, *rest)
    type = Type("float32", (3,))
    long = replace(
        graph,
        nodes=nodes,
        inputs={**graph.inputs, "z": type},
        outputs={**graph.outputs, "x5": type},
    )
    assert kernels(long).count("conv") == 2


def test_what_is_joined_is_known_by_both_names() -> None:
    graph = block()
    (plan,) = plan_summaries(graph)
    (step,) = (step for step in plan.steps if step.kernel == "separable_conv")
    pixels = 2 * SIDE * SIDE
    assert step.node == f"depthwise{JOINED}pointwise"
    assert step.flop == 2 * pixels * (9 * CHANNELS + CHANNELS * OUT)
    found = time_alone(engine.Model(graph), {}, 1)
    (node,) = (node for node in found.nodes if node.kernels == "separable_conv")
    assert (node.node, node.op) == (step.node, "fused_conv+fused_conv")
    assert node.macs == step.flop // 2


@pytest.mark.parametrize("weights", ["float32", "smallest"])
def test_a_file_holds_the_one_step(tmp_path: Path, weights: str) -> None:
    graph = block(out=64)
    feed = feed_of(graph)
    path = tmp_path / "block.palm"
    engine.save(graph, path, weights=weights)
    model = engine.load(path)
    assert [step.op for step in model.profile(feed)].count("separable_conv") == 1
    assert (b"outputs_last" in path.read_bytes()) == (weights == "float32")
    assert np.array_equal(model.run(feed)["y"], run(apart(graph), graph, feed, 1)["y"])


def test_what_the_kernel_refuses() -> None:
    plan = Cpu().compile(block()).plan
    for change in ({"strides": [2, 2]}, {"pads": [0, 0, 0, 0]}, {"outputs_last": 1}):
        damaged = with_step(plan, "separable_conv", change)
        with pytest.raises(engine.ModelError, match="does not fit its attributes"):
            native.Program(*damaged.native())
    # The image itself cannot be written over: other threads still read it.
    step = step_of(plan, "separable_conv")
    tensors, over = [*plan.tensors], step.outputs["y"]
    image = tensors[step.inputs["image"]]
    tensors[over] = replace(tensors[over], place=image.place, slot=image.slot)
    damaged = replace(plan, tensors=tuple(tensors), arena_bytes=plan.arena_bytes * 2)
    with pytest.raises(engine.ModelError, match="an output overlaps input 0"):
        native.Program(*damaged.native())
