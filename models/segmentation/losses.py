"""The loss of a mask: every pixel, the whole, its edge, and the outline."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

# Names of a loss's parts in logs.
PARTS = ("pixels", "overlap", "coarse", "outline")
EDGE_WEIGHT = 4.0
OUTLINE_WEIGHT = 0.25
# How far apart outlines may lie, in pixels; how long one is that does not matter.
OUTLINE_REACH, OUTLINE_LEAST = 2, 20.0


def edge_band(target: Tensor, reach: int) -> Tensor:
    """Return float32, 1 within `reach` pixels of the target's edge, else 0."""
    size = 2 * reach + 1
    most = functional.max_pool2d(target, size, 1, reach)
    least = -functional.max_pool2d(-target, size, 1, reach)
    return ((most > 0.5) & (least < 0.5)).float()


def outline_loss(probability: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Return one minus the soft F-score of the outlines, float32[]; each is float32[n, 1, h, w].

    After Bokhovkin and Burnaev (Boundary loss for remote sensing imagery, 2019).
    """

    def outline(mask: Tensor) -> Tensor:
        outside = 1 - mask
        return (functional.max_pool2d(outside, 3, 1, 1) - outside) * weight

    def near(line: Tensor) -> Tensor:
        return functional.max_pool2d(line, 2 * OUTLINE_REACH + 1, 1, OUTLINE_REACH)

    def share(line: Tensor, found: Tensor) -> Tensor:
        known = (line * found).sum(dim=(1, 2, 3))
        return (known + OUTLINE_LEAST) / (line.sum(dim=(1, 2, 3)) + OUTLINE_LEAST)

    ours, true = outline(probability), outline(target)
    precision, recall = share(ours, near(true)), share(true, near(ours))
    return 1 - (2 * precision * recall / (precision + recall)).mean()


def mask_loss(
    logits: Tensor, coarse: Tensor, target: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the loss, and its parts: pixels, overlap, coarse, outline.

    logits, target, weight: float32[n, 1, h, w]; coarse: float32[n, 1, h / 8, w / 8]. The edge's
    pixels count more; the overlap is one minus the soft intersection over union of each picture.
    """
    pixel = functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    band = weight * (1 + EDGE_WEIGHT * edge_band(target, 3))
    pixels = (pixel * band).sum() / band.sum().clamp(min=1)

    plain = logits.sigmoid()
    probability = plain * weight
    wanted = target * weight
    both = (probability * target).sum(dim=(1, 2, 3))
    either = (probability + wanted).sum(dim=(1, 2, 3)) - both
    smooth = 0.002 * target[0].numel()
    overlap = (1 - (both + smooth) / (either + smooth)).mean()

    factor = target.shape[-1] // coarse.shape[-1]
    small_weight = functional.avg_pool2d(weight, factor)
    small = functional.avg_pool2d(target * weight, factor) / small_weight.clamp(min=1e-3)
    guess = functional.binary_cross_entropy_with_logits(coarse, small.clamp(0, 1), reduction="none")
    rough = (guess * small_weight).sum() / small_weight.sum().clamp(min=1)
    outline = outline_loss(plain, target, weight)
    total = pixels + 0.7 * overlap + 0.3 * rough + OUTLINE_WEIGHT * outline
    return total, torch.stack([pixels, overlap, rough, outline]).detach()
