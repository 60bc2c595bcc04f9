"""Train the face mesh.

`python -m palmkit.models.face_mesh.train PACK OUT` goes on from OUT/checkpoint.pt where there is
one; `--start` is a .palm of which only the weights are taken. `--network best` is the larger
network, which grows out of face_mesh, or goes on from a file of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from palmkit.engine import convert
from palmkit.kits.face.topology import POINTS
from palmkit.models.face_mesh.compose import Bank, Batch, Composer
from palmkit.models.face_mesh.indexes import (
    EYE_CONTOUR,
    LEFT_EYE,
    LEFT_IRIS,
    LIPS,
    RIGHT_EYE,
    RIGHT_IRIS,
)
from palmkit.models.face_mesh.network import (
    MARKS,
    SIZE,
    SIZES,
    FaceMesh,
    Prediction,
    places,
)
from palmkit.models.training.loop import Recipe, Trainer, read_options, train
from palmkit.models.training.start import start_from

# The usual distance of the eyes in a teacher's crop, in its sides: the unit of errors.
EYE_DISTANCE = 0.27
# Of the target of a mark's map, in cells of the map.
BLUR = 0.7
# How many crops normalisations take their statistics from.
SAMPLE = 384
# Points whose distance tells whether an eye or the mouth is open.
OPENINGS = ((159, 145), (158, 153), (160, 144), (386, 374), (385, 380), (387, 373), (13, 14))


@dataclass(frozen=True)
class MeshRecipe(Recipe):
    """Hyperparameters of the training.

    network: of SIZES. start: a model file, or nothing.
    """

    steps: int = 60_000
    batch: int = 384
    learning_rate: float = 3e-3
    weight_decay: float = 0.02
    warm_up: int = 500
    average: float = 0.999
    seed: int = 1
    network: str = "fast"
    size: int = SIZE
    # From this share of the training on, more and more pictures are drawn nearly as they are.
    ease_from: float = 0.6
    start: str = ""


def importance(device: torch.device) -> Tensor:
    """Return the weights of the points, float32[478], mean 1."""
    weight = torch.ones(POINTS)
    weight[[*LIPS, *RIGHT_EYE, *LEFT_EYE]] = 1.5
    weight[[*RIGHT_EYE[:EYE_CONTOUR], *LEFT_EYE[:EYE_CONTOUR], *RIGHT_IRIS, *LEFT_IRIS]] = 2.5
    weight[[*RIGHT_IRIS, *LEFT_IRIS]] = 4.0
    return (weight / weight.mean()).to(device)


def mesh_loss(found: Prediction, batch: Batch, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weighted sum of the losses, and its parts.

    They are: flat distance over the eyes' (the metric), log-curved distance, depth, openings,
    visibility, presence, and what finds marks.
    """
    unit = EYE_DISTANCE * batch.scale[:, None]
    trusted = batch.trust * batch.is_face[:, None]
    weights = weight * trusted
    total = weights.sum().clamp(min=1)
    apart = (found.points - batch.points) / unit[..., None]
    flat = (apart[..., :2].square().sum(dim=-1) + 1e-8).sqrt()
    mean = (flat * weights).sum() / total
    # As Wing loss (Feng et al., 2018): small errors count more than in proportion.
    curved = (0.05 * torch.log1p(flat / 0.02) * weights).sum() / total
    depth = (apart[..., 2].abs() * trusted).sum() / trusted.sum().clamp(min=1)
    upper, lower = ([pair[side] for pair in OPENINGS] for side in (0, 1))
    gap = apart[:, upper, 1] - apart[:, lower, 1]
    sure = trusted[:, upper] * batch.visibility[:, upper]
    openings = (gap.abs() * sure).sum() / sure.sum().clamp(min=1)
    entropy = functional.binary_cross_entropy_with_logits(
        found.visibility, batch.visibility, reduction="none"
    )
    seen = (entropy * batch.is_face[:, None]).sum() / (batch.is_face.sum() * POINTS).clamp(min=1)
    presence = functional.binary_cross_entropy_with_logits(found.presence, batch.is_face)
    marks = mean.new_zeros(())
    if found.heat is not None:
        marks = mark_loss(found.heat, batch, unit, weights)
    loss = mean + curved + 0.3 * depth + 0.6 * openings + 0.03 * seen + 0.05 * presence + marks
    with torch.no_grad():
        metric = (flat.mean(dim=1) * batch.is_face).sum() / batch.is_face.sum().clamp(min=1)
    return loss, torch.stack([metric, mean, depth, openings, seen, presence, marks]).detach()


