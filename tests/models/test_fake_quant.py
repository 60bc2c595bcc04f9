from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from palmkit.engine.backends.partition import specialise
from palmkit.engine.ir import Graph, Node, Type
from palmkit.engine.model import Model
from palmkit.engine.ops import infer_types
from tests.engine.compress.conftest import made_network, made_samples

torch = pytest.importorskip("torch")

from palmkit.models.training.fake_quant import FakeQuantized, calibrated, whole  # noqa: E402


def with_more(graph: Graph) -> Graph:
    """A branch that is reduced, doubled linearly and by its neighbours, joined and gated."""
    random = np.random.default_rng(5)
    constants = dict(graph.constants)
    for name, shape in (("w5", (8, 8, 3, 3)), ("w6", (4, 24, 1, 1)), ("w7", (8, 8, 1, 1))):
        constants[name] = random.normal(0, (2 / np.prod(shape[1:])) ** 0.5, shape).astype(
            np.float32
        )
    for name, count in (("b5", 8), ("b6", 4), ("b7", 8)):
        constants[name] = random.normal(0, 0.1, count).astype(np.float32)
    constants["doubled"] = np.array([1, 1, 2, 2], np.float32)
    near = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor"}  # fmt: skip
    nodes = (
        Node("conv", ("r3", "w5", "b5"), ("c5",), {"pads": (1, 1, 1, 1), "strides": (2, 2)}),
        Node("resize", ("c5", "", "doubled"), ("u5",), {"mode": "linear"}),
        Node("resize", ("c5", "", "doubled"), ("v5",), near),
        Node("conv", ("p", "w7", "b7"), ("c7",)),
        Node("hard_sigmoid", ("c7",), ("gate",), {"alpha": 0.2, "beta": 0.5}),
        Node("mul", ("r2", "gate"), ("g2",)),
        Node("concat", ("u5", "v5", "g2"), ("j",), {"axis": 1}),
        Node("relu", ("j",), ("rj",)),
        Node("conv", ("rj", "w6", "b6"), ("c6",)),
        Node("conv", ("c6", "w8"), ("last",)),
    )
    constants["w8"] = random.normal(0, 0.5, (3, 4, 1, 1)).astype(np.float32)
    return replace(graph, nodes=(*graph.nodes, *nodes), constants=constants)


def exposed(graph: Graph, names: list[str]) -> Graph:
    types = infer_types(graph)
    return replace(graph, outputs={name: Type("float32", types[name].shape) for name in names})


NAMES = ["r2", "r3", "p", "c3", "u5", "v5", "gate", "g2", "rj", "c6", "last", "logits"]


def disturbed(network: FakeQuantized) -> None:
    """As after some training."""
    with torch.no_grad():
        for weights in network.parameters():
            weights.add_(torch.randn(weights.shape) * (weights.std() + 0.1), alpha=0.05)


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize(
    ("activation", "weight_bits"), [("relu", 8), ("hard_swish", 8), ("relu", 3)]
)
def test_levels_are_those_of_the_exported_graph(
    monkeypatch: pytest.MonkeyPatch, activation: str, weight_bits: int, mode: bool
) -> None:
    # The layers of this network have few weights.
    monkeypatch.setattr("palmkit.engine.compress.weights.FEW", 2)
    torch.manual_seed(3)
    samples = made_samples(12)
    graph = exposed(with_more(made_network(activation=activation)), NAMES)
    network = calibrated(graph, samples, weight_bits=weight_bits)
    disturbed(network)
    network.train(mode)
    exported = network.quantized()
    kept = [each for each in exported.constants.values() if each.dtype == np.int8]
    assert max(np.abs(each.astype(int)).max() for each in kept) == 2 ** (weight_bits - 1) - 1
    model = Model(exported, backend="reference")
    integer = specialise(exported, dict(exported.inputs))
    layers = [node.op for node in integer.nodes]
    assert layers.count("quantized_conv") == 9
    floats = {"conv", "fused_conv", "gemm", "add", "mul", "hard_swish", "hard_sigmoid", "relu"}
    assert not floats & {*layers}
    batch = np.concatenate([each["image"] for each in samples])
    with torch.no_grad():
        found = network({"image": torch.from_numpy(batch)}, NAMES)
    for number, sample in enumerate(samples):
        true = model.run(sample)
        for name in NAMES:
            assert np.array_equal(found[name][number].numpy(), true[name][0]), name


def test_gradients_reach_every_weight_and_range() -> None:
    samples = made_samples(8)
    network = calibrated(made_network(), samples)
    batch = torch.from_numpy(np.concatenate([each["image"] for each in samples]))
    network({"image": batch}, ["logits"])["logits"].square().sum().backward()
    for weights in network.weights:
        assert weights.grad is not None and weights.grad.abs().sum() > 0
    assert network.stretch.grad is not None
    free = network.free.bool()
    assert (network.stretch.grad[free] != 0).all()
    assert (network.stretch.grad[~free] == 0).all()


def test_training_brings_the_levels_nearer_to_the_float_network() -> None:
    samples = made_samples(16)
    graph = made_network()
    network = calibrated(graph, samples)
    with torch.no_grad():
        # Ranges far too wide, as of a bad calibration.
        network.ends *= torch.where(network.free[:, None] > 0, 6.0, 1.0)
    batch = torch.from_numpy(np.concatenate([each["image"] for each in samples]))
    truth = torch.from_numpy(np.concatenate([Model(graph).run(s)["logits"] for s in samples]))

    def error() -> float:
        quantized = Model(network.quantized())
        got = np.concatenate([quantized.run(each)["logits"] for each in samples])
        return float(((got - truth.numpy()) ** 2).mean())

    before = error()
    # Which way the large steps go hangs on the last bit of sums, and so on torch's release and
    # threads: after 50 of them the error is 0.9 to 1.4 of what it was, after 100 at most 0.4.
    for rate in (4e-2, 4e-3):
        optimiser = torch.optim.Adam(network.parameters(), rate)
        for _ in range(100):
            optimiser.zero_grad()
            loss = (network({"image": batch}, ["logits"])["logits"] - truth).square().mean()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    assert error() < 0.6 * before


def test_whole_rounds_ties_to_even_with_gradient_one() -> None:
    x = torch.tensor([0.5, 1.5, -2.5, 0.4999], requires_grad=True)
    whole(x).sum().backward()  # type: ignore[no-untyped-call]
    assert whole(x).tolist() == [0.0, 2.0, -2.0, 0.0]
    assert x.grad.tolist() == [1.0] * 4
