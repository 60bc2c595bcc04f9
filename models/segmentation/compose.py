"""Endless compositions of training pictures with their masks.

Crops from half bodies to whole ones, people cut out and set on other pictures or beside others;
every number is drawn anew for each batch, on the device.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from palmkit.models.segmentation.dataset import Bank
from palmkit.models.segmentation.frames import CLOSE, Frame, Framer
from palmkit.models.training.degrade import degraded
from palmkit.models.training.pixels import (
    Source,
    disturb,
    disturbances,
    drawn_rows,
    enlarged,
    log_uniform,
    uniform,
)

# Shares of the batch: someone cut out and set on a scene; someone more in front; a scene without
# anybody; nothing at all.
MOVED, CROWDED, EMPTY, BLANK = 0.35, 0.1, 0.03, 0.015
# Share of scenes in which striped cloth hangs.
STRIPED = 0.3
# Share of the pictures in which a part of another one is put; that part's width and height.
PATCHED, PATCH = 0.2, (0.3, 0.8)
# Share of the pictures as they are, of hair, in which someone gets a hat on; of those hats, the
# share with the look of other cloth.
HATTED, CLOTHED = 0.3, 0.4
# Share of the pictures, of portraits, in which an animal is before whatever is there, as in
# somebody's arms or on a lead; its longer side in shares of the view's.
BEFORE, ANIMAL = 0.2, (0.15, 0.9)
# Share of the pictures in light of one colour, and how far its red, green and blue lie apart (the
# spread of their logarithms). Share of the scenes, and of the pictures without anybody, whose
# colours are exchanged: flowers must not be told by being red, or red people are taken for flowers.
LIT, LIGHTS, EXCHANGED = 0.08, 0.8, 0.4
# Share of the batch that is as bad as pictures in albums are.
DEGRADED = 0.35


class Batch(NamedTuple):
    """A batch of compositions.

    images: float32[n, 3, s, s], RGB 0..1; target and weight: float32[n, 1, s, s] 0..1.
    """

    images: Tensor
    target: Tensor
    weight: Tensor


class Layer(NamedTuple):
    """A drawn picture: float32[n, 3, s, s], its target, weight, and opacity of cut-outs."""

    image: Tensor
    target: Tensor
    weight: Tensor
    alpha: Tensor


def draw(bank: Bank, source: Source, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return pictures, masks, and where they are: float32[n, 3, s, s] twice, bool[n, s, s]."""
    image, inside = bank.pictures.draw(source, size)
    masks, _ = bank.masks.draw(source, size)
    return image, masks, inside


def scenery(bank: Bank, source: Source, size: int) -> Tensor:
    """Return pictures that are mirrored past their edges, float32[n, 3, s, s]."""
    return bank.pictures.draw(source, size, mirrored=True)[0]


def soften(image: Tensor) -> Tensor:
    """Blur one picture in five as much as a small one would be."""
    device, count = image.device, len(image)
    for factor, share in ((2, 0.15), (4, 0.05)):
        soft = enlarged(functional.avg_pool2d(image, factor), factor)
        chosen = torch.rand(count, 1, 1, 1, device=device) < share
        image = torch.where(chosen, soft, image)
    return image


def lit(image: Tensor) -> Tensor:
    """Set some pictures in light of one colour, as of a stage, a lamp or the evening sun."""
    count, device = len(image), image.device
    light = (LIGHTS * torch.randn(count, 3, 1, 1, device=device)).exp()
    light = (
        light / light.amax(dim=1, keepdim=True) * uniform(0.8, 1.3, count, 1, 1, 1, device=device)
    )
    chosen = torch.rand(count, 1, 1, 1, device=device) < LIT
    return torch.where(chosen, (image * light).clamp(0, 1), image)


def exchanged(image: Tensor) -> Tensor:
    """Exchange the colours of some pictures: what was red is green or blue, and so on."""
    count, device = len(image), image.device
    order = torch.rand(count, 3, device=device).argsort(dim=1)[:, :, None, None]
    chosen = torch.rand(count, 1, 1, 1, device=device) < EXCHANGED
    return torch.where(chosen, image.gather(1, order.expand_as(image)), image)


