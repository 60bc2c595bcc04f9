"""What the bar below the picture makes of the times of frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from palmkit.demos.app.page import Context


@pytest.mark.parametrize(
    ("is_still", "frames_ms", "said"),
    [
        # What opened models counts for no other frame; then it is a mean that follows slowly.
        (False, [900.0, *[10.0] * 8], "find 10.0 ms"),
        (False, [900.0, *[10.0] * 7, 20.0], "find 11.5 ms"),
        (True, [900.0, 10.0, 20.0], "find 20.0 ms"),
    ],
)
def test_times_are_of_frames_like_the_last(
    context: Context, complaints: list[str], is_still: bool, frames_ms: list[float], said: str
) -> None:
    from palmkit.demos.app.page import Outcome
    from palmkit.demos.app.pages.face import FacePage
    from palmkit.demos.app.source import Shot
    from palmkit.demos.app.status import Status
    from palmkit.demos.app.worker import Shown

    image = np.zeros((4, 4, 3), np.uint8)
    page, status = FacePage(context), Status(context.catalogue)
    status.show_page(page)
    for ms in frames_ms:
        outcome = Outcome(image, image, {"find": ms})
        status.show_outcome(Shown(page, Shot(image, 0.0, is_still), outcome, ms))
    assert status.text("status_stages") == said
