"""Train the portrait or the hair mask.

`python -m palmkit.models.segmentation.train PACK OUT --task portrait --teacher TEACHER.npz` goes on
from OUT/checkpoint.pt where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from palmkit.models.segmentation.compose import Batch, Composer
from palmkit.models.segmentation.dataset import Bank
from palmkit.models.segmentation.losses import mask_loss
from palmkit.models.segmentation.network import SIZE, WIDTHS, Maps, MaskNetwork, Widths
from palmkit.models.segmentation.teacher_network import FEATURE_CHANNELS, SelfieNetwork
from palmkit.models.training.loop import Recipe, Trainer, read_options, train

# From this share of the steps on the compositions come nearer to pictures as they are.
EASE_FROM = 0.6


@dataclass(frozen=True)
class MaskRecipe(Recipe):
    """What decides the weights of a mask network."""

    task: str = "portrait"
    steps: int = 12_000
    batch: int = 128
    learning_rate: float = 2.5e-3
    weight_decay: float = 0.01
    average: float = 0.999
    hint: float = 0.3
    hint_until: float = 1.0


class Hints(nn.Module):
    """Maps our features to the teacher's: what it learnt from far more pictures."""

    def __init__(self, widths: Widths) -> None:
        """One linear map a feature."""
        super().__init__()
        ours = (*widths.channels[1:4], *widths.decoder)
        self.maps = nn.ModuleList(
            nn.Conv2d(inputs, outputs, 1)
            for inputs, outputs in zip(ours, FEATURE_CHANNELS, strict=True)
        )

    def forward(self, ours: list[Tensor], theirs: list[Tensor]) -> Tensor:
        """Mean squared difference in units of the teacher's own spread a channel."""
        losses: list[Tensor] = []
        for project, student, teacher in zip(self.maps, ours, theirs, strict=True):
            teacher = teacher.float()
            spread = teacher.var(dim=(0, 2, 3), keepdim=True) + 1e-3
            difference = (project(student).float() - teacher) ** 2 / spread
            losses.append(difference.clamp(max=25).mean())
        return torch.stack(losses).mean()


class MaskTrainer(Trainer):
    """One network on its bank's compositions."""

    parts: ClassVar[tuple[str, ...]] = ("pixels", "overlap", "coarse", "hint")

    def __init__(
        self, recipe: MaskRecipe, bank: Bank, device: torch.device, teacher: Path | None = None
    ) -> None:
        """A network of the task's size; teacher: the file of teacher_network.py."""
        torch.manual_seed(recipe.seed)
        widths = WIDTHS[recipe.task]
        super().__init__(recipe, MaskNetwork(widths), device, Hints(widths))
        self.hint, self.hint_until = recipe.hint, recipe.hint_until
        self.teacher = None if teacher is None else SelfieNetwork(teacher).to(device).eval()
        self.composer = Composer(bank, recipe.task, SIZE, self.fast)
        self.compute = torch.compile(self.forward, dynamic=False) if self.fast else self.forward

    def forward(self, batch: Batch, hint: Tensor, with_hint: bool) -> tuple[Tensor, Tensor]:
        """Loss, and what it is made of."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.fast):
            maps: Maps = self.network(batch.images)
        total, parts = mask_loss(
            maps.logits.float(), maps.coarse.float(), batch.target, batch.weight
        )
        difference = torch.zeros_like(total)
        if self.teacher is not None and with_hint:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.fast):
                with torch.no_grad():
                    _, theirs = self.teacher(batch.images)
                difference = self.beside(maps.features, theirs)
            total = total + hint * difference
        return total, torch.cat([parts, difference.detach()[None]])

    def loss(self) -> tuple[Tensor, Tensor]:
        """Pixels, overlap, coarse map and the teacher's hint for a fresh batch."""
        with torch.no_grad():
            ease = max(0.0, self.progress - EASE_FROM) / (1 - EASE_FROM)
            batch = self.composer.compose(self.recipe.batch, ease)
        left = max(0.0, 1 - self.progress / self.hint_until)
        hint = torch.tensor(self.hint * left, device=self.device)
        return self.compute(batch, hint, left > 0)


def main(arguments: Iterable[str] | None = None) -> None:
    """Command line."""
    options, recipe, device = read_options("train a mask network", MaskRecipe, arguments)
    bank = Bank(options.pack, recipe.task, device)
    trainer = MaskTrainer(recipe, bank, device, options.teacher)
    train(trainer, options.out, options.minutes)


if __name__ == "__main__":
    main()