def mark_loss(heat: Tensor, batch: Batch, unit: Tensor, weights: Tensor) -> Tensor:
    """Return how far MARKS are seen from where they are, and how unlikely their places are.

    heat: float32[n, k, s, s], logits. unit: float32[n, 1], the distance of the eyes. weights:
    float32[n, 478], of the points.
    """
    true = batch.points[:, list(MARKS), :2]
    inside = ((true > 0) & (true < 1)).all(dim=-1)
    counted = weights[:, list(MARKS)] * inside
    total = counted.sum().clamp(min=1)
    apart = ((places(heat) - true).square().sum(dim=-1) + 1e-8).sqrt() / unit
    side = heat.shape[-1]
    step = (torch.arange(side, device=heat.device) + 0.5) / side
    near = torch.softmax(-((step - true[..., None]) * side / BLUR).square() / 2, dim=-1)
    likely = heat.flatten(2).log_softmax(dim=-1).reshape(heat.shape)
    across, along = near.unbind(dim=2)
    unlikely = -torch.einsum("nkyx,nky,nkx->nk", likely, along, across)
    return ((apart + 0.02 * unlikely) * counted).sum() / total


class MeshTrainer(Trainer):
    """Trains on batches of the composer with `mesh_loss`."""

    parts: ClassVar[tuple[str, ...]] = (
        *("error", "points", "depth", "open", "seen", "presence", "marks"),
    )

    def __init__(self, recipe: MeshRecipe, bank: Bank, minutes: float) -> None:
        """Start from the mean mesh; the learning rate falls to its end within `minutes`."""
        self.ease_from = recipe.ease_from
        self.started, self.limit_s = time.monotonic(), 60 * minutes
        torch.manual_seed(recipe.seed)
        network = self.mesh = FaceMesh(recipe.size, SIZES[recipe.network])
        network.set_mean(bank.mean.cpu())
        super().__init__(recipe, network, bank.device)
        self.composer = Composer(bank, recipe.size, self.fast)
        if recipe.start:
            seen = self.composer.compose(SAMPLE, 1.0).images
            graph = convert(recipe.start)
            grow = recipe.network != "fast" and graph.metadata["name"] == "face_mesh"
            added = tuple(network.finder.modules()) if grow and network.finder else ()
            start_from(network, graph, seen, 255, added, grow)
            self.averaged.load_state_dict(network.state_dict())
        self.weight = importance(bank.device)
        self.judge = torch.compile(self.forward, dynamic=False) if self.fast else self.forward

    @property
    def progress(self) -> float:
        """Return the finished share of the steps or of the time, whichever is larger, 0..1."""
        passed = (time.monotonic() - self.started) / self.limit_s
        return min(max(self.step / self.recipe.steps, passed), 1.0)

    def loss(self) -> tuple[Tensor, Tensor]:
        """Return the loss of one batch."""
        ease = min(max((self.progress - self.ease_from) / max(1 - self.ease_from, 0.01), 0.0), 1.0)
        return self.judge(self.composer.compose(self.recipe.batch, ease))

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the loss, and its parts."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.fast):
            code, heat = self.mesh.features(batch.images)
        # Half as precise, points would be off by a hundredth of the eyes' distance.
        found = self.mesh.read(code.float(), None if heat is None else heat.float())
        return mesh_loss(found, batch, self.weight)


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    options, recipe, device = read_options("train the face mesh", MeshRecipe, arguments)
    trainer = MeshTrainer(recipe, Bank(options.pack, device), options.minutes)
    train(trainer, options.out, options.minutes)


if __name__ == "__main__":
    main()
