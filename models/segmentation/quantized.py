"""Train a shipped mask network on in the arithmetic of integers, so that it ships as int8.

`python -m palmkit.models.segmentation.quantized PACK MODEL OUT` goes on from
OUT/checkpoint.pt where there is one and writes the int8 model under MODEL's name. The float network
teaches: its mask and the known one count by halves where there is one, its own elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from palmkit.models.segmentation.compose import Batch, Composer, roughen
from palmkit.models.segmentation.dataset import Bank
from palmkit.models.segmentation.losses import PARTS, mask_loss
from palmkit.models.segmentation.network import SIZE
from palmkit.models.training.fake_quant import FakeQuantized
from palmkit.models.training.loop import Trainer
from palmkit.models.training.quantized import (
    QuantizedRecipe,
    as_inputs,
    finish,
    logits_of,
    read_quantized_options,
    start,
)

# What a set's mask counts beside the float network's; what that counts where it is alone.
TRUTH, UNKNOWN_WEIGHT = 0.5, 0.6
EASE = 0.7


class QuantizedMask(nn.Module):
    """A network from RGB 0..1 to one logit a pixel, computed by levels."""

    def __init__(self, levels: FakeQuantized) -> None:
        """Wrap the levels of the shipped graph."""
        super().__init__()
        self.levels = levels
        self.wanted = logits_of(levels.graph, "mask")

    def forward(self, x: Tensor) -> Tensor:
        """Map float32[n, 3, size, size] to float32[n, 1, size, size]."""
        found: Tensor = self.levels({"image": as_inputs(x)}, [self.wanted])[self.wanted]
        return found


class QuantizedMaskTrainer(Trainer):
    """Trains with the recipe's compositions and loss, and the float network's output."""

    network: QuantizedMask
    parts: ClassVar[tuple[str, ...]] = PARTS

    def __init__(
        self, recipe: QuantizedRecipe, task: str, bank: Bank, network: QuantizedMask
    ) -> None:
        """Set up the training.

        network: with calibrated ranges.
        """
        torch.manual_seed(recipe.seed)
        super().__init__(recipe, network, bank.device)
        self.composer = Composer(bank, task, SIZE)
        self.ease = torch.full((), EASE, device=bank.device)
        self.teacher = network.levels.float_network()

    def loss(self) -> tuple[Tensor, Tensor]:
        """Return the loss of a fresh batch, and its parts."""
        with torch.no_grad():
            batch = self.draw()
        return self.judge(*batch)

    def draw(self) -> Batch:
        """Return compositions as the network sees them, with their targets."""
        images, target, weight = self.composer.compose(self.recipe.batch, self.ease)
        images = roughen(images, self.ease)
        word = self.teacher({"image": as_inputs(images)}, [self.network.wanted])
        target = torch.lerp(word[self.network.wanted].sigmoid(), target, TRUTH * weight)
        return Batch(images, target, weight.clamp(min=UNKNOWN_WEIGHT))

    def judge(self, images: Tensor, target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch, and its parts."""
        logits = self.network(images)
        return mask_loss(logits, functional.avg_pool2d(logits, 8), target, weight)


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    options, recipe, device = read_quantized_options("train a mask network as int8", arguments)
    task = options.model.stem
    bank = Bank(options.pack, task, device)
    ease = torch.full((), EASE, device=device)

    def draw(count: int) -> Tensor:
        return Composer(bank, task, SIZE).compose(count, ease).images

    network = QuantizedMask(start(options, draw))
    trainer = QuantizedMaskTrainer(recipe, task, bank, network)
    averaged = trainer.averaged
    assert isinstance(averaged, QuantizedMask)
    print(finish(trainer, averaged.levels, options))


if __name__ == "__main__":
    main()
