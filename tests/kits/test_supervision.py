"""Results as objects of the package supervision."""

import dataclasses
import sys
from typing import Any

import numpy as np
import pytest

from palmkit import kits
from palmkit.kits.results import GESTURES
from tests.kits.test_results import faces, hands, mask, meshes, tried_on


@pytest.fixture
def sv() -> Any:
    return pytest.importorskip("supervision", reason="supervision is in the extra dev")


def test_faces_are_detections(sv: Any) -> None:
    found = dataclasses.replace(meshes(), ids=np.array([7, 3])).to_supervision()
    assert type(found) is sv.Detections and len(found) == 2
    np.testing.assert_allclose(found.xyxy[1], [1, 2, 4, 6])
    np.testing.assert_array_equal(found.confidence, faces().scores)
    assert found.class_id is not None and found.class_id.tolist() == [0, 0]
    assert found.tracker_id is not None and found.tracker_id.tolist() == [7, 3]
    assert found.data["class_name"][0] == "face"
    np.testing.assert_array_equal(found.data["keypoints"], faces().keypoints)
    assert set(found.data) == {
        "class_name", "keypoints", "mesh", "visibility", "pose", "actions"
    }  # fmt: skip
    sure: Any = found[faces().scores > 0.8]
    assert len(sure) == 1 and sure.data["mesh"].shape == (1, 478, 3)


def test_what_was_not_asked_for_is_not_there(sv: Any) -> None:
    found = faces().to_supervision()
    assert found.tracker_id is None and found.mask is None
    assert set(found.data) == {"class_name", "keypoints"}
    none = faces()[:0].to_supervision()
    assert len(none) == 0 and none.xyxy.shape == (0, 4)
    assert len(sv.Detections.merge([found, faces().to_supervision()])) == 4
    worn = tried_on().to_supervision()
    np.testing.assert_array_equal(worn.xyxy, found.xyxy)


def test_hands_are_detections_of_their_gestures(sv: Any) -> None:
    found = hands(True).to_supervision()
    assert type(found) is sv.Detections
    assert found.class_id is not None
    assert found.class_id.tolist() == [GESTURES.index("fist"), len(GESTURES)]
    assert list(found.data["class_name"]) == ["fist", "horns"]
    assert list(found.data["handedness"]) == ["left", "right"]
    np.testing.assert_array_equal(found.data["landmarks"], hands().landmarks)
    np.testing.assert_array_equal(found.data["gesture_score"], hands().gesture_scores)
    assert len(hands()[:0].to_supervision()) == 0


def test_points_are_key_points(sv: Any) -> None:
    found = hands().to_supervision_keypoints()
    assert type(found) is sv.KeyPoints
    np.testing.assert_array_equal(found.xy, hands().landmarks[..., :2])
    np.testing.assert_array_equal(found.detection_confidence, hands().scores)
    assert faces().to_supervision_keypoints().xy.shape == (2, 5, 2)
    mesh = meshes().to_supervision_keypoints()
    assert mesh.xy.shape == (2, 478, 2)
    np.testing.assert_array_equal(mesh.keypoint_confidence, meshes().visibility)


def test_a_mask_is_one_detection(sv: Any) -> None:
    found = mask().to_supervision()
    assert type(found) is sv.Detections and len(found) == 1
    np.testing.assert_allclose(found.xyxy, [[5, 10, 25, 20]])
    assert isinstance(found.mask, np.ndarray) and found.mask.dtype == bool
    np.testing.assert_array_equal(found.mask[0], mask().mask > 0.5)
    assert list(found.data["class_name"]) == ["hair"] and found.confidence is None
    nobody = kits.segment_portrait(np.zeros((48, 64, 3), np.uint8)).to_supervision()
    assert len(nobody) == 0 and nobody.mask is not None and nobody.mask.shape == (0, 48, 64)


def test_supervision_draws_and_counts_them(sv: Any) -> None:
    scene = np.zeros((480, 640, 3), np.uint8)
    boxed = sv.BoxAnnotator().annotate(scene.copy(), hands().to_supervision())
    labelled = sv.LabelAnnotator().annotate(scene.copy(), hands().to_supervision())
    dots = sv.VertexAnnotator().annotate(scene.copy(), hands().to_supervision_keypoints())
    tinted = sv.MaskAnnotator().annotate(np.zeros((30, 40, 3), np.uint8), mask().to_supervision())
    assert all(each.any() for each in (boxed, labelled, dots, tinted))
    inside = sv.PolygonZone(np.array([[0, 0], [45, 0], [45, 70], [0, 70]])).trigger(
        hands().to_supervision()
    )
    assert inside.tolist() == [True, False]


@pytest.mark.parametrize(
    "result", [faces(), hands(), mask(), tried_on()], ids=lambda result: type(result).__name__
)
def test_it_is_said_what_to_install(result: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "supervision", None)
    with pytest.raises(ImportError, match="this needs supervision: pip install supervision"):
        result.to_supervision()
