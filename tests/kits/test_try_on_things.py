"""What is held or worn before a face stays as it is; the face keeps its make-up."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits import FaceMesh, Look, TryOn
from palmkit.kits.face import topology
from palmkit.kits.image import Image
from palmkit.kits.tryon.effect import Effect
from palmkit.kits.tryon.makeup import Blush, EyeShadow, Foundation, Iris, Lipstick
from palmkit.kits.tryon.things import Skin, find_things, skin_of, unlike

MAKE_UP = [
    Lipstick("#a9142a", opacity=1.0),
    Blush("#d0606c", opacity=1.0),
    EyeShadow("#5d2f52", opacity=1.0),
    Iris("#5683b4", opacity=1.0),
    Foundation("#d9ac8b", opacity=1.0),
]
Loop = NDArray[np.float32]


@pytest.fixture(scope="module")
def face() -> Image:
    image: Image = pytest.importorskip("skimage.data").astronaut()[:300, 60:400]
    return np.asarray(
        cv2.resize(image, None, fx=1.5, fy=1.5, interpolation=cv2.INTER_CUBIC), np.uint8
    )


@pytest.fixture(scope="module")
def points(face: Image) -> Loop:
    mesh = FaceMesh().detect(face).mesh
    assert mesh is not None and len(mesh) == 1
    return np.asarray(mesh[0][:, :2], np.float32)


def laid_over(
    face: Image, loops: list[Loop], colour: tuple[int, int, int]
) -> tuple[Image, NDArray[np.bool_]]:
    """The face with something of one colour and a camera's noise before it, and its inside."""
    mask = np.zeros(face.shape[:2], np.uint8)
    cv2.fillPoly(mask, [np.rint(loop).astype(np.int32) for loop in loops], 255, cv2.LINE_AA)
    share = mask[..., None] / 255
    noise = np.random.default_rng(2).normal(0, 2, face.shape)
    seen = np.clip(face * (1 - share) + (np.array(colour) + noise) * share, 0, 255)
    inside = cv2.erode(mask, np.ones((9, 9), np.uint8)) > 128
    return seen.astype(np.uint8), np.asarray(inside)


def thing(kind: str, points: Loop) -> list[Loop]:
    per_cm = float(np.hypot(*(points[33] - points[263]))) / 9
    lips = points[[13, 14]].mean(axis=0)
    if kind == "cup":
        corners = [(-3.5, -1.2), (3.5, -1.2), (3, 8), (-3, 8)]
        return [np.asarray(lips + per_cm * np.array(corners), np.float32)]
    angle = np.linspace(0, 2 * np.pi, 40)
    circle = np.stack([3.2 * np.cos(angle), 2.6 * np.sin(angle)], axis=1)
    eyes = (points[[33, 133]].mean(axis=0), points[[362, 263]].mean(axis=0))
    return [np.asarray(eye + per_cm * (circle + (0, 0.4)), np.float32) for eye in eyes]


def changed(kit: TryOn, image: Image, effect: Effect) -> NDArray[np.bool_]:
    kit.look = Look.of(**{effect.name: effect})
    return np.asarray(np.abs(kit.wear(image).after.astype(int) - image).max(axis=2) > 6)


@pytest.mark.parametrize(
    ("kind", "effect", "colour"),
    [
        ("cup", MAKE_UP[0], (235, 235, 238)),
        ("cup", MAKE_UP[0], (30, 90, 170)),
        ("cup", MAKE_UP[0], (24, 24, 26)),
        ("sunglasses", MAKE_UP[2], (22, 22, 25)),
        ("sunglasses", MAKE_UP[3], (22, 22, 25)),
    ],
)
def test_what_is_in_front_wears_nothing(
    face: Image, points: Loop, kind: str, effect: Effect, colour: tuple[int, int, int]
) -> None:
    seen, inside = laid_over(face, thing(kind, points), colour)
    with TryOn(behind_things=False) as over, TryOn() as behind:
        plain, kept = changed(over, seen, effect), changed(behind, seen, effect)
    assert (kept & inside).sum() <= max(0.1 * (plain & inside).sum(), 0.01 * inside.sum())


