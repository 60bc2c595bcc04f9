import cmath
from functools import lru_cache

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.camera_motion import BLIND_FRAMES, CameraMotion, Similarity
from palmkit.kits.image import Image

WIDTH, HEIGHT = 640, 480
NOTHING = np.zeros((0, 4), np.float32)
PLACES = np.array([[100, 100], [320, 240], [600, 50], [50, 400]], np.float64)


@lru_cache
def texture(seed: int = 0, blur: float = 6) -> Image:
    """Return a picture with something to see everywhere, four frames large."""
    noise = np.random.default_rng(seed).normal(128, 40 * blur, (2 * HEIGHT, 2 * WIDTH, 3))
    return np.clip(cv2.GaussianBlur(noise, (0, 0), blur), 0, 255).astype(np.uint8)


def seen(picture: Image, motion: Similarity) -> Image:
    """Return the middle of a picture, moved."""
    middle = motion.after(Similarity(shift=complex(-WIDTH / 2, -HEIGHT / 2)))
    a, b = middle.turn.real, middle.turn.imag
    matrix = np.array([[a, -b, middle.shift.real], [b, a, middle.shift.imag]])
    return np.asarray(cv2.warpAffine(picture, matrix, (WIDTH, HEIGHT)), np.uint8)


def error(camera: CameraMotion, motion: Similarity) -> float:
    """Return how far off a place is at most, in pixels."""
    return float(np.abs(camera.view.points(PLACES) - motion.points(PLACES)).max())


def test_motions_follow_each_other_and_go_back() -> None:
    one = Similarity(cmath.rect(1.2, 0.3), 5 - 7j)
    other = Similarity(0.8 + 0j, 20j)
    both = one.after(other)
    np.testing.assert_allclose(both.points(PLACES), one.points(other.points(PLACES)))
    np.testing.assert_allclose(both.inverse.points(both.points(PLACES)), PLACES)
    # By hand: a quarter turn clockwise as pictures have it, twice as large.
    turned = Similarity(2j, 10 + 0j)
    np.testing.assert_allclose(turned.points(np.array([[1.0, 3.0]])), [[10 - 6, 2]])
    space = turned.points_in_space(np.array([[[1.0, 3.0, 4.0]]], np.float32))
    np.testing.assert_allclose(space, [[[4, 2, 8]]])
    # Boxes stay upright: only their places turn.
    box = np.array([0.0, 2.0, 2.0, 4.0])
    np.testing.assert_allclose(turned.boxes(box), [4 - 2, 2 - 2, 4 + 2, 2 + 2])


def test_a_motion_is_the_same_in_a_picture_of_another_size() -> None:
    motion = Similarity(cmath.rect(1.1, 0.2), 7 - 3j)
    small = PLACES / 4
    # Pixels of 4 by 4 pixels have their centres at 1.5, 5.5 ...
    large = 4 * small + 1.5
    expected = 4 * motion.points(small) + 1.5
    np.testing.assert_allclose(motion.magnified(4).points(large), expected)
    np.testing.assert_allclose(
        motion.magnified(4).magnified(1 / 4).points(small), motion.points(small)
    )


@pytest.mark.parametrize(
    "step",
    [
        Similarity(shift=5 + 0j),
        Similarity(shift=-4 + 3j),
        # Round the middle of the frame.
        Similarity(1.01 + 0j, -0.01 * complex(WIDTH, HEIGHT) / 2),
        Similarity(cmath.rect(1, 0.01), (1 - cmath.rect(1, 0.01)) * complex(WIDTH, HEIGHT) / 2),
    ],
    ids=["pan", "across", "zoom", "roll"],
)
def test_pans_zooms_and_rolls_are_seen(step: Similarity) -> None:
    picture, camera, motion = texture(), CameraMotion(), Similarity()
    for _ in range(30):
        camera.update(seen(picture, motion), NOTHING)
        assert error(camera, motion) < 1.5
        motion = step.after(motion)


