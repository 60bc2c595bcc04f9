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
from palmkit.models.face_mesh.train import MeshTrainer, importance, mesh_loss
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

# How close the crops are to unmodified pictures, 0..1.
EASE = 1.0


class QuantizedMesh(nn.Module):
    """A network from RGB 0..1 to mesh, visibility and presence, computed by levels."""

    def __init__(self, levels: FakeQuantized) -> None:
        """Wrap the levels of the shipped graph."""
        super().__init__()
        self.levels = levels
        graph = levels.graph
        self.wanted = ("points", logits_of(graph, "visibility"), logits_of(graph, "presence"))

    def forward(self, x: Tensor) -> Prediction:
        """Predict from float32[n, 3, size, size]."""
        found = self.levels({"image": as_inputs(x)}, self.wanted)
        points, visibility, presence = (found[name] for name in self.wanted)
        return Prediction(points, visibility, presence.flatten())


class QuantizedMeshTrainer(MeshTrainer):
    """Trains with the recipe's batches and loss."""

    def __init__(self, recipe: QuantizedRecipe, bank: Bank, network: QuantizedMesh) -> None:
        """Set up the training.

        network: with calibrated ranges.
        """
        torch.manual_seed(recipe.seed)
        Trainer.__init__(self, recipe, network, bank.device)
        # The levels are float32, exact; bfloat16 is not.
        self.fast = False
        self.composer = Composer(bank, network.levels.graph.inputs["image"].dims[1])
        self.weight = importance(bank.device)
        self.teacher = QuantizedMesh(network.levels.float_network())

    @property
    def progress(self) -> float:
        """Return the finished share of the steps or of the time, whichever is larger, 0..1."""
        return min(max(self.step / self.recipe.steps, self.spent), 1.0)

    def loss(self) -> tuple[Tensor, Tensor]:
        """Return the loss of one batch."""
        with torch.no_grad():
            batch: Batch = self.composer.compose(self.recipe.batch, EASE)
            batch = taught(batch, self.teacher(batch.images))
        return mesh_loss(self.network(batch.images), batch, self.weight)


def taught(batch: Batch, word: Prediction) -> Batch:
    """Return a batch with the float network's outputs in place of the labels."""
    return batch._replace(
        points=word.points, visibility=word.visibility.sigmoid(), trust=torch.ones_like(batch.trust)
    )


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
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
