"""Weights that the gates of channels multiply give what a gated picture gives."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.backends import BACKENDS
from palmkit.engine.backends.cpu import Cpu
from palmkit.engine.backends.options import Options
from palmkit.engine.ir import Attr, Graph, Node, Type
from palmkit.engine.steps.plan import Plan
from tests.engine.backends.plans import (
    apart,
    check_joined,
    feed_of,
    native,
    run,
    step_of,
    with_step,
)

CHANNELS, SIDE = 24, 13
THREADS = (1, 2, 3)


def graph(
    out: int = 40,
    side: int = SIDE,
    residual: str = "",
    kernel: int = 1,
    images: int = 1,
    gate: str = "g",
    op: str = "mul",
    channels: int = CHANNELS,
) -> Graph:
    """A picture, sigmoid of a gate, their product, its convolution, relu.

    residual: "e" (the picture itself) or "z". gate: "g", one a channel; "p", one a pixel.
    """
    rng = np.random.default_rng(0)
    shape = (images, channels, side, side)
    ends: dict[str, Attr] = {"activation": "clip", "activation_params": (0.0, 2.0)}
    pads: dict[str, Attr] = {"pads": (kernel // 2,) * 4}
    types = {"x": Type("float32", shape)}
    types["g"] = Type("float32", (images, channels, 1, 1))
    types["p"] = Type("float32", (images, 1, side, side))
    types["z"] = Type("float32", (images, out, side, side))
    names = ("s", "w", "b", residual) if residual else ("s", "w", "b")
    nodes = (
        Node("max_pool", ("x",), ("e",), {"kernel_shape": (1, 1)}, "picture"),
        Node("sigmoid", (gate,), ("f",), {}, "gate"),
        Node(op, ("e", "f"), ("s",), {}, "product"),
        Node("fused_conv", names, ("c",), {**ends, **pads}, "conv"),
        Node("relu", ("c",), ("y",), {}, "relu"),
    )
    return Graph(
        inputs={name: types[name] for name in ("x", gate, *residual.replace("e", ""))},
        outputs={"y": Type("float32", (images, out, side, side))},
        nodes=nodes,
        constants={
            "w": rng.normal(0, 0.05, (out, channels, kernel, kernel)).astype(np.float32),
            "b": rng.normal(size=out).astype(np.float32),
        },
    )


def products(plan: Plan) -> int:
    return sum(step.kernel == "binary" for step in plan.steps)


CASES: Mapping[str, tuple[Graph, int]] = {
    "few outputs": (graph(out=5), 0),
    "whole vectors": (graph(out=64), 0),
    "more outputs than a panel has": (graph(out=130), 0),
    "a sum": (graph(residual="z"), 0),
    "a sum with the picture": (graph(out=CHANNELS, residual="e"), 0),
    "two pictures": (graph(images=2), 1),
    "a gate for each pixel": (graph(gate="p"), 1),
    "a sum of the two": (graph(op="add"), 1),
    "a larger window": (graph(kernel=3), 1),
    "few pixels": (graph(side=2, channels=120, out=130), 1),
    "many weights": (graph(side=30, channels=700), 1),
}


@pytest.mark.parametrize(("made", "left"), CASES.values(), ids=CASES)
def test_gated_weights_give_what_a_gated_picture_gives(made: Graph, left: int) -> None:
    plan = Cpu().compile(made).plan
    assert products(plan) == left
    assert products(apart(made)) == 1
    check_joined(plan, made)


def test_so_it_is_in_low_precision() -> None:
    made = graph()
    feed = feed_of(made)
    low = Cpu().compile(made, Options(precision="low")).run(feed)["y"]
    reference = BACKENDS["reference"].compile(made).run(feed)["y"]
    np.testing.assert_allclose(low, reference, atol=0.03)


def test_what_is_shown_stays() -> None:
    made = graph()
    type = Type("float32", (1, CHANNELS, SIDE, SIDE))
    made = Graph(made.inputs, {**made.outputs, "s": type}, made.nodes, made.constants)
    feed, plan = feed_of(made), Cpu().compile(made).plan
    assert products(plan) == 1
    result = run(plan, made, feed, 2)
    wanted = BACKENDS["reference"].compile(made).run(feed)
    for name, value in result.items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-5, atol=5e-6)


def test_weights_that_lie_as_they_are_read_are_gated_too() -> None:
    """As plans in files have them."""
    made = graph(out=48, residual="z")
    feed, plan = feed_of(made), Cpu().compile(made).plan
    wanted = run(plan, made, feed, 1)["y"]
    weights = step_of(plan, "conv").inputs["weights"]
    tensors, constants = [*plan.tensors], [*plan.constants]
    tensor = tensors[weights]
    constants[tensor.slot] = np.ascontiguousarray(np.moveaxis(constants[tensor.slot], 0, -1))
    tensors[weights] = replace(tensor, dims=(*tensor.dims[1:], tensor.dims[0]))
    plan = replace(plan, tensors=tuple(tensors), constants=tuple(constants))
    plan = with_step(plan, "conv", {"outputs_last": 1})
    for threads in THREADS:
        np.testing.assert_array_equal(run(plan, made, feed, threads)["y"], wanted)


def test_a_gate_of_another_size_is_refused() -> None:
    plan = Cpu().compile(graph()).plan
    image = step_of(plan, "conv").inputs["image"]
    with pytest.raises(engine.ModelError, match="a gate of float32"):
        native.Program(*with_step(plan, "conv", inputs={"gate": image}).native())
