import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.portrait.parts import (
    APART_COUNT,
    APART_MOST,
    MOST_GROUPS,
    apart,
    are_small,
    area,
    groups,
    mixed_in,
    part_of,
    parts_of,
    people_in,
    put_together,
    uncut,
)
from palmkit.kits.portrait.search import FAR_PARTS
from palmkit.kits.portrait.views import Box


def test_a_part_of_what_was_found_lies_where_the_part_does() -> None:
    """Values that rise evenly over a picture are in any part what they are there."""
    side, seen = 64, (10, 20, 410, 220)

    def rise(left: int, top: int, right: int, bottom: int) -> NDArray[np.float32]:
        middle = (np.arange(side) + 0.5) / side
        x = left + (right - left) * middle
        y = top + (bottom - top) * middle
        return np.asarray(x[None] / 1000 + y[:, None] / 400, np.float32)

    for box in (seen, (110, 60, 310, 160), (26, 36, 90, 204)):
        np.testing.assert_allclose(part_of(rise(*seen), box, seen), rise(*box), atol=4e-4)


def test_quarters_are_put_together_as_they_were() -> None:
    random = np.random.default_rng(0)
    for box in ((0, 0, 1, 1), (3, 5, 5, 6), (0, 0, 640, 480), (17, 40, 224, 399)):
        parts = parts_of(box, 2, 0.6)
        assert len(parts) == 4
        width, height = box[2] - box[0], box[3] - box[1]
        seen = np.zeros((height, width), int)
        for left, top, right, bottom in parts:
            assert box[0] <= left < right <= box[2] and box[1] <= top < bottom <= box[3]
            seen[top - box[1] : bottom - box[1], left - box[0] : right - box[0]] += 1
        assert seen.min() == 1 or width * height < 12
        found = [np.full((32, 32), float(value), np.float32) for value in random.random(4)]
        mask = put_together(found, parts, box)
        assert mask.shape == (32, 32) and mask.dtype == np.float32
        assert np.min(found) - 1e-6 <= mask.min() and mask.max() <= np.max(found) + 1e-6
        assert put_together([np.ones((32, 32), np.float32)] * 4, parts, box).max() == 1
        assert mask[16, 16] == pytest.approx(np.mean(found))
        if width > 10:
            corners = mask[0, 0], mask[0, -1], mask[-1, 0], mask[-1, -1]
            assert corners == pytest.approx([each[0, 0] for each in found])


def test_people_are_small_where_each_of_them_is() -> None:
    mask = np.zeros((40, 40), np.float32)
    assert are_small(mask)
    mask[2:12, 2:22], mask[20:30, 2:22] = 1, 0.9
    assert are_small(mask)
    mask[12:20, 2:4] = 0.4
    assert are_small(mask)
    mask[12:20, 2:4] = 0.6
    assert not are_small(mask)


@pytest.mark.parametrize("step", [1, 4])
@pytest.mark.parametrize(("count", "share"), FAR_PARTS)
def test_who_is_no_larger_than_two_parts_share_lies_within_one(
    count: int, share: float, step: int
) -> None:
    random = np.random.default_rng(1)
    for whole in ((0, 0, 640, 480), (7, 11, 90, 301)):
        parts = parts_of(whole, count, share, step)
        assert len(set(parts)) == count * count
        size = whole[2] - whole[0], whole[3] - whole[1]
        for part in parts:
            assert part[0] >= whole[0] and part[1] >= whole[1]
            assert part[2] <= whole[2] and part[3] <= whole[3]
            assert (part[2] - part[0], part[3] - part[1]) == pytest.approx(
                [share * length for length in size], abs=step
            )
            for place in (0, 1):
                assert (
                    not (part[place] - whole[place]) % step or part[place + 2] == whole[place + 2]
                )
        shared = share - (1 - share) / (count - 1)
        for _ in range(200):
            wide, high = (int(shared * length) - step for length in size)
            left = int(random.integers(whole[0], whole[2] - wide + 1))
            top = int(random.integers(whole[1], whole[3] - high + 1))
            assert any(
                part[0] <= left and part[1] <= top
                and left + wide <= part[2] and top + high <= part[3]
                for part in parts
            )  # fmt: skip


def test_parts_of_the_smallest_boxes_are_a_pixel() -> None:
    assert parts_of((3, 5, 4, 6), 4, 0.4) == [(3, 5, 4, 6)] * 16


def test_people_who_reach_out_of_a_part_are_left_out() -> None:
    mask = np.zeros((40, 40), np.float32)
    inner, left, bottom = np.s_[10:20, 10:20], np.s_[4:9, 0:5], np.s_[30:40, 25:35]
    mask[...] = 0.2
    mask[inner], mask[left], mask[bottom] = 0.9, 0.8, 0.7
    whole = uncut(mask, (0, 0, 100, 100), 100, 100)
    np.testing.assert_array_equal(whole, mask)
    # Only the picture's own border cuts off nobody.
    for part, kept in (
        ((0, 50, 50, 100), {0, 1, 2}),
        ((50, 50, 100, 100), {0, 2}),
        ((0, 0, 50, 50), {0, 1}),
        ((25, 25, 75, 75), {0}),
    ):
        found = uncut(mask, part, 100, 100)
        assert found.dtype == np.float32 and found[0, 20] == mask[0, 20]
        for number, place in enumerate((inner, left, bottom)):
            assert found[place].any() == (number in kept), (part, number)
    assert not uncut(np.ones((8, 8), np.float32), (0, 0, 50, 100), 100, 100).any()