@pytest.mark.parametrize("shift", [(-12, -8), (-12, 8), (6, 4), (12, -8), (12, 8)])
def test_white_before_lips_is_no_gloss(face: Image, points: Loop, shift: tuple[int, int]) -> None:
    loops = [loop + np.array(shift, np.float32) for loop in thing("cup", points)]
    seen, inside = laid_over(face, loops, (235, 235, 238))
    with TryOn(behind_things=False) as over, TryOn() as behind:
        plain, kept = changed(over, seen, MAKE_UP[0]), changed(behind, seen, MAKE_UP[0])
    assert (plain & inside).sum() > 0.01 * inside.sum()
    assert (kept & inside).sum() < 0.002 * inside.sum()


@pytest.mark.parametrize("effect", MAKE_UP, ids=lambda each: each.name)
def test_a_face_with_nothing_before_it_keeps_its_make_up(face: Image, effect: Effect) -> None:
    with TryOn(behind_things=False) as over, TryOn() as behind:
        plain, kept = changed(over, face, effect), changed(behind, face, effect)
    assert plain.sum() > 100
    assert (plain & kept).sum() > 0.95 * plain.sum()


@pytest.mark.parametrize("shade", [(150, 20, 40), (70, 10, 60), (20, 20, 30), (40, 90, 200)])
def test_lips_that_are_painted_already_are_lips(
    face: Image, points: Loop, shade: tuple[int, int, int]
) -> None:
    painted, _ = laid_over(face, [points[list(topology.LIPS_OUTER)]], shade)
    with TryOn(behind_things=False) as over, TryOn() as behind:
        plain, kept = (changed(kit, painted, MAKE_UP[0]) for kit in (over, behind))
    assert kept.sum() > 0.9 * plain.sum()


def test_skin_of_any_tone_in_shade_and_light_is_skin() -> None:
    for mean in ((75, 12, 18), (50, 16, 22), (28, 9, 13)):
        skin = Skin(
            np.array(mean, np.float32),
            np.array([mean[1] / mean[0], mean[2] / mean[0]], np.float32),
            np.array([2, 2], np.float32),
        )
        own = np.array(mean, np.float32)
        shaded = own * np.linspace(0.55, 1.2, 20, dtype=np.float32)[:, None]
        lit = own + np.linspace(0, 0.8, 20, dtype=np.float32)[:, None] * (
            np.array([98, 0, 0], np.float32) - own
        )
        none = np.zeros((2, 20), np.float32)
        coloured, _ = unlike(np.stack([shaded, lit]), skin, none)
        assert coloured.max() < 0.2
        things = np.array([[60, -20, -30], [60, 50, 30], [3, 0, 0]], np.float32)[None]
        coloured, _ = unlike(things, skin, none[:1, :3])
        assert coloured.min() > 0.9


def test_the_skin_is_found_with_half_of_the_face_covered(face: Image, points: Loop) -> None:
    from palmkit.kits.tryon.colour import to_lab

    def found(image: Image) -> Any:
        return skin_of(to_lab(image), points, np.ones(478, np.float32))

    below = [points[[234, 454, 152]], points[[234, 454, 365, 152, 136]]]
    masked, _ = laid_over(face, below, (150, 190, 215))
    assert np.abs(found(masked).mean - found(face).mean).max() < 6


def test_a_face_of_no_size_has_nothing_before_it() -> None:
    points = np.zeros((478, 2), np.float32)
    for shape in ((1, 1, 3), (5, 3, 3), (40, 40, 3)):
        image = np.full(shape, 120, np.uint8)
        found = find_things(image, points, np.ones(478, np.float32), 0.6, lambda skin: skin)
        assert found.shape == shape[:2] and np.isfinite(found).all()
