import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit import kits
from palmkit.engine.errors import ImageError, ModelError
from palmkit.engine.ir import Type
from palmkit.kits import GestureRecognizer, Hands
from palmkit.kits.hands.gestures import GestureSet
from palmkit.kits.image import Image
from palmkit.kits.kit import shipped_model
from palmkit.kits.results import GESTURES
from tests.kits.conftest import Blobs, picture

SIDE = 64


def flat_hand(*bent: int) -> NDArray[np.float32]:
    """A right hand's palm from the front, fingers up; those of these numbers are bent."""
    points = [(0.0, 1.0, 0.0)]
    for finger in range(5):
        x = (-0.5, -0.3, 0.0, 0.2, 0.4)[finger]
        base, step = (0.7, 0.16) if finger == 0 else (0.3, 0.25)
        for joint in range(4):
            along = -1 if finger in bent and joint > 1 else 1
            y = base - step * min(joint, 1) - along * step * max(joint - 1, 0)
            points.append((x * (1 + 0.1 * joint), y, -0.1 * joint))
    return np.array(points, np.float32)


HAND = flat_hand()
LOW, HIGH = HAND.min(axis=0), HAND.max(axis=0)
UNIT = (HAND - LOW) / (HIGH - LOW)
UNIT[:, 2] -= UNIT[0, 2]


class Finder(Blobs):
    """Finds what shines, with the wrist and the middle finger's base where UNIT has them."""

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        outputs = super().run(inputs)
        for stride in (8, 16, 32):
            outputs[f"points_{stride}"] = outputs[f"points_{stride}"][..., :4]
        for row, column in np.argwhere(outputs["score_8"][0, :, :, 0]):
            left, top, right, bottom = outputs["box_8"][0, row, column]
            points = UNIT[[0, 9], :2] * [left + right, top + bottom] - [left, top]
            outputs["points_8"][0, row, column] = points.reshape(-1)
        return outputs


class Hander:
    """Lays a hand on what shines nearest to the middle of a crop.

    What it shows is told by the colour: red a fist, green one, blue an open palm. Blue ones are
    left hands.
    """

    metadata: Mapping[str, str] = {"threshold": "0.5"}
    inputs: Mapping[str, Type] = {
        "image": Type("float32", (1, SIDE, SIDE, 3)),
        "up": Type("float32", (1, 2)),
    }

    def __init__(self, noise: float = 0.0) -> None:
        self.runs = 0
        self.noise = noise
        self.doubtful = False
        self.random = np.random.default_rng(0)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        image, up = inputs["image"], inputs["up"]
        assert image.dtype == np.float32 and image.shape == (1, SIDE, SIDE, 3)
        assert up.dtype == np.float32 and up.shape == (1, 2)
        assert np.hypot(*up[0]) == pytest.approx(1, abs=1e-5)
        self.runs += 1
        seen: list[tuple[float, int, NDArray[np.float64]]] = []
        for channel in range(3):
            rows, columns = np.nonzero(image[0, :, :, channel] > 120)
            if len(rows):
                low = np.array([columns.min(), rows.min(), 0])
                high = np.array([columns.max() + 1, rows.max() + 1, 30])
                far = float(np.hypot(*((low + high)[:2] / 2 - SIDE / 2)))
                seen.append((far, channel, low + UNIT * (high - low)))
        presence, right, landmarks = 0.02, 0.5, UNIT * SIDE
        probabilities = np.full(11, 0.01)
        if seen:
            _, channel, landmarks = min(seen, key=lambda each: each[0])
            presence, right = 0.9, 0.1 if channel == 2 else 0.9
            shown = ("fist", "one", "open_palm")[channel]
            if self.doubtful and self.runs % 2:
                shown = "ok"
            probabilities[GESTURES.index(shown)] = 0.9
        landmarks = landmarks + self.random.normal(0, self.noise, landmarks.shape)
        return {
            "landmarks": (landmarks[None] / SIDE).astype(np.float32),
            "presence": np.array([[presence]], np.float32),
            "handedness": np.array([[right]], np.float32),
            "gesture": probabilities[None].astype(np.float32),
        }


