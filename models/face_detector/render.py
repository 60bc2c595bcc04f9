"""Draw compositions from the bank's pixels, and disturb them as cameras and files do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

GRID, PASTES = 4, 6


class Source(NamedTuple):
    """Per slot: int32 first pixel, float32 width and height, float32[..., 6] inverse affine."""

    offset: Tensor
    width: Tensor
    height: Tensor
    affine: Tensor


def fetch(pixels: Tensor, source: Source, x: Tensor, y: Tensor, mirrored: bool) -> Tensor:
    """Bilinear RGB 0..1 at float32[n, h, w] source positions; float32[n, 3, h, w]."""
    if mirrored:
        x = source.width - (x.abs() % (2 * source.width) - source.width).abs()
        y = source.height - (y.abs() % (2 * source.height) - source.height).abs()
    x, y = x - 0.5, y - 0.5
    left, top = x.floor(), y.floor()
    right_share, low_share = (x - left)[:, None], (y - top)[:, None]
    columns = [(left + step).clamp(min=0).minimum(source.width - 1).int() for step in (0, 1)]
    rows = [(top + step).clamp(min=0).minimum(source.height - 1).int() for step in (0, 1)]
    width = source.width.int()

    def tap(row: Tensor, column: Tensor) -> Tensor:
        word = pixels[source.offset + row * width + column]
        channels = (word & 255, (word >> 8) & 255, (word >> 16) & 255)
        return torch.stack(channels, dim=1).float()

    upper = torch.lerp(tap(rows[0], columns[0]), tap(rows[0], columns[1]), right_share)
    lower = torch.lerp(tap(rows[1], columns[0]), tap(rows[1], columns[1]), right_share)
    return torch.lerp(upper, lower, low_share) / 255


def pick(source: Source, slot: Tensor) -> Source:
    """The slot of each pixel: int64[n, h, w] into n rows of slots."""
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


def source_positions(affine: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Composition positions to source positions by float32[..., 6]."""
    return (
        affine[..., 0] * x + affine[..., 1] * y + affine[..., 2],
        affine[..., 3] * x + affine[..., 4] * y + affine[..., 5],
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


QUANTISATION = (
    *(16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55),
    *(14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62),
    *(18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92),
    *(49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99),
)


def compress(images: Tensor, strength: Tensor) -> Tensor:
    """Loss as of JPEG: 8x8 cosine blocks of float32[n, 3, h, w] rounded to `strength` steps.

    strength: float32[n], the factor of the standard luminance table; 0 leaves the picture.
    """
    index = torch.arange(8, device=images.device, dtype=torch.float32)
    basis = torch.cos((2 * index[None, :] + 1) * index[:, None] * (np.pi / 16)) / 2
    basis = torch.cat([basis[:1] / 2**0.5, basis[1:]])
    weights = torch.tensor(
        [[0.299, 0.587, 0.114], [-0.169, -0.331, 0.5], [0.5, -0.419, -0.081]], device=images.device
    )
    luma = torch.einsum("ck,nkhw->nchw", weights, images) * 255
    count, _, height, width = images.shape
    blocks = luma.reshape(count, 3, height // 8, 8, width // 8, 8)
    waves = torch.einsum("ia,ncyaxb,jb->ncyixj", basis, blocks, basis)
    table = torch.tensor(QUANTISATION, device=images.device, dtype=torch.float32).reshape(8, 8)
    steps = table[None, None, None, :, None, :] * strength[:, None, None, None, None, None]
    steps = steps.clamp(min=1e-3)
    waves = (waves / steps).round() * steps
    back = torch.einsum("ia,ncyixj,jb->ncyaxb", basis, waves, basis).reshape(luma.shape)
    colours = torch.linalg.inv(weights)
    decoded = torch.einsum("ck,nkhw->nchw", colours, back) / 255
    return torch.where(strength[:, None, None, None] > 0, decoded, images)


def disturb(images: Tensor, chance: Mapping[str, Tensor]) -> Tensor:
    """Colour, light, noise, and compression of the first half of the batch.

    Each entry of `chance` is float32[n] or float32[n, 3].
    """
    shape = (-1, 1, 1, 1)
    grey = torch.einsum(
        "k,nkhw->nhw", torch.tensor([0.299, 0.587, 0.114], device=images.device), images
    )[:, None]
    images = torch.lerp(grey, images, chance["saturation"].reshape(shape))
    images = images * chance["gain"][:, :, None, None]
    images = (images - 0.5) * chance["contrast"].reshape(shape) + 0.5
    images = (images + chance["brightness"].reshape(shape)).clamp(1e-3, 1)
    images = images ** chance["gamma"].reshape(shape)
    images = images + torch.randn_like(images) * chance["noise"].reshape(shape)
    part = max(1, len(images) // 2)
    lossy = compress(images[:part], chance["compression"][:part])
    return torch.cat([lossy, images[part:]]).clamp(0, 1)
