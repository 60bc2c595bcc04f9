import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.camera_motion import Similarity
from palmkit.kits.crop import Crop
from palmkit.kits.hands.following import GestureFilter, HandSight, HandTrack
from palmkit.kits.hands.skeleton import LANDMARKS
from palmkit.kits.results import GESTURES


def probabilities(name: str, value: float = 0.9) -> NDArray[np.float32]:
    found = np.full(11, 0.01, np.float32)
    found[GESTURES.index(name)] = value
    return found


def frames_until(filter: GestureFilter, name: str, start: int) -> int:
    for frame in range(start, start + 30):
        index, _ = filter.update(probabilities(name), frame / 30)
        if GESTURES[index] == name:
            return frame - start + 1
    raise AssertionError(f"{name} is never shown")


def test_a_gesture_counts_once_it_is_held() -> None:
    filter = GestureFilter(GESTURES.index("other"), 0.1)
    assert frames_until(filter, "fist", 0) == 4
    # A new one has to outweigh the old one first, and is shown within a fifth of a second.
    assert frames_until(filter, "ok", 4) == 5
    quick = GestureFilter(GESTURES.index("other"), 0.0)
    assert frames_until(quick, "fist", 0) == 1


def test_a_gesture_does_not_flicker() -> None:
    random = np.random.default_rng(1)
    filter = GestureFilter(GESTURES.index("other"), 0.1)
    shown: list[int] = []
    for frame in range(300):
        # Two gestures nearly as likely, and each frame one of them by chance.
        seen = probabilities("two", 0.45 + float(random.normal(0, 0.1)))
        seen[GESTURES.index("three")] = 0.4
        if frame % 17 == 0:
            seen = probabilities("fist")
        shown.append(filter.update(seen, frame / 30)[0])
    changes = [a != b for a, b in zip(shown[10:], shown[11:], strict=False)]
    assert sum(changes) <= 2 and GESTURES.index("fist") not in shown


def sight(x: float, y: float, side: float = 100) -> HandSight:
    """Return a hand whose landmarks lie in the middle of its crop."""
    return HandSight(
        presence=1.0,
        crop=Crop(x, y, side),
        landmarks=np.tile(np.array([x, y, side / 10], np.float32), (LANDMARKS, 1)),
        right=1.0,
        gestures=probabilities("fist"),
    )


def test_a_hand_is_looked_for_where_the_camera_moved_it() -> None:
    """The camera pans by 30 pixels a frame, the hand moves by 4 in the picture of a still one."""
    track = HandTrack(sight(500, 200), 0.0, GestureFilter(0, 0.1))
    for frame in range(20):
        track.take(sight(500 + 4 * frame - 30 * frame, 200), (frame + 1) / 30)
        track.move(Similarity(shift=-30 + 0j))
    crop = track.expected_crop(21 / 30)
    assert crop.x == pytest.approx(500 + (4 - 30) * 20, abs=1)
    assert (crop.y, crop.side, crop.angle) == (200, 100, 0)


def test_what_a_camera_hardly_moves_is_seen_in_the_same_crop() -> None:
    track = HandTrack(sight(500, 200), 0.0, GestureFilter(0, 0.1))
    track.move(Similarity(shift=1 + 1j))
    assert track.sight.crop == Crop(500, 200, 100)
    track.move(Similarity(2j, 10 + 0j))
    assert track.sight.crop == Crop(10 - 400, 1000, 200, np.pi / 2)
    moved = np.array([10 - 2 * 201, 2 * 501, 20])
    np.testing.assert_allclose(track.sight.landmarks[0], moved, rtol=1e-5)
