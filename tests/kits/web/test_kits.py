"""The kits of the npm package find what those of Python find."""

import json
from typing import Any

import numpy as np
import pytest

from palmkit import kits
from palmkit.kits.image import Image
from tests.engine.web.package import needs_package, node
from tests.kits import drawn_hands

pytestmark = needs_package

# As between Python and C (tests/kits/native/test_kits.py), and masks as between instruction sets.
OFF, OFF_SCORE, OFF_MASK = 0.05, 1e-3, 1e-4
PROGRAM = "../../kits/web/kits.mjs"


@pytest.fixture(scope="module")
def hands() -> Image:
    return drawn_hands.scene([(180, 250, "open_palm", "right"), (460, 260, "one", "left")])


@pytest.fixture(scope="module")
def found(group: Image, hands: Image, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("kits")
    for name, picture in {"group": group, "hands": hands}.items():
        opaque = np.full((*picture.shape[:2], 1), 255, np.uint8)
        (folder / f"{name}.rgba").write_bytes(np.concatenate([picture, opaque], axis=2).tobytes())
    said: dict[str, Any] = json.loads(node(PROGRAM, folder))
    for name in ("portrait", "hair"):
        mask = np.frombuffer((folder / f"{name}.mask").read_bytes(), np.float32)
        said[name] = mask.reshape(group.shape[:2])
    return said


def near(got: Any, expected: Any, off: float = OFF) -> None:
    given = np.asarray(got).reshape(np.shape(expected))
    np.testing.assert_allclose(given, expected, rtol=0, atol=off)


def column(things: list[dict[str, Any]], name: str) -> list[Any]:
    return [each[name] for each in things]


def check_faces(got: list[dict[str, Any]], expected: kits.Faces) -> None:
    assert len(got) == len(expected) > 0
    near(column(got, "box"), expected.boxes)
    near(column(got, "score"), expected.scores, OFF_SCORE)
    near(column(got, "keypoints"), expected.keypoints)
    assert column(got, "id") == [None] * len(got)


def test_faces(group: Image, found: dict[str, Any]) -> None:
    expected = kits.detect_faces(group)
    check_faces(found["faces"], expected)
    check_faces(found["few"], kits.detect_faces(group, max_faces=1))
    assert found["again"] == found["faces"]


def test_meshes(group: Image, found: dict[str, Any]) -> None:
    expected = kits.face_mesh(group)
    check_faces(found["meshes"], expected)
    near(column(found["meshes"], "mesh"), expected.mesh)
    near(column(found["meshes"], "visibility"), expected.visibility, OFF_SCORE)


def test_hands(hands: Image, found: dict[str, Any]) -> None:
    expected = kits.recognize_gestures(hands)
    got = found["hands"]
    assert len(got) == len(expected) == 2
    near(column(got, "box"), expected.boxes)
    near(column(got, "landmarks"), expected.landmarks)
    near(column(got, "score"), expected.scores, OFF_SCORE)
    assert column(got, "handedness") == list(expected.handedness)
    assert column(got, "gesture") == list(expected.gestures)
    near(column(got, "gesture_score"), expected.gesture_scores, OFF_SCORE)


def test_masks(group: Image, found: dict[str, Any]) -> None:
    near(found["portrait"], kits.segment_portrait(group).mask, OFF_MASK)
    near(found["hair"], kits.segment_hair(group).mask, OFF_MASK)
    assert found["hair"].max() > 0.5


def test_ids_stay_in_videos(found: dict[str, Any]) -> None:
    for name, count in (("faceFrames", 2), ("meshFrames", 2), ("handFrames", 2)):
        # The order is that of scores.
        ids = [set(column(frame, "id")) for frame in found[name]]
        assert ids[0] == ids[1] == ids[2], name
        assert len(ids[0]) == count and None not in ids[0], name


def test_pictures_that_cannot_be(found: dict[str, Any]) -> None:
    assert found["errors"] == [
        "image: the picture is empty, or not loaded yet: await its decode()",
        "image: expected 400 bytes of 10 x 10 pixels, got 10",
        "image: expected at most 65536 pixels a side and 2^29 in all, got 70000 x 1",
        *(
            "image: expected a picture: an element, a bitmap, a frame, or its pixels, got " + what
            for what in ("undefined", "null", "photo.jpg")
        ),
    ]
