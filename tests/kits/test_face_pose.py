import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.face import topology
from palmkit.kits.face.pose import head_pose, rotation_of

WIDTH, HEIGHT, FOCAL = 640, 480, 700.0


def photo(
    yaw: float, pitch: float, roll: float, *, x: float = 0, y: float = 0, distance: float = 60
) -> NDArray[np.float32]:
    """The mesh of the canonical face turned so, x, y, distance in cm from the camera.

    Its depth is along the line to the face, as it is in the crop that a network sees.
    """
    place = np.array([x, y, distance])
    face = topology.canonical_face() @ rotation_of(yaw, pitch, roll).T + place
    flat = face[:, :2] / face[:, 2:] * FOCAL + [WIDTH / 2, HEIGHT / 2]
    depth = (face - place) @ place / np.linalg.norm(place) * FOCAL / distance
    return np.concatenate([flat, depth[:, None]], axis=1).astype(np.float32)


@pytest.mark.parametrize(
    ("yaw", "pitch", "roll"),
    [(0, 0, 0), (-30, 0, 0), (45, 10, 0), (0, -25, 0), (0, 0, 120), (60, -20, -35), (-75, 15, 20)],
)
def test_the_pose_of_the_canonical_face_comes_back(yaw: float, pitch: float, roll: float) -> None:
    mesh = photo(yaw, pitch, roll, x=8, y=-5, distance=40)
    pose = head_pose(mesh, WIDTH, HEIGHT, focal_length=FOCAL)
    np.testing.assert_allclose(pose.angles, [yaw, pitch, roll], atol=0.3)
    np.testing.assert_allclose(pose.translation, [8, -5, 40], rtol=0.01, atol=0.1)


def test_the_signs() -> None:
    """Those of MNNKit, left and right being the subject's own."""
    straight = photo(0, 0, 0)
    nose, eyes = 4, [33, 263]

    def nose_from_eyes(mesh: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(mesh[nose, :2] - mesh[eyes, :2].mean(axis=0), np.float32)

    # Turned to its left, a face in a picture that is not mirrored looks to the picture's right.
    left = photo(-30, 0, 0)
    assert nose_from_eyes(left)[0] > nose_from_eyes(straight)[0] + 5
    # Looking up, the tip of the nose rises.
    up = photo(0, -20, 0)
    assert nose_from_eyes(up)[1] < nose_from_eyes(straight)[1] - 5
    # Leant to its left shoulder, its left eye (on the picture's right) is the lower one.
    leant = photo(0, 0, -20)
    assert leant[263, 1] > leant[33, 1] + 10
    for mesh, expected in ((left, (-30, 0, 0)), (up, (0, -20, 0)), (leant, (0, 0, -20))):
        angles = head_pose(mesh, WIDTH, HEIGHT, focal_length=FOCAL).angles
        np.testing.assert_allclose(angles, expected, atol=0.3)


def test_turning_the_picture_changes_roll_alone() -> None:
    mesh = photo(25, -10, 5)
    turned = mesh.copy()
    turn = np.radians(40)
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    middle = [WIDTH / 2, HEIGHT / 2]
    # y goes down: this matrix turns clockwise, to the subject's left.
    turned[:, :2] = (mesh[:, :2] - middle) @ matrix.T + middle
    for focal in (None, FOCAL):
        before = head_pose(mesh, WIDTH, HEIGHT, focal_length=focal).angles
        after = head_pose(turned, WIDTH, HEIGHT, focal_length=focal).angles
        np.testing.assert_allclose(after - before, [0, 0, -40], atol=0.01)


def test_mirroring_changes_the_signs_of_yaw_and_roll() -> None:
    mesh = photo(25, -10, 5)
    mirrored = (mesh * [-1, 1, 1] + [WIDTH, 0, 0])[topology.MIRROR]
    angles = head_pose(mesh, WIDTH, HEIGHT).angles
    other = head_pose(mirrored.astype(np.float32), WIDTH, HEIGHT).angles
    np.testing.assert_allclose(other, angles * [-1, 1, -1], atol=0.01)


def test_without_a_focal_length_the_look_into_the_camera_is_zero() -> None:
    """Wherever it is in the picture; from 1 m the perspective of the face itself is slight."""
    for x, y in ((0.0, 0.0), (30.0, 0.0), (-25.0, 15.0)):
        yaw, pitch = np.degrees(np.arctan2(x, 100)), np.degrees(np.arctan2(y, np.hypot(x, 100)))
        mesh = photo(float(yaw), -float(pitch), 0, x=x, y=y, distance=100)
        angles = head_pose(mesh, WIDTH, HEIGHT).angles
        np.testing.assert_allclose(angles, [0, 0, 0], atol=4)


def test_points_far_off_hardly_count() -> None:
    random = np.random.default_rng(7)
    mesh = photo(20, -10, 5)
    size = np.ptp(mesh[:, 0])
    wrong = random.choice(478, 48, replace=False)
    spoilt = mesh.copy()
    spoilt[wrong] += random.normal(0, 0.3 * size, (48, 3)).astype(np.float32)
    angles = head_pose(spoilt, WIDTH, HEIGHT, focal_length=FOCAL).angles
    np.testing.assert_allclose(angles, [20, -10, 5], atol=3)
    visibility = np.ones(478, np.float32)
    visibility[wrong] = 0
    angles = head_pose(spoilt, WIDTH, HEIGHT, visibility, focal_length=FOCAL).angles
    np.testing.assert_allclose(angles, [20, -10, 5], atol=0.5)


def test_a_mesh_without_extent_has_some_pose() -> None:
    pose = head_pose(np.zeros((478, 3), np.float32), WIDTH, HEIGHT)
    assert np.isfinite(pose.angles).all()
