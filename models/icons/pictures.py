"""Sets of pictures on the network's device, and processes that keep drawing new ones."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palmkit.models.icons.draw import Look, draw_part, processes_of

Drawn: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.int64]]
# Pictures that a process draws at once, and how many such parts are queued.
PART, AHEAD = 256, 3


class Painters:
    """Processes that draw picture after picture of one seed, never the same twice."""

    def __init__(self, seed: int, look: Look, processes: int) -> None:
        """Start the processes.

        processes: with none nothing is drawn.
        """
        self.seed, self.look = seed, look
        self.next = 0
        self.wanted = AHEAD * processes
        self.waiting: deque[Future[Drawn]] = deque()
        self.pool = processes_of(processes) if processes else None

    def begin(self, number: int) -> None:
        """Draw from this number on."""
        self.next = number
        self._ask()

    def _ask(self) -> None:
        while self.pool is not None and len(self.waiting) < self.wanted:
            task = self.pool.submit(draw_part, self.seed, self.look, self.next, self.next + PART)
            self.waiting.append(task)
            self.next += PART

    def finished(self) -> list[Drawn]:
        """Return what was drawn since the last call."""
        drawn: list[Drawn] = []
        while self.waiting and self.waiting[0].done():
            drawn.append(self.waiting.popleft().result())
        self._ask()
        return drawn

    def close(self) -> None:
        """Stop drawing."""
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)


class Pictures:
    """A set on the device; new pictures replace the oldest once it is full."""

    def __init__(self, drawn: Drawn, device: torch.device, room: int = 0) -> None:
        """Start with drawn pictures.

        drawn: as draw_set returns them. room: capacity, if that is more.
        """
        pictures, kinds = drawn
        most = max(room, len(kinds))
        self.pictures = torch.empty((most, *pictures.shape[1:]), dtype=torch.uint8, device=device)
        self.kinds = torch.empty(most, dtype=torch.int64, device=device)
        self.filled = torch.zeros((), device=device)
        self.count = self.place = 0
        self.add(drawn)

    def add(self, drawn: Drawn) -> None:
        """Add pictures."""
        pictures, kinds = drawn
        room = len(self.kinds) - self.place
        for first, last in ((0, room), (room, len(kinds))):
            end = min(last, len(kinds))
            if first >= end:
                continue
            where = slice(self.place, self.place + end - first)
            self.pictures[where] = torch.from_numpy(pictures[first:end]).to(self.pictures.device)
            self.kinds[where] = torch.from_numpy(kinds[first:end]).to(self.kinds.device)
            self.count = max(self.count, where.stop)
            self.place = where.stop % len(self.kinds)
        self.filled.fill_(self.count)

    def batch(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Return images float32[n, 3, h, w], 0..255, and classes."""
        return self.pictures[rows].permute(0, 3, 1, 2).float(), self.kinds[rows]

    def varied(self, count: int) -> tuple[Tensor, Tensor]:
        """Return a random batch, mirrored, inverted and with its colours permuted.

        A picture is as likely as any of its variants (except for the mirrored one's light, which is
        even anyway), so that they are new pictures of the same distribution.
        """
        device = self.kinds.device
        rows = (torch.rand(count, device=device) * self.filled).long()
        rows = torch.minimum(rows, (self.filled - 1).long())
        images = self.pictures[rows]

        def chance() -> Tensor:
            return torch.rand(count, 1, 1, 1, device=device) < 0.5

        # Bytes in their memory order: channels last.
        images = torch.where(chance(), images.flip(2), images)
        images = torch.where(chance(), ~images, images)
        images = torch.where(chance(), images.roll(1, 3), images)
        images = torch.where(chance(), images.flip(3), images)
        return images.permute(0, 3, 1, 2).float(), self.kinds[rows]
