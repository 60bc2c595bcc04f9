"""Losses, optimisers and the trainer: against PyTorch where it is, and by what they must reach."""

from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.engine import Graph, Model, convert, load, save
from palmkit.engine.errors import ModelError, ShapeError
from palmkit.engine.ir import Array, Node, Type
from palmkit.engine.ops import infer_types
from palmkit.engine.train import (
    LOSSES,
    SGD,
    Adam,
    Optimiser,
    Trainer,
    trainable,
    with_classifier,
)

RNG = np.random.default_rng(5)


def small_net(dtype: str = "float32") -> Graph:
    """A convolution, a depthwise one, a pool and two layers: 3 classes."""

    def weights(*dims: int) -> Array:
        return (RNG.normal(size=dims) * 0.4).astype(dtype)

    constants = {
        "w1": weights(8, 3, 3, 3),
        "b1": weights(8),
        "slope": np.abs(weights(8, 1, 1)),
        "w2": weights(8, 1, 3, 3),
        "w3": weights(5, 8, 1, 1),
        "b3": weights(5),
        "w4": weights(5, 3),
        "b4": weights(3),
        "axes": np.array([2, 3]),
    }
    conv: dict[str, Any] = {"pads": (1, 1, 1, 1)}
    nodes = (
        Node("conv", ("image", "w1", "b1"), ("c1",), {**conv, "strides": (2, 2)}),
        Node("prelu", ("c1", "slope"), ("a1",)),
        Node("conv", ("a1", "w2"), ("c2",), {**conv, "group": 8}),
        Node("sigmoid", ("c2",), ("s2",)),
        Node("mul", ("c2", "s2"), ("a2",)),
        Node("conv", ("a2", "w3", "b3"), ("c3",)),
        Node("reduce_mean", ("c3", "axes"), ("pooled",), {"keepdims": 0}),
        Node("gemm", ("pooled", "w4", "b4"), ("logits",)),
        Node("softmax", ("logits",), ("probabilities",), {"axis": -1}),
    )
    graph = Graph({"image": Type(dtype, (4, 3, 9, 8))}, {}, nodes, constants)
    return replace(graph, outputs={"probabilities": infer_types(graph)["probabilities"]})


def batch(dtype: str = "float32") -> tuple[dict[str, Array], Array]:
    images = RNG.normal(size=(4, 3, 9, 8)).astype(dtype)
    return {"image": images}, np.eye(3, dtype=dtype)[[0, 2, 1, 2]]


def test_what_can_be_trained_is_named_in_running_order() -> None:
    assert list(trainable(small_net())) == ["w1", "b1", "slope", "w2", "w3", "b3", "w4", "b4"]