def opened(mode: Any = "image", **options: Any) -> GestureRecognizer:
    """The stand-in knows no mirror, so it looks once if not said otherwise."""
    chosen: dict[str, Any] = {"model": Hander(), "detector_model": Finder(), "second_pass": False}
    chosen |= options
    return GestureRecognizer(mode, **chosen)


def test_hands_with_landmarks_sides_and_gestures() -> None:
    image = picture(300, 500, (0, 60, 80, 90), (1, 220, 100, 100), (2, 390, 60, 80))
    hands = opened().recognize(image)
    assert (hands.width, hands.height, len(hands)) == (500, 300, 3)
    by_name = {hand.gesture: hand for hand in hands}
    assert set(by_name) == {"fist", "one", "open_palm"}
    assert [by_name[name].handedness for name in ("fist", "one", "open_palm")] == [
        "right",
        "right",
        "left",
    ]
    np.testing.assert_allclose(by_name["one"].box, [220, 100, 100, 100], atol=5)
    expected = [220, 100] + UNIT[:, :2] * 100
    np.testing.assert_allclose(by_name["one"].landmarks[:, :2], expected, atol=5)
    assert by_name["one"].landmarks[0, 2] == pytest.approx(0, abs=1e-3)
    assert hands.ids is None and hands.landmarks.dtype == np.float32
    assert hands.gesture_scores.min() == pytest.approx(0.9)


NEAR, FAR = (0, 60, 80, 90), (1, 400, 200, 24)


@pytest.mark.parametrize(
    ("things", "options", "longest"),
    [
        ((NEAR, FAR), {}, [224]),
        ((FAR,), {}, [224, 448]),
        ((), {}, [224, 448, 896]),
        ((), {"roi": (0, 0, 448, 100)}, [224, 448]),
        ((), {"roi": (0, 0, 449, 100)}, [224, 448, 896]),
        ((), {"roi": (0, 0, 224, 100)}, [224]),
        ((), {"roi": (0, 0, 225, 100)}, [224, 448]),
        ((), {"size": 320}, [320]),
        ((FAR,), {"max_hands": 1}, [224]),
    ],
)
def test_where_no_hand_is_near_the_detector_looks_closer(
    things: tuple[tuple[int, int, int, int], ...], options: dict[str, Any], longest: list[int]
) -> None:
    finder = Finder()
    roi = options.pop("roi", None)
    with opened(detector_model=finder, **options) as kit:
        hands = kit.recognize(picture(300, 500, *things), roi=roi)
    assert len(hands) == len(things)
    assert [max(shape) for shape in finder.runs] == longest


def test_a_video_is_looked_at_closer_from_time_to_time() -> None:
    finder = Finder()
    with opened("video", detector_model=finder, detect_every=4) as kit:
        longest: list[list[int]] = []
        for index, things in enumerate([(), (), (), (), (), (FAR,), (FAR,), (NEAR,), (NEAR,)]):
            before = len(finder.runs)
            kit.recognize(picture(300, 500, *things), timestamp_ms=33 * index)
            longest.append([max(shape) for shape in finder.runs[before:]])
    # While there is nothing, and where a hand is lost, every frame is searched.
    assert longest == [[224, 448], [224], [224], [224], [224, 448], [224], [], [224], [224]]


def test_what_only_a_closer_look_finds_is_added() -> None:
    class Near(Finder):
        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            image = inputs["image"].copy()
            if max(image.shape) < 448:
                image[..., 1] = 0
            return super().run({"image": image})

    image = picture(300, 500, (0, 60, 80, 40), (1, 400, 200, 24))
    hands = opened(detector_model=Near()).recognize(image)
    assert sorted(hands.gestures) == ["fist", "one"]


