"""Endless crops of the training hands: rotated, moved, mirrored, on other backgrounds, hidden."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from palmkit.models.hand_landmarks.dataset import HandBank
from palmkit.models.hand_landmarks.network import SIZE
from palmkit.models.training.degrade import degraded
from palmkit.models.training.pixels import disturb, disturbances, drawn_rows, enlarged, uniform

# Bones of the palm, then of the thumb and the fingers.
PALM_BONES = ((0, 1), (1, 2), (0, 5), (0, 9), (0, 13), (0, 17), (5, 9), (9, 13), (13, 17), (1, 5))
FINGER_BONES = (
    *((2, 3), (3, 4), (5, 6), (6, 7), (7, 8), (9, 10), (10, 11), (11, 12)),
    *((13, 14), (14, 15), (15, 16), (17, 18), (18, 19), (19, 20)),
)
MASK = 48
EMPTY_SHARE, REPLACED_SHARE, GREEN_SHARE, HIDDEN_SHARE = 0.18, 0.35, 0.8, 0.3
DISTURBED_SHARE, DEGRADED_SHARE = 0.75, 0.25


class Batch(NamedTuple):
    """Crops and what they show; the last ones show no hand.

    images: float32[n, 3, 192, 192], RGB 0..1. landmarks: float32[n, 21, 3], 0..1 of the crop,
    z from the wrist. sure: float32[n], weight of the landmarks, 0 without a hand. right:
    float32[n]. presence: float32[n], NaN where unknown. shape: int64[n]; trust: float32[n].
    """

    images: Tensor
    landmarks: Tensor
    sure: Tensor
    right: Tensor
    presence: Tensor
    shape: Tensor
    trust: Tensor


def turn(angle: Tensor) -> Tensor:
    """Return float32[n, 2, 2] that rotates pixels so that a direction at `angle` points up."""
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -2)


def hand_mask(landmarks: Tensor, extra: Tensor) -> Tensor:
    """Return where the hand and its forearm are: float32[n, 48, 48], 0..1, with generous edges.

    landmarks: float32[n, 21, 2 or 3], 0..1 of the crop; extra: float32[n], growth in palm sizes.
    """
    flat = landmarks[..., :2]
    palm = (flat[:, 9] - flat[:, 0]).norm(dim=1)
    palm = torch.maximum(palm, (flat[:, 5] - flat[:, 17]).norm(dim=1) * 1.5)
    elbow = flat[:, 0] + (flat[:, 0] - flat[:, 9]) * 2.5
    bones = [*PALM_BONES, *FINGER_BONES]
    start = torch.cat([flat[:, [a for a, _ in bones]], flat[:, :1]], dim=1)
    end = torch.cat([flat[:, [b for _, b in bones]], elbow[:, None]], dim=1)
    sizes = [0.2] * len(PALM_BONES) + [0.14] * len(FINGER_BONES) + [0.3]
    radius = (torch.tensor(sizes, device=flat.device)[None] + extra[:, None]) * palm[:, None]
    position = (torch.arange(MASK, device=flat.device) + 0.5) / MASK
    y, x = torch.meshgrid(position, position, indexing="ij")
    pixel = torch.stack([x, y], -1).reshape(1, 1, -1, 2)
    along = (end - start)[:, :, None]
    share = ((pixel - start[:, :, None]) * along).sum(-1) / (along * along).sum(-1).clamp(min=1e-6)
    nearest = start[:, :, None] + share.clamp(0, 1)[..., None] * along
    distance = (pixel - nearest).norm(dim=-1) / radius[..., None]
    inside: Tensor = ((1.15 - distance.amin(dim=1)) * 6).clamp(0, 1)
    return inside.reshape(-1, MASK, MASK)


class Composer:
    """Draws batches from a bank."""

    def __init__(self, bank: HandBank) -> None:
        """Draw from a bank of all hands."""
        self.bank = bank

    def compose(self, count: int) -> Batch:
        """Return a batch of `count` crops, most with a hand."""
        bank, device = self.bank, self.bank.device
        empty = round(count * EMPTY_SHARE)
        with_hand = count - empty
        hands = drawn_rows(bank.weights, with_hand)
        scale = uniform(-0.28, 0.3, with_hand, device=device).exp()
        free = torch.rand(with_hand, device=device)
        angle = torch.randn(with_hand, device=device) * (10 * math.pi / 180)
        wide = uniform(-45, 45, with_hand, device=device) * (math.pi / 180)
        angle = bank.angle[hands] + torch.where(free < 0.4, wide, angle)
        flip = torch.where(torch.rand(with_hand, device=device) < 0.5, -1.0, 1.0)
        ratio = SIZE / (bank.side[hands] * scale)
        stretch = (torch.randn(with_hand, 2, device=device) * 0.05).exp()
        factors = torch.stack([flip, torch.ones_like(flip)], -1) * stretch * ratio[:, None]
        matrix = turn(angle) * factors[..., None]
        target = SIZE / 2 + torch.randn(with_hand, 2, device=device) * (0.05 * SIZE)
        origin = bank.centre[hands]
        images = self.draw(bank.rows[hands], matrix, origin, target)

        stored = bank.landmarks[hands]
        flat = torch.einsum("nij,nkj->nki", matrix, stored[..., :2] - origin[:, None])
        flat = (flat + target[:, None]) / SIZE
        depth = (stored[..., 2:] - stored[:, :1, 2:]) * (ratio / SIZE)[:, None, None]
        landmarks = torch.cat([flat, depth], dim=-1)
        images = self.replace(images, landmarks, bank.green[hands])
        right = torch.where(flip < 0, 1 - bank.right[hands], bank.right[hands])

        mistaken = empty // 2 if len(bank.wrong) else 0
        nothing, presence = self.without_hand(empty - mistaken)
        if mistaken:
            nothing = torch.cat([nothing, self.mistaken(mistaken)])
            presence = torch.cat([presence, torch.zeros(mistaken, device=device)])
        zeros = torch.zeros(empty, device=device)
        images = self.blur(torch.cat([images, nothing]))
        chosen = torch.randperm(count, device=device)[: round(count * DISTURBED_SHARE)]
        images[chosen] = disturb(images[chosen], disturbances(len(chosen), device))
        chosen = torch.randperm(count, device=device)[: round(count * DEGRADED_SHARE)]
        images[chosen] = degraded(images[chosen])
        return Batch(
            images.contiguous(memory_format=torch.channels_last),
            torch.cat([landmarks, landmarks.new_zeros(empty, *landmarks.shape[1:])]),
            torch.cat([bank.sure[hands], zeros]),
            torch.cat([right, zeros]),
            torch.cat([torch.ones(with_hand, device=device), presence]),
            torch.cat([bank.shape[hands], torch.full((empty,), -1, device=device)]),
            torch.cat([bank.trust[hands], zeros]),
        )

    def draw(self, rows: Tensor, matrix: Tensor, origin: Tensor, target: Tensor) -> Tensor:
        """Draw crops by affine maps; past the border its pixels, the mirror image or black."""
        bank = self.bank
        source, _ = bank.source(rows, matrix, origin, target)
        mirrored = float(torch.rand(())) < 0.4
        drawn, inside = bank.draw(source, SIZE, mirrored=mirrored, black=False)
        dark = torch.rand(len(rows), device=bank.device) < 0.2
        return drawn * (inside | ~dark[:, None, None])[:, None]

    def behind(self, count: int) -> Tensor:
        """Return backgrounds: float32[count, 3, 192, 192], pieces of pictures without hands."""
        bank, device = self.bank, self.bank.device
        rows = drawn_rows(bank.empty, count)
        whole = bank.sizes[rows, 0]
        side = whole.amax(dim=1) * uniform(-1.6, 0.2, count, device=device).exp()
        angle = torch.randn(count, device=device) * 0.4
        matrix = turn(angle) * (SIZE / side)[:, None, None]
        origin = whole * uniform(0.2, 0.8, count, 2, device=device)
        return self.draw(rows, matrix, origin, torch.full_like(origin, SIZE / 2))

    def replace(self, images: Tensor, landmarks: Tensor, green: Tensor) -> Tensor:
        """Replace the background of some hands, and cover some."""
        count, device = len(images), images.device
        chance = torch.rand(count, device=device)
        extra = uniform(0.0, 0.15, count, device=device)
        mask = enlarged(hand_mask(landmarks, extra)[:, None], SIZE / MASK)
        shade = images[:, 1] - torch.maximum(images[:, 0], images[:, 2])
        key = (1 - (shade - 0.04) * 12).clamp(0, 1)[:, None]
        keep = torch.where(green[:, None, None, None], key, mask)
        replaced = chance < torch.where(green, GREEN_SHARE, REPLACED_SHARE)
        keep = torch.where(replaced[:, None, None, None], keep, 1.0)
        position = (torch.arange(SIZE, device=device) + 0.5) / SIZE
        centre = uniform(0.05, 0.95, count, 2, device=device)
        radii = uniform(0.05, 0.2, count, 2, device=device)
        across = ((position[None] - centre[:, :1]) / radii[:, :1]) ** 2
        down = ((position[None] - centre[:, 1:]) / radii[:, 1:]) ** 2
        cover = ((1.2 - across[:, None, :] - down[:, :, None]) * 5).clamp(0, 1)[:, None]
        hidden = torch.rand(count, device=device) < HIDDEN_SHARE
        keep = keep * torch.where(hidden[:, None, None, None], 1 - cover, 1.0)
        behind = self.behind(count)
        plain = torch.rand(count, device=device) < 0.15
        colour = torch.rand(count, 3, 1, 1, device=device)
        behind = torch.where(plain[:, None, None, None], colour, behind)
        return torch.lerp(behind, images, keep)

    def without_hand(self, count: int) -> tuple[Tensor, Tensor]:
        """Return crops of anything, and their presence: 0, or NaN where a hand may be in sight."""
        bank, device = self.bank, self.bank.device
        anywhere = torch.randint(len(bank.sizes), (count,), device=device)
        half = torch.rand(count, device=device) < 0.5
        rows = torch.where(half, anywhere, drawn_rows(bank.empty, count))
        whole = bank.sizes[rows, 0]
        side = whole.amin(dim=1) * uniform(-2.2, 0.2, count, device=device).exp()
        angle = uniform(-math.pi, math.pi, count, device=device)
        matrix = turn(angle) * (SIZE / side)[:, None, None]
        origin = whole * uniform(0, 1, count, 2, device=device)
        images = self.draw(rows, matrix, origin, torch.full_like(origin, SIZE / 2))
        boxes = bank.boxes[rows]
        reach = 0.6 * side[:, None, None]
        near = (boxes[..., :2] - reach < origin[:, None]) & (
            origin[:, None] < boxes[..., 2:] + reach
        )
        seen = near.all(dim=-1).any(dim=-1)
        return images, torch.where(seen, torch.nan, 0.0)

    def mistaken(self, count: int) -> Tensor:
        """Return crops that were mistaken for a hand: float32[count, 3, 192, 192]."""
        bank, device = self.bank, self.bank.device
        chosen = torch.randint(len(bank.wrong), (count,), device=device)
        crop = bank.wrong_crops[chosen]
        scale = uniform(-0.3, 0.3, count, device=device).exp()
        angle = crop[:, 3] + torch.randn(count, device=device) * 0.3
        flip = torch.where(torch.rand(count, device=device) < 0.5, -1.0, 1.0)
        factors = torch.stack([flip, torch.ones_like(flip)], -1)
        factors = factors * (SIZE / (crop[:, 2] * scale))[:, None]
        target = SIZE / 2 + torch.randn(count, 2, device=device) * (0.06 * SIZE)
        return self.draw(bank.wrong[chosen], turn(angle) * factors[..., None], crop[:, :2], target)

    def blur(self, images: Tensor) -> Tensor:
        """Blur every fourth crop, as for small hands and bad focus."""
        part = len(images) // 8
        order = torch.randperm(len(images), device=images.device)
        for number, factor in enumerate((2, 3)):
            rows = order[number * part : (number + 1) * part]
            small = functional.avg_pool2d(images[rows], factor)
            images[rows] = functional.interpolate(
                small, size=(SIZE, SIZE), mode="bilinear", align_corners=False
            )
        return images


def finger_hearts(landmarks: Tensor) -> Tensor:
    """Return hands float32[n, 21, 3] in crops, with a finger heart made of curled fingers.

    There are no photos of it: thumb and index finger are laid so that their ends cross above the
    knuckles, everything about it drawn at random; the other fingers stay curled.
    """
    count, device = len(landmarks), landmarks.device
    hand = landmarks.clone()
    palm = (hand[:, 9, :2] - hand[:, 0, :2]).norm(dim=1).clamp(min=0.1)[:, None]
    up = (hand[:, 9, :2] - hand[:, 0, :2]) / palm
    # Towards the thumb's side of the hand.
    side = hand[:, 5, :2] - hand[:, 17, :2]
    side = side / side.norm(dim=1, keepdim=True).clamp(min=1e-3)

    def span(low: float, high: float) -> Tensor:
        length: Tensor = uniform(low, high, count, 1, device=device) * palm
        return length

    cross = hand[:, 5, :2] + up * span(0.15, 0.6) + side * span(0.0, 0.5)
    spread = uniform(15, 50, count, 1, device=device) * (math.pi / 180)
    tilt = uniform(-30, 45, count, 1, device=device) * (math.pi / 180)
    index_way = up * (tilt + spread).cos() + side * (tilt + spread).sin()
    thumb_way = up * (tilt - spread).cos() + side * (tilt - spread).sin()
    hand[:, 8, :2] = cross + index_way * span(0.05, 0.18)
    hand[:, 7, :2] = cross - index_way * span(0.06, 0.2)
    middle = (hand[:, 5, :2] + hand[:, 7, :2]) / 2
    hand[:, 6, :2] = middle + up * span(0.0, 0.2) - side * span(0.0, 0.2)
    hand[:, 4, :2] = cross + thumb_way * span(0.05, 0.18)
    hand[:, 3, :2] = cross - thumb_way * span(0.12, 0.28)
    base = (hand[:, 1, :2] + hand[:, 3, :2]) / 2
    hand[:, 2, :2] = base + side * span(0.0, 0.15)
    for point in (3, 4, 6, 7, 8):
        depth = hand[:, 5, 2:] + uniform(-0.25, 0.1, count, 1, device=device) * palm
        hand[:, point, 2:] = depth
    noise: Tensor = torch.randn_like(hand) * (0.02 * palm[:, None])
    return hand + noise