@pytest.mark.parametrize("loss", ["cross_entropy", "listwise", "binary_cross_entropy"])
def test_all_weights_have_the_gradients_of_pytorch(loss: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    functional = torch.nn.functional
    graph, (inputs, target) = small_net(), batch()
    trainer = Trainer(graph, "logits", loss, [*trainable(graph)])
    value, found = trainer.gradients(inputs, target)
    w = {name: torch.tensor(each, requires_grad=True) for name, each in trainer.parameters.items()}
    x = functional.conv2d(torch.tensor(inputs["image"]), w["w1"], w["b1"], 2, 1)
    x = functional.prelu(x, w["slope"].reshape(-1))
    x = functional.silu(functional.conv2d(x, w["w2"], None, 1, 1, 1, 8))
    x = functional.conv2d(x, w["w3"], w["b3"]).mean((2, 3)) @ w["w4"] + w["b4"]
    if loss == "binary_cross_entropy":
        expected = functional.binary_cross_entropy_with_logits(x, torch.tensor(target))
    else:
        expected = functional.cross_entropy(x, torch.tensor(target))
    expected.backward()
    assert value == pytest.approx(expected.item(), rel=1e-5)
    for name, each in w.items():
        np.testing.assert_allclose(found[name], each.grad.numpy(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "nesterov", "adam", "adamw"])
def test_optimisers_move_as_pytorch_does(optimiser: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    ours: dict[str, Callable[[], Optimiser]] = {
        "sgd": lambda: SGD(0.1),
        "momentum": lambda: SGD(0.1, momentum=0.9),
        "nesterov": lambda: SGD(0.1, momentum=0.9, nesterov=True),
        "adam": lambda: Adam(0.1),
        "adamw": lambda: Adam(0.1, weight_decay=0.05),
    }
    theirs: dict[str, Callable[[Any], Any]] = {
        "sgd": lambda p: torch.optim.SGD(p, 0.1),
        "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
        "nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
        "adam": lambda p: torch.optim.Adam(p, 0.1),
        "adamw": lambda p: torch.optim.AdamW(p, 0.1, weight_decay=0.05),
    }
    start = RNG.normal(size=(3, 4))
    moved, peer = {"w": start.copy()}, torch.tensor(start, requires_grad=True)
    mine, other = ours[optimiser](), theirs[optimiser]([peer])
    for _ in range(5):
        gradient = RNG.normal(size=(3, 4))
        mine.step(moved, {"w": gradient})
        peer.grad = torch.tensor(gradient)
        other.step()
    np.testing.assert_allclose(moved["w"], peer.detach().numpy(), rtol=1e-9)


def test_long_gradients_are_clipped_and_bad_ones_move_nothing() -> None:
    weights = {"w": np.zeros(2)}
    assert SGD(1.0, clip=1.0).step(weights, {"w": np.array([3.0, 4.0])}) == 5
    np.testing.assert_allclose(weights["w"], [-0.6, -0.8])
    assert np.isnan(SGD(1.0).step(weights, {"w": np.array([np.nan, 0])}))
    np.testing.assert_allclose(weights["w"], [-0.6, -0.8])


@pytest.mark.parametrize("loss", [name for name in LOSSES])
def test_a_loss_falls(loss: str) -> None:
    graph, (inputs, target) = small_net(), batch()
    trainer = Trainer(graph, "logits", loss, ["w3", "b3", "w4", "b4"], Adam(0.03))
    losses = [trainer.step(inputs, target) for _ in range(60)]
    assert losses[-1] < 0.6 * losses[0]
    before, after = Model(graph).run(inputs), Model(trainer.graph).run(inputs)
    assert not np.allclose(before["probabilities"], after["probabilities"])
    for name in ("w1", "w2", "slope"):
        assert trainer.graph.constants[name] is graph.constants[name]


def test_elements_of_weight_zero_do_not_count() -> None:
    graph, (inputs, target) = small_net(), batch()
    weight = np.ones_like(target)
    weight[3] = 0
    other = target.copy()
    other[3] = [1, 0, 0]
    for loss in LOSSES:
        trainer = Trainer(graph, "logits", loss, ["w4"])
        first = trainer.gradients(inputs, target, weight)
        second = trainer.gradients(inputs, other, weight)
        assert first[0] == second[0]
        np.testing.assert_array_equal(first[1]["w4"], second[1]["w4"])
        none = trainer.gradients(inputs, target, np.zeros_like(target))
        assert none[0] == 0 and not none[1]["w4"].any()


def test_ranking_losses_are_what_they_say() -> None:
    scores = np.array([[0.3, -1.2, 2.0, 0.1]], np.float32)
    relevance = np.array([[1.0, 0.0, 3.0, 0.0]], np.float32)
    weight = np.array([[1.0, 1.0, 1.0, 0.0]], np.float32)
    nodes = (Node("add", ("x", "bias"), ("scores",)),)
    graph = Graph(
        {"x": Type("float32", (1, 4))},
        {"scores": Type("float32", (1, 4))},
        nodes,
        {"bias": np.zeros(4, np.float32)},
    )
    kept = np.exp(scores[0, :3])
    shares = kept / kept.sum()
    listwise = -(0.25 * np.log(shares[0]) + 0.75 * np.log(shares[2]))
    pairs = [(0, 1), (2, 0), (2, 1)]
    pairwise = np.mean([np.log1p(np.exp(scores[0, b] - scores[0, a])) for a, b in pairs])
    for loss, expected in (("listwise", listwise), ("pairwise", pairwise)):
        trainer = Trainer(graph, "scores", loss, ["bias"])
        assert trainer.gradients({"x": scores}, relevance, weight)[0] == pytest.approx(expected)


def test_a_shipped_network_learns_in_its_last_layers(tmp_path: Path) -> None:
    path = Path(str(files("palmkit.models"))) / "face_mesh" / "face_mesh.palm"
    graph = convert(path)
    makers = {name: node for node in graph.nodes for name in node.outputs}
    logit = makers[makers[makers["presence"].inputs[0]].inputs[0]]
    name, head = logit.outputs[0], makers[logit.inputs[0]].inputs[1:]
    image = RNG.uniform(0, 255, graph.inputs["image"].dims).astype(np.float32)
    target = np.ones(1, np.float32)
    trainer = Trainer(graph, name, "binary_cross_entropy", head, Adam(0.01))
    losses = [trainer.step({"image": image}, target) for _ in range(9)]
    assert losses[-1] < 0.9 * losses[0]
    save(trainer.graph, tmp_path / "learned.palm")
    learned = load(tmp_path / "learned.palm").run({"image": image})["presence"]
    assert learned > load(path).run({"image": image})["presence"]


def test_mistakes_are_named() -> None:
    graph, (inputs, target) = small_net(), batch()
    with pytest.raises(ValueError, match="loss: expected one of binary_cross_entropy"):
        Trainer(graph, "logits", "hinge", ["w4"])
    with pytest.raises(ModelError, match="parameter 'w9': not among those that can be trained: w1"):
        Trainer(graph, "logits", "cross_entropy", ["w9"])
    with pytest.raises(ModelError, match="parameters: expected the name of at least one"):
        Trainer(graph, "logits", "cross_entropy", [])
    with pytest.raises(ModelError, match="output 'scores': no node of the graph writes it"):
        Trainer(graph, "scores", "cross_entropy", ["w4"])
    trainer = Trainer(graph, "logits", "cross_entropy", ["w4"])
    with pytest.raises(ShapeError, match=r"target: expected float32\[4, 3\], got float32\[4, 2\]"):
        trainer.step(inputs, target[:, :2])
    with pytest.raises(ShapeError, match="input image: expected .* got nothing"):
        trainer.step({}, target)
    with pytest.raises(ValueError, match="expected rate above 0"):
        Adam(0)
    with pytest.raises(ValueError, match="momentum"):
        SGD(0.1, momentum=1.0)


def test_a_new_last_layer_learns_on_what_a_network_sees() -> None:
    graph = small_net()
    with pytest.raises(ValueError, match="expected two names or more, all different"):
        with_classifier(graph, "pooled", ["one", "one"])
    with pytest.raises(ModelError, match="features 'nothing': .*: no such value"):
        with_classifier(graph, "nothing", ["up", "down"])
    graph = replace(graph, nodes=graph.nodes[:7], outputs={})
    classifier, head = with_classifier(graph, "c3", ["up", "down"])
    assert classifier.constants[head[0]].shape == (5 * 5 * 4, 2)
    inputs, kinds = batch()[0], np.eye(2, dtype=np.float32)[[0, 1, 1, 0]]
    trainer = Trainer(classifier, "logits", "cross_entropy", head, Adam(0.05))
    assert trainer.step(inputs, kinds) == pytest.approx(np.log(2), rel=1e-5)
    for _ in range(40):
        trainer.step(inputs, kinds)
    told = Model(trainer.graph).run(inputs)["probabilities"]
    np.testing.assert_array_equal(told.argmax(1), kinds.argmax(1))
    assert trainer.graph.metadata["labels"] == "up\ndown"
