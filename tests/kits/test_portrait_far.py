"""People far away, whom a look at the whole picture does not show, are found in parts of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits import PortraitSegmenter
from palmkit.kits.portrait.network import SegmentationNetwork
from palmkit.kits.quality import Quality
from tests.kits.drawn_portraits import NearReds, Reds, iou, squares

FAR_AWAY = (100, 800, 60, 110), (1500, 300, 60, 110), (900, 1080, 60, 120)


@pytest.mark.parametrize("places", [FAR_AWAY[:1], FAR_AWAY[1:], FAR_AWAY, FAR_AWAY[:1] * 2])
@pytest.mark.parametrize("quality", ["auto", "fast", "best"])
def test_people_far_away_are_seen_in_parts(
    places: tuple[tuple[int, int, int, int], ...], quality: Quality
) -> None:
    image, inside = squares(*places)
    network, best, finder = NearReds(), NearReds(), NearReds(finds=True)
    segmenter = PortraitSegmenter(
        quality=quality, model=network, best_model=best, finder_model=finder
    )
    mask = segmenter.segment(image).mask
    assert iou(mask > 0.5, inside) > 0.9
    # Each is as large in a look of its own as if it were alone.
    shares = sorted((view[..., 0] > 150).mean() for view in network.views + best.views)
    assert shares[-len(set(places))] > 0.2
    roi = (40, 20, 1700, 1170)
    part = segmenter.segment(image, roi=roi).mask
    assert iou(part > 0.5, inside) > 0.9
    without = PortraitSegmenter(
        model=network, best_model=best, finder_model=finder, second_pass=False
    )
    assert without.segment(image).coverage == 0


def test_whoever_reaches_out_of_a_part_is_not_seen_in_it() -> None:
    """A person who is larger than what parts share is not taken for one by what is cut off."""
    image, _ = squares((0, 600, 1800, 24))
    network, finder = NearReds(), NearReds(finds=True)
    # As large a share of a part, not of the whole.
    network.least = finder.least = 0.03
    kit = PortraitSegmenter(model=network, finder_model=finder, quality="fast")
    assert kit.segment(image).coverage == 0
    # It was seen in parts, by the finder alone.
    assert len(network.views) == 1
    assert any(
        (finder.run({"image": view[None]})["mask"] > 0.5).any() for view in tuple(finder.views)
    )


class Unsure(NearReds):
    """Is less sure of people."""

    def __init__(self, most: float) -> None:
        super().__init__()
        self._most = most

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {"mask": np.minimum(super().run(inputs)["mask"], np.float32(self._most))}


@pytest.mark.parametrize(
    ("network", "best", "is_seen"),
    [
        (NearReds(), Unsure(0.4), True),
        (Unsure(0.99), NearReds(), False),
        (Unsure(0.999), NearReds(), True),
        (Unsure(0.999), Unsure(0), True),
        (Unsure(0.4), NearReds(), False),
    ],
)
def test_of_whom_is_seen_in_a_part_the_first_network_is_sure(
    network: Reds, best: Reds, is_seen: bool
) -> None:
    """What the best one says of it counts where it sees anybody."""
    image, inside = squares(*FAR_AWAY[:1])
    finder = NearReds(finds=True)
    kit = PortraitSegmenter(model=network, best_model=best, finder_model=finder)
    mask = kit.segment(image).mask
    assert (iou(mask > 0.5, inside) > 0.9) if is_seen else mask.max() < 0.5


def test_beside_somebody_small_others_are_looked_for() -> None:
    """Parts are searched where the people seen cover less than a hundredth of the picture."""
    near, far = (300, 100), (1500, 900, 80, 80)
    for size, is_seen in ((130, True), (170, False)):
        image, _ = squares((*near, size, size), far)
        network, finder = NearReds(), NearReds(finds=True)
        network.least = finder.least = 0.006
        kit = PortraitSegmenter(model=network, finder_model=finder, quality="fast")
        mask = kit.segment(image).mask
        assert mask[110:220, 310:420].min() > 0.5
        assert (mask[910:970, 1510:1570].mean() > 0.5) == is_seen


@pytest.mark.parametrize(
    ("options", "is_found"),
    [({}, True), ({"model": Unsure(0)}, False), ({"second_pass": False}, False)],
)
def test_best_looks_for_who_is_far_away_by_the_smaller_network(
    options: Mapping[str, Any], is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the caller gives a model, no shipped network looks beside it."""
    ships: dict[str, Reds] = {"portrait_best": Unsure(0), "portrait": NearReds()}

    def opened(model: Any, others: Any, name: str, **more: Any) -> SegmentationNetwork:
        return SegmentationNetwork(model or ships[name], others, name, **more)

    monkeypatch.setattr("palmkit.kits.portrait.kit.SegmentationNetwork", opened)
    image, inside = squares(*FAR_AWAY[:1])
    kit = PortraitSegmenter(quality="best", finder_model=NearReds(finds=True), **options)
    mask = kit.segment(image).mask
    assert (iou(mask > 0.5, inside) > 0.9) == is_found
    assert bool(ships["portrait"].views) == is_found
