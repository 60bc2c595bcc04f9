"""Windows are covered by rectangles, and these are laid on sheets."""

from itertools import combinations

import numpy as np
import pytest

from palmkit.kits.boxes import Floats, iou
from palmkit.kits.sheets import GAP, SHEETS, rectangles, rows, sheets, windows

AREA = (0.0, 0.0, 2000.0, 1500.0)


def spread_boxes(count: int, seed: int, side: float = 60) -> Floats:
    """Return boxes in three clusters."""
    random = np.random.default_rng(seed)
    middles = np.array([[200, 200], [1700, 300], [600, 1300]])[random.integers(0, 3, count)]
    low = np.clip(middles + random.normal(0, 90, (count, 2)), 0, [1900, 1400])
    return np.concatenate([low, low + random.uniform(5, side, (count, 2))], axis=1).astype(
        np.float32
    )


def areas(parts: list[Floats]) -> float:
    return float(sum(np.prod(part[2:] - part[:2]) for part in parts))


@pytest.mark.parametrize("count", [1, 2, 30, 3000])
@pytest.mark.parametrize("most", [70.0, 300.0, 5000.0])
def test_every_box_lies_in_a_rectangle(count: int, most: float) -> None:
    boxes = spread_boxes(count, count)
    parts = rectangles(boxes, 8, most)
    corners = np.stack(parts)
    inside = [boxes[:, None, :2] >= corners[:, :2], boxes[:, None, 2:] <= corners[:, 2:]]
    assert np.all(np.any(np.all(np.concatenate(inside, axis=2), axis=2), axis=1))
    assert (corners[:, 2:] - corners[:, :2]).max() <= most
    # Each is the box round some of them.
    assert np.isin(corners, boxes).all()


def test_what_lies_apart_is_cut_and_what_lies_together_is_not() -> None:
    assert rectangles(np.zeros((0, 4), np.float32), 8, 500) == []
    parts = rectangles(spread_boxes(60, 0), 8, 5000)
    assert areas(parts) < 0.3 * 2000 * 1500
    near = np.array([[0, 0, 50, 50], [40, 10, 90, 60], [90, 0, 140, 55]], np.float32)
    assert [part.tolist() for part in rectangles(near, 8, 500)] == [[0, 0, 140, 60]]
    # What is far apart costs less alone, unless gaps are wide.
    far = np.array([[0, 0, 50, 50], [150, 0, 200, 50]], np.float32)
    assert len(rectangles(far, 8, 500)) == 2
    assert len(rectangles(far, 200, 500)) == 1


def test_windows_reach_round_boxes_and_stay_in_the_area() -> None:
    boxes = np.array([[100, 100, 120, 140], [1990, 0, 2000, 4]], np.float32)
    found = windows(boxes, 1.5, 20, AREA)
    assert found.tolist() == [[50, 60, 170, 180], [1975, 0, 2000, 22]]


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.9])
def test_sheets_show_each_rectangle_once_and_apart(scale: float) -> None:
    parts = rectangles(spread_boxes(400, 1), 8, 1023 / scale)
    shown: list[tuple[float, ...]] = []
    for sheet in sheets(parts, scale):
        assert sheet.shape in SHEETS
        cells = np.array(sheet.cells, np.float32)
        cells[:, 2:] += cells[:, :2]
        assert (cells[:, :2] >= 0).all()
        assert (cells[:, 2:] <= sheet.shape[::-1]).all()
        apart = cells + np.array([0, 0, GAP, GAP], np.float32)
        assert all(iou(a[None], b[None]) == 0 for a, b in combinations(apart, 2))
        for (_, _, width, height), cell in zip(sheet.parts, sheet.cells, strict=True):
            assert 0 <= cell[2] - width * scale < 1 and 0 <= cell[3] - height * scale < 1
        shown += [tuple(part) for part in sheet.parts]
    expected = [(x1, y1, x2 - x1, y2 - y1) for x1, y1, x2, y2 in (part.tolist() for part in parts)]
    assert sorted(shown) == sorted(expected)


def test_a_small_part_takes_a_small_sheet() -> None:
    (sheet,) = sheets([np.array([10, 20, 60, 100], np.float32)], 2.0)
    assert sheet == ((256, 256), [(10, 20, 50, 80)], [(0, 0, 100, 160)])


def test_a_part_larger_than_any_sheet_is_an_error() -> None:
    with pytest.raises(ValueError, match="at most 1024 x 1024 pixels, got 1200 x 40"):
        list(sheets([np.array([0, 0, 600, 20], np.float32)], 2.0))


def test_rows_of_squares() -> None:
    sheet = rows([(0, 0, 5, 5)] * 6, 128, 4)
    assert sheet.shape == (256, 512)
    assert sheet.cells[3:5] == [(384, 0, 128, 128), (0, 128, 128, 128)]
