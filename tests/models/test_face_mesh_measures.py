import numpy as np
import pytest

from palmkit.kits.face import topology
from palmkit.kits.face.actions import ratios
from palmkit.kits.face.pose import head_pose, rotation_of
from palmkit.models.face_mesh import acting, canonical, steadiness

RNG = np.random.default_rng(3)
# The canonical face in the middle of the square that acting works on, in pixels.
FACE = topology.canonical_face().astype(np.float64) * [14, -14, -14] + [160, 130, 0]


def test_the_mean_of_turned_noisy_faces_is_the_face() -> None:
    upright = np.diag([1.0, -1.0, -1.0])
    faces: list[np.ndarray] = []
    for _ in range(60):
        yaw, pitch, roll = RNG.uniform([-10, -12, -30], [10, 12, 30])
        turned = topology.canonical_face() @ (upright @ rotation_of(yaw, pitch, roll)).T
        noisy = turned + RNG.normal(0, 0.05, turned.shape)
        faces.append(noisy * RNG.uniform(3, 40) + RNG.uniform(-99, 99, 3))
    face = canonical.mean_face(np.stack(faces))
    off = face - topology.canonical_face()
    # The nod that counts as none is the median one; 60 draws leave it a degree or two off.
    assert np.sqrt((off**2).sum(axis=1)).mean() < 0.3
    np.testing.assert_allclose(face[topology.MIRROR] * [-1, 1, 1], face, atol=1e-9)
    assert len(canonical.frontal(np.stack(faces))) == 60


def test_a_warp_that_moves_nothing_changes_nothing() -> None:
    image = RNG.integers(0, 255, (acting.SIDE // 8, acting.SIDE // 8, 3), np.uint8)
    image = np.kron(image, np.ones((8, 8, 1), np.uint8)).astype(np.uint8)
    same = acting.warp(image, FACE, FACE)
    assert np.abs(same.astype(int) - image).mean() < 1
    moved = acting.warp(image, FACE, acting.open_mouth(FACE, 1))
    # What is not near the face stays; the mouth is a hole.
    assert (moved[:8] == image[:8]).all()
    x, y = acting.open_mouth(FACE, 1)[[13, 14], :2].mean(axis=0).round().astype(int)
    assert tuple(moved[y, x]) == acting.DARK


def test_acts_change_what_they_are_named_for() -> None:
    still = ratios(FACE, np.zeros(3))
    assert ratios(acting.blink(FACE, 1), np.zeros(3)).eye < 0.3 * still.eye
    assert ratios(acting.open_mouth(FACE, 1), np.zeros(3)).mouth > 0.4
    assert ratios(acting.raise_brows(FACE, 1), np.zeros(3)).brow > 1.15 * still.brow
    for act, expected in ((acting.turn(22, 0), [22, 0, 0]), (acting.turn(0, 16), [0, 16, 0])):
        angles = head_pose(act(FACE, 1), acting.SIDE, acting.SIDE).angles
        np.testing.assert_allclose(angles, expected, atol=1)
    for name, act in acting.ACTS.items():
        np.testing.assert_allclose(act(FACE, 0), FACE, atol=1e-9)
        parts = acting.timing(name)
        assert not parts[: round(acting.REST_S * acting.FRAMES_PER_S)].any() and parts.max() > 0.9


def test_jitter_is_the_rms_about_the_mean() -> None:
    points = np.zeros((90, 478, 3))
    points[::2, :, 0] = 2
    points[:, :, 2] = RNG.normal(0, 9, (90, 478))
    assert steadiness.jitter(points) == pytest.approx(1)
    left, delay_ms = steadiness.blink()
    assert 0.7 < left <= 1 and 0 <= delay_ms < 40
