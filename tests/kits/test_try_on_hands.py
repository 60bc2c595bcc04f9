"""Hands in front of a face stay as they are."""

from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit import assets
from palmkit.kits import FaceMesh, GestureRecognizer, Look, TryOn, read_image
from palmkit.kits.hands.skeleton import POSES
from palmkit.kits.image import Image
from palmkit.kits.results import Faces, Hands
from palmkit.kits.tryon.hands import HandsInFront, hand_mask
from tests.kits.drawn_hands import scene

PALM = 100.0
LOOK = Look.of(lipstick="classic_red", blush="#d0606c", foundation="#d9ac8b")


@pytest.fixture(scope="module")
def face() -> Image:
    image: Image = pytest.importorskip("skimage.data").astronaut()[:, :450]
    return np.asarray(
        cv2.resize(image, None, fx=1.5, fy=1.5, interpolation=cv2.INTER_CUBIC), np.uint8
    )


@pytest.fixture(scope="module")
def hushed(face: Image) -> tuple[Image, NDArray[np.bool_]]:
    """The face with drawn fingers on its lips, and where the hand's inner part is.

    Below the chin the ground is drawn, too: the networks see drawn hands on drawn grounds.
    """
    mesh = FaceMesh().detect(face).mesh
    assert mesh is not None and len(mesh) == 1
    lips = mesh[0][[13, 14], :2].mean(axis=0)
    tip = POSES["two"][0].landmarks()[8, :2] * PALM
    # Elsewhere on the lips the hand's landmarks may be wrong, and some of the blush stays on it.
    x, y = (lips - tip - (0, 0.15 * PALM)).tolist()
    height, width = face.shape[:2]
    with_hand = scene([(x, y, "two", "right")], height, width, PALM)
    ground = scene([], height, width, PALM)
    is_hand = (with_hand != ground).any(axis=2)
    chin = int(mesh[0][152, 1]) + 8
    behind = np.concatenate([face[:chin], ground[chin:]])
    inner = cv2.erode(is_hand.astype(np.uint8), np.ones((11, 11), np.uint8)) > 0
    return np.where(is_hand[..., None], with_hand, behind), inner


def changed(kit: TryOn, image: Image) -> NDArray[np.bool_]:
    """Where it can be seen that something is worn."""
    difference = np.abs(kit.wear(image).after.astype(int) - image).max(axis=2)
    return np.asarray(difference > 6)


@pytest.mark.parametrize("mode", ["image", "video"])
def test_fingers_on_the_lips_wear_no_lipstick(
    hushed: tuple[Image, NDArray[np.bool_]], mode: Any
) -> None:
    image, hand = hushed
    with TryOn(mode, look=LOOK, behind_hands=False) as over, TryOn(mode, look=LOOK) as behind:
        plain, kept = changed(over, image), changed(behind, image)
    assert (plain & hand).sum() > 50
    assert (kept & hand).sum() < 0.1 * (plain & hand).sum()
    # All that is no hand is worn as before.
    far = cv2.dilate(hand.astype(np.uint8), np.ones((41, 41), np.uint8)) == 0
    assert (kept & far).sum() > 0.98 * (plain & far).sum() > 1000


def test_a_face_without_hands_is_worn_alike(face: Image) -> None:
    with TryOn(look=LOOK, behind_hands=False) as over, TryOn(look=LOOK) as behind:
        assert np.array_equal(over.wear(face).after, behind.wear(face).after)


def test_a_drawn_face_that_is_taken_for_a_hand_is_worn_alike() -> None:
    image = read_image(assets.path("samples/face.jpg"))
    with TryOn(look=LOOK, behind_hands=False) as over, TryOn(look=LOOK) as behind:
        assert np.array_equal(over.wear(image).after, behind.wear(image).after)


def test_a_hand_is_as_thick_as_its_fingers() -> None:
    points = POSES["open_palm"][0].landmarks() * 100 + np.array([150, 250, 0], np.float32)
    mask = hand_mask((300, 300), points)
    tips = np.rint(points[[4, 8, 12, 16, 20], :2]).astype(int)
    assert (mask[tips[:, 1], tips[:, 0]] > 0.9).all()
    assert mask[280:, :40].max() == 0 and mask.shape == (300, 300)
    drawn = (scene([(150, 250, "open_palm", "right")], 300, 300, 100) != scene([], 300, 300)).any(2)
    above = np.arange(300)[:, None] < 250
    shared, either = ((f(mask > 0.5, drawn) & above).sum() for f in (np.logical_and, np.logical_or))
    assert shared / either > 0.75


@pytest.mark.parametrize(("seen", "is_hidden"), [(1.0, False), (0.2, True)])
def test_a_face_that_looks_like_a_hand_is_none(
    face: Image, monkeypatch: pytest.MonkeyPatch, seen: float, is_hidden: bool
) -> None:
    faces = FaceMesh().detect(face)
    assert faces.mesh is not None
    centre = faces.mesh[0][:, :2].mean(axis=0)
    size = float(faces.boxes[0, 3])
    pose = POSES["open_palm"][0].landmarks() * 0.6 * size
    pose[:, :2] += centre - pose[:, :2].mean(axis=0)
    one = np.ones(1, np.float32)
    hands = Hands(
        face.shape[1], face.shape[0], faces.boxes[:1], one, pose[None], ("right",), ("fist",), one
    )
    front = HandsInFront(GestureRecognizer())

    def recognize(*_: object, **__: object) -> Hands:
        return hands

    monkeypatch.setattr(GestureRecognizer, "recognize", recognize)
    visibility = np.full((1, 478), seen, np.float32)
    known = Faces(
        faces.width, faces.height, faces.boxes, faces.scores, faces.keypoints,
        mesh=faces.mesh, visibility=visibility,
    )  # fmt: skip
    mask = front.over(face, known, None, None)
    assert (mask is not None) == is_hidden
