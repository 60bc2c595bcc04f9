import numpy as np
import pytest

from palmkit.kits import Mask, PortraitSegmenter
from palmkit.kits.portrait.steady import Steady
from tests.kits.drawn_portraits import Reds, iou, scene


def test_flicker_is_held_and_motion_followed() -> None:
    image, inside = scene()
    far = ~inside & (np.abs(np.indices(inside.shape)[1] - 160) > 100)

    def flicker(smoothing: bool) -> float:
        segmenter = PortraitSegmenter("video", model=Reds(0.15), smoothing=smoothing)
        masks = [segmenter.segment(image).mask for _ in range(30)][10:]
        return float(np.abs(np.diff(np.array(masks), axis=0))[:, far].mean())

    assert flicker(True) < 0.25 * flicker(False)
    segmenter = PortraitSegmenter("video", model=Reds())
    for step in range(12):
        moved, where = scene(shift=12 * step - 60)
        assert iou(segmenter.segment(moved).mask > 0.5, where) > 0.93


def test_a_cut_and_reset_forget() -> None:
    dark, light = np.zeros((32, 32, 3), np.uint8), np.full((32, 32, 3), 200, np.uint8)
    nothing, all_of_it = np.zeros((32, 32), np.float32), np.ones((32, 32), np.float32)
    view = (0.0, 0.0, 32.0, 32.0)
    steady = Steady()
    steady.update(nothing, dark, view, 0.1)
    assert (steady.update(all_of_it, light, view, 0.2) == 1).all()
    kept = steady.update(nothing, light, view, 0.2 + 1 / 30)
    assert 0.5 < kept.min() < 1
    later = steady.update(nothing, light, view, 2.0)
    assert later.max() < 0.01
    segmenter = PortraitSegmenter("video", model=Reds())
    image, _ = scene()
    first = segmenter.segment(image).mask
    segmenter.segment(image // 2 + 20)
    segmenter.reset()
    assert (segmenter.segment(image).mask == first).all()


def test_a_mask_moves_with_its_view() -> None:
    """What was seen in one square is found again in another of the same frame."""
    steady = Steady()
    still = np.full((40, 40, 3), 90, np.uint8)
    mask = np.zeros((40, 40), np.float32)
    mask[:, 20:] = 1
    steady.update(mask, still, (0, 0, 40, 40), 0.1)
    moved = steady.update(np.zeros((40, 40), np.float32), still, (10, 0, 40, 40), 0.1 + 1e-6)
    assert (moved[:, :9] < 0.01).all() and (moved[:, 11:] > 0.99).all()


def test_stream(reds: Reds) -> None:
    image, inside = scene()
    found: list[Mask] = []
    with PortraitSegmenter(
        "stream", model=reds, on_result=lambda mask, frame, _: found.append(mask)
    ) as segmenter:
        for _ in range(5):
            segmenter.submit(image)
        with pytest.raises(RuntimeError, match="use submit"):
            segmenter.segment(image)
    assert 1 <= len(found) <= 5 and len(found) + segmenter.dropped == 5
    assert iou(found[-1].mask > 0.5, inside) > 0.93
    with pytest.raises(RuntimeError, match="portrait segmenter is closed"):
        segmenter.submit(image)
