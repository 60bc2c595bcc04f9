"""What results say, hold and give: texts, JSON, rows, copies."""

import copy
import dataclasses
import json
import pickle
import pydoc
from collections.abc import Iterator
from typing import Any, cast, get_args

import numpy as np
import pytest

from palmkit import engine, kits
from palmkit.kits import Face, Faces, Gesture, Handedness, Hands, Mask, Ranking, TriedOn, results
from palmkit.kits.kit import shipped_model
from palmkit.kits.results import GESTURES, OwnGesture
from palmkit.kits.results.things import Rows


def faces(ids: bool = False) -> Faces:
    return Faces(
        640,
        480,
        np.array([[10.1, 20.256, 30, 40], [1, 2, 3, 4]], np.float32),
        np.array([0.91236, 0.5], np.float32),
        np.arange(20, dtype=np.float32).reshape(2, 5, 2),
        np.array([7, 3]) if ids else None,
    )


def meshes() -> Faces:
    return dataclasses.replace(
        faces(),
        mesh=np.zeros((2, 478, 3), np.float32),
        visibility=np.ones((2, 478), np.float32),
        pose=np.array([[1, -0.2, 3.4], [4, 5, 6]], np.float32),
        actions=np.array([[True, False, False, False, True], [False] * 5]),
    )


def hands(ids: bool = False) -> Hands:
    return Hands(
        640,
        480,
        np.array([[10, 20, 30, 40], [50, 60, 70, 80]], np.float32),
        np.array([0.9, 0.8], np.float32),
        np.arange(126, dtype=np.float32).reshape(2, 21, 3),
        ("left", "right"),
        ("fist", OwnGesture("horns")),
        np.array([0.7, 0.6], np.float32),
        np.array([7, 3]) if ids else None,
    )


def mask() -> Mask:
    inside = np.zeros((30, 40), np.float32)
    inside[10:20, 5:25] = 1
    return Mask(40, 30, inside, np.full((30, 40, 3), 90, np.uint8), subject="hair")


def tried_on() -> TriedOn:
    before = np.full((480, 640, 3), 90, np.uint8)
    look = kits.Look.of(lipstick="ruby", eye_shadow="#aa3344")
    return TriedOn(640, 480, before + 1, before, faces(), look)


def ranking(count: int = 5) -> Ranking:
    ids = [f"item {number}" for number in range(count)]
    return Ranking(ids, np.arange(count), np.zeros(count, np.float32), "reranker 1.0")


EVERY = [faces(), faces(True), meshes(), hands(), hands(True), mask(), tried_on(), ranking()]


def test_results_are_names_of_one_module() -> None:
    assert set(results.__all__) <= set(dir(results))
    assert all(getattr(results, name) is not None for name in results.__all__)
    assert not hasattr(results, "Feet")
    text = pydoc.plain(pydoc.render_doc(results))
    assert "class Faces(palmkit.kits.results.things.Things)" in text


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (
            faces(),
            "<Faces of 640x480: 2 faces: 0.91 at 10,20 size 30x40; 0.50 at 1,2 size 3x4>",
        ),
        (faces(True)[0], "<Face: #7 0.91 at 10,20 size 30x40>"),
        (
            meshes()[0],
            "<Face: 0.91 at 10,20 size 30x40 yaw 1 pitch 0 roll 3 eye_blink brow_jump>",
        ),
        (faces()[:0], "<Faces of 640x480: no faces>"),
        (
            faces()[[0, 1, 0, 1, 0]],
            "<Faces of 640x480: 5 faces: 0.91 at 10,20 size 30x40; 0.50 at 1,2 size 3x4;"
            " 0.91 at 10,20 size 30x40; 2 more>",
        ),
        (
            hands(),
            "<Hands of 640x480: 2 hands: left fist 0.70 at 10,20 size 30x40;"
            " right horns 0.60 at 50,60 size 70x80>",
        ),
        (hands(True)[1], "<Hand: #3 right horns 0.60 at 50,60 size 70x80>"),
        (mask(), "<Mask of hair in 40x30: 17 % of the pixels>"),
        (tried_on(), "<TriedOn of 640x480: 2 faces with eye shadow, lipstick>"),
        (
            dataclasses.replace(tried_on(), look=kits.Look(), faces=faces()[:1]),
            "<TriedOn of 640x480: 1 face with nothing on>",
        ),
        (ranking(), "<Ranking of 5 items: item 0, item 1, item 2, ...; reranker 1.0>"),
        (
            dataclasses.replace(ranking(1), cold=True),
            "<Ranking of 1 item: item 0; reranker 1.0, cold>",
        ),
    ],
)
def test_repr_is_one_short_line(result: Any, told: str) -> None:
    assert repr(result) == told
    assert str([result]) == f"[{told}]"


def test_to_dict_is_the_documented_json() -> None:
    assert json.loads(faces(True).to_json()) == {
        "width": 640,
        "height": 480,
        "faces": [
            {
                "box": [10.1, 20.26, 30.0, 40.0],
                "score": 0.9124,
                "id": 7,
                "keypoints": {
                    "left_eye": [0.0, 1.0],
                    "right_eye": [2.0, 3.0],
                    "nose": [4.0, 5.0],
                    "mouth_left": [6.0, 7.0],
                    "mouth_right": [8.0, 9.0],
                },
            },
            {
                "box": [1.0, 2.0, 3.0, 4.0],
                "score": 0.5,
                "id": 3,
                "keypoints": {
                    "left_eye": [10.0, 11.0],
                    "right_eye": [12.0, 13.0],
                    "nose": [14.0, 15.0],
                    "mouth_left": [16.0, 17.0],
                    "mouth_right": [18.0, 19.0],
                },
            },
        ],
    }


