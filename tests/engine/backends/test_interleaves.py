"""A 1x1 convolution of two pictures' channels by turns reads the pictures themselves."""

from collections.abc import Mapping

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.backends import BACKENDS
from palmkit.engine.backends.cpu import Cpu
from palmkit.engine.backends.options import Options
from palmkit.engine.ir import Attr, Graph, Node, Type
from palmkit.engine.steps.plan import Plan
from tests.engine.backends.plans import apart, check_joined, feed_of, native, step_of, with_step

CHANNELS, SIDE = 26, 11


def graph(
    first: int = 13,
    out: int = 40,
    side: int = SIDE,
    images: int = 1,
    residual: str = "",
    kernel: int = 1,
    inputs: int = 2,
    shown: bool = False,
    channels: int = CHANNELS,
) -> Graph:
    """Pictures x and z, max-pooled by 1x1, half their channels by turns, a convolution, relu.

    inputs: how many pictures there are, all but x being z. residual: "a" (x, pooled) or "r".
    """
    rng = np.random.default_rng(0)
    count = channels // inputs
    alone: dict[str, Attr] = {"kernel_shape": (1, 1)}
    ends: dict[str, Attr] = {"activation": "clip", "activation_params": (0.0, 2.0)}
    turns: dict[str, Attr] = {"axis": 1, "first": first, "count": count}
    names = ("s", "w", "b", residual) if residual else ("s", "w", "b")
    nodes = (
        Node("max_pool", ("x",), ("a",), alone, "one"),
        Node("max_pool", ("z",), ("c",), alone, "other"),
        Node("interleave", ("a", *["c"] * (inputs - 1)), ("s",), turns, "turns"),
        Node("fused_conv", names, ("d",), {**ends, "pads": (kernel // 2,) * 4}, "conv"),
        Node("relu", ("d",), ("y",), {}, "relu"),
    )
    picture = Type("float32", (images, channels, side, side))
    result = Type("float32", (images, out, side, side))
    added = {"r": result} if residual == "r" else {}
    between = {"s": Type("float32", (images, count * inputs, side, side))} if shown else {}
    shape = (out, count * inputs, kernel, kernel)
    return Graph(
        inputs={"x": picture, "z": picture, **added},
        outputs={"y": result, **between},
        nodes=nodes,
        constants={
            "w": rng.normal(0, 0.05, shape).astype(np.float32),
            "b": rng.normal(size=out).astype(np.float32),
        },
    )


def interleaves(plan: Plan) -> int:
    return sum(step.kernel == "interleave" for step in plan.steps)


CASES: Mapping[str, tuple[Graph, int]] = {
    "second halves": (graph(), 0),
    "first halves": (graph(first=0), 0),
    "from between": (graph(first=5, out=130), 0),
    "few pixels": (graph(side=2), 0),
    "two pictures each": (graph(images=2), 0),
    "a sum": (graph(residual="r"), 0),
    "a sum with one of them": (graph(out=CHANNELS, residual="a"), 0),
    "of one picture": (graph(inputs=1, first=0), 1),
    "a larger window": (graph(kernel=3), 1),
    "what is shown": (graph(shown=True), 1),
}


@pytest.mark.parametrize(("made", "left"), CASES.values(), ids=CASES)
def test_two_pictures_give_what_one_of_both_gives(made: Graph, left: int) -> None:
    plan = Cpu().compile(made).plan
    assert interleaves(plan) == left
    assert interleaves(apart(made)) == 1
    check_joined(plan, made)


@pytest.mark.parametrize("channels", [CHANNELS, 64])
def test_so_it_is_in_low_precision(channels: int) -> None:
    made = graph(first=channels // 2, channels=channels)
    feed = feed_of(made)
    program = Cpu().compile(made, Options(precision="low"))
    reference = BACKENDS["reference"].compile(made).run(feed)["y"]
    np.testing.assert_allclose(program.run(feed)["y"], reference, atol=0.03)


@pytest.mark.skipif("avx512bf16" not in native.isas(), reason="of bfloat16")
def test_narrow_pictures_are_read_too_if_their_channels_are_even() -> None:
    low = Options(precision="low")
    for channels, left in ((CHANNELS, 1), (64, 0)):
        made = graph(first=channels // 2, channels=channels, side=28)
        assert interleaves(Cpu().compile(made, low).plan) == left


def test_a_picture_of_another_size_is_refused() -> None:
    plan = Cpu().compile(graph()).plan
    step = step_of(plan, "conv")
    for strange in ({"second_image": step.outputs["y"]}, {"gate": step.inputs["image"]}):
        with pytest.raises(engine.ModelError):
            native.Program(*with_step(plan, "conv", inputs=strange).native())
