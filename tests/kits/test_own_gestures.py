import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit import kits
from palmkit.engine.errors import ImageError, ModelError
from palmkit.kits import Hand, gestures
from palmkit.kits.hands import skeleton
from palmkit.kits.hands.gestures import GestureClassifier, GestureSet, embed
from palmkit.kits.hands.skeleton import ASIDE, AWAY, CURLED, POSES, STRAIGHT, Pose
from palmkit.kits.kit import shipped_model
from tests.kits.conftest import picture
from tests.kits.test_gestures import opened

HORNS = Pose(index=STRAIGHT, little=STRAIGHT)
CALL = Pose(AWAY, little=STRAIGHT)
GUN = Pose(AWAY, index=STRAIGHT)

needs_models = pytest.mark.skipif(
    not shipped_model("hand_landmarks").is_file(),
    reason="models/hand_landmarks/hand_landmarks.palm has not been made here",
)


class People:
    """Hands of many people: no two fingers alike, seen from a little aside, left and right."""

    def __init__(self, seed: int = 0, tilt: float = 15.0) -> None:
        self.random = np.random.default_rng(seed)
        self.tilt = tilt

    def hand(self, pose: Pose) -> Hand:
        random = self.random

        def near(joints: tuple[float, float, float]) -> tuple[float, float, float]:
            a, b, c = random.normal(joints, 6)
            return float(a), float(b), float(c)

        fingers = (pose.thumb, pose.index, pose.middle, pose.ring, pose.little)
        thumb, index, middle, ring, little = map(near, fingers)
        held = Pose(thumb, index, middle, ring, little, pose.up).landmarks(random.normal(0, 15))
        stretched = held * random.normal(1, 0.06, 3) + random.normal(0, 0.02, held.shape)
        angle = np.radians(random.normal(0, self.tilt))
        cos, sin = np.cos(angle), np.sin(angle)
        stretched[:, :2] = stretched[:, :2] @ np.array([[cos, sin], [-sin, cos]])
        side = "right" if random.random() < 0.5 else "left"
        if side == "left":
            stretched[:, 0] *= -1
        return as_hand(stretched * random.uniform(20, 200) + random.uniform(100, 400), side)

    def hands(self, pose: Pose, count: int) -> list[Hand]:
        return [self.hand(pose) for _ in range(count)]


def as_hand(landmarks: NDArray[Any], side: Any = "right") -> Hand:
    return Hand(np.zeros(4, np.float32), 1.0, landmarks.astype(np.float32), side, "other", 0.5)


def named(classifier: GestureClassifier, hand: Hand) -> str | None:
    scores = classifier.scores(hand.landmarks, hand.handedness == "right")
    return classifier.names[int(scores.argmax())] if scores.max() > 0.5 else None


def turned(hand: NDArray[Any], degrees: float) -> NDArray[np.float64]:
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    out = np.array(hand, np.float64)
    out[:, :2] = out[:, :2] @ np.array([[cos, sin], [-sin, cos]])
    return out


def test_new_gestures_of_people_not_seen_before() -> None:
    people = People()
    own = gestures.custom("horns", people.hands(HORNS, 5))
    own.add("call", people.hands(CALL, 5))
    classifier = own.classifier()
    for name, pose in (("horns", HORNS), ("call", CALL)):
        found = [named(classifier, hand) for hand in people.hands(pose, 100)]
        assert found.count(name) >= 90 and set(found) <= {name, None}
    others = [GUN, *(pose for name in ("open_palm", "fist", "two", "ok") for pose in POSES[name])]
    wrong = [named(classifier, hand) for pose in others for hand in people.hands(pose, 40)]
    assert np.mean([name is not None for name in wrong]) <= 0.03


def test_one_example_will_do() -> None:
    people = People(1)
    classifier = gestures.custom("horns", [as_hand(HORNS.landmarks())]).classifier()
    found = [named(classifier, hand) for hand in people.hands(HORNS, 100)]
    assert found.count("horns") >= 60
    wrong = [named(classifier, hand) for hand in people.hands(POSES["one"][0], 100)]
    assert wrong.count("horns") <= 2


def test_up_counts_only_if_the_examples_agree_on_it() -> None:
    people = People(2)
    upright = gestures.custom("horns", people.hands(HORNS, 6)).classifier()
    anyhow = gestures.custom("horns", People(3, tilt=120).hands(HORNS, 6)).classifier()
    aside = [as_hand(turned(HORNS.landmarks(), angle)) for angle in (90, 180, 270)]
    assert [named(upright, hand) for hand in aside] == [None] * 3
    assert [named(anyhow, hand) for hand in aside] == ["horns"] * 3
    assert named(upright, as_hand(turned(HORNS.landmarks(), 20))) == "horns"


