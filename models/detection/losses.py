"""Assignment of cells to objects, and the losses of their predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from palmkit.models.detection.compose import Batch
from palmkit.models.detection.network import STRIDES, Level

MOST_CELLS = 9


class Flat(NamedTuple):
    """All cells of all levels, row-major by stride: float32[n, cells, ...]."""

    logits: Tensor
    distances: Tensor
    points: Tensor
    centres: Tensor
    strides: Tensor


def flatten(levels: Sequence[Level]) -> Flat:
    """Join the levels; centres (x, y) and strides are in pixels."""
    parts: list[list[Tensor]] = [[], [], [], [], []]
    for level, stride in zip(levels, STRIDES, strict=True):
        height, width = level.logits.shape[2:]
        device = level.logits.device
        y = (torch.arange(height, device=device) + 0.5) * stride
        x = (torch.arange(width, device=device) + 0.5) * stride
        grid = torch.stack([x[None].expand(height, -1), y[:, None].expand(-1, width)], dim=-1)
        parts[0].append(level.logits.flatten(1))
        parts[1].append(level.distances.flatten(2).transpose(1, 2))
        parts[2].append(level.points.flatten(2).transpose(1, 2))
        parts[3].append(grid.reshape(-1, 2))
        parts[4].append(torch.full((height * width,), float(stride), device=device))
    joined = [torch.cat(part, dim=1).float() for part in parts[:3]]
    return Flat(joined[0], joined[1], joined[2], torch.cat(parts[3]), torch.cat(parts[4]))


def iou_and_spread(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return IoU of box pairs, and EIoU's penalty of centre and sides (Zhang et al., 2021)."""
    corner = torch.maximum(first[..., :2], second[..., :2])
    far = torch.minimum(first[..., 2:], second[..., 2:])
    overlap = (far - corner).clamp(min=0).prod(dim=-1)
    sides = first[..., 2:] - first[..., :2], second[..., 2:] - second[..., :2]
    union = sides[0].prod(dim=-1) + sides[1].prod(dim=-1) - overlap
    iou = overlap / union.clamp(min=1e-6)
    hull = torch.maximum(first[..., 2:], second[..., 2:])
    hull = (hull - torch.minimum(first[..., :2], second[..., :2])).clamp(min=1e-3)
    centre = (first[..., :2] + first[..., 2:] - second[..., :2] - second[..., 2:]) / 2
    spread = (centre**2).sum(dim=-1) / (hull**2).sum(dim=-1)
    spread = spread + (((sides[0] - sides[1]) / hull) ** 2).sum(dim=-1)
    return iou, spread


class Assignment(NamedTuple):
    """MOST_CELLS cells for every object.

    Indices int64[n, m, k], and bool[n, m, k], which of them are valid.
    """

    cells: Tensor
    chosen: Tensor


@torch.no_grad()
def assign(flat: Flat, batch: Batch, size: int) -> Assignment:
    """Assign cells by SimOTA (Ge et al., YOLOX, 2021) among the 27 round an object's centre."""
    boxes = batch.objects[..., :4]
    middle = (boxes[..., :2] + boxes[..., 2:]) / 2
    side = (boxes[..., 2:] - boxes[..., :2]).amax(dim=-1)
    device = boxes.device
    step = torch.arange(-1, 2, device=device)
    offsets = torch.stack([step.repeat(3), step.repeat_interleave(3)], dim=-1)
    cells: list[Tensor] = []
    allowed: list[Tensor] = []
    prior: list[Tensor] = []
    start = 0
    for stride in STRIDES:
        across = size // stride
        cell = (middle / stride).floor().long()[..., None, :] + offsets
        valid = ((cell >= 0) & (cell < across)).all(dim=-1)
        cell = cell.clamp(0, across - 1)
        centre = (cell + 0.5) * stride
        inside = ((centre > boxes[..., None, :2]) & (centre < boxes[..., None, 2:])).all(dim=-1)
        allowed.append(valid & inside)
        cells.append(cell[..., 1] * across + cell[..., 0] + start)
        octaves = torch.log2(side.clamp(min=1) / (4.5 * stride))
        if stride == STRIDES[0]:
            octaves = octaves.clamp(min=0)
        if stride == STRIDES[-1]:
            octaves = octaves.clamp(max=0)
        prior.append((octaves.abs() - 0.7).clamp(min=0)[..., None].expand(-1, -1, 9))
        start += across * across
    index = torch.cat(cells, dim=-1)
    usable = torch.cat(allowed, dim=-1) & batch.present[..., None]
    shape = index.shape
    flat_index = index.flatten(1)
    logits = flat.logits.gather(1, flat_index).reshape(shape)
    distances = flat.distances.gather(1, flat_index[..., None].expand(-1, -1, 4))
    predicted = decode_boxes(distances.reshape(*shape, 4), flat.centres[index], flat.strides[index])
    iou, _ = iou_and_spread(predicted, boxes[..., None, :])
    cost = functional.softplus(-logits) - 3 * torch.log(iou + 1e-3)
    cost = cost + 3 * torch.cat(prior, dim=-1)
    cost = torch.where(usable, cost, torch.inf)
    best, order = cost.topk(MOST_CELLS, dim=-1, largest=False)
    wanted = torch.where(usable, iou, 0).topk(MOST_CELLS, dim=-1).values.sum(dim=-1)
    wanted = wanted.round().clamp(min=1)
    rank = torch.arange(MOST_CELLS, device=device)
    chosen = (rank < wanted[..., None]) & best.isfinite()
    cells_kept = index.gather(2, order)
    lowest = torch.full_like(flat.logits, torch.inf)
    lowest = lowest.scatter_reduce(
        1, cells_kept.flatten(1), torch.where(chosen, best, torch.inf).flatten(1), "amin"
    )
    winner = best <= lowest.gather(1, cells_kept.flatten(1)).reshape(best.shape)
    return Assignment(cells_kept, chosen & winner)


