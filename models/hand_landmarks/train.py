"""Train the hand landmarks: `python -m palmkit.models.hand_landmarks.train PACK OUT`.

`--start` is a .palm of the landmarks, of which only the weights are taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from palmkit.models.hand_landmarks.compose import Batch, Composer, finger_hearts
from palmkit.models.hand_landmarks.dataset import HandBank
from palmkit.models.hand_landmarks.network import CELLS, HEART, HandNetwork, Seen, normalised
from palmkit.models.training import loop
from palmkit.models.training.pack import read_pack
from palmkit.models.training.pixels import drawn_rows
from palmkit.models.training.start import start_from_file

HEARTS = 12


@dataclass(frozen=True)
class Recipe(loop.Recipe):
    """Hyperparameters of the training; shape: weight of the gestures' losses."""

    steps: int = 16_000
    batch: int = 256
    learning_rate: float = 3e-3
    weight_decay: float = 0.03
    average: float = 0.999
    start: str = ""
    shape: float = 0.5


class Trainer(loop.Trainer):
    """Trains the landmark network."""

    parts: ClassVar = ("points", "depth", "right", "presence", "picture", "landmarks", "correct")
    recipe: Recipe
    network: HandNetwork

    def __init__(self, recipe: Recipe, composer: Composer) -> None:
        """Set up the training with a composer of hands."""
        torch.manual_seed(recipe.seed)
        network = HandNetwork().to(composer.bank.device)
        start_from_file(network, recipe.start, lambda: composer.compose(32).images)
        super().__init__(recipe, network, composer.bank.device)
        self.composer = composer

    def hearts(self) -> Tensor:
        """Return float32[HEARTS, 63]: finger hearts as the gestures' classifiers see landmarks."""
        bank = self.composer.bank
        rows = drawn_rows(bank.curled, HEARTS)
        cos, sin = bank.angle[rows].cos(), bank.angle[rows].sin()
        matrix = torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -2)
        flip = torch.where(torch.rand(HEARTS, 1, 1, device=bank.device) < 0.5, -1.0, 1.0)
        moved = bank.landmarks[rows]
        flat = torch.einsum("nij,nkj->nki", matrix, moved[..., :2] - bank.centre[rows][:, None])
        flat = flat * torch.cat([flip, torch.ones_like(flip)], dim=-1)
        hands = torch.cat([flat, moved[..., 2:] - moved[:, :1, 2:]], dim=-1)
        return normalised(finger_hearts(hands / bank.side[rows][:, None, None]))

    def loss(self) -> tuple[Tensor, Tensor]:
        """Return the loss of one batch of crops."""
        with torch.no_grad():
            batch = self.composer.compose(self.recipe.batch)
            hearts = self.hearts()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.fast):
            seen: Seen = self.network(batch.images, hearts)
        return self.judge(seen, batch)

    def judge(self, seen: Seen, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the weighted sum of the losses, and its parts."""
        inside = ((batch.landmarks[..., :2] > -0.02) & (batch.landmarks[..., :2] < 1.02)).all(-1)
        weight = inside * batch.sure[:, None]
        total = weight.sum().clamp(min=1)
        error = (seen.landmarks[..., :2] - batch.landmarks[..., :2]).norm(dim=-1)
        points = ((error * error + 1e-4).sqrt() * weight).sum() / total
        apart = seen.landmarks[..., 2] - batch.landmarks[..., 2]
        depth = (apart.abs() * weight).sum() / total
        grid = self.network.grid
        assert isinstance(grid, Tensor)
        square = seen.maps @ (grid * grid).sum(dim=1) - (seen.landmarks[..., :2] ** 2).sum(-1)
        wide = ((square.clamp(min=1e-6).sqrt() - 1.5 / CELLS).clamp(min=0) * weight).sum() / total

        has = (batch.sure > 0).float()
        right = functional.binary_cross_entropy_with_logits(
            seen.right[:, 0], batch.right, reduction="none"
        )
        right = (right * has).sum() / has.sum()
        known = (~batch.presence.isnan()).float()
        presence = functional.binary_cross_entropy_with_logits(
            seen.presence[:, 0], batch.presence.nan_to_num(), reduction="none"
        )
        presence = (presence * known).sum() / known.sum()
        truth = batch.shape.clamp(min=0)
        extra = truth.new_full((HEARTS,), HEART)
        trust = torch.cat([batch.trust, batch.trust.new_full((HEARTS,), 0.5)])
        labels = torch.cat([truth, extra])

        def classify(logits: Tensor) -> Tensor:
            each = functional.cross_entropy(logits, labels, reduction="none", label_smoothing=0.05)
            return (each * trust).sum() / trust.sum()

        picture, landmarks = classify(seen.by_picture), classify(seen.by_landmarks)
        rows = batch.trust == 1
        hits = (seen.by_picture[: len(rows)].argmax(1) == truth)[rows].float().mean()
        loss = 14 * points + 3 * depth + 3 * wide + 0.3 * right + 0.3 * presence
        loss = loss + self.recipe.shape * (picture + 0.5 * landmarks)
        mean_error = (error * weight).sum() / total
        parts = (mean_error, depth, right, presence, picture, landmarks, hits)
        return loss, torch.stack(parts).detach()


def trainer(pack: Path, recipe: Recipe, device: torch.device) -> Trainer:
    """Return a trainer on a pack."""
    packs = [read_pack(folder) for folder in sorted(pack.iterdir())]
    return Trainer(recipe, Composer(HandBank(packs, device)))


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    options, recipe, device = loop.read_options("train the hand landmarks", Recipe, arguments)
    loop.train(trainer(options.pack, recipe, device), options.out, options.minutes)


if __name__ == "__main__":
    main()
