"""Train the shipped face mesh on in the arithmetic of integers, so that it ships as int8.

The float network teaches: its last layers were fitted to pictures as they are (refit), which the
labels of bent and disturbed faces would undo.

`python -m palmkit.models.face_mesh.quantized PACK MODEL OUT` goes on from OUT/checkpoint.pt where
there is one and writes OUT/face_mesh.palm.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from palmkit.models.face_mesh.compose import Bank, Batch, Composer
from palmkit.models.face_mesh.network import Prediction
from palmkit.models.face_mesh.train import MeshTrainer, importance
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

# How near to pictures as they are the crops are drawn, 0..1.
EASE = 1.0


class QuantizedMesh(nn.Module):
    """RGB 0..1 to mesh, visibility and presence, by levels."""

    def __init__(self, levels: FakeQuantized) -> None:
        """levels: of the shipped graph."""
        super().__init__()
        self.levels = levels
        graph = levels.graph
        self.wanted = ("points", logits_of(graph, "visibility"), logits_of(graph, "presence"))

    def forward(self, x: Tensor) -> Prediction:
        """float32[n, 3, size, size]."""
        found = self.levels({"image": as_inputs(x)}, self.wanted)
        points, visibility, presence = (found[name] for name in self.wanted)
        return Prediction(points, visibility, presence.flatten())


class QuantizedMeshTrainer(MeshTrainer):
    """The recipe's batches and loss."""

    def __init__(self, recipe: QuantizedRecipe, bank: Bank, network: QuantizedMesh) -> None:
        """network: with calibrated ranges."""
        torch.manual_seed(recipe.seed)
        Trainer.__init__(self, recipe, network, bank.device)
        # The levels are float32, exact; bfloat16 is not.
        self.fast = False
        self.composer = Composer(bank, network.levels.graph.inputs["image"].dims[1])
        self.weight = importance(bank.device)
        self.teacher = QuantizedMesh(network.levels.float_network())

    @property
    def progress(self) -> float:
        """Share of the steps or of the time that is over, the larger, 0..1."""
        return min(max(self.step / self.recipe.steps, self.spent), 1.0)

    def loss(self) -> tuple[Tensor, Tensor]:
        """One batch."""
        with torch.no_grad():
            batch: Batch = self.composer.compose(self.recipe.batch, EASE)
            batch = taught(batch, self.teacher(batch.images))
        return self.forward(batch)


def taught(batch: Batch, word: Prediction) -> Batch:
    """A batch with the float network's word in place of the labels."""
    return batch._replace(
        points=word.points, visibility=word.visibility.sigmoid(), trust=torch.ones_like(batch.trust)
    )


def main(arguments: Iterable[str] | None = None) -> None:
    """Command line."""
    options, recipe, device = read_quantized_options("train the face mesh as int8", arguments)
    bank = Bank(options.pack, device)
    size = 160

    def draw(count: int) -> Tensor:
        return Composer(bank, size).compose(count, EASE).images

    trainer = QuantizedMeshTrainer(recipe, bank, QuantizedMesh(start(options, draw)))
    averaged = trainer.averaged
    assert isinstance(averaged, QuantizedMesh)
    print(finish(trainer, averaged.levels, options))


if __name__ == "__main__":
    main()