def roughen(image: Tensor, ease: Tensor) -> Tensor:
    """Soften, light, and disturb in colour, light, noise and compression; ease as in compose.

    The last ones, in any order of pictures a share of all, are degraded after that.
    """
    count, device = len(image), image.device
    image = lit(soften(image))
    strength = uniform(0.0, 1.0, count, 1, 1, 1, device=device) * (1 - 0.6 * ease)
    image = torch.lerp(image, disturb(image, disturbances(count, device)), strength)
    good = count - round(DEGRADED * count)
    return torch.cat([image[:good], degraded(image[good:])])


def is_empty(target: Tensor, weight: Tensor) -> Tensor:
    """Return of which pictures it is known that nobody is there, bool[n, 1, 1, 1].

    target, weight: float32[n, 1, h, w], as of a Batch.
    """
    return (target.amax((1, 2, 3), True) == 0) & (weight.amin((1, 2, 3), True) > 0)


def patched(batch: Batch) -> Batch:
    """Put a part of the previous picture into some, masks too (CutMix, Yun et al., ICCV 2019)."""
    count, size, device = len(batch.images), batch.images.shape[-1], batch.images.device
    position = torch.linspace(0, 1, size, device=device).expand(2, count, size)
    half = uniform(*PATCH, 2, count, 1, device=device) / 2
    centre = torch.rand(2, count, 1, device=device)
    across, down = (position - centre).abs() < half
    chosen = torch.rand(count, 1, 1, device=device) < PATCHED
    part = (across[:, None, :] & down[:, :, None] & chosen)[:, None]
    return Batch(*(torch.where(part, each.roll(1, 0), each) for each in batch))


