"""Trains the network that finds people in a picture, so that a kit can look closer there.

`python -m palmkit.models.segmentation.finder PACK OUT --teacher TEACHER.npz --guide GUIDE.pt`: it
sees the whole picture, smaller than the portrait network does, and draws a mask of half that side;
the guide teaches it. Resumes from OUT/checkpoint.pt where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from palmkit.models.segmentation.compose import Batch, Composer
from palmkit.models.segmentation.dataset import Bank
from palmkit.models.segmentation.losses import mask_loss
from palmkit.models.segmentation.network import FINDER, FINDER_SIZE, SIZE, MaskNetwork
from palmkit.models.segmentation.train import MaskRecipe, MaskTrainer, begin, read_guide
from palmkit.models.training.loop import read_options, train
from palmkit.models.training.pixels import drawn_rows, uniform

# Share of the compositions set small on a scene without anybody; their side, of the scene's. Share
# of those with someone more in front.
FAR, SHRUNK = 0.3, (0.3, 0.9)
MORE = 0.35


class FinderTrainer(MaskTrainer):
    """Trains on the guide's output and the known masks, in pictures seen whole."""

    def __init__(
        self, recipe: MaskRecipe, bank: Bank, device: torch.device, guide: nn.Module
    ) -> None:
        """Set up the training; `guide` as in MaskTrainer."""
        super().__init__(recipe, bank, device, guide, MaskNetwork(FINDER))
        self.composer = Composer(bank, recipe.task, SIZE, close=0.0, crowded=MORE)

    def drawn(self) -> Batch:
        """Return fresh compositions, some of them far away."""
        batch = super().drawn()
        count, device = len(batch.images), batch.images.device
        scene = self.composer.scene(drawn_rows(self.composer.bank.empty_weights, count))
        side = uniform(*SHRUNK, count, 1, device=device)
        room = uniform(-1, 1, count, 2, device=device) * (1 - side)
        matrix = torch.cat([torch.diag_embed(1 / side.expand(-1, 2)), -(room / side)[..., None]], 2)
        grid = functional.affine_grid(matrix, list(batch.images.shape), align_corners=False)
        within = (grid.abs() <= 1).all(dim=3)[:, None]
        small = [functional.grid_sample(each, grid, align_corners=False) for each in batch]
        chosen = torch.rand(count, 1, 1, 1, device=device) < FAR
        far = (
            torch.where(within, small[0], scene),
            small[1] * within,
            torch.where(within, small[2], 1.0),
        )
        return Batch(*(torch.where(chosen, a, b) for a, b in zip(far, batch, strict=True)))

    def loss(self) -> tuple[Tensor, Tensor]:
        """Return the loss of a fresh batch, at the size of the mask, and its parts."""
        images, target, weight = self.compose()
        maps = self.look(images)
        size = maps.logits.shape[-2:]
        small = [
            functional.interpolate(each, size, mode="area") for each in (target * weight, weight)
        ]
        mean = small[0] / small[1].clamp(min=1e-3)
        return mask_loss(maps.logits.float(), maps.coarse.float(), mean.clamp(0, 1), small[1])

    def seen(self, images: Tensor) -> Tensor:
        """Shrink pictures as the kit does."""
        size = (FINDER_SIZE, FINDER_SIZE)
        return functional.interpolate(
            super().seen(images), size, mode="bilinear", antialias=True, align_corners=False
        )


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    options, recipe, device = read_options("train the finder", MaskRecipe, arguments)
    guide = read_guide(options.teacher, recipe.guide)
    if guide is None:
        raise SystemExit("--teacher, --guide: expected both files")
    bank = Bank(options.pack, recipe.task, device)
    trainer = FinderTrainer(recipe, bank, device, guide)
    begin(trainer, bank)
    train(trainer, options.out, options.minutes)


if __name__ == "__main__":
    main()
