"""Compositions as albums have them: turned, between bars, on a page, beside other pictures.

A guide is asked before, of pictures as they are: it may never have seen such ones, and what is
known of a picture is known of it wherever it goes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from palmkit.models.segmentation.compose import Batch
from palmkit.models.training.pixels import enlarged, uniform

# Share of the compositions that are turned; of these, those turned by so many degrees at most, as a
# camera or a head may be held; the others lie on their side or stand on their head. How much of the
# width is seen then.
TURNED, SLIGHTLY, TURN, SEEN = 0.14, 0.8, 50.0, (0.8, 1.15)
# Share that are smaller, among something else, and how wide and high they are then; of these, those
# that keep their width or height, as between bars.
FRAMED, SHARE, BETWEEN = 0.12, (0.4, 0.9), 0.6
# What is round them: shares of another picture, of their own, blurred by so many pixels, and of one
# colour, of that black or white.
BESIDE, OWN, BLUR, PLAIN = 0.35, 0.2, 16, 0.35


def arranged(batch: Batch) -> Batch:
    """Return the batch with some compositions turned, some smaller among something else.

    Where nothing is but bars or a page nobody is. They are the first ones of the batch, so its
    order has to be random; the sides are multiples of 16 pixels.
    """
    count = len(batch.images)
    turns, frames = round(TURNED * count), round(FRAMED * count)
    parts = (slice(turns), slice(turns, turns + frames), slice(turns + frames, None))
    first, second, rest = (Batch(*(each[part] for each in batch)) for part in parts)
    other = Batch(*(each.roll(1, 0)[parts[1]] for each in batch))
    pieces = (turned(first), framed(second, other), rest)
    return Batch(*(torch.cat(each) for each in zip(*pieces, strict=True)))


def turned(batch: Batch) -> Batch:
    """Turn compositions about their middles, mirrored past their edges."""
    count, device = len(batch.images), batch.images.device
    half = torch.where(torch.rand(count, device=device) < SLIGHTLY, TURN / 180 * math.pi, math.pi)
    angle = half * uniform(-1.0, 1.0, count, device=device)
    seen = uniform(*SEEN, count, device=device)
    cos, sin = seen * angle.cos(), seen * angle.sin()
    nothing = torch.zeros_like(cos)
    rows = torch.stack([cos, -sin, nothing]), torch.stack([sin, cos, nothing])
    return Batch(
        *moved(batch, torch.stack(rows).permute(2, 0, 1), "reflection").split([3, 1, 1], 1)
    )


def framed(batch: Batch, other: Batch) -> Batch:
    """Make compositions smaller and set them among something else; other: other pictures."""
    count, device = len(batch.images), batch.images.device
    share = uniform(*SHARE, count, 2, device=device)
    whole = torch.rand(count, device=device)[:, None] < BETWEEN
    # One of the two, drawn for each.
    kept = functional.one_hot((torch.rand(count, device=device) < 0.5).long(), 2).bool()
    share = torch.where(whole & kept, 1.0, share)
    middle = (1 - share) * uniform(-1.0, 1.0, count, 2, device=device)
    rows = torch.diag_embed(1 / share), (-middle / share)[:, :, None]
    # Drawn twice as large, and halved, so that fine stripes do not become coarse ones.
    large = Batch(*(enlarged(each, 2) for each in batch))
    drawn = functional.avg_pool2d(moved(large, torch.cat(rows, 2), "border"), 2)
    place = torch.linspace(-1, 1, batch.images.shape[-1], device=device)
    inside = (place - middle[:, :, None]).abs() <= share[:, :, None]
    inner = (inside[:, 0, None, :] & inside[:, 1, :, None])[:, None]

    blurred = enlarged(functional.avg_pool2d(batch.images, BLUR), BLUR)
    level, colour = (
        torch.rand(count, 1, 1, 1, device=device),
        torch.rand(count, 3, 1, 1, device=device),
    )
    colour = torch.where(level < 2 * PLAIN, (level < PLAIN).float(), colour)
    which = torch.rand(count, 1, 1, 1, device=device)
    around = torch.where(which < BESIDE + OWN, blurred, colour)
    nobody = torch.zeros_like(batch.target)
    bars = torch.cat([around, nobody, nobody + 1], 1)
    outer = torch.where(which < BESIDE, torch.cat(other, 1), bars)
    return Batch(*torch.where(inner, drawn, outer).split([3, 1, 1], 1))


def moved(batch: Batch, matrix: Tensor, beyond: str) -> Tensor:
    """Return images, targets and weights, float32[n, 5, h, w], each place from where it points.

    matrix: float32[n, 2, 3], from places -1..1 of the result to those of the batch. beyond: as
    `padding_mode` of torch.nn.functional.grid_sample.
    """
    every = torch.cat(batch, 1)
    grid = functional.affine_grid(matrix, list(every.shape), align_corners=False)
    return functional.grid_sample(every, grid, padding_mode=beyond, align_corners=False)
