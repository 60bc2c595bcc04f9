"""Batches made on the device: faces cut as the kit cuts them, bent, covered and disturbed.

Few faces must stand for many. So each is drawn with another head pose and partly with another
face's shape, by moving the pixels with the points of its mesh; then turned, shifted, stretched,
mirrored, covered with hands, other pictures, plain shapes and masks, blurred, compressed and
degraded. The mesh goes along with everything.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from palmkit.kits.face.topology import MIRROR, POINTS
from palmkit.models.face_mesh.indexes import LEFT_EYE, RIGHT_EYE
from palmkit.models.face_mesh.visible import visible
from palmkit.models.training.degrade import degraded
from palmkit.models.training.pack import read_pack
from palmkit.models.training.pixels import (
    Pixels,
    Source,
    cumulative,
    disturb,
    disturbances,
    drawn_rows,
    fetch,
    uniform,
)

# As in dataset: a packed face picture shows this many sides of the teacher's crop.
MARGIN = 1.4
FIELD, FIELD_WIDTH = 64, 0.022
# Every so many pictures of a batch one shows no face, or is covered in one of these ways.
ABSENT_EVERY, HAND_EVERY, BLOB_EVERY, MASK_EVERY = 11, 8, 6, 10
# Share of the pictures that are degraded after that.
DEGRADED = 0.25
# Sets that count more or less than their number of faces.
SET_WEIGHTS = {
    "eden": 0.6,
    "maskon": 0.8,
    "fasseg_multipose": 1.5,
    "interfaces": 3.0,
    "figaro": 1.5,
    "hagrid": 2.0,
    "hs290": 1.5,
    "linto": 0.7,
    "subhi": 0.6,
}
# Faces that were turned further before they were packed, see dataset: there are many of them.
TURNED_WEIGHT = 0.25
MASK_OUTLINE = (6, 122, 118, 50, 187, 192, 136, 176, 152, 400, 365, 416, 411, 280, 347, 351)
MASK_OUTLINE_LOW = (197, 217, 50, 123, 147, 192, 136, 176, 152, 400, 365, 416, 376, 352, 280, 437)


class Batch(NamedTuple):
    """A batch of crops with labels.

    images: float32[n, 3, s, s] 0..1; points: float32[n, 478, 3] in 0..1 of the crop; visibility:
    float32[n, 478]; scale: float32[n], the side of the teacher's crop in ours; is_face: float32[n],
    0 or 1; trust: float32[n, 478], weights of the points.
    """

    images: Tensor
    points: Tensor
    visibility: Tensor
    scale: Tensor
    is_face: Tensor
    trust: Tensor


def displacement(points: Tensor, origins: Tensor, size: int) -> Tensor:
    """Return the displacement of each pixel's colour, float32[n, size, size, 2] in 0..1.

    points: float32[n, 478, 2], targets of the points, origins: their sources. It is the mean of the
    points' displacements, weighted by a Gaussian of their distance; zero far from all.
    """
    step = (torch.arange(FIELD, device=points.device) + 0.5) / FIELD
    near = torch.exp(-(((step[:, None, None, None] - points) / FIELD_WIDTH) ** 2) / 2)
    values = torch.cat([origins - points, torch.ones_like(points[..., :1])], dim=-1)
    across, along = near.permute(3, 1, 0, 2)
    summed = torch.einsum("nyp,npk,nxp->nkyx", along, values, across)
    field = summed[:, :2] / (summed[:, 2:] + 0.05)
    field = functional.interpolate(field, (size, size), mode="bilinear")
    return field.permute(0, 2, 3, 1)


def follow(field: Tensor, points: Tensor, origins: Tensor) -> Tensor:
    """Return where the field takes the points, float32[n, 478, 2]: it is smoother than they are.

    field: float32[n, s, s, 2]. points: their targets, origins: their sources, float32[n, 478, 3].
    """
    flat = field.permute(0, 3, 1, 2)
    found, origin = points[..., :2], origins[..., :2]
    for _ in range(4):
        where = (found[:, None] * 2 - 1).clamp(-1, 1)
        moved = functional.grid_sample(flat, where, padding_mode="border", align_corners=False)
        found = origin - moved[:, :, 0].transpose(1, 2)
    return found


def render(pixels: Tensor, source: Source, field: Tensor | None, size: int) -> Tensor:
    """Draw pictures by an affine map, and a field before it: float32[n, 3, size, size] 0..1."""
    count = len(source.offset)
    place = torch.arange(size, device=pixels.device) + 0.5
    x = place[None, None, :].expand(count, size, size)
    y = place[None, :, None].expand(count, size, size)
    if field is not None:
        x, y = x + field[..., 0] * size, y + field[..., 1] * size
    wide = Source(*(value[:, None, None] for value in source))
    affine = wide.affine
    across = affine[..., 0] * x + affine[..., 1] * y + affine[..., 2]
    along = affine[..., 3] * x + affine[..., 4] * y + affine[..., 5]
    return fetch(pixels, wide, across, along, False)


def inside_outline(corners: Tensor, size: int) -> Tensor:
    """Return which pixels lie in each polygon, float32[n, size, size].

    corners: float32[n, k, 2].
    """
    place = (torch.arange(size, device=corners.device) + 0.5) / size
    x, y = place[None, None, :, None], place[None, :, None, None]
    ax, ay = corners[:, None, None].unbind(-1)
    bx, by = corners.roll(-1, dims=1)[:, None, None].unbind(-1)
    rise = torch.where((by - ay).abs() < 1e-6, torch.full_like(by, 1e-6), by - ay)
    crossed = ((ay > y) != (by > y)) & (x < (bx - ax) * (y - ay) / rise + ax)
    return (crossed.sum(dim=-1) % 2).float()


class Bank:
    """The pack on the device."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        """Read a folder that dataset.py wrote."""
        packed = read_pack(folder)
        self.device = device
        self.pixels = Pixels(packed.pictures, device)
        kinds = [entry["kind"] for entry in packed.entries]
        self.faces = kinds.count("face")
        assert kinds[: self.faces] == ["face"] * self.faces
        with np.load(folder / "meshes.npz") as stored:
            flat = stored["mean"] + stored["coefficients"] @ stored["components"]
            yaw, masked, spread = stored["yaw"], stored["masked"], stored["spread"]
            triangles = stored["triangles"].astype(np.int64)
        points = flat.reshape(-1, POINTS, 3).astype(np.float32)
        self.triangles = torch.from_numpy(triangles).to(device)
        self.points = torch.from_numpy(points).to(device)
        self.mean = self.points.mean(dim=0)
        self.masked = torch.from_numpy(masked).to(device)
        self.yaw = torch.from_numpy(yaw).to(device)
        self.trust = torch.from_numpy(0.02 / np.maximum(spread, 0.02)).to(device)
        self.mirror = torch.from_numpy(MIRROR).to(device)
        weights = np.asarray([SET_WEIGHTS.get(entry["set"], 1.0) for entry in packed.entries])
        weights[: self.faces] *= 1 + np.clip(np.abs(yaw) / 15, 0, 3)
        weights[: self.faces] *= np.where(masked, 0.3, 1.0)
        weights *= [TURNED_WEIGHT if "turned" in entry else 1.0 for entry in packed.entries]
        face, hand = np.asarray(kinds) == "face", np.asarray(kinds) == "hand"
        self.face_weights = cumulative(np.where(face, weights, 0.0), device)
        self.hand_weights = cumulative(hand.astype(float), device)
        self.other_weights = cumulative((~face & ~hand).astype(float), device)
        self.any_weights = cumulative((~hand).astype(float), device)
        worn = points.mean(axis=0)[:, 1] > points.mean(axis=0)[[197, 50, 280], 1].mean()
        worn[[*RIGHT_EYE, *LEFT_EYE, *range(468, POINTS)]] = False
        self.under_mask = torch.from_numpy(worn.astype(np.float32)).to(device)


class Composer:
    """Draws batches of square crops."""

    def __init__(self, bank: Bank, size: int, fast: bool = False) -> None:
        """Draw from a bank.

        size: side of the crops, in pixels. fast: compile the drawing.
        """
        self.bank, self.size, self.device = bank, size, bank.device
        self.render = torch.compile(render, dynamic=False) if fast else render
        self.disturb = torch.compile(disturb, dynamic=False) if fast else disturb
        self.visible = torch.compile(visible, dynamic=False) if fast else visible
        outlines = (MASK_OUTLINE, MASK_OUTLINE_LOW)
        self.outlines = [torch.tensor(outline, device=self.device) for outline in outlines]
        self.centre = torch.tensor([0.5, 0.5, 0.0], device=self.device)

    def rarely(self, count: int, share: float) -> Tensor:
        """Return float32[count] of 0 and 1, with this share of ones."""
        return (torch.rand(count, device=self.device) < share).float()

    def normal(self, count: int, spread: float) -> Tensor:
        """Return float32[count] normal numbers, at most two and a half times the spread."""
        return (torch.randn(count, device=self.device) * spread).clamp(-2.5 * spread, 2.5 * spread)

    def between(self, low: float, high: float, count: int) -> Tensor:
        """Return float32[count], uniform between the bounds."""
        return uniform(low, high, count, device=self.device)

    def every(self, count: int, step: int, start: int) -> Tensor:
        """Return the slots of a batch that get one kind of change."""
        return torch.arange(start, max(count, start + 1), step, device=self.device) % count

    def bend(self, rows: Tensor) -> Tensor:
        """Return other poses and shapes of faces `rows`: float32[n, 478, 3] in teacher's crops."""
        count = len(rows)
        points = self.bank.points[rows]
        shape = self.rarely(count, 0.5) * self.between(0, 0.45, count)
        other = self.bank.points[drawn_rows(self.bank.face_weights, count)]
        points = points + shape[:, None, None] * (other - points)
        bent = self.rarely(count, 0.6)
        yaw = bent * self.normal(count, 11)
        # Profiles are rare: turn faces further the way they look.
        further = self.rarely(count, 0.3) * self.between(0, 12, count)
        yaw = yaw + further * self.bank.yaw[rows].sign() * (self.bank.yaw[rows].abs() > 8)
        yaw, pitch = torch.deg2rad(yaw), torch.deg2rad(bent * self.normal(count, 7))
        x, y, z = (points - self.centre).unbind(-1)
        cos, sin = yaw.cos()[:, None], yaw.sin()[:, None]
        x, z = x * cos - z * sin, x * sin + z * cos
        cos, sin = pitch.cos()[:, None], pitch.sin()[:, None]
        y, z = y * cos - z * sin, y * sin + z * cos
        return torch.stack([x, y, z], dim=-1) + self.centre

    def placement(self, count: int, far: Tensor, ease: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return float32[n, 2, 2] and float32[n, 2] from a teacher's crop to ours, and the scale.

        far: float32[n], 1 where the face must be missed. ease: as in compose.
        """
        wide = self.rarely(count, 0.3 - 0.15 * ease)
        scale = (self.normal(count, 0.07) + wide * self.between(-0.3, 0.3, count)).exp()
        wild = self.rarely(count, 0.35 - 0.2 * ease)
        turn = self.normal(count, 5) + wild * self.between(-30, 30, count)
        shift = torch.stack([self.normal(count, 0.03), self.normal(count, 0.03)], dim=-1)
        shift = shift + wide[:, None] * uniform(-0.1, 0.1, count, 2, device=self.device)
        angle = self.between(0, 2 * math.pi, count)
        away = torch.stack([angle.cos(), angle.sin()], dim=-1)
        shift = shift + (far * self.between(0.5, 0.9, count))[:, None] * away
        stretch = self.rarely(count, 0.6) * self.normal(count, 0.06)
        slant = self.rarely(count, 0.4) * self.normal(count, 0.05)
        turn = torch.deg2rad(turn)
        cos, sin = turn.cos() * scale, turn.sin() * scale
        rotation = torch.stack([cos, -sin, sin, cos], dim=-1).reshape(-1, 2, 2)
        none = torch.zeros_like(slant)
        form = torch.stack([stretch.exp(), slant, none, (-stretch).exp()], dim=-1)
        return rotation @ form.reshape(-1, 2, 2), shift + 0.5, scale

    def draw(self, rows: Tensor, matrix: Tensor, target: Tensor, field: Tensor | None) -> Tensor:
        """Draw pictures by an affine map from 0..1 of the picture to pixels: float32[n, 3, s, s].

        field: float32[n, s, s, 2] of displacement.
        """
        sizes = self.bank.pixels.sizes[rows][:, 0]
        source, _ = self.bank.pixels.source(rows, matrix / sizes[:, None, :], sizes / 2, target)
        return self.render(self.bank.pixels.pixels, source, field, self.size)

    def others(self, weights: Tensor, count: int, least: float, most: float) -> Tensor:
        """Return random pieces of pictures, float32[n, 3, s, s], which span so many crops."""
        rows = drawn_rows(weights, count)
        scale = self.between(math.log(least), math.log(most), count).exp() * self.size
        turn = self.between(-math.pi, math.pi, count) * self.rarely(count, 0.5)
        sizes = self.bank.pixels.sizes[rows][:, 0]
        shape = sizes / sizes.amax(dim=-1, keepdim=True)
        cos, sin = turn.cos() * scale, turn.sin() * scale
        rotation = torch.stack([cos, -sin, sin, cos], dim=-1).reshape(-1, 2, 2)
        reach = 0.5 * (scale / self.size - 1).clamp(min=0.15)[:, None] * self.size
        target = self.size / 2 + uniform(-1, 1, count, 2, device=self.device) * reach
        return self.draw(rows, rotation * shape[:, None, :], target, None)

    def blob(self, count: int) -> Tensor:
        """Return soft-edged random shapes, float32[n, s, s] 0..1."""
        place = (torch.arange(self.size, device=self.device) + 0.5) / self.size
        centre = uniform(0.1, 0.9, count, 2, device=self.device)
        x = place[None, None, :] - centre[:, 0, None, None]
        y = place[None, :, None] - centre[:, 1, None, None]
        turn = self.between(0, math.pi, count)[:, None, None]
        u, v = x * turn.cos() + y * turn.sin(), y * turn.cos() - x * turn.sin()
        radius = uniform(0.05, 0.3, count, 2, device=self.device)
        radius = torch.where(self.rarely(count, 0.2)[:, None] > 0, radius.flip(1) * 3, radius)
        power = torch.where(self.rarely(count, 0.5) > 0, 2.0, 8.0)[:, None, None]
        inside = (u / radius[:, 0, None, None]).abs() ** power
        inside = inside + (v / radius[:, 1, None, None]).abs() ** power
        soft = self.between(4, 40, count)[:, None, None]
        return ((1 - inside) * soft + 0.5).clamp(0, 1)

    def cover(self, images: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Cover some faces with hands, pictures, plain shapes and masks; return the opacity, too.

        Returns float32[n, 3, s, s] and float32[n, s, s].
        """
        count = len(images)
        opacity = torch.zeros(count, self.size, self.size, device=self.device)
        covers = torch.zeros_like(images)

        slots = self.every(count, HAND_EVERY, 1)
        hands = self.others(self.bank.hand_weights, len(slots), 0.5, 1.4)
        green = hands[:, 1] - torch.maximum(hands[:, 0], hands[:, 2])
        lit = (hands.amax(dim=1) > 0.05).float()
        opacity[slots] = ((0.06 - green) / 0.05).clamp(0, 1) * lit
        covers[slots] = torch.minimum(hands, torch.maximum(hands[:, :1], hands[:, 2:]) * 1.05)

        slots = self.every(count, BLOB_EVERY, 2)
        textures = self.others(self.bank.any_weights, len(slots), 0.8, 4)
        plain = torch.rand(len(slots), 3, 1, 1, device=self.device)
        is_plain = self.rarely(len(slots), 0.4)[:, None, None, None] > 0
        opacity[slots] = self.blob(len(slots))
        covers[slots] = torch.where(is_plain, plain, textures)

        slots = self.every(count, MASK_EVERY, 3)
        low = self.rarely(len(slots), 0.4)[:, None, None]
        corners = points[slots][..., :2]
        corners = torch.lerp(
            corners[:, list(MASK_OUTLINE)], corners[:, list(MASK_OUTLINE_LOW)], low
        )
        middle = corners.mean(dim=1, keepdim=True)
        growth = self.between(1.0, 1.12, len(slots))[:, None, None]
        opacity[slots] = inside_outline(middle + (corners - middle) * growth, self.size)
        is_plain = self.rarely(len(slots), 0.5)[:, None, None, None] > 0
        plain = torch.rand(len(slots), 3, 1, 1, device=self.device)
        colour = torch.where(is_plain, plain, torch.full_like(plain, 0.85))
        shade = 0.75 + 0.5 * images[slots].mean(dim=1, keepdim=True)
        covers[slots] = (colour * shade).clamp(0, 1)
        return torch.lerp(images, covers, opacity[:, None]), opacity

    def soften(self, images: Tensor) -> Tensor:
        """Reduce or blur part of the batch."""
        done: list[Tensor] = []
        side = (self.size, self.size)
        for some in torch.split(images, max(len(images) // 8, 1)):
            kind = int(torch.randint(0, 8, ()).item())
            if kind < 3:
                small = int(self.size * (0.2 + 0.6 * torch.rand(()).item()))
                less = functional.interpolate(some, (small, small), mode="bilinear", antialias=True)
                mode = "bilinear" if kind else "bicubic"
                some = functional.interpolate(less, side, mode=mode)
            elif kind == 3:
                taps = 2 * int(torch.randint(1, 4, ()).item()) + 1
                kernel = torch.zeros(taps, taps, device=self.device)
                if torch.rand(()).item() < 0.5:
                    kernel[taps // 2] = 1 / taps
                else:
                    kernel[:, taps // 2] = 1 / taps
                some = functional.pad(some, [taps // 2] * 4, mode="replicate")
                some = functional.conv2d(some, kernel.expand(3, 1, taps, taps), groups=3)
            done.append(some)
        return torch.cat(done)

    @torch.no_grad()
    def compose(self, count: int, ease: float = 0.0) -> Batch:
        """Return a batch of `count`; about one in nine shows no face.

        ease: 0..1, at 1 more pictures stay nearly as they are.
        """
        rows = drawn_rows(self.bank.face_weights, count)
        far = self.rarely(count, 0.03)
        matrix, target, scale = self.placement(count, far, ease)
        mirrored = self.rarely(count, 0.5) > 0
        flip = torch.where(mirrored, -1.0, 1.0)
        matrix = matrix * torch.stack([flip, torch.ones_like(flip)], dim=-1)[:, None]
        original = self.bank.points[rows]
        plain = self.rarely(count, 0.25 + 0.3 * ease) > 0
        bent = torch.where(plain[:, None, None], original, self.bend(rows))

        def placed(points: Tensor) -> Tensor:
            flat = torch.einsum("nij,npj->npi", matrix, points[..., :2] - 0.5) + target[:, None]
            return torch.cat([flat, points[..., 2:] * scale[:, None, None]], dim=-1)

        points, origins = placed(bent), placed(original)
        field = displacement(points[..., :2], origins[..., :2], self.size)
        points = torch.cat([follow(field, points, origins), points[..., 2:]], dim=-1)
        images = self.draw(rows, matrix * MARGIN * self.size, target * self.size, field)
        absent = self.every(count, ABSENT_EVERY, 0)
        images[absent] = self.others(self.bank.other_weights, len(absent), 0.7, 6)
        images, opacity = self.cover(images, points)
        seen = self.visible(points / scale[:, None, None], self.bank.triangles)
        where = (points[:, None, :, :2] * 2 - 1).clamp(-1.5, 1.5)
        covered = functional.grid_sample(opacity[:, None], where, align_corners=False)[:, 0, 0]
        inside = ((points[..., :2] > -0.02) & (points[..., :2] < 1.02)).all(dim=-1)
        worn = self.bank.under_mask * self.bank.masked[rows, None]
        seen = seen * (1 - covered) * inside * (1 - worn)
        here = torch.arange(POINTS, device=self.device)
        order = torch.where(mirrored[:, None], self.bank.mirror, here)
        points = points.gather(1, order[..., None].expand(-1, -1, 3))
        seen, worn = seen.gather(1, order), worn.gather(1, order)
        worse = self.disturb(self.soften(images).clamp(0, 1), disturbances(count, self.device))
        is_worse = self.rarely(count, 0.75 - 0.3 * ease)[:, None, None, None] > 0
        images = torch.where(is_worse, worse, images)
        chosen = torch.randperm(count, device=self.device)[: round(count * DEGRADED)]
        images[chosen] = degraded(images[chosen])
        is_face = 1 - far
        is_face[absent] = 0
        trust = self.bank.trust[rows][:, None] * (0.35 + 0.65 * seen) * (1 - 0.6 * worn)
        images = images.contiguous(memory_format=torch.channels_last)
        return Batch(images, points, seen, scale, is_face, trust)