@pytest.mark.parametrize(("presence", "is_seen"), [(0.96, False), (0.98, True)])
def test_of_a_hand_that_the_closest_look_alone_finds_the_landmarks_are_certain(
    presence: float, is_seen: bool
) -> None:
    class Near(Finder):
        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            image = inputs["image"].copy()
            if max(image.shape) < 896:
                image[...] = 0
            return super().run({"image": image})

    class Certain(Hander):
        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            found = super().run(inputs)
            found["presence"] = np.full_like(found["presence"], presence)
            return found

    image = picture(300, 500, (1, 400, 200, 24))
    with opened(detector_model=Near(), model=Certain()) as kit:
        assert len(kit.recognize(image)) == is_seen
    with opened("video", detector_model=Near(), model=Certain()) as kit:
        assert not kit.recognize(image)
    # Who asks for a size is told all that is found in it.
    with opened(detector_model=Near(), model=Certain(), size=896) as kit:
        assert len(kit.recognize(image)) == 1


class Leaning(Hander):
    """Errs to the right; where a faint green mark is right of the hand, that is mirrored."""

    def __init__(self) -> None:
        super().__init__()
        self.ups: list[NDArray[np.float32]] = []

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        image, up = inputs["image"], inputs["up"]
        self.ups.append(up[0])
        faint = np.nonzero(image[0, :, :, 1] > 30)[1].mean()
        bright = np.nonzero((image[0, :, :, ::2] > 120).any(axis=2))[1].mean()
        outputs = super().run({"image": image[:, :, ::-1] if faint > bright else image, "up": up})
        if faint > bright:
            outputs["landmarks"][..., 0] = 1 - outputs["landmarks"][..., 0]
            outputs["handedness"] = 1 - outputs["handedness"]
            outputs["gesture"][0, GESTURES.index("fist")] -= 0.2
        outputs["landmarks"][..., 0] += 0.05
        return outputs


@pytest.mark.parametrize("channel", [0, 2])
def test_the_second_pass_takes_out_what_a_mirror_changes(channel: int) -> None:
    image = picture(300, 500, (channel, 150, 80, 100))
    image[80:180, 120:140, 1] = 60
    wanted = [150, 80] + UNIT[:, :2] * 100

    def look(**options: Any) -> tuple[float, Hands, Leaning]:
        model = Leaning()
        hands = opened(model=model, **options).recognize(image)
        assert hands.handedness == ("left" if channel == 2 else "right",)
        return float((hands.landmarks[0, :, :2] - wanted)[:, 0].mean()), hands, model

    error, _, model = look(second_pass=False)
    runs = model.runs
    assert error > 5
    error, hands, model = look(second_pass=True)
    assert abs(error) < 2.5 and model.runs == runs + 1
    before, mirrored = model.ups[-2:]
    np.testing.assert_allclose(mirrored, before * [-1, 1])
    if channel == 0:
        assert hands.gesture_scores[0] == pytest.approx(0.8)


def test_nothing_there() -> None:
    hands = opened().recognize(picture(100, 100))
    assert len(hands) == 0 and hands.landmarks.shape == (0, 21, 3) and hands.gestures == ()
    assert hands.to_dict() == {"width": 100, "height": 100, "hands": []}
    assert len(opened("video").recognize(np.full((40, 50), 20, np.uint8))) == 0


def test_max_hands_roi_and_thresholds() -> None:
    image = picture(300, 500, (0, 60, 80, 90), (1, 300, 100, 100))
    assert len(opened(max_hands=1).recognize(image)) == 1
    alone = opened().recognize(image, roi=(250, 0, 250, 300))
    assert alone.gestures == ("one",)
    assert len(opened(min_presence=0.95).recognize(image)) == 0
    assert len(opened(min_score=0.99).recognize(image)) == 0
    with pytest.raises(ImageError, match="roi: lies outside"):
        opened().recognize(image, roi=(600, 0, 5, 5))


def test_turned_pictures_and_other_arrays() -> None:
    image = picture(200, 300, (1, 60, 40, 80))
    upright = opened().recognize(image)
    for hands in (
        opened().recognize(np.rot90(image), rotation=90),
        opened().recognize(image[..., ::-1], format="bgr"),
        opened().recognize(np.dstack([image, image[..., :1]])),
    ):
        np.testing.assert_array_equal(hands.landmarks, upright.landmarks)
    mirrored = opened().recognize(image, flip="horizontal")
    assert mirrored.boxes[0, 0] == pytest.approx(300 - 140, abs=4)


