import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats
from palmkit.kits.camera_motion import Similarity
from palmkit.kits.tracks import Clock, OneEuroFilter, Tracker

STEP_S = 1 / 30


def boxes(*rows: tuple[float, float, float]) -> Floats:
    """Squares by centre and side."""
    return np.array([[x - s / 2, y - s / 2, x + s / 2, y + s / 2] for x, y, s in rows], np.float32)


def update(tracker: Tracker, found: Floats, time_s: float) -> list[int]:
    ids: list[int] = tracker.update(found, np.ones(len(found), bool), time_s).tolist()
    return ids


@pytest.mark.parametrize("hidden_from", [-1, 1])
def test_what_is_covered_bit_by_bit_is_expected_where_it_went(hidden_from: int) -> None:
    """What covers it makes the visible part's middle go elsewhere than the thing."""
    tracker = Tracker()
    sure = np.ones(1, np.bool_)
    for frame in range(40):
        left, right = 300 - 3.0 * frame, 400 - 3.0 * frame
        covered = max(8 * (frame - 30), 0)
        if hidden_from < 0:
            left += covered
        else:
            right -= covered
        box = np.array([[left, 100, right, 220]], np.float32)
        assert tracker.update(box, sure, frame / 30).tolist() == [0]
    (expected,) = tracker.predict(41 / 30)
    np.testing.assert_allclose(expected, [300 - 123, 100, 400 - 123, 220], atol=12)
    # It comes back 13 frames later.
    nothing = np.zeros((0, 4), np.float32)
    tracker.update(nothing, np.zeros(0, np.bool_), 41 / 30)
    box = np.array([[300 - 3 * 53, 100, 400 - 3 * 53, 220]], np.float32)
    assert tracker.update(box, sure, 53 / 30).tolist() == [0]


def test_ids_stay_while_two_cross() -> None:
    tracker = Tracker()
    for frame in range(60):
        x = 10.0 * frame
        found = boxes((x, 100, 60), (600 - x, 130, 60))
        if frame % 2:
            found = found[::-1].copy()
        ids = update(tracker, found, (frame + 1) * STEP_S)
        assert ids == ([1, 0] if frame % 2 else [0, 1])


def test_id_survives_a_gap_and_ends_after_it() -> None:
    tracker = Tracker(max_lost_s=0.5)
    assert update(tracker, boxes((100, 100, 50)), 0.1) == [0]
    assert update(tracker, boxes(), 0.2) == []
    assert tracker.waiting
    assert update(tracker, boxes((105, 100, 50)), 0.5) == [0]
    assert update(tracker, boxes(), 0.9) == []
    assert update(tracker, boxes((105, 100, 50)), 1.1) == [1]


def test_a_thing_elsewhere_or_of_another_size_is_another() -> None:
    tracker = Tracker()
    assert update(tracker, boxes((100, 100, 50)), 0.1) == [0]
    assert update(tracker, boxes((300, 100, 50)), 0.2) == [1]
    assert update(tracker, boxes((300, 100, 200)), 0.3) == [2]


def test_a_weak_box_continues_a_track_but_starts_none() -> None:
    tracker = Tracker()
    weak = np.zeros(2, bool)
    two = boxes((100, 100, 50), (300, 100, 50))
    assert tracker.update(two, weak, 0.1).tolist() == [-1, -1]
    assert tracker.update(two, ~weak, 0.2).tolist() == [0, 1]
    assert tracker.update(two, weak, 0.3).tolist() == [0, 1]


def test_the_visible_part_of_a_thing_does_not_move_its_track() -> None:
    """It goes behind something, is seen in part, then not at all, and comes out on its way."""
    tracker = Tracker()
    for frame in range(1, 30):
        assert update(tracker, boxes((100 + 5.0 * frame, 100, 60)), frame * STEP_S) == [0]
    part = boxes((100 + 5.0 * 30 - 20, 120, 30))
    assert tracker.update(part, np.zeros(1, bool), 30 * STEP_S).tolist() == [0]
    for frame in range(31, 45):
        assert update(tracker, boxes(), frame * STEP_S) == []
    assert update(tracker, boxes((100 + 5.0 * 45, 100, 60)), 45 * STEP_S) == [0]