def test_all_fields_have_their_names_in_json() -> None:
    face = json.loads(meshes().to_json())["faces"][0]
    assert list(face) == [
        "box", "score", "keypoints", "mesh", "visibility", "pose", "actions"
    ]  # fmt: skip
    assert len(face["mesh"]) == len(face["visibility"]) == 478
    assert face["pose"] == {"yaw": 1, "pitch": -0.2, "roll": 3.4}
    assert face["actions"] == {
        "eye_blink": True,
        "mouth_open": False,
        "head_yaw": False,
        "head_pitch": False,
        "brow_jump": True,
    }


def values(found: Any) -> Iterator[Any]:
    if not isinstance(found, dict | list):
        yield found
        return
    inside = cast("dict[str, Any] | list[Any]", found)
    for each in inside.values() if isinstance(inside, dict) else inside:
        yield from values(each)


@pytest.mark.parametrize("result", EVERY, ids=lambda result: type(result).__name__)
def test_json_has_no_nulls(result: results.Result) -> None:
    found = json.loads(result.to_json())
    assert found == result.to_dict()
    assert not any(value is None for value in values(found))
    assert result.to_json(indent=2).startswith('{\n  "')


def test_to_json_refuses_what_json_cannot_say() -> None:
    broken = dataclasses.replace(faces(), scores=np.array([np.nan, 1], np.float32))
    with pytest.raises(ValueError, match="not JSON compliant"):
        broken.to_json()


def test_things_are_a_sequence() -> None:
    assert len(faces()) == 2
    assert [face.id for face in faces(True)] == [7, 3]
    assert faces()[-1].score == faces()[np.int64(1)].score == 0.5
    assert isinstance(faces()[0], Face)
    with pytest.raises(IndexError):
        faces()[2]
    with pytest.raises(TypeError):
        faces()["box"]  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


@pytest.mark.parametrize("rows", [slice(1, None), [1], np.array([1]), np.array([False, True])])
def test_some_things_are_a_result_too(rows: Rows) -> None:
    whole = dataclasses.replace(meshes(), ids=np.array([7, 3]))
    some = whole[rows]
    assert isinstance(some, Faces) and (some.width, some.height, len(some)) == (640, 480, 1)
    for field in dataclasses.fields(Faces):
        before: Any = getattr(whole, field.name)
        after: Any = getattr(some, field.name)
        if field.name not in ("width", "height", "original"):
            np.testing.assert_array_equal(after, before[1:])
    held = hands(True)[rows]
    assert (held.handedness, held.gestures) == (("right",), ("horns",))
    assert json.loads(held.to_json())["hands"] == hands(True).to_dict()["hands"][1:]


def test_good_ones_are_chosen_by_their_scores() -> None:
    chosen = faces()[faces().scores > 0.8]
    assert chosen.scores.tolist() == faces().scores[:1].tolist()
    with pytest.raises(IndexError):
        faces()[np.array([True, False, True])]
    with pytest.raises(IndexError):
        faces()[[5]]


def test_results_are_frozen_and_equal_only_themselves() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        faces().width = 3  # type: ignore[misc]
    one = faces()
    assert one == one and one != faces() and len({one, one}) == 1


@pytest.mark.parametrize("result", EVERY, ids=lambda result: type(result).__name__)
def test_results_are_copied_and_pickled(result: Any) -> None:
    for other in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert type(other) is type(result) and repr(other) == repr(result)
        assert other.to_json() == result.to_json()
        for field in dataclasses.fields(result):
            before: Any = getattr(result, field.name)
            after: Any = getattr(other, field.name)
            if type(before) is np.ndarray:
                np.testing.assert_array_equal(after, before)
    for thing in result if type(result) in (Faces, Hands) else ():
        assert repr(pickle.loads(pickle.dumps(thing))) == repr(copy.deepcopy(thing)) == repr(thing)


def test_the_types_of_labels_are_those_of_the_model() -> None:
    metadata = engine.load(shipped_model("hand_landmarks")).metadata
    assert get_args(Gesture) == GESTURES == tuple(metadata["gestures"].split())
    # It gives the probability of a right hand, and there is no third.
    assert get_args(Handedness) == ("left", "right")
    assert set(kits.draw.SIDES) == set(get_args(Handedness))
    found = kits.recognize_gestures(np.zeros((64, 64, 3), np.uint8))
    assert set(found.gestures) <= set(get_args(Gesture))


def test_the_former_name_of_draw_warns() -> None:
    image = np.zeros((480, 640, 3), np.uint8)
    with pytest.warns(
        DeprecationWarning, match="Faces.drawn is deprecated: it is draw now"
    ) as told:
        drawn = faces().drawn(image)
    assert told[0].filename == __file__
    np.testing.assert_array_equal(drawn, faces().draw(image))