@pytest.mark.parametrize("source", ["none.jpg", b"", b"text", np.zeros((0, 4, 3), np.uint8), None])
def test_what_is_no_picture(source: Any) -> None:
    with pytest.raises(ImageError):
        opened().recognize(source)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "film"}, "mode: expected one of"),
        ({"threads": 0}, "threads: expected"),
        ({"precision": "exact"}, "precision: expected"),
        ({"max_hands": 0}, "max_hands: expected a whole number, at least 1"),
        ({"min_score": 2}, "min_score: expected a number from 0 to 1"),
        ({"min_presence": -1}, "min_presence: expected a number from 0 to 1"),
        ({"size": 8}, "size: expected a number from 32 to 4096"),
        ({"detect_every": 0}, "detect_every: expected"),
        ({"hold_ms": -1}, "hold_ms: expected a number from 0"),
        ({"gestures": GestureSet()}, "gestures: expected at least one in the set"),
        ({"mode": "stream"}, "on_result: expected in stream mode"),
    ],
)
def test_options_that_cannot_be(options: Any, message: str) -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match=message):
        opened(**options)
    assert threading.active_count() == before


def test_another_model_is_refused() -> None:
    with pytest.raises(ModelError, match="input image: expected"):
        opened(model=Blobs())
    image = picture(200, 300, (1, 60, 40, 80))
    with pytest.raises(ModelError, match="output points_8: expected"):
        opened(detector_model=Blobs()).recognize(image)

    class Short(Hander):
        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            return {**super().run(inputs), "gesture": np.zeros((1, 7), np.float32)}

    with pytest.raises(ModelError, match="output gesture: expected"):
        opened(model=Short()).recognize(image)


def test_numbers_that_are_none_are_no_hand() -> None:
    class Broken(Hander):
        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            outputs = super().run(inputs)
            outputs["landmarks"][0, 3, 1] = np.nan
            return outputs

    image = picture(200, 300, (1, 60, 40, 80))
    assert len(opened(model=Broken()).recognize(image)) == 0
    assert len(opened("video", model=Broken()).recognize(image)) == 0


def test_ids_stay_through_a_crossing_and_a_short_absence() -> None:
    recognizer = opened("video", hold_ms=0)
    ids: dict[str, set[int]] = {"fist": set(), "open_palm": set()}
    for step in range(40):
        squares = [(0, 20 + 8 * step, 60, 80)]
        if not 12 <= step < 18:
            squares.append((2, 400 - 8 * step, 180, 80))
        hands = recognizer.recognize(picture(300, 500, *squares))
        assert len(hands) == len(squares)
        for hand in hands:
            assert hand.id is not None
            ids[hand.gesture].add(hand.id)
    assert [len(found) for found in ids.values()] == [1, 1]
    assert ids["fist"] != ids["open_palm"]


def test_known_hands_are_only_followed() -> None:
    finder = Finder()
    recognizer = opened("video", detector_model=finder, detect_every=10)
    for step in range(21):
        recognizer.recognize(picture(300, 500, (1, 100 + 4 * step, 100, 90)))
    assert len(finder.runs) == 3
    recognizer.reset()
    assert recognizer.recognize(picture(300, 500, (1, 100, 100, 90)))[0].id == 0


def test_fast_hands_are_followed() -> None:
    finder = Finder()
    recognizer = opened("video", detector_model=finder, detect_every=100)
    for step in range(10):
        x = 20 + 4 * step**2
        hands = recognizer.recognize(picture(200, 600, (1, x, 60, 80)))
        assert len(hands) == 1 and hands[0].id == 0
    assert len(finder.runs) == 1


def test_smoothing_holds_landmarks_and_gestures() -> None:
    def run(smoothing: bool) -> tuple[float, int]:
        hander = Hander(noise=0.5)
        hander.doubtful = True
        recognizer = opened("video", model=hander, smoothing=smoothing, detect_every=1000)
        image = picture(300, 400, (1, 120, 80, 120))
        found = [recognizer.recognize(image)[0] for _ in range(40)][10:]
        jitter = np.diff(np.array([hand.landmarks for hand in found]), axis=0)
        names = [hand.gesture for hand in found]
        changes = sum(a != b for a, b in zip(names, names[1:], strict=False))
        return float(np.abs(jitter).mean()), changes

    rough, steady = run(False), run(True)
    assert steady[0] < 0.5 * rough[0]
    assert rough[1] > 20 and steady[1] <= 1


