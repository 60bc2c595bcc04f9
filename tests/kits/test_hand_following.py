import numpy as np
from numpy.typing import NDArray

from palmkit.kits.hands.following import GestureFilter
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
