"""Training pictures on the device: all in one tensor, drawn by affine maps, disturbed.

A picture and its halves lie in one int32 tensor (0xBBGGRR a pixel), so that any number of them,
of any sizes, are drawn at once and without aliasing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

LEVELS = 5
# Pixels on each side that a blurred pixel is made of.
BLUR_REACH = 5


class Source(NamedTuple):
    """Sources of slots.

    Per slot: int32 first pixel, float32 width and height, float32[..., 6] inverse affine.
    """

    offset: Tensor
    width: Tensor
    height: Tensor
    affine: Tensor


class Pixels:
    """Pictures with their half-size levels.

    pixels: int32[all]; offsets: int32[n, LEVELS]; sizes: float32[n, LEVELS, 2] of w, h.
    """

    def __init__(
        self, pictures: Sequence[np.ndarray[Any, np.dtype[np.uint8]]], device: torch.device
    ) -> None:
        """Copy the pictures, uint8[h, w, 3] RGB, to `device`."""
        count = len(pictures)
        offsets = np.zeros((count, LEVELS), np.int64)
        sizes = np.zeros((count, LEVELS, 2), np.int64)
        chunks: list[np.ndarray[Any, np.dtype[np.int32]]] = []
        total = 0
        with ThreadPoolExecutor(16) as pool:
            for row, words_by_level in enumerate(pool.map(half_sizes, pictures)):
                for level, words in enumerate(words_by_level):
                    offsets[row, level] = total
                    sizes[row, level] = words.shape[::-1]
                    chunks.append(words.reshape(-1))
                    total += words.size
        self.device = device
        self.pixels = torch.from_numpy(np.concatenate(chunks)).to(device)
        self.offsets = torch.from_numpy(offsets).to(device, torch.int32)
        self.sizes = torch.from_numpy(sizes).to(device, torch.float32)

    def source(
        self, rows: Tensor, matrix: Tensor, origin: Tensor, target: Tensor
    ) -> tuple[Source, Tensor]:
        """Return what draws pictures `rows`[...] by out = matrix @ (source - origin) + target.

        Returns level and inverse affine, and that level's size ratio, float32[..., 2]. The level is
        the one that fits the scale, sometimes a sharper or softer one.
        """
        # Written out, as torch.linalg waits for the device.
        (a, b), (c, d) = (row.unbind(-1) for row in matrix.unbind(-2))
        determinant = a * d - b * c
        wanted = -0.5 * torch.log2(determinant.abs().clamp(min=1e-6))
        jitter = uniform(-0.4, 1.0, *wanted.shape, device=self.device)
        level = (wanted + jitter).floor().clamp(0, LEVELS - 1).long()
        sizes = self.sizes[rows]
        chosen = sizes.gather(-2, level[..., None, None].expand(*level.shape, 1, 2)).squeeze(-2)
        ratio = chosen / sizes[..., 0, :]
        adjugate = torch.stack([torch.stack([d, -b], -1), torch.stack([-c, a], -1)], -2)
        inverse = adjugate / determinant[..., None, None]
        shift = origin - torch.einsum("...ij,...j->...i", inverse, target)
        affine = torch.cat([inverse, shift[..., None]], dim=-1) * ratio[..., None]
        offset = self.offsets[rows].gather(-1, level[..., None]).squeeze(-1)
        return Source(offset, chosen[..., 0], chosen[..., 1], affine.flatten(-2)), ratio

    def draw(
        self, source: Source, size: int, mirrored: bool = False, black: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Draw square crops by Source[n].

        mirrored: continue past a picture's edge with its mirror image; else with black, or with the
        border's pixels where `black` is false.
        Returns float32[n, 3, size, size] 0..1 and bool[n, size, size], which pixels are inside.
        """
        position = torch.arange(size, device=self.device) + 0.5
        count = len(source.offset)
        spread = Source(
            source.offset[:, None, None],
            source.width[:, None, None],
            source.height[:, None, None],
            source.affine[:, None, None],
        )
        x, y = source_positions(
            spread.affine,
            position[None, None, :].expand(count, size, size),
            position[None, :, None].expand(count, size, size),
        )
        inside = (x > 0) & (y > 0) & (x < spread.width) & (y < spread.height)
        drawn = fetch(self.pixels, spread, x, y, mirrored)
        return (drawn * inside[:, None] if black and not mirrored else drawn), inside


