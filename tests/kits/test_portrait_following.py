"""People who are small in a video are looked at closely, and followed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits import PortraitSegmenter
from palmkit.kits.image import Image, Part
from palmkit.kits.portrait.following import EVERY, GLANCES, HELD_S, LATER, REST
from palmkit.kits.portrait.search import FAR_PARTS
from tests.kits.drawn_portraits import RED, NearReds, iou, squares

STEP_MS = 1000 / 30
# After so many frames all parts of a frame have been glanced at.
TURN = -(-sum(count * count for count, _ in FAR_PARTS) // GLANCES)


class Video:
    """A kit and the frames that it has seen."""

    def __init__(self, least: float = 0.01, **options: Any) -> None:
        self.network, self.finder = NearReds(), NearReds(finds=True)
        self.network.least = self.finder.least = least
        self._kit = PortraitSegmenter(
            "video", model=self.network, finder_model=self.finder, **options
        )
        self._count = 0

    def mask(self, image: Image, roi: Part | None = None) -> NDArray[np.float32]:
        """The next frame's."""
        self._count += 1
        return self._kit.segment(image, self._count * STEP_MS, roi=roi).mask

    def looks(self, image: Image, roi: Part | None = None) -> int:
        """How often the network looks at the next frame."""
        before = len(self.network.views)
        self.mask(image, roi)
        return len(self.network.views) - before


def walk(
    count: int, x: int, y: int, wide: int, high: int, step: int
) -> Iterator[tuple[Image, NDArray[np.bool_]]]:
    """Somebody who goes to the right."""
    for number in range(count):
        yield squares((x + number * step, y, wide, high))


def test_somebody_far_away_is_found_in_a_turn_of_glances_and_followed() -> None:
    video = Video()
    shares = [
        iou(video.mask(image) > 0.5, inside) for image, inside in walk(40, 300, 500, 60, 110, 8)
    ]
    assert shares[0] == 0
    assert min(shares[TURN:]) > 0.85
    # A look at somebody alone shows them large.
    assert (video.network.views[-1][..., 0] > 150).mean() > 0.2


def test_where_nobody_is_there_are_fewer_glances_after_a_turn() -> None:
    video = Video()
    nobody, _ = squares()
    glances: list[int] = []
    for _ in range(TURN + 3):
        before = len(video.finder.views)
        assert video.looks(nobody) == 1
        glances.append(len(video.finder.views) - before)
    assert glances == [GLANCES] * TURN + [LATER] * 3


def test_who_is_followed_takes_one_look_and_all_of_the_frame_another_at_times() -> None:
    image, _ = squares((300, 400, 300, 300))
    video = Video()
    assert video.looks(image) > 2
    assert [video.looks(image) for _ in range(2 * EVERY)] == [1] * (EVERY - 1) + [2] + [1] * (
        EVERY - 1
    ) + [2]
    # Nobody else is looked for where a hundredth of the frame is people.
    assert not video.finder.views


def test_whoever_a_closer_look_does_not_see_for_sure_is_not_followed() -> None:
    """All of each frame is looked at, and closer again after a while."""
    video = Video()
    run = video.network.run
    video.network.run = lambda inputs: {"mask": run(inputs)["mask"] * np.float32(0.9)}  # type: ignore[method-assign]
    image, inside = squares((300, 400, 300, 300))
    assert iou(video.mask(image) > 0.5, inside) > 0.85
    again = len(video.network.views) - 1
    looks = [video.looks(image) for _ in range(2 * (REST + 1))]
    assert looks == [*[1] * REST, 1 + again] * 2


def test_whoever_moves_out_of_what_is_looked_at_is_looked_at_again() -> None:
    video = Video()
    shares = [
        iou(video.mask(image) > 0.5, inside) for image, inside in walk(12, 100, 400, 300, 300, 100)
    ]
    assert min(shares) > 0.85


def test_somebody_near_who_appears_is_seen_in_a_few_frames() -> None:
    video = Video()
    alone, _ = squares((1500, 300, 200, 200))
    both, inside = squares((1500, 300, 200, 200), (200, 100, 800, 1000))
    for _ in range(5):
        assert video.mask(alone).max() > 0.5
    masks = [video.mask(both) for _ in range(EVERY)]
    assert iou(masks[-1] > 0.5, inside) > 0.9
    # Of both together a quarter of the frame is people: one look at all of it.
    assert {video.looks(both) for _ in range(EVERY)} == {1}


def test_another_small_person_who_appears_is_followed_as_well() -> None:
    video = Video()
    alone, _ = squares((1500, 300, 200, 200))
    both, inside = squares((1500, 300, 200, 200), (200, 700, 200, 200))
    for _ in range(5):
        video.mask(alone)
    masks = [video.mask(both) for _ in range(EVERY)]
    assert iou(masks[-1] > 0.5, inside) > 0.9
    assert {video.looks(both) for _ in range(EVERY)} == {2, 3}


def test_people_who_come_together_are_looked_at_as_one() -> None:
    video = Video()
    for number in range(12):
        gap = max(600 - number * 60, 0)
        image, inside = squares((300, 400, 200, 200), (500 + gap, 400, 200, 200))
        mask = video.mask(image)
        if number > EVERY:
            assert iou(mask > 0.5, inside) > 0.85
    together, _ = squares((300, 400, 400, 200))
    assert {video.looks(together) for _ in range(EVERY)} == {1, 2}


def test_whoever_is_gone_is_looked_for_a_little_longer() -> None:
    video = Video()
    image, _ = squares((300, 400, 200, 200))
    for _ in range(4):
        video.mask(image)
    nobody = np.full_like(image, 120)
    for _ in range(int(HELD_S * 1e3 / STEP_MS) + EVERY):
        assert video.mask(nobody).max() < 0.5
    assert video.looks(nobody) == 1


def test_nobody_is_followed_while_the_part_that_is_looked_at_changes() -> None:
    video = Video()
    image, _ = squares((1500, 900, 200, 200))
    for _ in range(4):
        video.mask(image)
    part, inside = np.ascontiguousarray(image[700:, 1200:]), image[700:, 1200:, 0] == RED[0]
    assert iou(video.mask(part) > 0.5, inside) > 0.85
    assert [video.looks(part) for _ in range(REST - 1)] == [1] * (REST - 1)
    assert video.looks(part) > 1
    for number in range(2 * EVERY):
        roi = (10 * number, 0, 1500, 1200)
        assert video.looks(image, roi=roi) == 1


def test_without_a_second_pass_all_of_each_frame_is_looked_at_once() -> None:
    video = Video(second_pass=False)
    image, _ = squares((300, 400, 200, 200))
    assert {video.looks(image) for _ in range(5)} == {1}
    assert not video.finder.views


@pytest.mark.parametrize("smoothing", [True, False])
def test_masks_are_held_still_as_well(smoothing: bool) -> None:
    """What is seen of somebody still, now more and now less, is not."""
    video = Video(smoothing=smoothing)
    image, _ = squares((300, 400, 200, 200))
    for _ in range(EVERY + 1):
        video.mask(image)
    steady = video.mask(image)
    run = video.network.run
    video.network.run = lambda inputs: {"mask": run(inputs)["mask"] * np.float32(0.6)}  # type: ignore[method-assign]
    changed = float(np.abs(video.mask(image) - steady).max())
    assert changed < 0.15 if smoothing else changed > 0.3