def test_people_in_a_part_are_in_the_pictures_pixels() -> None:
    mask = np.zeros((64, 64), np.float32)
    assert people_in(mask, (40, 80, 680, 560)) is None
    mask[10:30, 10:30] = 1
    # 200 by 150 pixels from 100, 75 on, 15 % more on each side, to multiples of 8.
    assert people_in(mask, (40, 80, 680, 560)) == (104, 128, 376, 328)


def test_boxes_that_overlap_are_one_group() -> None:
    one, two = (0, 0, 10, 10), (20, 20, 30, 30)
    assert groups([]) == []
    assert sorted(groups([one, two, one])) == [one, two]
    # Boxes that touch do not overlap.
    assert len(groups([one, (10, 0, 20, 10)])) == 2
    # What joins two groups is found last; the box round both then reaches a third.
    third = (0, 24, 5, 28)
    assert groups([one, two, third, (9, 9, 21, 21)]) == [(0, 0, 30, 30)]
    random = np.random.default_rng(2)
    for _ in range(100):
        starts = random.integers(0, 100, (random.integers(1, 7), 2)).tolist()
        boxes: list[Box] = [(x, y, x + 15, y + 15) for x, y in starts]
        found = groups(boxes)
        assert len(found) <= MOST_GROUPS
        for box in boxes:
            assert any(
                each[0] <= box[0] and each[1] <= box[1] and box[2] <= each[2] and box[3] <= each[3]
                for each in found
            )
        drawn = np.zeros((120, 120), int)
        for left, top, right, bottom in found:
            drawn[top:bottom, left:right] += 1
        assert drawn.max() == 1 and drawn.sum() == sum(map(area, found))
    many: list[Box] = [(20 * i, 0, 20 * i + 10, 10) for i in range(MOST_GROUPS + 1)]
    assert groups(many) == [(0, 0, 20 * MOST_GROUPS + 10, 10)]


def test_people_apart_from_others_have_boxes_of_their_own() -> None:
    seen = (40, 0, 680, 480)
    mask = np.zeros((320, 320), np.float32)
    assert apart(mask, seen) == []
    mask[20:100, 20:80], mask[150:300, 200:260] = 0.9, 0.8
    # 120 by 120 and 120 by 225 pixels from 80, 30 and 440, 225 on, a tenth more on each side, to
    # multiples of 8 from the left and upper edge of what was seen on.
    assert apart(mask, seen) == [(424, 200, 576, 480), (64, 16, 216, 168)]
    # Specks are nobody, and who fills most of it is seen there.
    mask[310, 300:310] = 1
    assert len(apart(mask, seen)) == 2
    mask[140:, 10:310] = 1
    assert apart(mask, seen) == [(64, 16, 216, 168)]


def test_no_mask_makes_people_apart_overlap_or_leave_the_picture() -> None:
    random = np.random.default_rng(3)
    for _ in range(300):
        side = int(random.choice([8, 64, 320]))
        seen = (3, 5, 3 + int(random.integers(1, 5000)), 5 + int(random.integers(1, 900)))
        mask = np.zeros((side, side), np.float32)
        for _ in range(random.integers(0, 16)):
            x, y = random.integers(0, side, 2).tolist()
            wide, high = random.integers(1, side, 2).tolist()
            mask[y : y + high, x : x + max(wide // 16, 1)] = random.random()
        found = apart(mask, seen)
        assert len(found) <= APART_COUNT
        drawn = np.zeros((seen[3], seen[2]), np.int8)
        for left, top, right, bottom in found:
            assert seen[0] <= left < right <= seen[2] and seen[1] <= top < bottom <= seen[3]
            drawn[top:bottom, left:right] += 1
        assert drawn.max(initial=0) <= 1
        for part in found:
            assert area(part) < APART_MOST * area(seen)
            mixed = mixed_in(mask, np.ones_like(mask), part, seen)
            assert mixed.shape == mask.shape and mixed.dtype == np.float32
            assert (mixed != mask).any() and mixed.max() <= 1


def test_a_closer_look_has_half_of_the_word_where_it_is() -> None:
    seen = (0, 0, 400, 200)
    mask, said = np.full((40, 40), 0.8, np.float32), np.full((40, 40), 0.2, np.float32)
    mixed = mixed_in(mask, said, (100, 50, 200, 150), seen)
    assert mixed[10:30, 10:20] == pytest.approx(0.5)
    mixed[10:30, 10:20] = 0.8
    assert mixed == pytest.approx(0.8)
    assert mask == pytest.approx(0.8)
