"""Convolutions whose weights, bias or both a run gives, alone and as networks have them."""

from collections.abc import Mapping

import numpy as np
import pytest

from palmkit.engine.backends import BACKENDS
from palmkit.engine.backends.cpu import Cpu
from palmkit.engine.backends.options import Options
from palmkit.engine.ir import Attr, Graph, Node, Type
from tests.engine.backends.plans import feed_of

pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")


def graph(
    op: str,
    shapes: Mapping[str, tuple[int, ...]],
    computed: str,
    y: tuple[int, ...],
    **attrs: Attr,
) -> Graph:
    """One layer; of its inputs those named in `computed` come when it runs."""
    rng = np.random.default_rng(0)
    types = {name: Type("float32", shape) for name, shape in shapes.items()}
    names = tuple(name if name in shapes else "" for name in "xwbzs"[: 5 if "fused" in op else 3])
    while not names[-1]:
        names = names[:-1]
    return Graph(
        {name: type for name, type in types.items() if name in computed},
        {"y": Type("float32", y)},
        (Node(op, names, ("y",), attrs),),
        {
            name: rng.normal(size=type.dims).astype(np.float32)
            for name, type in types.items()
            if name not in computed
        },
    )


PICTURE = {"x": (2, 6, 9, 8), "w": (4, 6, 3, 3), "b": (4,), "z": (2, 4, 9, 8)}
GROUPS = {"x": (2, 6, 9, 8), "w": (4, 3, 3, 3), "b": (4,), "z": (2, 4, 9, 8)}
PADS = (1, 1, 1, 1)
LAYERS = {
    "weights": graph("conv", PICTURE, "xw", (2, 4, 9, 8), pads=PADS),
    "bias": graph("conv", PICTURE, "xb", (2, 4, 9, 8), pads=PADS),
    "both": graph("conv", PICTURE, "xwb", (2, 4, 9, 8), pads=PADS),
    "groups": graph("conv", GROUPS, "xwb", (2, 4, 9, 8), pads=PADS, group=2),
    "the image is constant": graph("conv", PICTURE, "w", (2, 4, 9, 8), pads=PADS),
    "volume": graph(
        "conv",
        {"x": (1, 2, 4, 5, 6), "w": (3, 2, 2, 3, 1)},
        "xw",
        (1, 3, 3, 2, 6),
        strides=(1, 2, 1),
    ),
    "line": graph("conv", {"x": (1, 3, 12), "w": (5, 3, 4)}, "xw", (1, 5, 5), strides=(2,)),
    "an activation": graph(
        "fused_conv",
        PICTURE,
        "xwbz",
        (2, 4, 9, 8),
        pads=PADS,
        activation="clip",
        activation_params=(-0.5, 6.0),
    ),
    "a slope": graph(
        "fused_conv", {**PICTURE, "s": (4, 1, 1)}, "xw", (2, 4, 9, 8), pads=PADS, activation="prelu"
    ),
    "parameters": graph(
        "fused_conv",
        GROUPS,
        "xw",
        (2, 4, 9, 8),
        pads=PADS,
        group=2,
        activation="leaky_relu",
        activation_params=(0.2,),
    ),
    "transposed": graph(
        "conv_transpose",
        {"x": (2, 4, 5, 4), "w": (4, 3, 3, 2), "b": (6,)},
        "xwb",
        (2, 6, 10, 8),
        strides=(2, 2),
        group=2,
        pads=(1, 0, 1, 0),
        output_padding=(1, 0),
    ),
    "transposed, cut by more than the window": graph(
        "conv_transpose",
        {"x": (1, 2, 6, 6), "w": (2, 3, 2, 2)},
        "xw",
        (1, 3, 5, 3),
        pads=(1, 2, 1, 2),
    ),
    "transposed volume": graph(
        "conv_transpose",
        {"x": (1, 2, 3, 4, 2), "w": (2, 3, 2, 2, 2)},
        "x",
        (1, 3, 6, 5, 4),
        strides=(2, 1, 2),
    ),
}


@pytest.mark.parametrize("made", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("threads", [1, 2])
def test_it_is_what_numpy_makes_of_it(made: Graph, threads: int) -> None:
    feed = feed_of(made)
    wanted = BACKENDS["reference"].compile(made).run(feed)["y"]
    # bfloat16 has 8 bits of each factor.
    for precision, error in (("high", 1e-6), ("normal", 1e-6), ("low", 2**-8)):
        got = Cpu().compile(made, Options(threads, precision)).run(feed)["y"]
        np.testing.assert_allclose(got, wanted, rtol=0, atol=error * np.ptp(wanted))


@pytest.mark.parametrize("images", [0, 1])
def test_no_images_and_no_channels_are_nothing_to_do(images: int) -> None:
    shapes = {"x": (images, 2, 5, 5), "w": (3, 2, 3, 3)}
    made = graph("conv", shapes, "xw", (images, 3, 3, 3))
    feed = feed_of(made)
    got = Cpu().compile(made).run(feed)["y"]
    assert got.shape == (images, 3, 3, 3)
    wanted = BACKENDS["reference"].compile(made).run(feed)["y"]
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