def test_place_size_side_and_turn_are_taken_out() -> None:
    hand = CALL.landmarks()
    plain = embed(hand, True)
    mirrored = hand * np.array([-1, 1, 1], np.float32)
    np.testing.assert_allclose(embed(hand * 37 + 500, True), plain, atol=1e-4)
    np.testing.assert_allclose(embed(mirrored, False), plain, atol=1e-5)
    np.testing.assert_allclose(embed(turned(hand, 130), True)[:60], plain[:60], atol=1e-5)
    assert np.abs(embed(turned(hand, 130), True)[60:] - plain[60:]).max() > 0.1
    assert np.isfinite(embed(np.zeros((21, 3)), True)).all()


def test_known_gestures_bound_the_reach() -> None:
    almost = Pose(index=STRAIGHT, middle=(30.0, 40.0, 20.0))
    near = gestures.custom("near", [as_hand(almost.landmarks())]).classifier()
    far = gestures.custom("far", [as_hand(CALL.landmarks())]).classifier()
    assert near.reaches[0] < far.reaches[0]


def test_own_gestures_go_before_those_known() -> None:
    image = picture(300, 400, (0, 120, 80, 120))
    with opened() as recognizer:
        assert recognizer.recognize(image).gestures == ("fist",)
        mine = gestures.custom("block", [image, image[:, ::-1]], recognizer=recognizer)
        assert mine.hands["block"].shape == (2, 21, 3) and mine.examples == 2
        with pytest.raises(ImageError, match="example 2: shows no hand"):
            mine.add("block", [image, picture(50, 50)], recognizer=recognizer)
        with pytest.raises(ImageError, match=r"example 1: no such file: none\.jpg"):
            mine.add("block", ["none.jpg"], recognizer=recognizer)
    assert mine.examples == 2
    hands = opened(gestures=mine).recognize(image)
    assert hands.gestures == ("block",) and hands.gesture_scores[0] > 0.9
    video = opened("video", gestures=mine)
    names = [video.recognize(image).gestures[0] for _ in range(6)]
    assert names == ["other"] * 3 + ["block"] * 3


def test_what_is_no_gesture() -> None:
    own = GestureSet()
    with pytest.raises(ValueError, match="examples of 'wave': expected at least one"):
        own.add("wave", [])
    hand = as_hand(CALL.landmarks())
    for name, message in (
        ("", "expected printable letters, got ''"),
        ("a\nb", "expected printable letters"),
        (3, "expected printable letters, got 3"),
        ("x" * 65, "expected at most 64 letters, got 65"),
        ("fist", "expected one not known already, got 'fist'"),
        ("other", "expected one not known already"),
    ):
        with pytest.raises(ValueError, match=f"name of a gesture: {message}"):
            own.add(name, [hand])  # type: ignore[arg-type]
    assert not own.hands


def test_a_file_keeps_the_set(tmp_path: Path) -> None:
    people = People(4)
    own = gestures.custom("höher", people.hands(CALL, 3))
    own.add("horns", people.hands(HORNS, 2))
    own.save(tmp_path / "mine.json")
    read = GestureSet.load(tmp_path / "mine.json")
    assert list(read.hands) == ["höher", "horns"]
    for name, hands in own.hands.items():
        np.testing.assert_allclose(read.hands[name], hands, atol=1e-4)
    hand = people.hand(CALL)
    right = hand.handedness == "right"
    scores = (each.classifier().scores(hand.landmarks, right) for each in (own, read))
    before, after = scores
    np.testing.assert_allclose(before, after, atol=1e-2)
    assert opened(gestures=tmp_path / "mine.json").gestures[-2:] == ("höher", "horns")
    with pytest.raises(OSError):
        own.save(tmp_path / "none" / "mine.json")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.json"]


GOOD = CALL.landmarks().round(3).tolist()