def half_sizes(
    picture: np.ndarray[Any, np.dtype[np.uint8]],
) -> list[np.ndarray[Any, np.dtype[np.int32]]]:
    """Return the picture and its halves as int32[h, w] words."""
    image = Image.fromarray(picture)
    levels: list[np.ndarray[Any, np.dtype[np.int32]]] = []
    for level in range(LEVELS):
        if level:
            image = image.reduce(2)
        pixels = np.asarray(image).astype(np.int32)
        levels.append(pixels[..., 0] | (pixels[..., 1] << 8) | (pixels[..., 2] << 16))
    return levels


def cumulative(weights: np.ndarray[Any, np.dtype[np.float64]], device: torch.device) -> Tensor:
    """Return a running sum that ends at one; uniform where every weight is zero."""
    if weights.sum() == 0:
        weights = np.ones_like(weights)
    return torch.from_numpy(np.cumsum(weights / weights.sum())).to(device, torch.float32)


def drawn_rows(weights: Tensor, *shape: int) -> Tensor:
    """Return int64[shape] rows drawn by cumulative weights."""
    rows = torch.searchsorted(weights, torch.rand(*shape, device=weights.device))
    return rows.clamp(max=len(weights) - 1)


def uniform(low: float, high: float, *shape: int, device: torch.device) -> Tensor:
    """Return float32[shape], uniform between the bounds."""
    return torch.rand(*shape, device=device) * (high - low) + low


def log_uniform(low: float, high: float, *shape: int, device: torch.device) -> Tensor:
    """Return float32[shape] between the bounds, whose logarithms are uniform."""
    return uniform(math.log(low), math.log(high), *shape, device=device).exp()


def fetch(pixels: Tensor, source: Source, x: Tensor, y: Tensor, mirrored: bool) -> Tensor:
    """Return bilinear RGB 0..1 at float32[n, h, w] source positions; float32[n, 3, h, w]."""
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


