import numpy as np
import pytest

from palmkit.kits.boxes import (
    Floats,
    areas,
    box_round,
    clipped,
    covered,
    distance_iou,
    iou,
    nms,
    weighted_nms,
)


def random_boxes(count: int, seed: int) -> tuple[Floats, Floats]:
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 100, (count, 2))
    boxes = np.hstack([corners, corners + random.uniform(1, 40, (count, 2))])
    return boxes.astype(np.float32), random.uniform(0, 1, count).astype(np.float32)


def slow_iou(a: Floats, b: Floats) -> float:
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height
    return float(width * height / union)


def slow_nms(boxes: Floats, scores: Floats, max_iou: float) -> list[int]:
    kept: list[int] = []
    for index in sorted(range(len(boxes)), key=lambda i: -scores[i]):
        if all(slow_iou(boxes[index], boxes[other]) <= max_iou for other in kept):
            kept.append(index)
    return kept


def test_iou_of_every_pair() -> None:
    a, b = random_boxes(13, 0)[0], random_boxes(9, 1)[0]
    expected = [[slow_iou(x, y) for y in b] for x in a]
    np.testing.assert_allclose(iou(a, b), expected, rtol=1e-5)
    np.testing.assert_allclose(np.diag(iou(a, a)), 1, rtol=1e-6)


def test_empty_and_inside_out_boxes_have_no_area() -> None:
    boxes = np.array([[3, 3, 3, 9], [5, 5, 2, 9], [0, 0, 0, 0]], np.float32)
    assert areas(boxes).tolist() == [0, 0, 0]
    assert iou(boxes, boxes).max() == 0
    assert iou(boxes[:0], boxes).shape == (0, 3)


def test_what_of_a_box_one_region_covers() -> None:
    boxes = np.array([[0, 0, 10, 10], [20, 0, 30, 10], [5, 5, 5, 9]], np.float32)
    regions = np.array([[0, 0, 10, 4], [0, 5, 10, 11], [28, 0, 90, 90]], np.float32)
    assert covered(boxes, regions).tolist() == pytest.approx([0.5, 0.2, 0])
    assert covered(boxes, regions[:0]).tolist() == [0, 0, 0]
    assert covered(boxes[:0], regions).shape == (0,)


def test_distance_iou_ranks_by_distance_where_nothing_overlaps() -> None:
    box = np.array([[0, 0, 10, 10]], np.float32)
    others = np.array([[0, 0, 10, 10], [12, 0, 22, 10], [40, 0, 50, 10]], np.float32)
    same, near, far = distance_iou(box, others)[0]
    assert same == pytest.approx(1)
    assert near == pytest.approx(-(12**2) / (22**2 + 10**2))
    assert -1 < far < near < same


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("max_iou", [0.1, 0.45, 0.9])
def test_nms_is_the_naive_one(seed: int, max_iou: float) -> None:
    boxes, scores = random_boxes(60, seed)
    assert nms(boxes, scores, max_iou).tolist() == slow_nms(boxes, scores, max_iou)


def test_nms_of_nothing_and_of_equal_boxes() -> None:
    assert nms(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), 0.5).tolist() == []
    boxes = np.tile(np.array([[1, 1, 5, 5]], np.float32), (4, 1))
    assert nms(boxes, np.full(4, 0.5, np.float32), 0.5).tolist() == [0]


def test_weighted_nms_averages_by_score() -> None:
    boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [50, 50, 60, 60]], np.float32)
    scores = np.array([0.25, 0.75, 0.5], np.float32)
    kept, means = weighted_nms(boxes, scores, boxes, 0.5, 0)
    assert kept.tolist() == [1, 2]
    assert means.tolist() == [[0.75, 0, 10.75, 10], [50, 50, 60, 60]]
    kept, means = weighted_nms(boxes, scores, boxes, 0.5, 0.9)
    assert kept.tolist() == [1, 2]
    assert means.tolist() == [[1, 0, 11, 10], [50, 50, 60, 60]]


def test_weighted_nms_of_nothing_and_without_scores() -> None:
    empty = np.zeros((0, 4), np.float32)
    kept, means = weighted_nms(empty, empty[:, 0], np.zeros((0, 14), np.float32), 0.5, 0)
    assert kept.shape == (0,) and means.shape == (0, 14)
    boxes = np.array([[0, 0, 10, 10], [2, 0, 12, 10]], np.float32)
    kept, means = weighted_nms(boxes, np.zeros(2, np.float32), boxes, 0.5, 0)
    assert kept.tolist() == [0] and means.tolist() == [[1, 0, 11, 10]]


def test_the_box_round_points() -> None:
    points = np.random.default_rng(4).normal(0, 9, (3, 7, 3)).astype(np.float32)
    expected = [[*each[:, :2].min(axis=0), *each[:, :2].max(axis=0)] for each in points]
    assert (box_round(points) == expected).all() and (box_round(points[1]) == expected[1]).all()
    assert box_round(points[:0]).shape == (0, 4)


def test_boxes_are_cut_at_the_sides_of_the_picture() -> None:
    boxes = np.array([[-5, 2, 7, 90], [3, 4, 5, 6], [200, -9, 300, -1]], np.float32)
    expected = [[0, 2, 7, 50], [3, 4, 5, 6], [100, 0, 100, 0]]
    assert (clipped(boxes, 100, 50) == expected).all()
    assert areas(clipped(boxes, 100, 50))[2] == 0