def test_jumps_of_a_shaking_hand_are_seen() -> None:
    random, picture, camera = np.random.default_rng(1), texture(), CameraMotion()
    camera.update(seen(picture, Similarity()), NOTHING)
    for x, y in random.uniform(-20, 20, (30, 2)):
        motion = Similarity(shift=complex(x, y))
        camera.update(seen(picture, motion), NOTHING)
        assert error(camera, motion) < 1.5


def test_a_still_camera_stays_where_it_is() -> None:
    random, picture, camera = np.random.default_rng(1), texture(), CameraMotion()
    for _ in range(60):
        noisy = seen(picture, Similarity()) + random.normal(0, 5, (HEIGHT, WIDTH, 3))
        camera.update(np.clip(noisy, 0, 255).astype(np.uint8), NOTHING)
        assert error(camera, Similarity()) < 1


def things(picture: Image, places: NDArray[np.int64], front: Image) -> Image:
    """Return a picture before which squares of another one stand."""
    shown = picture.copy()
    for left, top in places:
        shown[top : top + 120, left : left + 120] = front[:120, :120]
    return shown


def test_what_moves_by_itself_is_not_the_camera() -> None:
    picture, front, camera = seen(texture(), Similarity()), texture(7, 3), CameraMotion()
    for index in range(30):
        places = np.array([[20 + 8 * index, 40], [60 + 8 * index, 200], [100 + 8 * index, 340]])
        boxes = np.concatenate([places, places + 120], axis=1).astype(np.float32)
        camera.update(things(picture, places, front), boxes)
        assert error(camera, Similarity()) < 1


def test_what_cannot_be_told_is_no_motion() -> None:
    blank = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
    camera = CameraMotion()
    for _ in range(3):
        camera.update(blank, NOTHING)
        assert camera.view == Similarity()
    # One thing before nothing may be what moves: it is not all over the frame.
    for index in range(10):
        places = np.array([[100 + 6 * index, 180]])
        camera.update(things(blank, places, texture(7, 3)), NOTHING)
        assert camera.view == Similarity()


def test_a_camera_that_saw_nothing_soon_sees_again() -> None:
    blank, picture, camera = np.full((HEIGHT, WIDTH, 3), 90, np.uint8), texture(), CameraMotion()
    for _ in range(3):
        camera.update(blank, NOTHING)
    for index in range(BLIND_FRAMES + 4):
        camera.update(seen(picture, Similarity(shift=complex(4 * index))), NOTHING)
    # Of two frames it takes one to see how the camera moved.
    moved = camera.view.points(PLACES)[0, 0] - PLACES[0, 0]
    assert 4 * 4 - 1 < moved < 4 * (BLIND_FRAMES + 3)


def test_a_cut_and_a_frame_of_another_size_are_no_motion() -> None:
    camera = CameraMotion()
    camera.update(seen(texture(), Similarity()), NOTHING)
    camera.update(seen(texture(), Similarity(shift=6 + 0j)), NOTHING)
    before = camera.view
    camera.update(seen(texture(3), Similarity()), NOTHING)
    assert camera.view == before
    for shape in ((360, 480, 3), (480, 360, 3), (1, 1, 3), (1, 900, 3), (2000, 3, 3)):
        camera.update(np.zeros(shape, np.uint8), NOTHING)
        assert camera.view == before


def test_frames_left_out_are_no_motion() -> None:
    picture, camera = texture(), CameraMotion()
    camera.update(seen(picture, Similarity()), NOTHING)
    camera.update(seen(picture, Similarity(shift=8 + 0j)), NOTHING)
    camera.pause()
    camera.update(seen(picture, Similarity(shift=30 + 0j)), NOTHING)
    assert error(camera, Similarity(shift=8 + 0j)) < 1
    camera.update(seen(picture, Similarity(shift=40 + 0j)), NOTHING)
    assert error(camera, Similarity(shift=18 + 0j)) < 1
