"""The published mask networks, which teach and which the evaluation sets beside our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Picture = npt.NDArray[np.uint8]


def stretched(picture: Picture, size: int) -> Picture:
    """Return uint8[size, size, 3], averaged where the picture is larger."""
    smaller = picture.shape[0] > size or picture.shape[1] > size
    method = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, (size, size), interpolation=method), np.uint8)


def twice(once: Callable[[Picture], Array], picture: Picture) -> Array:
    """Return the mean of a mask of the picture and of one of its mirror image, float32[h, w]."""
    mirrored = once(np.ascontiguousarray(picture[:, ::-1]))
    return np.asarray((once(picture) + mirrored[:, ::-1]) / 2, np.float32)


class PersonTeacher:
    """MediaPipe's selfie segmentation; over mirror images and windows if asked."""

    def __init__(self, path: Path) -> None:
        """Open the network file."""
        from palmkit.engine import load

        self.model = load(path)
        (self.name,) = self.model.inputs

    def once(self, picture: Picture) -> Array:
        """Return float32[h, w] 0..1, as MediaPipe's graph computes it."""
        image = stretched(picture, 256).astype(np.float32)[None] / 255
        (mask,) = self.model.run({self.name: image}).values()
        height, width = picture.shape[:2]
        return np.asarray(cv2.resize(mask[0, ..., 0], (width, height)), np.float32)

    def twice(self, picture: Picture) -> Array:
        """Return the mean over the picture and its mirror image."""
        return twice(self.once, picture)

    def __call__(self, picture: Picture) -> Array:
        """Return the mean over the whole picture and squares along its longer side."""
        height, width = picture.shape[:2]
        side = min(height, width)
        total, weight = 2 * self.twice(picture), np.full((height, width), 2, np.float32)
        if max(height, width) > 1.2 * side:
            count = 2 if max(height, width) < 2 * side else 3
            for step in range(count):
                top = (height - side) * step // (count - 1)
                left = (width - side) * step // (count - 1)
                part = np.ascontiguousarray(picture[top : top + side, left : left + side])
                total[top : top + side, left : left + side] += self.twice(part)
                weight[top : top + side, left : left + side] += 1
        return np.asarray(total / weight, np.float32)


class HairTeacher:
    """MediaPipe's hair segmentation, without a mask of the frame before."""

    def __init__(self, path: Path) -> None:
        """Open the network file."""
        from palmkit.engine import load

        self.model = load(path)
        (self.name,) = self.model.inputs

    def once(self, picture: Picture) -> Array:
        """Return float32[h, w] 0..1, as MediaPipe's graph computes it on a first frame."""
        image = np.zeros((1, 512, 512, 4), np.float32)
        image[0, ..., :3] = stretched(picture, 512).astype(np.float32) / 255
        (logits,) = self.model.run({self.name: image}).values()
        mask = 1 / (1 + np.exp(logits[0, ..., 0] - logits[0, ..., 1]))
        height, width = picture.shape[:2]
        return np.asarray(cv2.resize(mask, (width, height)), np.float32)

    def __call__(self, picture: Picture) -> Array:
        """Return the mean over the picture and its mirror image."""
        return twice(self.once, picture)
