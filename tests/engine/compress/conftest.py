"""Small networks to quantize."""

from __future__ import annotations

import numpy as np
import pytest

from palmkit.engine.ir import Array, Graph, Node, Type

SIDE = 12


def made_network(seed: int = 0, activation: str = "relu") -> Graph:
    """Return a network: stem, depthwise block with a residual, pooled branch, head."""
    random = np.random.default_rng(seed)

    def weights(*shape: int) -> Array:
        fan = float(np.prod(shape[1:]))
        return random.normal(0, (2 / fan) ** 0.5, shape).astype(np.float32)

    constants: dict[str, Array] = {
        "w0": weights(8, 3, 3, 3), "w1": weights(8, 1, 3, 3), "w2": weights(8, 8, 1, 1),
        "w3": weights(8, 8, 1, 1), "w4": weights(5, 8),
    }  # fmt: skip
    for name, count in (("b0", 8), ("b1", 8), ("b2", 8), ("b3", 8), ("b4", 5)):
        constants[name] = random.normal(0, 0.2, count).astype(np.float32)
    same = {"pads": (1, 1, 1, 1)}
    nodes = (
        Node("transpose", ("image",), ("x",), {"perm": (0, 3, 1, 2)}),
        Node("conv", ("x", "w0", "b0"), ("c0",), {**same, "strides": (2, 2)}, "stem"),
        Node(activation, ("c0",), ("r0",)),
        Node("conv", ("r0", "w1", "b1"), ("c1",), {**same, "group": 8}, "depthwise"),
        Node(activation, ("c1",), ("r1",)),
        Node("conv", ("r1", "w2", "b2"), ("c2",), {}, "pointwise"),
        Node("add", ("c2", "r0"), ("a2",)),
        Node("relu", ("a2",), ("r2",)),
        Node("global_average_pool", ("r2",), ("p",)),
        Node("conv", ("p", "w3", "b3"), ("c3",), {}, "context"),
        Node("add", ("r2", "c3"), ("a3",)),
        Node("relu", ("a3",), ("r3",)),
        Node("global_average_pool", ("r3",), ("q",)),
        Node("flatten", ("q",), ("f",)),
        Node("gemm", ("f", "w4", "b4"), ("logits",), {"transB": 1}, "head"),
        Node("sigmoid", ("logits",), ("scores",)),
    )
    return Graph(
        {"image": Type("float32", (1, SIDE, SIDE, 3))},
        {"scores": Type("float32", (1, 5)), "logits": Type("float32", (1, 5))},
        nodes,
        constants,
    )


def made_samples(count: int, seed: int = 1) -> list[dict[str, Array]]:
    """Return smooth pictures of 0..1."""
    random = np.random.default_rng(seed)
    shape = (count, 1, SIDE // 3, SIDE // 3, 3)
    coarse = random.random(shape).repeat(3, 2).repeat(3, 3)
    noise = random.normal(0, 0.05, coarse.shape)
    return [{"image": each.astype(np.float32)} for each in coarse + noise]


@pytest.fixture
def network() -> Graph:
    return made_network()


@pytest.fixture
def samples() -> list[dict[str, Array]]:
    return made_samples(24)