def hidden(tracker: Tracker, seconds: float) -> list[int]:
    """Ids of what goes right, 60 pixels a second, when it comes out from behind something large."""
    for frame in range(1, 30):
        found = boxes((100 + 2.0 * frame, 100, 60), (300, 120, 160))
        assert update(tracker, found, frame * STEP_S) == [0, 1]
    frames = round(seconds / STEP_S)
    for frame in range(30, 30 + frames):
        assert update(tracker, boxes((160 + 2.0 * frame, 120, 160)), frame * STEP_S) == [1]
    end = 30 + frames
    return update(
        tracker, boxes((100 + 2.0 * end, 100, 60), (160 + 2.0 * end, 120, 160)), end * STEP_S
    )


def test_what_goes_on_behind_another_keeps_its_id_for_longer() -> None:
    assert hidden(Tracker(), 2.5) == [0, 1]
    assert hidden(Tracker(), 3.5) == [2, 1]


def test_what_seems_to_leap_as_it_vanishes_goes_on_as_before() -> None:
    """Its last boxes reach over to what it vanishes behind."""
    tracker = Tracker()
    front = (260, 120, 130)
    for frame in range(1, 40):
        assert update(tracker, boxes((400 - 3.0 * frame, 100, 60), front), frame * STEP_S) == [0, 1]
    for frame, leap in ((40, 5), (41, 12)):
        found = boxes((400 - 3.0 * frame - leap, 100, 62), front)
        assert update(tracker, found, frame * STEP_S) == [0, 1]
    for frame in range(42, 95):
        assert update(tracker, boxes(front), frame * STEP_S) == [1]
    found = boxes((400 - 3.0 * 95, 100, 60), front)
    assert update(tracker, found, 95 * STEP_S) == [0, 1]


def test_a_box_that_was_too_large_for_a_moment_is_not_gone_back_to() -> None:
    """It comes out from behind something, is taken for more than it is, then for what it is."""
    tracker = Tracker()
    for frame in range(1, 60):
        side = 85 if 5 < frame < 12 else 60
        assert update(tracker, boxes((400 - 3.0 * frame, 100, side)), frame * STEP_S) == [0]
        if frame > 16:
            (left, _, right, _) = tracker.predict((frame + 1) * STEP_S)[0]
            assert (left + right) / 2 == pytest.approx(400 - 3 * (frame + 1), abs=3)
            assert right - left == pytest.approx(60, abs=3)


def test_moving_things_are_predicted() -> None:
    tracker = Tracker()
    for frame in range(1, 30):
        update(tracker, boxes((100 + 8.0 * frame, 100, 50)), frame * STEP_S)
    ahead = tracker.predict(30 * STEP_S)
    assert (ahead[0, 0] + ahead[0, 2]) / 2 == pytest.approx(100 + 8 * 30, abs=1.5)


