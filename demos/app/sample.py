"""The built-in samples: a photograph of a development package, or our drawing, moving."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import count

import numpy as np

from palmkit.kits import live
from palmkit.kits.image import Image

FRAMES_PER_S = 30.0
SIZE = (640, 480)
PERIOD_S = 12.0


def sample_frames(kind: str) -> Iterator[tuple[Image, float]]:
    """Yield the frames of a sample and their timestamp_ms, without end.

    kind: "portrait": the photograph if available, else as "drawing": our own figure.
    """
    from palmkit.demos.app.drawing import draw

    photograph = _photograph() if kind == "portrait" else None
    for index in count():
        time_s = index / FRAMES_PER_S
        image = draw(time_s) if photograph is None else _view(photograph, time_s)
        yield image, time_s * 1e3


@lru_cache(maxsize=1)
def _photograph() -> Image | None:
    """Return NASA's portrait of Eileen Collins, public domain, if scikit-image is installed."""
    try:
        return live.sample("face")
    except Exception:  # A development package makes no promises.
        return None


def _view(photograph: Image, time_s: float) -> Image:
    """Return a part of the picture that moves and grows slowly, as with a hand-held camera."""
    import cv2

    turn = 2 * math.pi * time_s / PERIOD_S
    height, width = photograph.shape[:2]
    scale = SIZE[0] / width * (1.06 + 0.05 * math.sin(turn))
    centre_x = width / 2 + 12 * math.sin(turn + 1)
    centre_y = height * 0.38 + 8 * math.sin(2 * turn)
    angle = math.radians(2.5 * math.sin(turn + 2))
    cos, sin = scale * math.cos(angle), scale * math.sin(angle)
    matrix = np.array([[cos, -sin, 0.0], [sin, cos, 0.0]])
    matrix[:, 2] = np.array(SIZE) / 2 - matrix[:, :2] @ (centre_x, centre_y)
    view = cv2.warpAffine(photograph, matrix, SIZE, borderMode=cv2.BORDER_REFLECT_101)
    return np.asarray(view, np.uint8)
