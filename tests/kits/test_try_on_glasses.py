"""Drawn glasses: behind hair that hangs before the face, with their arms, and their shadow."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.face import topology
from palmkit.kits.tryon import regions
from palmkit.kits.tryon.colour import to_lab
from palmkit.kits.tryon.glasses import Glasses
from tests.kits.test_try_on_effects import SIDE, drawn, laid

Floats = NDArray[np.float32]
PLAIN = Glasses(tint=0.0, finish="matte")
# Pixels of a centimetre.
CM = 16


def face_of(yaw: float = 0.0) -> NDArray[np.bool_]:
    mesh = drawn(yaw)[1]
    oval = regions.curve(mesh[list(topology.FACE_OVAL), :2], True)
    return np.asarray(regions.fill((SIDE, SIDE), oval) > 0.5)


def frame_of(covered: Floats) -> NDArray[np.bool_]:
    return np.asarray(covered > 0.6)


def hair_over_an_eye() -> Floats:
    """The hair hangs from above the face over its right half, down to the mouth."""
    hair = np.zeros((SIDE, SIDE), np.float32)
    hair[: SIDE // 2 + 3 * CM, : SIDE // 2 - CM] = 1
    return hair


@pytest.mark.parametrize("effect", [PLAIN, Glasses(style="aviator", tint=0.6)])
def test_hair_before_an_eye_is_before_the_glasses(effect: Glasses) -> None:
    hair = hair_over_an_eye()
    image, after, _ = laid(effect, hair=hair)
    plain = (laid(effect)[1] != image).any(axis=2)
    changed = (after != image).any(axis=2)
    hangs = (hair > 0) & face_of()
    assert (plain & hangs).sum() > 400 and not changed[hangs].any()
    left = np.s_[:, SIDE // 2 + 2 :]
    assert np.array_equal(changed[left], plain[left])


def test_hair_beside_the_face_is_behind_the_rims_and_over_the_arms() -> None:
    face = face_of()
    hair = np.where(face, np.float32(0), np.float32(1))
    _, _, covered = laid(PLAIN, hair=hair)
    plain = laid(PLAIN)[2]
    assert np.array_equal(covered[face] > 0.6, plain[face] > 0.6)
    # From the side, where rims reach beyond the face.
    for yaw in (-50.0, 50.0):
        face = face_of(yaw)
        hair = np.where(face, np.float32(0), np.float32(1))
        beyond = frame_of(laid(PLAIN, yaw=yaw, hair=hair)[2]) & ~face
        assert 20 < beyond.sum() < (frame_of(laid(PLAIN, yaw=yaw)[2]) & ~face).sum()


@pytest.mark.parametrize("yaw", [-35.0, 35.0])
def test_hair_before_the_face_goes_on_before_what_reaches_beyond_it(yaw: float) -> None:
    face = face_of(yaw)
    beyond = frame_of(laid(PLAIN, yaw=yaw)[2]) & ~face
    columns = np.arange(SIDE)[None] * np.ones((SIDE, 1))
    # A curtain over the edge of the face where the rim reaches furthest beyond it.
    edge = columns[face & np.any(beyond, axis=1, keepdims=True)]
    is_left = (
        np.abs(columns[beyond] - edge.min()).min() < np.abs(columns[beyond] - edge.max()).min()
    )
    inside = edge.min() + 2 * CM if is_left else edge.max() - 2 * CM
    hair = np.asarray(columns < inside if is_left else columns > inside, np.float32)
    left = frame_of(laid(PLAIN, yaw=yaw, hair=hair)[2])
    assert (beyond & (hair > 0)).sum() > 20 and not (left & (hair > 0)).any()


def test_brows_taken_for_hair_hide_nothing() -> None:
    mesh = drawn()[1]
    brows = [mesh[list(loop), :2] for loop in (topology.RIGHT_BROW, topology.LEFT_BROW)]
    hair = (regions.fill((SIDE, SIDE), *brows) > 0.5).astype(np.float32)
    hair[: 2 * CM] = 1
    assert np.array_equal(laid(PLAIN, hair=hair)[2], laid(PLAIN)[2])


def arms(yaw: float, hair: Floats | None = None) -> list[float]:
    """How far the glasses reach beyond their rims to the left and the right, in centimetres."""
    mesh = drawn(yaw)[1]
    row = int(mesh[168, 1])
    band = np.s_[row - CM : row + CM]
    columns = np.flatnonzero(frame_of(laid(PLAIN, yaw=yaw, hair=hair)[2])[band].any(axis=0))
    # The outer ends of both rims, 5.9 cm from the middle of the canonical face.
    turn = np.radians(yaw)
    depth = 1.75 - 0.022 * 5.9**2
    rims = [SIDE / 2 + CM * (side * 5.9 * np.cos(turn) + depth * np.sin(turn)) for side in (-1, 1)]
    return [(min(rims) - columns[0]) / CM, (columns[-1] - max(rims)) / CM]


def test_a_face_from_the_front_has_both_arms() -> None:
    left, right = arms(0)
    assert 1 < left < 2.5 and left == pytest.approx(right, abs=0.2)
    for yaw in (-8.0, 8.0):
        assert all(0.5 < reach < 3 for reach in arms(yaw))


@pytest.mark.parametrize("yaw", [-30.0, -8.0, 0.0, 8.0, 30.0])
def test_glasses_are_one_piece(yaw: float) -> None:
    frame = laid(PLAIN, yaw=yaw)[2] > 0.3
    assert cv2.connectedComponents(frame.astype(np.uint8), connectivity=8)[0] == 2


def test_the_arm_of_the_near_side_grows_and_the_far_one_is_hidden_by_the_head() -> None:
    near = [max(arms(yaw)) for yaw in (0.0, 20.0, 40.0, 60.0)]
    assert all(b > a + 0.5 for a, b in zip(near, near[1:], strict=False))
    far = [min(arms(yaw)) for yaw in (0.0, 20.0, 40.0, 60.0)]
    assert all(b < a for a, b in zip(far, far[1:], strict=False)) and far[-1] < 0.4
    assert arms(40.0) == pytest.approx(arms(-40.0)[::-1], abs=0.2)


def test_an_arm_ends_under_the_hair_at_the_ear() -> None:
    hair = np.zeros((SIDE, SIDE), np.float32)
    whole = arms(50.0)
    side = int(whole[1] > whole[0])
    end = frame_of(laid(PLAIN, yaw=50.0)[2]).any(axis=0)
    columns = np.flatnonzero(end)
    if side:
        hair[:, columns[-1] - 2 * CM :] = 1
    else:
        hair[:, : columns[0] + 2 * CM] = 1
    assert arms(50.0, hair)[side] == pytest.approx(whole[side] - 2, abs=0.4)


def test_the_frame_lays_its_shadow_on_the_face_alone() -> None:
    image, after, covered = laid(PLAIN)
    fall = to_lab(image)[..., 0] - to_lab(after)[..., 0]
    frame = covered > 0.95
    skin = face_of() & (covered < 0.3)
    below = np.roll(frame, round(0.3 * CM), axis=0) & skin
    far = np.roll(frame, round(0.75 * CM), axis=0) & skin & ~below
    above = np.roll(frame, -round(0.6 * CM), axis=0) & skin & ~below & ~far
    assert fall[below].mean() > 1.2 * fall[far].mean() > 1 > fall[above].mean()
    around = np.ones((9, 9), np.uint8)
    face = cv2.dilate(face_of().astype(np.uint8), around) > 0
    drawn_over = cv2.dilate(frame.astype(np.uint8), around) > 0
    outside = ~face & ~drawn_over
    assert np.array_equal(image[outside], after[outside])
    arms_outside = frame & ~face_of()
    shaded = np.roll(arms_outside, round(0.3 * CM), axis=0) & ~face_of() & ~frame
    assert arms_outside.any() and np.abs(fall[shaded & (covered < 0.05)]).max(initial=0) < 1


def test_a_shadow_has_no_edge() -> None:
    image, after, covered = laid(Glasses(style="rimless", tint=0.0, finish="matte"))
    shade = np.where(covered < 0.3, to_lab(image)[..., 0] - to_lab(after)[..., 0], 0)
    steps = np.abs(np.diff(shade, axis=0))[(covered[1:] < 0.2) & (covered[:-1] < 0.2)]
    assert shade.max() > 0.3 and steps.max() < 0.6 * shade.max()
