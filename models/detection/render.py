"""Drawing compositions from the bank's pixels."""

from __future__ import annotations

import torch
from torch import Tensor

from palmkit.models.training.pixels import Source, fetch, source_positions

GRID, PASTES = 4, 6


def pick(source: Source, slot: Tensor) -> Source:
    """Select the slot of each pixel: int64[n, h, w] into n rows of slots."""
    flat = slot.flatten(1)
    shape = slot.shape
    affine = torch.stack(
        [source.affine[..., k].gather(1, flat).reshape(shape) for k in range(6)], dim=-1
    )
    return Source(
        source.offset.gather(1, flat).reshape(shape),
        source.width.gather(1, flat).reshape(shape),
        source.height.gather(1, flat).reshape(shape),
        affine,
    )


def render(
    pixels: Tensor,
    size: int,
    lines: Tensor,
    cells: Source,
    fill: Source,
    colour: Tensor,
    pastes: Source,
    ellipses: Tensor,
) -> Tensor:
    """Draw the compositions: a fill, the cells over it, the pasted ellipses over them.

    lines: float32[n, 2, GRID - 1] inner borders, x then y; colour: float32[n, 3], negative
    where the fill is a picture; ellipses: float32[n, PASTES, 5], centre and radii in the
    source and softness, radii zero where unused.
    """
    position = torch.arange(size, device=pixels.device) + 0.5
    x = position[None, None, :].expand(lines.shape[0], size, size)
    y = position[None, :, None].expand(lines.shape[0], size, size)
    column = (position[None, None] >= lines[:, 0, :, None]).sum(dim=1)
    row = (position[None, None] >= lines[:, 1, :, None]).sum(dim=1)
    slot = row[:, :, None] * GRID + column[:, None, :]

    behind = pick(fill, torch.zeros_like(slot))
    canvas = fetch(pixels, behind, *source_positions(behind.affine, x, y), mirrored=True)
    plain = colour[:, :, None, None]
    canvas = torch.where(plain >= 0, plain, canvas)

    cell = pick(cells, slot)
    source_x, source_y = source_positions(cell.affine, x, y)
    inside = (source_x > 0) & (source_y > 0)
    inside &= (source_x < cell.width) & (source_y < cell.height)
    drawn = fetch(pixels, cell, source_x, source_y, mirrored=False)
    canvas = torch.where(inside[:, None], drawn, canvas)

    top = torch.zeros_like(slot)
    alpha = torch.zeros_like(x)
    for index in range(PASTES):
        paste = pastes.affine[:, index, None, None]
        over_x, over_y = source_positions(paste, x, y)
        ellipse = ellipses[:, index, None, None]
        distance = ((over_x - ellipse[..., 0]) / ellipse[..., 2].clamp(min=1e-3)) ** 2
        distance = distance + ((over_y - ellipse[..., 1]) / ellipse[..., 3].clamp(min=1e-3)) ** 2
        here = (distance < 1) & (ellipse[..., 2] > 0)
        top = torch.where(here, index, top)
        share = ((1 - distance) * ellipse[..., 4]).clamp(0, 1)
        alpha = torch.where(here, share, alpha)
    paste_source = pick(pastes, top)
    pasted = fetch(
        pixels, paste_source, *source_positions(paste_source.affine, x, y), mirrored=False
    )
    return torch.lerp(canvas, pasted, alpha[:, None])
