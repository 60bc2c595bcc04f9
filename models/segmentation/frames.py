"""Which part of a training picture fills the square of a composition."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from palmkit.kits.portrait.views import HEAD_HEIGHT, HEAD_ROOM, HEAD_SIDE
from palmkit.models.segmentation.crop import DROP, REACH
from palmkit.models.segmentation.dataset import Bank
from palmkit.models.training.pixels import log_uniform, uniform

# Share of the pictures seen as the kit's second look does: the people alone, with a margin of so
# much of their width and height.
CLOSE, MARGIN = 0.3, (0.05, 0.35)
# How many times the width and height of a cut-out's picture the view has, at most: people far away.
FAR = 2.8
# Share of the people cut out who are partly beyond the view's border, by up to so much of the
# smaller of view and picture.
BEYOND, BEYOND_BY = 0.2, 0.4
# Shares of the pictures, of hair, seen round a face where there is one; up to that share, by
# whether there is one, round the head of a person.
BY_FACE, BY_HEAD = 0.65, (0.9, 0.5)


class Frame(NamedTuple):
    """The part of a picture that fills the square.

    centre: float32[n, 2] in the picture; span: float32[n, 2], pixels of it across the square.
    """

    centre: Tensor
    span: Tensor


class Framer:
    """Draws frames of a bank's pictures."""

    def __init__(self, bank: Bank, task: str, close: float = CLOSE) -> None:
        """Draw from a bank.

        task: "portrait" or "hair". close: share of the pictures seen as by a second look.
        """
        self.bank, self.task, self.close = bank, task, close

    def framed(self, rows: Tensor, wide: bool, ease: Tensor) -> Frame:
        """Return which part of each picture is seen.

        wide: include views beyond the picture. ease: float32[], 0..1, how often nearly all is seen.
        """
        if self.task == "hair":
            return self.hair_frame(rows, ease)
        plain, close = self.frame(rows, wide, ease), self.close_frame(rows)
        known = self.bank.people[rows, 2:].amin(dim=1, keepdim=True) > 0
        chosen = known & (torch.rand(len(rows), 1, device=self.bank.device) < self.close)
        return Frame(
            torch.where(chosen, close.centre, plain.centre),
            torch.where(chosen, close.span, plain.span),
        )

    def close_frame(self, rows: Tensor) -> Frame:
        """Return the box of the people, with a margin as far as the picture goes."""
        device, box = self.bank.device, self.bank.people[rows]
        margin = uniform(*MARGIN, len(rows), 4, device=device) * box[:, 2:].repeat(1, 2)
        low = (box[:, :2] - margin[:, :2]).clamp(min=0)
        high = box[:, :2] + box[:, 2:] + margin[:, 2:]
        high = torch.minimum(high, self.bank.pictures.sizes[rows, 0])
        return Frame((low + high) / 2, high - low)

    def frame(self, rows: Tensor, wide: bool, ease: Tensor) -> Frame:
        """Return often nearly the whole picture, else part of it, sometimes more than it."""
        device, count = self.bank.device, len(rows)
        whole = self.bank.pictures.sizes[rows, 0]
        near = uniform(0.85, 1.05, count, 2, device=device)
        face = self.bank.faces[rows, 2:].amax(dim=1, keepdim=True)
        least = (2 * face / whole.amax(dim=1, keepdim=True)).clamp(0.35, 0.9)
        scale = (least.log() * torch.rand(count, 1, device=device)).exp()
        part = scale * (torch.randn(count, 2, device=device) * 0.18).exp()
        kind = torch.rand(count, 1, device=device)
        share = torch.where(kind < 0.65 + 0.2 * ease, near, part)
        if wide:
            more = log_uniform(0.9, FAR, count, 1, device=device)
            share = torch.where(kind > 0.4, more.expand(-1, 2), share)
        share = share.clamp(max=FAR)
        span = whole * share
        # Pictures that are very wide or high are seen less stretched now and then.
        square = span.amin(dim=1, keepdim=True).expand(-1, 2) * 1.15
        free = torch.rand(count, 1, device=device) < 0.25
        span = torch.where(free, torch.minimum(square, span), span)
        room = (whole - span).abs() / 2 + 0.03 * whole
        if wide:
            beyond = torch.rand(count, 1, device=device) < BEYOND
            room = room + BEYOND_BY * beyond * torch.minimum(whole, span)
        centre = whole / 2 + room * uniform(-1, 1, count, 2, device=device)
        return Frame(centre, span)

    def hair_frame(self, rows: Tensor, ease: Tensor) -> Frame:
        """Return mostly the square that the kit cuts round the face, or the head of a person."""
        device, count = self.bank.device, len(rows)
        face = self.bank.faces[rows]
        long = face[:, 2:].amax(dim=1, keepdim=True)
        whole = self.bank.pictures.sizes[rows, 0]
        most = whole.amax(dim=1, keepdim=True)
        side = torch.minimum(REACH * long, most)
        side = side * (0.15 * torch.randn(count, 1, device=device)).exp()
        centre = face[:, :2] + face[:, 2:] / 2
        by_face = self.square(centre + functional.pad(DROP * long, (1, 0)), side, whole)
        head = self.head_frame(rows)
        plain = self.frame(rows, False, ease)
        drawn = torch.rand(count, 1, device=device)
        near_head = (head.span[:, :1] > 0) & (drawn < torch.where(long > 0, *BY_HEAD))
        near_face = (long > 0) & (drawn < BY_FACE)

        def chosen(faces: Tensor, heads: Tensor, plain: Tensor) -> Tensor:
            return torch.where(near_face, faces, torch.where(near_head, heads, plain))

        return Frame(*map(chosen, by_face, head, plain))

    def head_frame(self, rows: Tensor) -> Frame:
        """Return the square round a person's head that the kit guesses where it sees no face."""
        device, box = self.bank.device, self.bank.people[rows]
        whole = self.bank.pictures.sizes[rows, 0]
        noise = torch.randn(len(rows), 3, device=device)
        side = HEAD_SIDE * torch.maximum(box[:, 2:3], HEAD_HEIGHT * box[:, 3:])
        side = torch.minimum(side, whole.amax(dim=1, keepdim=True)) * (0.2 * noise[:, :1]).exp()
        across, top = box[:, :1] + box[:, 2:3] / 2, box[:, 1:2]
        middle = torch.cat([across, top + (0.5 - HEAD_ROOM) * side], 1)
        return self.square(middle + 0.1 * side * noise[:, 1:], side, whole)

    def square(self, centre: Tensor, side: Tensor, whole: Tensor) -> Frame:
        """Return a square, moved inside of the picture as far as it goes, slightly displaced.

        centre: float32[n, 2]; side: float32[n, 1]; whole: float32[n, 2], the picture's size.
        """
        count, device = len(side), side.device
        free = whole - side
        corner = (centre - side / 2).clamp(min=free.clamp(max=0), max=free.clamp(min=0))
        centre = corner + side / 2 + 0.05 * side * torch.randn(count, 2, device=device)
        return Frame(centre, side * (0.06 * torch.randn(count, 2, device=device)).exp())

    def beside(self, rows: Tensor) -> Frame:
        """Place someone anywhere, often partly outside."""
        device, count = self.bank.device, len(rows)
        whole = self.bank.pictures.sizes[rows, 0]
        span = whole * uniform(-0.4, 1.0, count, 1, device=device).exp()
        return Frame(whole / 2 + span * uniform(-0.55, 0.55, count, 2, device=device), span)