class Composer:
    """Draws batches from a bank."""

    def __init__(
        self,
        bank: Bank,
        task: str,
        size: int,
        close: float = CLOSE,
        crowded: float = CROWDED,
    ) -> None:
        """Draw from a bank.

        task: "portrait" or "hair"; size: of the square. close: share of the pictures seen as by a
        second look. crowded: share with someone more in front.
        """
        self.bank, self.size, self.crowded = bank, size, crowded
        self.framer = Framer(bank, task, close)
        self.ease = torch.zeros((), device=bank.device)

    def compose(self, count: int, ease: Tensor) -> Batch:
        """Return `count` compositions.

        ease: float32[], 0..1, how close to unmodified pictures.
        """
        self.ease = ease
        bank, device = self.bank, self.bank.device
        moved = round(MOVED * count)
        bare = [max(1, round(share * count)) for share in (EMPTY, BLANK)]
        cut = drawn_rows(bank.cut_weights, moved)
        rows = drawn_rows(bank.weights, count - moved - sum(bare))
        front = self.layer(cut, self.framer.framed(cut, True, ease))
        scene = self.scene(drawn_rows(bank.empty_weights, moved + bare[0]))
        pasted = torch.lerp(scene[:moved], self.recolour(front.image), front.alpha)
        # Away from the cut-out the scene is known to be empty.
        far = functional.max_pool2d(front.alpha, 9, 1, 4) < 0.05
        seen = self.framer.framed(rows, False, ease)
        turned = self.matrix(seen)
        plain = self.layer(rows, seen, turned)
        if bank.has_hats:
            plain = self.hatted(plain, rows, seen, turned)
        order = torch.rand(moved + len(rows), device=device).argsort()
        image = torch.cat([pasted, plain.image])[order]
        target = torch.cat([front.target, plain.target])[order]
        weight = torch.cat([torch.where(far, 1.0, front.weight), plain.weight])[order]

        others = drawn_rows(bank.cut_weights, round(self.crowded * count))
        above = self.layer(others, self.framer.beside(others))
        alone = len(others)
        share = above.alpha
        image = torch.cat(
            [torch.lerp(image[:alone], self.recolour(above.image), share), image[alone:]]
        )
        target = torch.cat([torch.lerp(target[:alone], above.target, share), target[alone:]])
        weight = torch.cat([torch.lerp(weight[:alone], above.weight, share), weight[alone:]])

        if bank.has_animals:
            image, target, weight = self.hidden(Batch(image, target, weight))
        image = torch.cat([image, scene[moved:], self.blank(bare[1])])
        nothing = torch.zeros_like(image[: sum(bare), :1])
        target = torch.cat([target, nothing])
        weight = torch.cat([weight, nothing + 1])

        image = torch.where(is_empty(target, weight), exchanged(image), image)
        order = torch.rand(count, device=device).argsort()
        return Batch(image[order], target[order], weight[order])

    def matrix(self, frame: Frame) -> Tensor:
        """Return picture to square, float32[n, 2, 2], slightly rotated, mirrored half the time."""
        device, count = self.bank.device, len(frame.span)
        wild = torch.where(torch.rand(count, device=device) < 0.1, 4.0, 1.0)
        angle = torch.randn(count, device=device) * wild * ((5 - 3 * self.ease) * np.pi / 180)
        flip = torch.where(torch.rand(count, device=device) < 0.5, -1.0, 1.0)
        scale = self.size / frame.span
        cos, sin = angle.cos(), angle.sin()
        turn = torch.stack(
            [torch.stack([cos * flip, -sin], 1), torch.stack([sin * flip, cos], 1)], 1
        )
        # Turned in the picture's own proportions, then stretched to the square.
        return scale[:, :, None] * turn

    def layer(self, rows: Tensor, frame: Frame, matrix: Tensor | None = None) -> Layer:
        """Draw pictures with their masks; outside of them black, or mirrored scenery.

        matrix: of the frame, if it is already known.
        """
        target = torch.full_like(frame.centre, self.size / 2)
        return self.placed(rows, self.matrix(frame) if matrix is None else matrix, frame, target)

    def placed(self, rows: Tensor, matrix: Tensor, frame: Frame, target: Tensor) -> Layer:
        """Draw as `layer`.

        target: float32[n, 2], where in the square the frame's centre is.
        """
        bank = self.bank
        source, _ = bank.pictures.source(rows, matrix, frame.centre, target)
        image, masks, inside = draw(bank, source, self.size)
        trust = bank.trust[rows][:, None, None, None]
        # Black beside a picture is never a person; it counts little.
        weight = torch.where(inside[:, None], masks[:, 1:2] * trust, 0.3)
        return Layer(image, masks[:, :1], weight, masks[:, 2:])

    def hatted(self, plain: Layer, rows: Tensor, frame: Frame, matrix: Tensor) -> Layer:
        """Put hats of other pictures on the first ones, in any colour.

        rows, frame, matrix: as the pictures were drawn.
        """
        bank, device = self.bank, self.bank.device
        count = round(HATTED * len(rows))
        head, hats = bank.faces[rows[:count]], drawn_rows(bank.hat_weights, count)
        worn = bank.faces[hats]
        matrix = matrix[:count]
        middle, other = (face[:, :2] + face[:, 2:] / 2 for face in (head, worn))
        sizes = [face[:, 2:].amax(dim=1).clamp(min=1) for face in (head, worn)]
        grow = sizes[0] / sizes[1] * (0.08 * torch.randn(count, device=device)).exp()
        target = torch.einsum("nij,nj->ni", matrix, middle - frame.centre[:count]) + self.size / 2
        target = target + 0.015 * self.size * torch.randn(count, 2, device=device)
        hat = self.placed(hats, matrix * grow[:, None, None], Frame(other, other), target)
        share = hat.alpha * (head[:, 2] > 0)[:, None, None, None]
        image = torch.lerp(plain.image[:count], self.dyed(hat.image, hat.alpha), share)
        rest = Layer(*(part[count:] for part in plain))
        weight = torch.maximum(plain.weight[:count], share)
        bare = plain.target[:count] * (1 - share)
        mixed = (image, bare, weight, plain.alpha[:count])
        return Layer(*(torch.cat(pair) for pair in zip(mixed, rest, strict=True)))

    def hidden(self, batch: Batch) -> Batch:
        """Set an animal before the last ones: it is nobody, and hides who is behind it."""
        bank, device = self.bank, self.bank.device
        count = round(BEFORE * len(batch.images))
        rows = drawn_rows(bank.animal_weights, count)
        box = bank.people[rows]
        share = log_uniform(*ANIMAL, count, 1, device=device)
        wide = (0.15 * torch.randn(count, 2, device=device)).exp()
        frame = Frame(box[:, :2] + box[:, 2:] / 2, box[:, 2:].amax(1, keepdim=True) / share * wide)
        place = self.size * uniform(0.1, 0.9, count, 2, device=device)
        animal = self.placed(rows, self.matrix(frame), frame, place)
        before = (self.recolour(animal.image), animal.target, animal.weight)
        rest = len(batch.images) - count
        return Batch(
            *(
                torch.cat([each[:rest], torch.lerp(each[rest:], new, animal.alpha)])
                for each, new in zip(batch, before, strict=True)
            )
        )

    def dyed(self, image: Tensor, alpha: Tensor) -> Tensor:
        """Give hats another colour, or another cloth with the same folds."""
        device, count = image.device, len(image)
        grey = image.mean(dim=1, keepdim=True)
        mean = (grey * alpha).sum(dim=(2, 3), keepdim=True) / alpha.sum(
            dim=(2, 3), keepdim=True
        ).clamp(min=1)
        folds = (grey / mean.clamp(min=0.03)).clamp(0.2, 3)
        cloth = self.scene(drawn_rows(self.bank.empty_weights, count)) * folds
        is_cloth = torch.rand(count, 1, 1, 1, device=device) < CLOTHED
        light = uniform(-1.0, 0.7, count, 1, 1, 1, device=device).exp()
        tint = (0.3 * torch.randn(count, 3, 1, 1, device=device)).exp()
        as_it_is = torch.rand(count, 1, 1, 1, device=device) < 0.25
        coloured = torch.where(as_it_is, image, image * light * tint)
        return torch.where(is_cloth, cloth, coloured).clamp(0, 1)

    def scene(self, rows: Tensor) -> Tensor:
        """Draw pictures without people at any scale, mirrored past their edges; some plain."""
        bank, device, count = self.bank, self.bank.device, len(rows)
        whole = bank.pictures.sizes[rows, 0]
        span = whole * uniform(-1.2, 0.3, count, 1, device=device).exp()
        frame = Frame(whole * uniform(0.2, 0.8, count, 2, device=device), span)
        target = torch.full_like(frame.centre, self.size / 2)
        source, _ = bank.pictures.source(rows, self.matrix(frame), frame.centre, target)
        image = scenery(bank, source, self.size)
        plain = torch.rand(count, 3, 1, 1, device=device)
        is_plain = torch.rand(count, 1, 1, 1, device=device) < 0.1
        blurred = enlarged(functional.avg_pool2d(image, 4), 4)
        is_blurred = torch.rand(count, 1, 1, 1, device=device) < 0.25
        image = torch.where(is_blurred, blurred, image)
        return self.striped(torch.where(is_plain, plain, exchanged(image)))

    def striped(self, image: Tensor) -> Tensor:
        """Add waving striped cloth, such as flags and awnings, to some of the pictures."""
        device, shape = image.device, (len(image), 1, 1, 1)

        def draw(low: float, high: float) -> Tensor:
            return uniform(low, high, *shape, device=device)

        position = torch.linspace(-1, 1, self.size, device=device)
        x, y = position.reshape(1, 1, 1, -1) - draw(-1, 1), position[:, None] - draw(-1, 1)
        angle = draw(-np.pi, np.pi)
        along, across = angle.cos() * x + angle.sin() * y, angle.cos() * y - angle.sin() * x
        wave = (draw(2, 9) * along + draw(0, 6) * across + draw(0, 6)).sin()
        # A corner of it has another colour, as most flags have.
        stripe = (draw(3, 16) * (across + draw(0, 0.12) * wave)).floor() % 2
        corner = (along < draw(-0.5, 0.1)) & (across < draw(-0.3, 0.3))
        colours = torch.rand(len(image), 3, 3, 1, device=device).sqrt().unbind(2)
        one, two, three = (each[..., None] for each in colours)
        cloth = torch.where(corner, three, torch.lerp(one, two, stripe))
        cloth = cloth * (1 + draw(0, 0.25) * wave)
        within = (along.abs() < draw(0.2, 1)) & (across.abs() < draw(0.1, 0.7))
        hangs = torch.rand(shape, device=device) < STRIPED
        return torch.where(within & hangs, cloth.clamp(0, 1), image)

    def blank(self, count: int) -> Tensor:
        """Draw one colour, black in four of ten, with noise as of a covered camera."""
        device, shape = self.bank.device, (count, 1, 1, 1)
        lit = torch.rand(shape, device=device) < 0.6
        colour = torch.rand(count, 3, 1, 1, device=device) * lit
        strength = uniform(-1.0, 1.0, *shape, device=device).clamp(min=0) ** 2
        noise = torch.rand(count, 3, self.size, self.size, device=device) * strength
        return (colour + noise).clamp(0, 1)

    def recolour(self, image: Tensor) -> Tensor:
        """Give cut-out people the light of another place."""
        device, count = image.device, len(image)
        light = uniform(0.75, 1.25, count, 1, 1, 1, device=device)
        tint = 1 + 0.07 * torch.randn(count, 3, 1, 1, device=device)
        return (image * light * tint).clamp(0, 1)