def changed(**values: Any) -> str:
    whole = {"format": "palmkit gestures", "version": 1, "gestures": {"wave": [GOOD]}}
    return json.dumps({**whole, **values})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a gesture file, expected JSON"),
        ("[" * 100000, "not a gesture file, expected JSON"),
        ("[]", "expected format 'palmkit gestures'"),
        (changed(format="x"), "expected format 'palmkit gestures'"),
        (changed(version=2), "expected version 1, got 2"),
        (changed(gestures=[]), "expected at most 256 gestures"),
        (changed(gestures={"": [GOOD]}), "name of a gesture: expected printable"),
        (changed(gestures={"fist": [GOOD]}), "not known already"),
        (changed(gestures={"a": []}), "'a': expected lists of 21 points"),
        (changed(gestures={"a": [GOOD[:20]]}), "'a': expected lists of 21 points"),
        (changed(gestures={"a": [GOOD, [1, 2]]}), "'a': expected lists of 21 points"),
        (changed(gestures={"a": "hand"}), "'a': expected lists of 21 points"),
        (changed(gestures={"a": [[["x", 0, 0]] * 21]}), "'a': expected lists of 21 points"),
        (changed(gestures={"a": [[[0, 0, 0]] * 21]}), "'a': expected hands in palm lengths"),
        (changed(gestures={"a": [[[1e9, 0, 0]] * 21]}), "'a': expected hands in palm lengths"),
        (changed().replace("0.0,", "NaN,", 1), "expected hands in palm lengths"),
        (changed().replace("0.0,", "1e999,", 1), "expected hands in palm lengths"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(ModelError, match=message) as error:
        GestureSet.load(path)
    assert str(error.value).endswith("mine.json")


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        GestureSet.load(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelError, match="expected JSON"):
        GestureSet.load(tmp_path / "bytes.json")


def test_poses_look_like_hands() -> None:
    for name, poses in POSES.items():
        for pose in poses:
            hand = pose.landmarks()
            assert hand.shape == (skeleton.LANDMARKS, 3)
            assert np.hypot(*(hand[9] - hand[0])[:2]) == pytest.approx(1, abs=0.01), name
    straight = Pose(ASIDE, STRAIGHT, STRAIGHT, STRAIGHT, STRAIGHT).landmarks()
    curled = Pose(ASIDE, CURLED, CURLED, CURLED, CURLED).landmarks()
    for tip in (8, 12, 16, 20):
        assert straight[tip, 1] < straight[tip - 3, 1] - 0.5
        assert np.linalg.norm(curled[tip] - straight[tip - 3]) < 0.6
    thumb = POSES["thumb_up"][0].landmarks()
    assert thumb[4, 1] < thumb[:4, 1].min() and thumb[4, 1] < thumb[5:, 1].min()
    thumb = POSES["thumb_down"][0].landmarks()
    assert thumb[4, 1] > thumb[:4, 1].max() and thumb[4, 1] > thumb[5:, 1].max()


@needs_models
def test_command(run: Any, tmp_path: Path) -> None:
    kits.write_image(tmp_path / "a.png", np.full((60, 80, 3), 90, np.uint8))
    result = run("gesture", tmp_path / "a.png", "--json", "-o", tmp_path / "b.png")
    assert (result.code, result.err) == (0, "")
    assert result.lines == [{"width": 80, "height": 60, "hands": []}]
    assert (tmp_path / "b.png").exists()
    assert run("gesture", tmp_path / "a.png").out == f"{tmp_path / 'a.png'}: no hands\n"
    gestures.custom("wave", [as_hand(CALL.landmarks())]).save(tmp_path / "mine.json")
    assert run("gesture", tmp_path / "a.png", "--gestures", tmp_path / "mine.json").code == 0
    result = run("gesture", tmp_path / "a.png", "--gestures", tmp_path / "a.png")
    assert result.code == 1 and "not a gesture file" in result.err
    assert run("gesture", tmp_path / "a.png", "--max-hands", 0).code == 2


@needs_models
def test_command_learns_nothing_without_a_hand(run: Any, tmp_path: Path) -> None:
    kits.write_image(tmp_path / "a.png", np.full((60, 80, 3), 90, np.uint8))
    out = tmp_path / "mine.json"
    result = run("gesture", tmp_path / "a.png", "--learn", "wave", "-o", out)
    assert result.code == 1 and not out.exists()
    assert f"shows no hand: {tmp_path / 'a.png'}" in result.err
    assert run("gesture", tmp_path / "a.png", "--learn", "wave").code == 2
    assert run("gesture", tmp_path / "a.png", "--learn", "wave", "-o", "a.png").code == 2
    result = run("gesture", tmp_path / "none.png", "--learn", "wave", "-o", out)
    assert result.code == 1 and "no such file" in result.err


HANDS = Path(__file__).parents[2].parent / "shared" / "data" / "hands"


@needs_models
@pytest.mark.skipif(not HANDS.is_dir(), reason="needs ../shared/data")
def test_five_real_examples(run: Any, tmp_path: Path) -> None:
    """Of the training pictures of many people one gesture that is not known."""
    index = (HANDS / "index.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in index.splitlines()]
    rows = [row for row in rows if row["split"] == "train" and row["set"] == "ardamavi"]

    def pictures(native: str, count: int) -> list[Path]:
        found = [row for row in rows if row["native"] == native][:: 200 // count][:count]
        paths: list[Path] = []
        for number, row in enumerate(found):
            image = kits.read_image(HANDS / row["file"])
            path = tmp_path / f"{native}-{number}.png"
            kits.write_image(path, np.pad(image, ((60, 60), (60, 60), (0, 0)), "edge"))
            paths.append(path)
        return paths

    out = tmp_path / "mine.json"
    shown = pictures("7", 30)
    result = run("gesture", *shown[:5], "--learn", "seven", "-o", out)
    assert (result.code, result.out) == (0, "seven: 5 examples\n")
    lines = run("gesture", *shown[5:], "--gestures", out, "--json").lines
    named_so = [any(hand["gesture"] == "seven" for hand in line["hands"]) for line in lines]
    others = [path for native in "13589" for path in pictures(native, 6)]
    lines = run("gesture", *others, "--gestures", out, "--json").lines
    wrong = [any(hand["gesture"] == "seven" for hand in line["hands"]) for line in lines]
    assert np.mean(named_so) >= 0.6 and np.mean(wrong) <= 0.1