def test_the_side_of_a_hand_stays() -> None:
    class Unsure(Hander):
        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            outputs = super().run(inputs)
            outputs["handedness"][:] = 0.35 if self.runs % 3 == 0 else 0.8
            return outputs

    recognizer = opened("video", model=Unsure())
    image = picture(300, 400, (1, 120, 80, 120))
    sides = [recognizer.recognize(image)[0].handedness for _ in range(40)]
    assert set(sides[4:]) == {"right"}


def test_a_hand_is_looked_at_again_only_where_its_crop_was_off() -> None:
    hander = Hander()
    recognizer = opened("video", model=hander)
    image = picture(300, 400, (1, 120, 80, 120))
    for _ in range(5):
        recognizer.recognize(image)
    before = hander.runs
    for _ in range(10):
        recognizer.recognize(image)
    assert hander.runs - before == 10


def test_stream() -> None:
    found: list[Hands] = []
    image = picture(200, 300, (1, 60, 40, 80))

    def take(hands: Hands, frame: Image, timestamp_ms: float | None) -> None:
        found.append(hands)

    with opened("stream", hold_ms=0, on_result=take) as recognizer:
        for _ in range(4):
            recognizer.submit(image)
    assert found and found[-1].gestures == ("one",) and found[-1].ids is not None
    with pytest.raises(RuntimeError, match="gesture recognizer is closed"):
        recognizer.submit(image)


def test_json_of_a_hand() -> None:
    (hand,) = opened().recognize(picture(200, 300, (2, 60, 40, 80))).to_dict()["hands"]
    assert list(hand) == [
        "box",
        "score",
        "handedness",
        "landmarks",
        "gesture",
        "gesture_score",
    ]
    assert hand["handedness"] == "left" and hand["gesture"] == "open_palm"
    assert np.array(hand["landmarks"]).shape == (21, 3)
    json.dumps(hand, allow_nan=False)


def test_drawing() -> None:
    image = picture(300, 400, (0, 120, 80, 120))
    hands = opened().recognize(image)
    drawn = kits.draw.hands(image, hands)
    assert drawn.shape == image.shape and (drawn != image).any()
    assert (kits.draw.hands(image, hands, labels=False)[:60] == image[:60]).all()
    for point in hands[0].landmarks[:, :2].round().astype(int):
        part = slice(point[1] - 2, point[1] + 3), slice(point[0] - 2, point[0] + 3)
        assert (drawn[part] != image[part]).any()
    with pytest.raises(ImageError, match="draw hands: expected"):
        kits.draw.hands(image[:100], hands)
    nothing = opened().recognize(picture(40, 40))
    assert (kits.draw.hands(picture(40, 40), nothing) == 0).all()


needs_models = pytest.mark.skipif(
    not shipped_model("hand_landmarks").is_file(),
    reason="models/hand_landmarks/hand_landmarks.palm has not been made here",
)


HANDS = Path(__file__).parents[2].parent / "shared" / "data" / "hands"


@needs_models
@pytest.mark.skipif(not HANDS.is_dir(), reason="needs ../shared/data")
def test_real_hands() -> None:
    """Of the development pictures of single hands, turned as they may be."""
    index = (HANDS / "index.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in index.splitlines()]
    rows = [
        row
        for row in rows
        if row["split"] == "dev" and row["set"] == "ardamavi" and row.get("label") == "open_palm"
    ]
    assert len(rows) >= 10
    right = 0
    for number, row in enumerate(rows[:10]):
        image = np.pad(kits.read_image(HANDS / row["file"]), ((60, 60), (60, 60), (0, 0)), "edge")
        hands = kits.recognize_gestures(np.rot90(image, number % 4))
        right += "open_palm" in hands.gestures
    assert right >= 7
