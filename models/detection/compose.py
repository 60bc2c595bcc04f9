"""Endless compositions of training pictures, labels carried along.

Mosaics, zooms, rotations and objects pasted on other pictures make small objects and crowds out of
portraits; every number is drawn anew for each batch, on the device.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from palmkit.models.detection.bank import MOST_IGNORED, Bank
from palmkit.models.detection.render import GRID, PASTES, render
from palmkit.models.training.degrade import degraded
from palmkit.models.training.pixels import (
    Source,
    blur,
    disturb,
    disturbances,
    drawn_rows,
    log_uniform,
    uniform,
)

KEPT_OBJECTS, KEPT_IGNORED = 112, 64
SMALLEST = 7.0
# One composition in so many is blurred, and one in so many as bad as pictures in albums are.
BLURRED, DEGRADED = 4, 4


class Batch(NamedTuple):
    """Composed pictures and labels, in pixels of the composition.

    images: float32[n, 3, size, size], RGB 0..1; better: the same before some were degraded, which
    is what teachers judge.
    objects: float32[n, m, 4 + 2k], box and points; present: bool[n, m]; pointed: bool[n, m, k].
    ignored: float32[n, k, 4]; doubtful: bool[n, k].
    """

    images: Tensor
    better: Tensor
    objects: Tensor
    present: Tensor
    pointed: Tensor
    ignored: Tensor
    doubtful: Tensor


class Placement(NamedTuple):
    """How pictures lie in the composition: out = matrix @ (source - origin) + target."""

    rows: Tensor
    matrix: Tensor
    origin: Tensor
    target: Tensor


def transform(scale: Tensor, spread: float, anyhow: float = 0.0) -> Tensor:
    """Return float32[..., 2, 2]: scale with rotation, mirroring and a little stretch.

    spread: standard deviation of the rotation in degrees; one in ten rotates three times more.
    anyhow: share that rotates by any angle.
    """
    shape, device = scale.shape, scale.device
    wild = torch.where(torch.rand(shape, device=device) < 0.1, 3.0, 1.0)
    angle = torch.randn(shape, device=device) * wild * spread * (np.pi / 180)
    free = uniform(-np.pi, np.pi, *shape, device=device)
    angle = torch.where(torch.rand(shape, device=device) < anyhow, free, angle)
    stretch = torch.exp(torch.randn(shape, device=device) * 0.07)
    flip = torch.where(torch.rand(shape, device=device) < 0.5, -1.0, 1.0)
    cos, sin = angle.cos() * scale, angle.sin() * scale
    first = torch.stack([cos * stretch * flip, -sin / stretch], dim=-1)
    second = torch.stack([sin * stretch * flip, cos / stretch], dim=-1)
    return torch.stack([first, second], dim=-2)


def hulls(points: Tensor) -> Tensor:
    """Return the boxes round points: float32[..., k, 2] to float32[..., 4]."""
    return torch.cat([points.amin(dim=-2), points.amax(dim=-2)], dim=-1)


def place_boxes(boxes: Tensor, place: Placement) -> Tensor:
    """Return boxes round the rotated ellipses: float32[..., f, 4] with placements float32[...]."""
    centres = place_points((boxes[..., :2] + boxes[..., 2:]) / 2, place)
    halves = (boxes[..., 2:] - boxes[..., :2]) / 2
    spans = torch.einsum("...ij,...fj->...fi", place.matrix**2, halves**2).sqrt()
    return torch.cat([centres - spans, centres + spans], dim=-1)


def place_points(points: Tensor, place: Placement) -> Tensor:
    """Return points float32[..., f, 2] of the source in the composition."""
    moved = points - place.origin[..., None, :]
    return torch.einsum("...ij,...fj->...fi", place.matrix, moved) + place.target[..., None, :]


def area(boxes: Tensor) -> Tensor:
    """Return the areas of boxes, float32[..., 4] to float32[...], never negative."""
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(dim=-1)


class Composer:
    """Draws batches from a bank."""

    def __init__(self, bank: Bank, fast: bool) -> None:
        """Draw from a bank.

        fast: compile the drawing.
        """
        self.bank = bank
        self.render = torch.compile(render, dynamic=False) if fast else render
        self.disturb = torch.compile(disturb, dynamic=False) if fast else disturb
        self.blur = torch.compile(blur, dynamic=False) if fast else blur

    def source(self, place: Placement) -> tuple[Source, Tensor]:
        """Return the level and inverse affine that draw a placement, and the level's size ratio."""
        return self.bank.source(place.rows, place.matrix, place.origin, place.target)

    def compose(self, count: int, size: int) -> Batch:
        """Return a batch of `count` square compositions."""
        bank, device = self.bank, self.bank.device
        slots = GRID * GRID
        grid = torch.multinomial(
            torch.tensor([0.52, 0.24, 0.13, 0.11], device=device), count, replacement=True
        )
        grid = grid + 1
        step = torch.arange(1, GRID, device=device)[None, None]
        jitter = uniform(-0.15, 0.15, count, 2, GRID - 1, device=device)
        lines = (step + jitter) * (size / grid)[:, None, None]
        lines = torch.where(step < grid[:, None, None], lines, float(size))
        edges = torch.cat(
            [lines.new_zeros(count, 2, 1), lines, lines.new_full((count, 2, 1), float(size))], dim=2
        )
        index = torch.arange(slots, device=device)
        x0, x1 = edges[:, 0, index % GRID], edges[:, 0, index % GRID + 1]
        y0, y1 = edges[:, 1, index // GRID], edges[:, 1, index // GRID + 1]
        cells = torch.stack([x0, y0, x1, y1], dim=-1)

        place = self.place_cells(cells, grid, size)
        objects, pointed, usable, doubtful, ignored, unsure = self.carry_labels(place, cells)
        paste, ellipses, boxes, points, labelled, known = self.place_pastes(count, size)
        corner = torch.maximum(objects[:, :, None, :2], boxes[:, None, :, :2])
        far = torch.minimum(objects[:, :, None, 2:4], boxes[:, None, :, 2:])
        overlap = (far - corner).clamp(min=0).prod(dim=-1).sum(dim=-1)
        hidden = overlap / area(objects[..., :4]).clamp(min=1e-3)
        doubtful = doubtful | (usable & (hidden > 0.3))
        usable = usable & (hidden <= 0.3)
        doubtful &= hidden < 0.9
        later = torch.arange(PASTES, device=device)
        corner = torch.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
        far = torch.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
        over = (far - corner).clamp(min=0).prod(dim=-1) * (later[None] > later[:, None])
        buried = over.sum(dim=-1) / area(boxes).clamp(min=1e-3)
        inner = torch.cat([boxes[..., :2].clamp(min=0), boxes[..., 2:].clamp(max=size)], dim=-1)
        seen = area(inner) / area(boxes).clamp(min=1e-3)
        good = labelled & (buried < 0.3) & (seen > 0.55)
        pasted = torch.cat([inner, points.flatten(-2)], dim=-1)

        all_objects = torch.cat([objects, pasted], dim=1)
        all_pointed = torch.cat([pointed, known & good[..., None]], dim=1)
        all_usable = torch.cat([usable, good], dim=1)
        order = all_usable + torch.rand_like(all_objects[..., 0]) * 0.5
        order = order.topk(min(KEPT_OBJECTS, order.shape[1])).indices
        regions = torch.cat([objects[..., :4], inner, ignored], dim=1)
        all_doubtful = torch.cat([doubtful, labelled & ~good, unsure], dim=1)
        kept = (all_doubtful + torch.rand_like(regions[..., 0]) * 0.5).topk(KEPT_IGNORED).indices

        fill, colour = self.place_fill(count, size)
        pieces, ratio = self.source(paste)
        shapes = torch.cat(
            [ellipses[..., :2] * ratio, ellipses[..., 2:4] * ratio, ellipses[..., 4:]], dim=-1
        )
        sources = self.source(place)[0], self.source(fill)[0]
        images = self.render(bank.pixels, size, lines, *sources, colour, pieces, shapes)
        if dull := count // BLURRED:
            spread = uniform(-1.5, 0.9, dull, 2, device=device).exp()
            images = torch.cat([images[:-dull], self.blur(images[-dull:], spread)])
        better = self.disturb(images, disturbances(count, device))
        images = better
        if bad := count // DEGRADED:
            images = torch.cat([degraded(better[:bad]), better[bad:]])
        return Batch(
            images.contiguous(memory_format=torch.channels_last),
            better.contiguous(memory_format=torch.channels_last),
            all_objects.gather(1, order[..., None].expand(-1, -1, all_objects.shape[-1])),
            all_usable.gather(1, order),
            all_pointed.gather(1, order[..., None].expand(-1, -1, all_pointed.shape[-1])),
            regions.gather(1, kept[..., None].expand(-1, -1, 4)),
            all_doubtful.gather(1, kept),
        )

    def place_cells(self, cells: Tensor, grid: Tensor, size: int) -> Placement:
        """Place a picture in each cell: round an object, or anywhere, at a random scale."""
        bank, device = self.bank, self.bank.device
        count, slots = cells.shape[:2]
        rows = drawn_rows(bank.all_weights, count, slots)
        objects = bank.object_counts[rows]
        chosen = (torch.rand(count, slots, device=device) * objects).long()
        box = bank.objects[rows, chosen][..., :4]
        whole = bank.sizes[rows, 0]
        side = (cells[..., 2:] - cells[..., :2]).amin(dim=-1).clamp(min=8)
        object_size = (box[..., 2:] - box[..., :2]).amax(dim=-1).clamp(min=4)
        low, high = torch.full_like(side, 7.0).log(), (side * bank.shape.largest).log()
        wanted = (low + (high - low) * torch.rand(count, slots, device=device)).exp()
        by_object = (wanted / object_size).clamp(0.05, 2.5)
        by_picture = side / whole.amax(dim=-1)
        by_picture = by_picture * uniform(-1.2, 1.0, count, slots, device=device).exp()
        fitted = (grid == 1)[:, None] & (torch.rand(count, 1, device=device) < 0.4)
        in_full = (side / whole.amax(dim=-1)) * uniform(0.75, 1.15, count, slots, device=device)
        scale = torch.where(objects > 0, by_object, by_picture)
        scale = torch.where(fitted, in_full, scale)
        anywhere = whole * uniform(0.2, 0.8, count, slots, 2, device=device)
        origin = torch.where((objects > 0)[..., None], (box[..., :2] + box[..., 2:]) / 2, anywhere)
        origin = torch.where(fitted[..., None], whole / 2, origin)
        span = (cells[..., 2:] - cells[..., :2]) / 2
        room = (span - (wanted / 2)[..., None]).clamp(min=0) + 0.1 * span
        room = torch.where(fitted[..., None], 0.1 * span, room)
        middle = (cells[..., 2:] + cells[..., :2]) / 2
        target = middle + room * uniform(-1, 1, count, slots, 2, device=device)
        shape = bank.shape
        matrix = transform(scale, shape.spread_deg, shape.turned_anyhow)
        return Placement(rows, matrix, origin, target)

    def carry_labels(
        self, place: Placement, cells: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Faces, their known points, which are usable and doubtful; ignored boxes, which hold."""
        bank = self.bank
        stored = bank.objects[place.rows]
        real = (
            torch.arange(stored.shape[2], device=bank.device)
            < bank.object_counts[place.rows][..., None]
        )
        raw = stored[..., 4:].reshape(*stored.shape[:-1], -1, 2)
        known = ~raw.isnan().any(dim=-1)
        points = place_points(raw.nan_to_num().flatten(2, 3), place).reshape(raw.shape)
        boxes = hulls(points) if bank.shape.hull else place_boxes(stored[..., :4], place)
        flipped = (torch.linalg.det(place.matrix) < 0)[..., None, None]
        swap = list(bank.shape.mirrored)
        points = torch.where(flipped[..., None], points[..., swap, :], points)
        known = torch.where(flipped, known[..., swap], known)
        limits = cells[:, :, None]
        clipped = torch.cat(
            [
                torch.maximum(boxes[..., :2], limits[..., :2]),
                torch.minimum(boxes[..., 2:], limits[..., 2:]),
            ],
            dim=-1,
        )
        visible = area(clipped) / area(boxes).clamp(min=1e-3)
        spans = clipped[..., 2:] - clipped[..., :2]
        usable = real & (visible > 0.55) & (spans.amax(dim=-1) >= SMALLEST)
        usable &= spans.amin(dim=-1) >= 0.6 * SMALLEST
        doubtful = real & ~usable & (visible > 0.08)
        inside = (points > limits[..., None, :2]) & (points < limits[..., None, 2:])
        pointed = known & inside.all(dim=-1)
        objects = torch.cat([clipped, points.flatten(-2)], dim=-1)
        regions = place_boxes(bank.ignored[place.rows], place)
        regions = torch.cat(
            [
                torch.maximum(regions[..., :2], limits[..., :2]),
                torch.minimum(regions[..., 2:], limits[..., 2:]),
            ],
            dim=-1,
        )
        order = torch.arange(MOST_IGNORED, device=bank.device)
        unsure = order < bank.ignored_counts[place.rows][..., None]
        unsure &= area(regions) > 0
        return (
            objects.flatten(1, 2),
            pointed.flatten(1, 2),
            usable.flatten(1, 2),
            doubtful.flatten(1, 2),
            regions.flatten(1, 2),
            unsure.flatten(1, 2),
        )

    def place_pastes(
        self, count: int, size: int
    ) -> tuple[Placement, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Place elliptic pieces: two in three hold an object, the others none.

        Returns placements, ellipses, boxes, points, which pieces hold an object, and which points
        are known. Unused pieces have empty boxes far outside.
        """
        bank, device = self.bank, self.bank.device
        shape = (count, PASTES)
        used = torch.rand(shape, device=device) < uniform(-1.2, 0.9, count, 1, device=device)
        with_object = torch.rand(shape, device=device) < 0.67
        rows = torch.where(
            with_object,
            drawn_rows(bank.single_weights, *shape),
            drawn_rows(bank.clean_weights, *shape),
        )
        with_object = with_object & (bank.object_counts[rows] == 1)
        whole = bank.sizes[rows, 0]
        stored = bank.objects[rows, 0]
        middle = whole * uniform(0.3, 0.7, *shape, 2, device=device)
        reach = whole.amin(dim=-1, keepdim=True) * uniform(0.08, 0.3, *shape, 1, device=device)
        blank = torch.cat([middle - reach, middle + reach], dim=-1)
        box = torch.where(with_object[..., None], stored[..., :4], blank)
        length = (box[..., 2:] - box[..., :2]).amax(dim=-1)
        wanted = log_uniform(8, 0.4 * size, *shape, device=device)
        scale = (wanted / length).clamp(0.03, 2.0)
        origin = (box[..., :2] + box[..., 2:]) / 2
        target = size * uniform(0.02, 0.98, *shape, 2, device=device)
        matrix = transform(scale, bank.shape.spread_deg * 4 / 3, bank.shape.turned_anyhow)
        place = Placement(rows, matrix, origin, target)
        radii = (box[..., 2:] - box[..., :2]) * uniform(0.62, 0.95, *shape, 1, device=device)
        radii = radii * used[..., None]
        softness = uniform(1.0, 3.0, *shape, 1, device=device).exp()
        ellipses = torch.cat([origin, radii, softness], dim=-1)
        raw = stored[..., 4:].reshape(*stored.shape[:-1], -1, 2)
        swap = list(bank.shape.mirrored)
        points = place_points(raw.nan_to_num(), place)
        boxes = place_boxes(box[..., None, :], place).squeeze(-2)
        if bank.shape.hull:
            boxes = torch.where(with_object[..., None], hulls(points), boxes)
        boxes = torch.where(used[..., None], boxes, -1000.0)
        flipped = (torch.linalg.det(place.matrix) < 0)[..., None, None]
        points = torch.where(flipped, points[..., swap, :], points)
        known = ~raw.isnan().any(dim=-1)
        known = torch.where(flipped[..., 0], known[..., swap], known)
        return place, ellipses, boxes, points, used & with_object, known

    def place_fill(self, count: int, size: int) -> tuple[Placement, Tensor]:
        """Return what shows where no picture lies: an empty picture, black or a colour."""
        bank, device = self.bank, self.bank.device
        rows = drawn_rows(bank.clean_weights, count, 1)
        whole = bank.sizes[rows, 0]
        scale = size / whole.amax(dim=-1) * uniform(-1.5, 0.7, count, 1, device=device).exp()
        place = Placement(rows, transform(scale, 30.0), whole / 2, torch.full_like(whole, size / 2))
        kind = torch.rand(count, 1, device=device)
        colour = torch.where(kind < 0.3, 0.0, torch.rand(count, 3, device=device))
        return place, torch.where(kind > 0.4, -1.0, colour)