def decode_boxes(distances: Tensor, centres: Tensor, strides: Tensor) -> Tensor:
    """Convert distances in strides to boxes in pixels."""
    spans = distances * strides[..., None]
    return torch.cat([centres - spans[..., :2], centres + spans[..., 2:]], dim=-1)


def detection_loss(
    levels: Sequence[Level], batch: Batch, taught: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the weighted sum, and float32[4]: score, box and point losses, mean IoU.

    taught: float32[n, cells] scores of a teacher, used where labels are doubtful.
    """
    flat = flatten(levels)
    size = batch.images.shape[-1]
    assignment = assign(flat, batch, size)
    index, chosen = assignment.cells, assignment.chosen
    shape, flat_index = index.shape, index.flatten(1)
    weight = chosen.float()
    count = weight.sum().clamp(min=1)
    centres, strides = flat.centres[index], flat.strides[index]
    distances = flat.distances.gather(1, flat_index[..., None].expand(-1, -1, 4))
    predicted = decode_boxes(distances.reshape(*shape, 4), centres, strides)
    truth = batch.objects[..., :4][:, :, None]
    iou, spread = iou_and_spread(predicted, truth)
    box_loss = ((1 - iou + spread.clamp(max=4)) * weight).sum() / count

    count_points = batch.pointed.shape[-1]
    offsets = flat.points.gather(1, flat_index[..., None].expand(-1, -1, 2 * count_points))
    points = (
        offsets.reshape(*shape, count_points, 2) * strides[..., None, None] + centres[..., None, :]
    )
    side = (truth[..., 2:] - truth[..., :2]).amax(dim=-1).clamp(min=1)
    true_points = batch.objects[..., 4:].reshape(*batch.objects.shape[:2], 1, count_points, 2)
    error = (points - true_points) / side[..., None, None]
    known = (batch.pointed[:, :, None] & chosen[..., None]).float()
    cost = functional.smooth_l1_loss(error, torch.zeros_like(error), beta=0.03, reduction="none")
    point_loss = (cost.mean(dim=-1) * known).sum() / known.sum().clamp(min=1)

    with torch.no_grad():
        quality = 0.3 + 0.7 * ((iou - 0.3) / 0.4).clamp(0, 1)
        target = torch.zeros_like(flat.logits).scatter_reduce(
            1, flat_index, (quality * weight).flatten(1), "amax"
        )
        corner, far = batch.ignored[:, :, None, :2], batch.ignored[:, :, None, 2:]
        centre = flat.centres[None, None]
        inside = ((centre > corner) & (centre < far)).all(dim=-1) & batch.doubtful[..., None]
        unsure = inside.any(dim=1) & (target == 0)
        if taught is not None:
            target = torch.where(unsure, taught, target)
        counted = torch.where(unsure, 0.0 if taught is None else 0.5, 1.0)
    score = flat.logits.sigmoid()
    entropy = functional.binary_cross_entropy_with_logits(flat.logits, target, reduction="none")
    score_loss = ((target - score).abs() ** 2 * entropy * counted).sum() / count
    total = 2 * score_loss + 3 * box_loss + 4 * point_loss
    mean_iou = (iou.detach() * weight).sum() / count
    return total, torch.stack([score_loss, box_loss, point_loss, mean_iou]).detach()