def crowd(random: np.random.Generator) -> Floats:
    """Forty faces of about 24 pixels, 30 apart, found about where they are."""
    rows = [(60 + 30.0 * (i % 10), 60 + 30.0 * (i // 10), 24.0) for i in range(40)]
    return boxes(*rows) + random.normal(0, 1, (40, 4)).astype(np.float32)


def pan(frame: int) -> Similarity:
    """To the right and back, 5 pixels a frame."""
    return Similarity(shift=complex(-5 * abs((frame + 20) % 40 - 20)))


def zoom(frame: int) -> Similarity:
    """Return a zoom into the middle and out again, by 1 % a frame."""
    turn = 1.01 ** abs((frame + 20) % 40 - 20)
    return Similarity(complex(turn), (1 - turn) * (200 + 100j))


def shake(frame: int) -> Similarity:
    """Return a shift by up to 20 pixels in any direction."""
    x, y = np.random.default_rng(frame).uniform(-20, 20, 2)
    return Similarity(shift=complex(x, y))


@pytest.mark.parametrize("motion", [pan, zoom, shake])
def test_ids_of_a_crowd_stay_while_the_camera_moves(motion: Callable[[int], Similarity]) -> None:
    """Each frame lacks a tenth of the things, and one in five is unseen for ten frames."""
    random, tracker = np.random.default_rng(3), Tracker()
    last = np.full(40, -1)
    switches = 0
    for frame in range(1, 100):
        shown = random.uniform(size=40) > 0.1
        if 50 <= frame < 60:
            shown[::5] = False
        if frame == 1:
            shown[:] = True
        order = random.permutation(np.flatnonzero(shown))
        view = motion(frame - 1)
        tracker.look_from(view, 400, 300)
        found = view.boxes(crowd(random))[order].astype(np.float32)
        ids = np.array(update(tracker, found, frame * STEP_S))
        inside = (found[:, :2] >= 0).all(axis=1) & (found[:, 2:] <= (400, 300)).all(axis=1)
        known = inside & (last[order] >= 0)
        switches += int((last[order] != ids)[known].sum())
        last[order] = ids
    assert switches == 0


def test_things_are_predicted_where_the_camera_goes() -> None:
    tracker = Tracker()
    for frame in range(1, 20):
        tracker.look_from(Similarity(shift=-5j * frame), 640, 480)
        update(tracker, boxes((100 + 2.0 * frame, 300 - 5.0 * frame, 50)), frame * STEP_S)
    tracker.look_from(Similarity(1.2 + 0j, -80j), 640, 480)
    (expected,) = tracker.predict(20 * STEP_S)
    np.testing.assert_allclose((expected[0] + expected[2]) / 2, 1.2 * 140, atol=1)
    np.testing.assert_allclose((expected[1] + expected[3]) / 2, 1.2 * 300 - 80, atol=1)
    assert expected[2] - expected[0] == pytest.approx(1.2 * 50, abs=0.5)


def turned_away(seconds: float) -> list[int]:
    """Ids of two things when the camera looks at both again, after so long only at the second."""
    tracker = Tracker()
    for frame in range(1, 20):
        tracker.look_from(Similarity(), 640, 480)
        assert update(tracker, boxes((100, 100, 60), (500, 100, 60)), frame * STEP_S) == [0, 1]
    frames = round(seconds / STEP_S)
    for frame in range(20, 20 + frames):
        tracker.look_from(Similarity(shift=-300 + 0j), 640, 480)
        assert update(tracker, boxes((200, 100, 60)), frame * STEP_S) == [1]
        # What the camera does not look at is not looked for.
        assert not tracker.waiting
    tracker.look_from(Similarity(), 640, 480)
    return update(tracker, boxes((100, 100, 60), (500, 100, 60)), (20 + frames) * STEP_S)


def test_what_the_camera_turned_away_from_keeps_its_id() -> None:
    assert turned_away(9) == [0, 1]
    assert turned_away(12) == [2, 1]


def test_what_walks_out_of_the_frame_is_gone_as_before() -> None:
    tracker = Tracker()
    for frame in range(1, 26):
        tracker.look_from(Similarity(), 640, 480)
        found = boxes((520 + 4.0 * frame, 100, 60), (100, 100, 60))
        assert update(tracker, found, frame * STEP_S) == [0, 1]
    for frame in range(26, 70):
        tracker.look_from(Similarity(), 640, 480)
        assert update(tracker, boxes((100, 100, 60)), frame * STEP_S) == [1]
    tracker.look_from(Similarity(), 640, 480)
    assert update(tracker, boxes((620, 100, 60), (100, 100, 60)), 70 * STEP_S) == [2, 1]


def test_boxes_of_changing_size_do_not_lead_a_crowd_astray() -> None:
    """A small face's box is larger or smaller by a tenth from frame to frame."""
    random, tracker = np.random.default_rng(3), Tracker()
    for frame in range(1, 90):
        # There and back, 4 pixels a frame.
        x = 60 + 4.0 * abs((frame + 10) % 20 - 10)
        sides = 24 * random.uniform(0.85, 1.15, 10)
        found = boxes(*((x + 36 * index, 60.0, side) for index, side in enumerate(sides)))
        assert update(tracker, found, frame * STEP_S) == list(range(10))


def test_no_boxes_and_no_tracks() -> None:
    tracker = Tracker()
    assert tracker.predict(0.1).shape == (0, 4)
    assert update(tracker, boxes(), 0.1) == []
    assert not tracker.waiting
    empty = tracker.smooth(np.zeros(0, np.int64), np.zeros((0, 14), np.float32), np.zeros(0))
    assert empty.shape == (0, 14)


def test_filter_is_the_published_one() -> None:
    """Against the scalar algorithm of the paper, written out."""
    values = np.cumsum(np.random.default_rng(0).normal(0, 1, 50))
    times_s = np.cumsum(np.random.default_rng(1).uniform(0.01, 0.1, 50))

    def alpha(cutoff_hz: float, step_s: float) -> float:
        return 1 / (1 + 1 / (2 * math.pi * cutoff_hz) / step_s)

    filtered, speed, expected = values[0], 0.0, [values[0]]
    for before_s, now_s, value in zip(times_s, times_s[1:], values[1:], strict=False):
        step_s = now_s - before_s
        weight = alpha(1.0, step_s)
        speed = weight * (value - filtered) / step_s + (1 - weight) * speed
        weight = alpha(1.2 + 0.5 * abs(speed) / 4, step_s)
        filtered = weight * value + (1 - weight) * filtered
        expected.append(filtered)
    smooth = OneEuroFilter(1.2, 0.5, 1.0)
    got = [smooth.filter(np.array([[v]]), t, 4)[0, 0] for v, t in zip(values, times_s, strict=True)]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def filtered(signal: NDArray[np.floating[Any]], size: float = 100) -> NDArray[np.float64]:
    smooth = OneEuroFilter()
    times_s = (np.arange(len(signal)) + 1) * STEP_S
    got = [smooth.filter(np.array([v]), t, size)[0] for v, t in zip(signal, times_s, strict=True)]
    return np.array(got, np.float64)


def test_filter_calms_what_rests_and_follows_what_moves() -> None:
    jitter = np.random.default_rng(2).normal(0, 1, 300)
    assert filtered(200 + jitter)[60:].std() < 0.6 * jitter.std()
    moving = np.concatenate([np.zeros(30), np.arange(60) * 10.0])
    assert moving[-1] - filtered(moving)[-1] < 1.5 * 10


def test_clock_goes_only_forward() -> None:
    clock = Clock()
    times = [clock.tick(ms) for ms in (1000, 1040, 1040, 1000, 500, 540, None, 5540.0)]
    steps = np.diff(times)
    assert (steps > 0).all()
    np.testing.assert_allclose(steps, [0.04, 0.04, 0.04, 0.04, 0.04, 0.04, 5.0], atol=1e-9)


def test_clock_without_timestamps_counts_thirtieths() -> None:
    clock = Clock()
    np.testing.assert_allclose([clock.tick(None) for _ in range(3)], [1 / 30, 2 / 30, 3 / 30])


@pytest.mark.parametrize("timestamp_ms", [math.nan, math.inf, -math.inf])
def test_clock_refuses_what_is_no_time(timestamp_ms: float) -> None:
    with pytest.raises(ValueError, match="timestamp_ms: expected a finite number"):
        Clock().tick(timestamp_ms)
