"""What people hold, by a stand-in network that takes for a thing what is green."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit import kits
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Type
from palmkit.kits import PortraitSegmenter
from palmkit.kits.image import Image
from palmkit.kits.portrait.held import HELD_SIDE, box_with_room, held_by
from tests.kits.drawn_portraits import RED, Reds, iou

GREEN = (30, 160, 40)
INPUT = 256


class Greens:
    """Takes for a thing what is green; says so at 64 x 64."""

    metadata: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.inputs = {"image": Type("float32", (1, INPUT, INPUT, 3))}
        self.views: list[NDArray[np.float32]] = []

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        image = inputs["image"]
        assert image.dtype == np.float32 and image.shape == (1, INPUT, INPUT, 3)
        self.views.append(image[0])
        green = np.clip((image[0, :, :, 1] - image[0, :, :, 0]) / 130, 0, 1)
        small = green.reshape(HELD_SIDE, 4, HELD_SIDE, 4).mean(axis=(1, 3))
        return {"mask": small.astype(np.float32)[None, :, :, None]}


def carried(away: int = 0) -> tuple[Image, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return someone red with a green bag that begins `away` pixels beside them, and both masks."""
    image = np.full((400, 500, 3), 120, np.uint8)
    person, bag = np.zeros((2, 400, 500), np.bool_)
    person[60:360, 180:280] = True
    bag[200:270, 280 + away : 320 + away] = True
    image[person], image[bag] = RED, GREEN
    return image, person, bag


def test_what_is_held_is_added_and_nothing_taken_away(reds: Reds, finder: Reds) -> None:
    image, person, bag = carried()
    alone = PortraitSegmenter(model=reds, finder_model=finder)
    both = PortraitSegmenter(model=reds, finder_model=finder, include="held", held_model=Greens())
    before, after = alone.segment(image).mask, both.segment(image).mask
    assert iou(before > 0.5, person) > 0.95
    assert iou(after > 0.5, person | bag) > 0.95
    assert (after >= before).all() and after.max() <= 1
    # Where they touch there is no seam.
    assert after[210:260, 272:288].min() > 0.7


def test_person_alone_is_the_default_and_asks_no_further_network(reds: Reds, finder: Reds) -> None:
    image, _, _ = carried()
    things = Greens()
    usual = PortraitSegmenter(model=reds, finder_model=finder).segment(image).mask
    named = PortraitSegmenter(model=reds, finder_model=finder, include="person", held_model=things)
    assert (named.segment(image).mask == usual).all()
    assert not things.views


def test_a_thing_apart_and_a_crumb_are_nobodys(reds: Reds, finder: Reds) -> None:
    kit = PortraitSegmenter(model=reds, finder_model=finder, include="held", held_model=Greens())
    image, person, bag = carried(away=40)
    assert not (kit.segment(image).mask[bag] > 0.5).any()
    image, person, _ = carried(away=400)
    image[200:206, 280:286] = GREEN
    assert iou(kit.segment(image).mask > 0.5, person) > 0.95


def test_nobody_holds_nothing(reds: Reds, finder: Reds) -> None:
    things = Greens()
    kit = PortraitSegmenter(model=reds, finder_model=finder, include="held", held_model=things)
    image, _, bag = carried()
    image[image[..., 0] == RED[0]] = 120
    assert bag.any() and not kit.segment(image).mask.any()
    assert not things.views


def test_it_is_looked_for_round_the_people_inside_the_roi(reds: Reds, finder: Reds) -> None:
    image, person, _ = carried()
    things = Greens()
    kit = PortraitSegmenter(model=reds, finder_model=finder, include="held", held_model=things)
    kit.segment(image)
    (view,) = things.views
    share = (view[..., 0] > 150).mean()
    assert share > 2 * person.mean()
    mask = kit.segment(image, roi=(150, 40, 150, 340)).mask
    assert (mask[200:270, 280:299] > 0.5).mean() > 0.9
    assert not mask[:, 300:].any()


def test_in_a_video_it_holds_still(reds: Reds) -> None:
    image, person, bag = carried()
    random = np.random.default_rng(0)
    with PortraitSegmenter("video", model=reds, include="held", held_model=Greens()) as kit:
        masks = list[NDArray[np.float32]]()
        for frame in range(6):
            noise = random.normal(0, 3, image.shape)
            noisy = np.clip(image + noise, 0, 255).astype(np.uint8)
            masks.append(kit.segment(noisy, frame * 33.0).mask)
    assert iou(masks[-1] > 0.5, person | bag) > 0.9
    assert np.abs(masks[-1] - masks[-2])[bag].mean() < 0.01


def test_the_room_round_people_ends_with_the_picture() -> None:
    inside = np.zeros((100, 50), np.bool_)
    assert box_with_room(inside, (0, 0, 500, 1000)) is None
    inside[10:90, 20:30] = True
    left, top, right, bottom = box_with_room(inside, (0, 0, 500, 1000)) or (0, 0, 0, 0)
    assert (left, top, right, bottom) == (120, 36, 380, 964)
    inside[:, :] = True
    assert box_with_room(inside, (10, 20, 60, 120)) == (10, 20, 60, 120)


def test_soft_edges_of_a_thing_stay() -> None:
    people, things = np.zeros((2, HELD_SIDE, HELD_SIDE), np.float32)
    people[10:50, 20:32] = 1
    things[30:40, 32:40] = 0.9
    things[30:40, 40] = 0.3
    found = held_by(things, people)
    assert (found == things).all()
    # Inside the person alone it adds nothing.
    inner = np.zeros_like(things)
    inner[30:40, 22:30] = 0.9
    assert not held_by(inner, people).any()


def test_options_that_cannot_be_are_told(reds: Reds, finder: Reds) -> None:
    with pytest.raises(ValueError, match=r"include: expected .*person.*held"):
        PortraitSegmenter(include="bags")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"none\.palm"):
        PortraitSegmenter(model=reds, finder_model=finder, include="held", held_model="none.palm")


def test_the_function_takes_it(reds: Reds, finder: Reds) -> None:
    image, person, bag = carried()
    found = kits.segment_portrait(
        image, model=reds, finder_model=finder, include="held", held_model=Greens()
    )
    assert iou(found.mask > 0.5, person | bag) > 0.95
