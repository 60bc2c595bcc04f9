"""A scene with a red disc, and a stand-in for the networks: what is red is a person."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.ir import Type
from palmkit.kits.image import Image

SIDE = 64
RED = (200, 30, 30)


class Reds:
    """Takes for a person what is red; says so at side x side, blurred like a network's edges.

    finds: as the finder, at half the side.
    """

    metadata: Mapping[str, str] = {}

    def __init__(self, noise: float = 0, finds: bool = False, side: int = SIDE) -> None:
        self.side = side
        self.inputs = {"image": Type("float32", (1, side, side, 3))}
        self.views: list[NDArray[np.float32]] = []
        self._noise, self._finds = noise, finds
        self._random = np.random.default_rng(0)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        import cv2

        image = inputs["image"]
        assert image.dtype == np.float32 and image.shape == (1, self.side, self.side, 3)
        self.views.append(image[0])
        red = np.clip((image[0, :, :, 0] - image[0, :, :, 1]) / 170, 0, 1)
        red = np.asarray(cv2.GaussianBlur(red, (0, 0), 0.8))
        red = red + self._noise * self._random.standard_normal(red.shape)
        if self._finds:
            red = red.reshape(self.side // 2, 2, self.side // 2, 2).mean(axis=(1, 3))
        return {"mask": np.clip(red, 0, 1).astype(np.float32)[None, :, :, None]}


class NearReds(Reds):
    """Sees nobody who is less than this share of a view."""

    least = 0.01

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        import cv2

        mask = super().run(inputs)["mask"]
        around = (mask[0, :, :, 0] > 0.1).astype(np.uint8)
        count, labels = cv2.connectedComponents(around)
        for label in range(1, count):
            person = np.asarray(labels) == label
            if (mask[0, person] > 0.5).sum() < self.least * person.size:
                mask[0, person] = 0
        return {"mask": mask}


def scene(height: int = 240, width: int = 320, shift: int = 0) -> tuple[Image, NDArray[np.bool_]]:
    """Return a red disc on a gray ramp, and its mask."""
    y, x = np.mgrid[:height, :width] + 0.5
    inside = (x - width / 2 - shift) ** 2 + (y - height / 2) ** 2 < (0.3 * height) ** 2
    ramp = np.repeat((120 + 100 * x / width)[..., None], 3, axis=2)
    return np.where(inside[..., None], RED, ramp).astype(np.uint8), inside


def squares(*places: tuple[int, int, int, int]) -> tuple[Image, NDArray[np.bool_]]:
    """Return a large grey picture with people at x, y, width and height, and where they are."""
    image = np.full((1200, 1800, 3), 120, np.uint8)
    for x, y, width, height in places:
        image[y : y + height, x : x + width] = RED
    return image, image[..., 0] == RED[0]


def iou(a: NDArray[Any], b: NDArray[Any]) -> float:
    return float((a & b).sum() / (a | b).sum())
