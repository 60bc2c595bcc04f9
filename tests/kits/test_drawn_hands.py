"""The kit with the models that ship, on hands drawn here: sides, gestures, and who is who."""

import pytest

from palmkit.kits import GestureRecognizer, recognize_gestures
from palmkit.kits.kit import shipped_model
from tests.kits.drawn_hands import scene

pytestmark = pytest.mark.skipif(
    not shipped_model("hand_landmarks").is_file(),
    reason="models/hand_landmarks/hand_landmarks.palm has not been made here",
)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("gesture", ["open_palm", "three", "four"])
def test_gesture_and_side(gesture: str, side: str) -> None:
    hands = recognize_gestures(scene([(160, 230, gesture, side)], 320, 320))
    assert (hands.gestures, hands.handedness) == ((gesture,), (side,))


def test_ids_stay_while_hands_pass_each_other() -> None:
    ids: dict[str, set[int | None]] = {"left": set(), "right": set()}
    with GestureRecognizer("video") as recognizer:
        for step in range(60):
            lower, upper = 90 + 7 * step, 550 - 7 * step
            image = scene([(upper, 190, "four", "left"), (lower, 300, "open_palm", "right")])
            for hand in recognizer.recognize(image):
                if step < 15 or step > 45:
                    ids[hand.handedness].add(hand.id)
    assert [len(found) for found in ids.values()] == [1, 1]
    assert ids["left"] != ids["right"]
