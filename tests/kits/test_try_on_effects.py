"""Each effect on a drawn face, where it is known what is skin, lips, eyes and hair."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.face import topology
from palmkit.kits.image import Image
from palmkit.kits.tryon import regions
from palmkit.kits.tryon.canvas import Canvas, Memory
from palmkit.kits.tryon.colour import dye, lab_of, mean_of, to_lab, to_rgb
from palmkit.kits.tryon.glasses import SHAPES, Glasses
from palmkit.kits.tryon.hair import HairDye
from palmkit.kits.tryon.makeup import Blush, Eyeliner, EyeShadow, Foundation, Iris, Lipstick
from palmkit.kits.tryon.sheet import ciede2000
from tests.kits.conftest import picture

SIDE = 320
SKIN, LIPS, TEETH = (196, 150, 128), (168, 92, 88), (236, 232, 222)


def drawn(
    yaw: float = 0.0, mouth: float = 0.0
) -> tuple[Image, NDArray[np.float32], NDArray[np.float32]]:
    """A drawn face and its mesh: the canonical one, turned, 16 pixels a centimetre.

    mouth: how far it is open, in centimetres; teeth are then seen.
    """
    import cv2

    face = topology.canonical_face().astype(np.float64).copy()
    lower = [17, 84, 181, 91, 314, 405, 321, 14, 87, 178, 88, 95, 317, 402, 318, 324]
    face[lower, 1] -= mouth
    turn = np.radians(yaw)
    x = face[:, 0] * np.cos(turn) + face[:, 2] * np.sin(turn)
    depth = face[:, 2] * np.cos(turn) - face[:, 0] * np.sin(turn)
    mesh = np.stack([SIDE / 2 + 16 * x, SIDE / 2 - 16 * (face[:, 1] + 3), -16 * depth], axis=1)
    mesh = mesh.astype(np.float32)
    image = np.full((SIDE, SIDE, 3), (90, 110, 130), np.uint8)
    random = np.random.default_rng(0)

    def paint(loop: tuple[int, ...], colour: tuple[int, int, int]) -> None:
        cv2.fillPoly(image, [np.rint(mesh[list(loop), :2]).astype(np.int32)], colour, cv2.LINE_AA)

    paint(topology.FACE_OVAL, SKIN)
    paint(topology.LIPS_OUTER, LIPS)
    if mouth:
        paint(topology.LIPS_INNER, TEETH)
    for loop, iris in (
        (topology.RIGHT_EYE, topology.RIGHT_IRIS),
        (topology.LEFT_EYE, topology.LEFT_IRIS),
    ):
        paint(loop, (235, 235, 232))
        cv2.circle(image, tuple(np.rint(mesh[iris[0], :2]).astype(int)), 9, (80, 60, 40), -1)
    # Light from one side, and folds across.
    folds = 1 + 0.12 * np.sin(np.arange(SIDE) / 2.5)[:, None, None]
    shade = np.linspace(1.05, 0.85, SIDE)[None, :, None] * folds
    noise = random.normal(0, 2, image.shape)
    return np.clip(image * shade + noise, 0, 255).astype(np.uint8), mesh, np.ones(478, np.float32)


def laid(effect: Any, **how: Any) -> tuple[Image, Image, NDArray[np.float32]]:
    """The drawn face before and after an effect, and how far it covers each pixel."""
    image, mesh, visibility = drawn(**{key: how.pop(key) for key in ("yaw", "mouth") if key in how})
    visibility = how.pop("visibility", visibility)
    # What is seen of a drawing from the side is no skin.
    canvas = Canvas(
        image, mesh, visibility, how.pop("hair", None), Memory(), None, behind_things=False
    )
    effect.lay(canvas)
    after = image.copy()
    canvas.write(after)
    covered = np.zeros(image.shape[:2], np.float32)
    covered[canvas.top : canvas.bottom, canvas.left : canvas.right] = canvas.coverage
    return image, after, covered


def inside(loop: tuple[int, ...], yaw: float = 0.0, mouth: float = 0.0) -> NDArray[np.bool_]:
    mesh = drawn(yaw, mouth)[1]
    mask: NDArray[np.bool_] = regions.fill((SIDE, SIDE), mesh[list(loop), :2]) > 0.5
    return mask


EVERY = [
    Lipstick("#a9142a"),
    Lipstick("#5c1f3f", finish="matte"),
    Lipstick("#c2183a", finish="gloss"),
    Lipstick("#b8675f", finish="shimmer"),
    Blush("#d0606c"),
    EyeShadow("#5d2f52"),
    EyeShadow("#c29a50", finish="shimmer"),
    Eyeliner(wing=0.8),
    Iris("#5683b4"),
    Foundation("#d9ac8b"),
    Glasses(),
    Glasses(style="aviator", lens="#2b3a2c", tint=0.6),
]


@pytest.mark.parametrize("effect", EVERY, ids=lambda each: f"{each.name}-{each.finish}")
@pytest.mark.parametrize("yaw", [0.0, 50.0, -80.0])
def test_pixels_outside_of_what_is_covered_stay_to_the_bit(effect: Any, yaw: float) -> None:
    image, after, covered = laid(effect, yaw=yaw)
    changed = (image != after).any(axis=2)
    assert changed.sum() > 20
    assert not (changed & (covered <= 0)).any()
    assert np.array_equal(image, drawn(yaw)[0])


@pytest.mark.parametrize("shade", ["#a9142a", "#3c142c", "#d9668f", "#b57a66"])
@pytest.mark.parametrize("finish", ["matte", "satin"])
def test_lips_reach_the_colour_and_keep_their_shading(shade: str, finish: Any) -> None:
    effect = Lipstick(shade, opacity=1.0, finish=finish)
    image, after, covered = laid(effect)
    strong = (covered > 0.9).astype(np.float32)
    assert strong.sum() > 400
    before, worn = to_lab(image), to_lab(after)
    assert ciede2000(mean_of(worn, strong), effect.lab) < 3
    light, new = before[..., 0][strong > 0], worn[..., 0][strong > 0]
    assert np.corrcoef(light, new)[0, 1] > 0.8


def test_an_effect_half_as_opaque_goes_half_the_way() -> None:
    image, full, covered = laid(Lipstick("#a9142a", opacity=1.0))
    _, half, _ = laid(Lipstick("#a9142a", opacity=0.5))
    where = (covered > 0.9).astype(np.float32)
    start, end = (mean_of(to_lab(each), where) for each in (image, full))
    assert mean_of(to_lab(half), where) == pytest.approx((start + end) / 2, abs=1.5)


def test_teeth_between_the_lips_stay() -> None:
    image, after, covered = laid(Lipstick("#a9142a", opacity=1.0), mouth=1.6)
    teeth = inside(topology.LIPS_INNER, mouth=1.6)
    import cv2

    middle = cv2.erode(teeth.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    assert middle.sum() > 100
    assert np.array_equal(image[middle], after[middle])
    assert (covered > 0.9).sum() > 300


def test_a_hand_or_hair_in_front_stays() -> None:
    hidden = np.ones(478, np.float32)
    hidden[list(topology.LIPS_OUTER + topology.LIPS_INNER)] = 0
    image, after, _ = laid(Lipstick("#a9142a"), visibility=hidden)
    assert np.array_equal(image, after)
    hair = np.zeros((SIDE, SIDE), np.float32)
    hair[:, : SIDE // 2] = 1
    image, after, _ = laid(Lipstick("#a9142a", opacity=1.0), hair=hair)
    changed = (image != after).any(axis=2)
    assert not changed[:, : SIDE // 2].any() and changed[:, SIDE // 2 :].sum() > 300


def test_a_half_hidden_mouth_is_painted_where_it_is_seen() -> None:
    visibility = np.ones(478, np.float32)
    face = topology.canonical_face()
    visibility[face[:, 0] > 0.4] = 0
    image, after, _ = laid(Lipstick("#a9142a", opacity=1.0), visibility=visibility)
    changed = (image != after).any(axis=2)
    assert changed[:, : SIDE // 2].sum() > 5 * changed[:, SIDE // 2 + 24 :].sum() > -1
    assert changed[:, : SIDE // 2].sum() > 200


def test_eyes_stay_below_shadow_and_liner() -> None:
    import cv2

    eyes = inside(topology.RIGHT_EYE) | inside(topology.LEFT_EYE)
    middle = cv2.erode(eyes.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    for effect in (EyeShadow("#5d2f52", opacity=1.0), Foundation("#d9ac8b"), Blush("#d0606c")):
        image, after, _ = laid(effect)
        assert np.array_equal(image[middle], after[middle])


def test_an_iris_changes_inside_its_eye_only() -> None:
    image, after, covered = laid(Iris("#5683b4", opacity=1.0))
    changed = (image != after).any(axis=2)
    import cv2

    eyes = (inside(topology.RIGHT_EYE) | inside(topology.LEFT_EYE)).astype(np.uint8)
    assert changed.sum() > 100
    assert not (changed & (cv2.dilate(eyes, np.ones((5, 5), np.uint8)) == 0)).any()
    assert (
        to_lab(after)[covered > 0.9][:, 2].mean() < to_lab(image)[covered > 0.9][:, 2].mean() - 10
    )


def test_glasses_turn_with_the_head_and_cover_their_frame() -> None:
    _, after, covered = laid(Glasses(finish="matte", tint=0.0))
    frame = covered > 0.98
    assert frame.sum() > 500
    assert ciede2000(mean_of(to_lab(after), frame.astype(np.float32)), lab_of((32, 28, 28))) < 2
    left, right = (
        np.flatnonzero(laid(Glasses(tint=0.0), yaw=yaw)[2].max(axis=0) > 0.98) for yaw in (-40, 40)
    )
    assert (
        left[0] + left[-1] < SIDE - 20
        and right[0] + right[-1] > SIDE + 20
        or (left[0] + left[-1] > SIDE + 20 and right[0] + right[-1] < SIDE - 20)
    )


def test_an_arm_turned_away_is_behind_the_face() -> None:
    for yaw in (-40.0, 40.0):
        _, _, covered = laid(Glasses(style="rimless", tint=0.0), yaw=yaw)
        _, mesh, _ = drawn(yaw)
        face = regions.fill((SIDE, SIDE), mesh[list(topology.FACE_OVAL), :2]) > 0.5
        rows = slice(int(mesh[168, 1]) - 8, int(mesh[168, 1]) + 24)
        on_face = (covered > 0.5)[rows] & face[rows]
        middle = int(mesh[168, 0])
        sides = on_face[:, :middle].sum(), on_face[:, middle:].sum()
        assert min(sides) > 0


def test_a_mask_of_nothing_changes_nothing() -> None:
    image = picture(64, 64)
    before = image.copy()
    HairDye("#5b2e8c").dye(image, np.zeros((64, 64), np.float32), 4.0, Memory(), None)
    assert np.array_equal(image, before)


def test_colours_survive_the_way_to_cielab_and_back() -> None:
    grid = np.linspace(0, 255, 12).astype(np.uint8)
    cube = np.stack(np.meshgrid(grid, grid, grid), axis=-1).reshape(1, -1, 3)
    assert np.abs(to_rgb(to_lab(cube)).astype(int) - cube).max() <= 1


def test_ciede2000_agrees_with_the_formula_s_published_pairs() -> None:
    pairs = [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (61.0, -5.0, 29.0), 22.8977),
        ((50.0, 2.5, 0.0), (50.0, 0.0, -2.5), 4.3065),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ]
    for one, other, expected in pairs:
        found = ciede2000(np.array(one, np.float32), np.array(other, np.float32))
        assert found == pytest.approx(expected, abs=2e-3)


def test_dyeing_gives_the_base_the_colour() -> None:
    lab = np.full((8, 8, 3), (60, 20, 10), np.float32)
    base, colour = np.array([60, 20, 10], np.float32), np.array([30, 50, 30], np.float32)
    dye(lab, np.ones((8, 8), np.float32), colour, base, "satin")
    assert lab == pytest.approx(np.broadcast_to(colour, lab.shape), abs=1e-3)


def test_a_face_that_reaches_out_of_the_picture_is_painted_as_far_as_it_goes() -> None:
    image, mesh, visibility = drawn()
    for shift in ((-150, 0), (150, 0), (0, 160), (0, -170), (400, 400)):
        moved = mesh + np.array([*shift, 0], np.float32)
        for effect in EVERY:
            canvas = Canvas(image, moved, visibility, None, Memory(), None)
            if canvas.is_empty:
                continue
            effect.lay(canvas)
            after = image.copy()
            canvas.write(after)


@pytest.mark.parametrize("shade", [0, 255])
def test_a_face_of_one_colour_is_no_trouble(shade: int) -> None:
    _, mesh, visibility = drawn()
    image = np.full((SIDE, SIDE, 3), shade, np.uint8)
    for effect in EVERY:
        canvas = Canvas(image, mesh, visibility, None, Memory(), None)
        effect.lay(canvas)
        after = image.copy()
        canvas.write(after)


def test_tiny_faces_are_no_trouble() -> None:
    image, mesh, visibility = drawn()
    for scale in (0.02, 0.06, 0.15):
        for effect in EVERY:
            canvas = Canvas(image, mesh * np.float32(scale), visibility, None, Memory(), None)
            if not canvas.is_empty:
                effect.lay(canvas)
                canvas.write(image.copy())


@pytest.mark.parametrize("style", list(SHAPES))
def test_outlines_are_closed_and_turn_one_way(style: str) -> None:
    line = SHAPES[style].outline()
    following = np.roll(line, -1, axis=0)
    area = float((line[:, 0] * following[:, 1] - line[:, 1] * following[:, 0]).sum() / 2)
    assert 8 < area < 30
