"""Train the shipped hand landmarks on in the arithmetic of integers, so that they ship as int8.

`python -m palmkit.models.hand_landmarks.quantized PACK MODEL OUT` goes on from OUT/checkpoint.pt
where there is one and writes OUT/hand_landmarks.palm. The recipe's crops without their labels: the
float network alone teaches, its heat maps, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from palmkit.engine.ir import Array
from palmkit.models.hand_landmarks.compose import Composer
from palmkit.models.hand_landmarks.dataset import HandBank
from palmkit.models.training.fake_quant import FakeQuantized
from palmkit.models.training.loop import Trainer
from palmkit.models.training.pack import read_pack
from palmkit.models.training.quantized import (
    QuantizedRecipe,
    as_inputs,
    calibration,
    finish,
    logits_of,
    read_quantized_options,
    rounding,
)


class Word(NamedTuple):
    """A network's predictions.

    landmarks: float32[n, 21, 3]; logits: heat [n, 21, 576], right and presence [n, 1], shapes [n,
    10].
    """

    landmarks: Tensor
    heat: Tensor
    right: Tensor
    presence: Tensor
    shapes: Tensor


class QuantizedHand(nn.Module):
    """A network from a crop, RGB 0..1, to the predictions, computed by levels."""

    def __init__(self, levels: FakeQuantized) -> None:
        """Wrap the levels of the shipped graph."""
        super().__init__()
        self.levels = levels
        graph = levels.graph
        heat, shapes = (node.inputs[0] for node in graph.nodes if node.op == "softmax")
        sides = (logits_of(graph, name) for name in ("handedness", "presence"))
        self.wanted = ("landmarks", heat, *sides, shapes)

    def forward(self, x: Tensor) -> Word:
        """Predict from float32[n, 3, 192, 192]."""
        found = self.levels({"image": as_inputs(x)}, self.wanted)
        return Word(*(found[name] for name in self.wanted))


def apart(seen: Word, said: Word) -> tuple[Tensor, Tensor]:
    """Return the loss against the teacher, and its parts: landmarks, depth, shapes, presence.

    Where the teacher sees no hand, landmarks and the side do not count.
    """
    sure = (said.presence.flatten() > 0).float()
    total = sure.sum().clamp(min=1)
    away = seen.landmarks - said.landmarks
    distance = (away[..., :2].square().sum(-1) + 1e-8).sqrt().mean(1)
    flat = (away[..., :2].square().sum(-1) + 1e-5).sqrt().mean(1)
    points, error = (flat * sure).sum() / total, (distance * sure).sum() / total
    depth = (away[..., 2].abs().mean(1) * sure).sum() / total
    heat = (_divergence(seen.heat, said.heat).mean(1) * sure).sum() / total
    right = (_entropy(seen.right, said.right).flatten() * sure).sum() / total
    presence = _entropy(seen.presence, said.presence).mean()
    shapes = (_divergence(seen.shapes, said.shapes) * (0.1 + 0.9 * sure)).mean()
    loss = 14 * points + 3 * depth + 0.15 * heat + 0.3 * right + 0.3 * presence + shapes
    return loss, torch.stack([error, depth, shapes, presence]).detach()


def _divergence(seen: Tensor, said: Tensor) -> Tensor:
    logs = seen.log_softmax(-1), said.log_softmax(-1)
    return functional.kl_div(*logs, log_target=True, reduction="none").sum(-1)


def _entropy(seen: Tensor, said: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(seen, said.sigmoid(), reduction="none")


class QuantizedHandTrainer(Trainer):
    """Trains on the recipe's crops and the float network's predictions."""

    network: QuantizedHand
    parts: ClassVar[tuple[str, ...]] = ("error", "depth", "shapes", "presence")

    def __init__(self, recipe: QuantizedRecipe, composer: Composer, network: QuantizedHand) -> None:
        """Set up the training.

        network: with calibrated ranges.
        """
        torch.manual_seed(recipe.seed)
        super().__init__(recipe, network, composer.bank.device)
        # The levels are float32, exact; bfloat16 is not.
        self.fast = False
        self.composer = composer
        self.teacher = QuantizedHand(network.levels.float_network())

    def loss(self) -> tuple[Tensor, Tensor]:
        """Return the loss of one batch."""
        with torch.no_grad():
            images = self.composer.compose(self.recipe.batch).images
            said = self.teacher(images)
        return apart(self.network(images), said)


def with_up(composer: Composer) -> list[dict[str, Array]]:
    """Return samples of crops; the picture's up direction affects no layer."""

    def draw(count: int) -> Tensor:
        return composer.compose(count).images

    up = torch.tensor([[0.0, -1.0]]).numpy()
    return [{**each, "up": up} for each in calibration(draw)]


def trainer(
    options: argparse.Namespace, recipe: QuantizedRecipe, device: torch.device
) -> QuantizedHandTrainer:
    """Return a trainer for the float model of the options."""
    packs = [read_pack(folder) for folder in sorted(options.pack.iterdir())]
    composer = Composer(HandBank(packs, device))
    levels = rounding(options, with_up(composer), "min_max")
    return QuantizedHandTrainer(recipe, composer, QuantizedHand(levels))


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    options, recipe, device = read_quantized_options("train the hand landmarks as int8", arguments)
    training = trainer(options, recipe, device)
    averaged = training.averaged
    assert isinstance(averaged, QuantizedHand)
    print(finish(training, averaged.levels, options))


if __name__ == "__main__":
    main()
