"""Make the picture of kits/tryon/README.md and README.md anew.

`python -m tests.kits.try_on_example` tries seven looks on NASA's portrait of Eileen Collins.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import skimage.data

from palmkit import kits
from palmkit.kits.image import Image, resize

EXAMPLE = Path(__file__).parents[2] / "kits/tryon/example.jpg"
LOOKS: tuple[tuple[dict[str, Any], ...], ...] = (
    ({}, {"lipstick": "classic_red"}, {"look": "evening"}, {"hair": "violet"}),
    (
        {"glasses": "tortoise_round"},
        {"look": "party"},
        {"hair": "platinum", "lipstick": "plum"},
        {"look": "beach"},
    ),
)
# Rows and columns of the portrait.
HEAD = slice(10, 228), slice(116, 334)
SIDE = 260


def example() -> Image:
    """Return the face as it is and with each look, uint8[h, w, 3]."""
    portrait = kits.read_image(skimage.data.astronaut())  # type: ignore[no-untyped-call]

    def worn(look: dict[str, Any]) -> Image:
        picture = kits.try_on(portrait, **look).after if look else portrait
        return resize(np.ascontiguousarray(picture[HEAD]), SIDE, SIDE)

    return np.vstack([np.hstack([worn(look) for look in row]) for row in LOOKS])


if __name__ == "__main__":
    kits.write_image(EXAMPLE, example())
