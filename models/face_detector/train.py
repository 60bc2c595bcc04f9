"""Train the face detector.

`python -m palmkit.models.face_detector.train PACK OUT --teacher yunet_n_dynamic.onnx` goes on
from OUT/checkpoint.pt where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from palmkit.models.detection.bank import Bank, Shape
from palmkit.models.detection.compose import Batch, Composer
from palmkit.models.detection.losses import detection_loss
from palmkit.models.detection.network import SIZES, STRIDES, DetectorNetwork
from palmkit.models.face_detector.dataset import examples
from palmkit.models.face_detector.teacher_network import YuNet
from palmkit.models.training import loop
from palmkit.models.training.pack import read_pack
from palmkit.models.training.start import start_from_file

POINTS = 5
# Left and right change places in the mirror image.
FACE = Shape(mirrored=(1, 0, 2, 4, 3), spread_deg=12.0)


@dataclass(frozen=True)
class Recipe(loop.Recipe):
    """Hyperparameters of the training.

    network: of models.detection.network.SIZES. start: a model file of the same network whose
    weights are the first ones; "" for random ones. hint: weight of YuNet's features; 0: none.
    """

    network: str = "fast"
    start: str = ""
    size: int = 320
    large_every: int = 6
    hint: float = 1.0
    hint_until: float = 0.66


class Hints(nn.Module):
    """Maps our neck's features to YuNet's, which was trained on far more pictures."""

    def __init__(self, neck: int) -> None:
        """Make one linear map a stride, of so many channels."""
        super().__init__()
        self.maps = nn.ModuleList(nn.Conv2d(neck, 64, 1) for _ in STRIDES)

    def forward(self, ours: list[Tensor], theirs: list[Tensor]) -> Tensor:
        """Return the mean squared difference in units of the teacher's spread a channel."""
        losses: list[Tensor] = []
        for project, student, teacher in zip(self.maps, ours, theirs, strict=True):
            teacher = teacher.float()
            spread = teacher.var(dim=(0, 2, 3), keepdim=True) + 1e-2
            difference = (project(student).float() - teacher) ** 2 / spread
            losses.append(difference.clamp(max=25).mean())
        return torch.stack(losses).mean()


class Trainer(loop.Trainer):
    """Trains the face network beside YuNet."""

    parts: ClassVar = ("score", "box", "points", "iou", "hint")
    recipe: Recipe

    def __init__(self, recipe: Recipe, composer: Composer, teacher: YuNet | None) -> None:
        """Set up the training.

        teacher: None: labels alone.
        """
        device = composer.bank.device
        torch.manual_seed(recipe.seed)
        size = SIZES[recipe.network]
        network = DetectorNetwork(POINTS, size).to(device)
        start_from_file(network, recipe.start, lambda: composer.compose(32, recipe.size).images)
        super().__init__(recipe, network, device, beside=Hints(size.neck))
        self.composer = composer
        self.teacher = None if teacher is None else teacher.to(device).eval()
        self.judge = torch.compile(self.forward, dynamic=False) if self.fast else self.forward

    def forward(self, batch: Batch, hint: Tensor, with_hint: bool) -> tuple[Tensor, Tensor]:
        """Return the loss, and its parts."""
        taught: Tensor | None = None
        theirs: list[Tensor] = []
        kind = batch.images.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=self.fast):
            if self.teacher is not None:
                with torch.no_grad():
                    scores, theirs = self.teacher(batch.better)
                    taught = torch.cat([score.flatten(1) for score in scores], dim=1).float()
            levels = self.network(batch.images)
        total, parts = detection_loss(levels, batch, taught)
        difference = torch.zeros_like(total)
        if theirs and with_hint:
            with torch.autocast(kind, torch.bfloat16, enabled=self.fast):
                difference = self.beside([level.features for level in levels], theirs)
            total = total + hint * difference
        return total, torch.cat([parts, difference.detach()[None]])

    def loss(self) -> tuple[Tensor, Tensor]:
        """Return the loss of compositions, periodically of fewer and larger ones."""
        recipe = self.recipe
        large = recipe.large_every > 0 and self.step % recipe.large_every == recipe.large_every - 1
        count, size = (
            (max(1, recipe.batch // 4), 2 * recipe.size) if large else (recipe.batch, recipe.size)
        )
        with torch.no_grad():
            batch = self.composer.compose(count, size)
        left = recipe.hint * max(0.0, 1 - self.progress / recipe.hint_until)
        hint = torch.tensor(left, device=batch.images.device)
        return self.judge(batch, hint, left > 0)


def trainer(pack: Path, recipe: Recipe, teacher: Path | None, device: torch.device) -> Trainer:
    """Return a trainer on a pack.

    teacher: YuNet's ONNX file.
    """
    composer = Composer(Bank(examples(read_pack(pack)), FACE, device), fast=device.type == "cuda")
    return Trainer(recipe, composer, YuNet(teacher) if teacher else None)


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    options, recipe, device = loop.read_options("train the face detector", Recipe, arguments)
    loop.train(trainer(options.pack, recipe, options.teacher, device), options.out, options.minutes)


if __name__ == "__main__":
    main()
