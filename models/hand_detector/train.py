"""Train the hand detector: `python -m palmkit.models.hand_detector.train PACK OUT`.

`--start` is a .palm of the detector, of which only the weights are taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from palmkit.models.detection.bank import Bank, Shape
from palmkit.models.detection.compose import Batch, Composer
from palmkit.models.detection.losses import detection_loss
from palmkit.models.detection.network import DetectorNetwork
from palmkit.models.hand_detector.dataset import LANDMARKS, examples
from palmkit.models.training import loop
from palmkit.models.training.pack import read_pack
from palmkit.models.training.start import start_from_file

# Indices of the wrist and the base of the middle finger.
KEYPOINTS = (0, 9)
HAND = Shape(
    mirrored=tuple(range(LANDMARKS)),
    spread_deg=25.0,
    turned_anyhow=0.3,
    hull=True,
    largest=1.2,
)


@dataclass(frozen=True)
class Recipe(loop.Recipe):
    """Hyperparameters of the training."""

    steps: int = 9_000
    batch: int = 256
    learning_rate: float = 3e-3
    average: float = 0.999
    start: str = ""
    size: int = 192
    large_every: int = 4


class Trainer(loop.Trainer):
    """Trains the hand network."""

    parts: ClassVar = ("score", "box", "points", "iou")
    recipe: Recipe

    def __init__(self, recipe: Recipe, composer: Composer) -> None:
        """Set up the training.

        composer: of hands with all their landmarks.
        """
        device = composer.bank.device
        torch.manual_seed(recipe.seed)
        network = DetectorNetwork(len(KEYPOINTS)).to(device)
        start_from_file(network, recipe.start, lambda: composer.compose(32, recipe.size).images)
        super().__init__(recipe, network, device)
        self.composer = composer
        self.judge = torch.compile(self.forward, dynamic=False) if self.fast else self.forward

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the loss, and its parts."""
        with torch.autocast(batch.images.device.type, torch.bfloat16, enabled=self.fast):
            levels = self.network(batch.images)
        return detection_loss(levels, batch, None)

    def loss(self) -> tuple[Tensor, Tensor]:
        """Return the loss of compositions, periodically of fewer and larger ones."""
        recipe = self.recipe
        large = recipe.large_every > 0 and self.step % recipe.large_every == recipe.large_every - 1
        count, size = recipe.batch, recipe.size
        if large:
            count, size = max(1, count // 2), size * 4 // 3
        with torch.no_grad():
            batch = self.composer.compose(count, size)
            columns = [0, 1, 2, 3, *(4 + 2 * k + axis for k in KEYPOINTS for axis in (0, 1))]
            batch = batch._replace(
                objects=batch.objects[..., columns], pointed=batch.pointed[..., list(KEYPOINTS)]
            )
        return self.judge(batch)


def trainer(pack: Path, recipe: Recipe, device: torch.device) -> Trainer:
    """Return a trainer on a pack."""
    bank = Bank(examples(read_pack(folder) for folder in sorted(pack.iterdir())), HAND, device)
    return Trainer(recipe, Composer(bank, fast=device.type == "cuda"))


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    options, recipe, device = loop.read_options("train the hand detector", Recipe, arguments)
    loop.train(trainer(options.pack, recipe, device), options.out, options.minutes)


if __name__ == "__main__":
    main()