def source_positions(affine: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Convert composition positions to source positions by float32[..., 6]."""
    return (
        affine[..., 0] * x + affine[..., 1] * y + affine[..., 2],
        affine[..., 3] * x + affine[..., 4] * y + affine[..., 5],
    )


QUANTISATION = (
    *(16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55),
    *(14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62),
    *(18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92),
    *(49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99),
)

LUMA_CHROMA = ((0.299, 0.587, 0.114), (-0.169, -0.331, 0.5), (0.5, -0.419, -0.081))
COLOURS: tuple[tuple[float, ...], ...] = tuple(
    tuple(row) for row in np.linalg.inv(np.asarray(LUMA_CHROMA)).tolist()
)


@lru_cache
def constant(values: tuple[Any, ...], device: torch.device) -> Tensor:
    """Return float32, copied to the device once: a recorded step cannot copy."""
    return torch.tensor(values, device=device, dtype=torch.float32)


def compress(images: Tensor, strength: Tensor) -> Tensor:
    """Imitate JPEG: 8x8 cosine blocks of float32[n, 3, h, w] rounded to `strength` steps.

    strength: float32[n], the factor of the standard luminance table; 0 leaves the picture.
    """
    index = torch.arange(8, device=images.device, dtype=torch.float32)
    basis = torch.cos((2 * index[None, :] + 1) * index[:, None] * (np.pi / 16)) / 2
    basis = torch.cat([basis[:1] / 2**0.5, basis[1:]])
    weights = constant(LUMA_CHROMA, images.device)
    luma = torch.einsum("ck,nkhw->nchw", weights, images) * 255
    count, _, height, width = images.shape
    blocks = luma.reshape(count, 3, height // 8, 8, width // 8, 8)
    waves = torch.einsum("ia,ncyaxb,jb->ncyixj", basis, blocks, basis)
    table = constant(QUANTISATION, images.device).reshape(8, 8)
    steps = table[None, None, None, :, None, :] * strength[:, None, None, None, None, None]
    steps = steps.clamp(min=1e-3)
    waves = (waves / steps).round() * steps
    back = torch.einsum("ia,ncyixj,jb->ncyaxb", basis, waves, basis).reshape(luma.shape)
    colours = constant(COLOURS, images.device)
    decoded = torch.einsum("ck,nkhw->nchw", colours, back) / 255
    return torch.where(strength[:, None, None, None] > 0, decoded, images)


def blur(images: Tensor, spread: Tensor) -> Tensor:
    """Blur float32[n, 3, h, w] by Gaussians of float32[n, 2] standard deviations, across and down.

    Differing ones are as the blur of what moves.
    """
    count, channels = images.shape[:2]
    places = torch.arange(-BLUR_REACH, BLUR_REACH + 1, device=images.device, dtype=torch.float32)
    weights = torch.exp(-0.5 * (places / spread.clamp(min=1e-2)[..., None]) ** 2)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    across, down = weights.repeat_interleave(channels, dim=0).unbind(dim=1)
    stacked = functional.pad(images, [BLUR_REACH] * 4, mode="replicate").flatten(0, 1)[None]
    stacked = functional.conv2d(stacked, across[:, None, None], groups=count * channels)
    stacked = functional.conv2d(stacked, down[:, None, :, None], groups=count * channels)
    return stacked.reshape(images.shape)


def enlarged(images: Tensor, factor: float) -> Tensor:
    """Return float32[n, c, h, w] so many times as large, bilinear between pixels' centres."""
    return functional.interpolate(
        images, scale_factor=float(factor), mode="bilinear", align_corners=False
    )


def grey(images: Tensor) -> Tensor:
    """Return the luma of float32[n, 3, h, w], float32[n, 1, h, w]."""
    luma = constant(LUMA_CHROMA[0], images.device)
    return torch.einsum("k,nkhw->nhw", luma, images)[:, None]


def disturb(images: Tensor, chance: Mapping[str, Tensor]) -> Tensor:
    """Disturb colour, light and noise, and compress the first half of the batch.

    Each entry of `chance` is float32[n] or float32[n, 3].
    """
    shape = (-1, 1, 1, 1)
    images = torch.lerp(grey(images), images, chance["saturation"].reshape(shape))
    images = images * chance["gain"][:, :, None, None]
    images = (images - 0.5) * chance["contrast"].reshape(shape) + 0.5
    images = (images + chance["brightness"].reshape(shape)).clamp(1e-3, 1)
    images = images ** chance["gamma"].reshape(shape)
    images = images + torch.randn_like(images) * chance["noise"].reshape(shape)
    part = max(1, len(images) // 2)
    lossy = compress(images[:part], chance["compression"][:part])
    return torch.cat([lossy, images[part:]]).clamp(0, 1)


def disturbances(count: int, device: torch.device) -> dict[str, Tensor]:
    """Return how strongly each of `count` pictures is disturbed, for `disturb`."""

    def rarely(share: float, strong: Tensor, weak: Tensor) -> Tensor:
        often = torch.rand(count, device=device) < share
        return torch.where(often.reshape(-1, *([1] * (strong.dim() - 1))), strong, weak)

    one, none = torch.ones(count, device=device), torch.zeros(count, device=device)
    return {
        "saturation": rarely(0.12, none, uniform(0.4, 1.6, count, device=device)),
        "gain": rarely(
            0.7, 1 + 0.12 * torch.randn(count, 3, device=device), torch.ones_like(one)[:, None]
        ).clamp(0.5, 1.6),
        "contrast": rarely(0.7, uniform(0.5, 1.5, count, device=device), one),
        "brightness": rarely(0.7, 0.15 * torch.randn(count, device=device), none),
        "gamma": rarely(0.5, uniform(-0.7, 0.7, count, device=device).exp(), one),
        "noise": rarely(0.3, uniform(0, 0.07, count, device=device), none),
        "compression": rarely(0.9, uniform(-1.5, 1.4, count, device=device).exp(), none),
    }
