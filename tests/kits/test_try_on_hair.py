"""Hair dye on drawn hair whose opacity is known, and whose hair is whose."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from palmkit import kits
from palmkit.kits import Look, TryOn, try_on
from palmkit.kits.image import Image
from palmkit.kits.results import Faces
from palmkit.kits.tryon.canvas import Memory
from palmkit.kits.tryon.colour import Floats, mean_of, to_lab
from palmkit.kits.tryon.doubt import CHIN, FOREHEAD, without_doubtful, without_hats, without_skin
from palmkit.kits.tryon.hair import HairDye, coverage
from palmkit.kits.tryon.heads import Wearers, hair_of_heads
from palmkit.kits.tryon.regions import soften
from tests.kits.test_try_on_effects import drawn

SIDE, PER_CM = 240, 12.0
PLATINUM = HairDye("#d9cdb8", opacity=1.0)
BLACK = HairDye("#1d1816", opacity=1.0)


def strands(mean: float, contrast: float = 9.0) -> Image:
    """Grey hair: strands across, dark roots above, and a shine in the middle."""
    columns = np.arange(SIDE, dtype=np.float64)
    rows = columns[:, None]
    roots = 0.55 + 0.45 * np.clip(rows / (0.4 * SIDE), 0, 1)
    shine = 25 * np.exp(-(((rows - 0.6 * SIDE) / 14) ** 2))
    grey = mean * roots + contrast * np.sin(columns / 1.7) + shine
    grey += np.random.default_rng(1).normal(0, 1, grey.shape)
    return np.repeat(np.clip(grey, 0, 255).astype(np.uint8)[..., None], 3, axis=2)


def dyed(image: Image, hair: Floats, dye: HairDye) -> Image:
    after = image.copy()
    dye.dye(after, hair, PER_CM, Memory(), None)
    return after


def mixed(front: Image, back: Image, hair: Floats) -> Image:
    share = hair[..., None]
    return np.asarray(np.rint(front * share + back * (1 - share)), np.uint8)


@pytest.mark.parametrize("mean", [24, 34, 70])
def test_bleached_hair_keeps_strands_roots_and_shine(mean: float) -> None:
    before = strands(mean, 0.3 * mean)
    after = dyed(before, np.ones((SIDE, SIDE), np.float32), PLATINUM)
    old, new = (to_lab(each)[..., 0] for each in (before, after))
    assert abs(float(new.mean()) - float(PLATINUM.lab[0])) < 6
    # Nothing is cut off at white or black, so no plain patch is left.
    assert after.max() < 255 and new.min() > 15
    rows = slice(150, 220)
    fine = [each - cv2.GaussianBlur(each, (0, 0), 6) for each in (old, new)]
    assert np.corrcoef(fine[0][rows].ravel(), fine[1][rows].ravel())[0, 1] > 0.9
    assert 0.7 < fine[1][rows].std() / fine[0][rows].std() < 2.2
    roots, lengths, shine = (float(new[part].mean()) for part in np.s_[4:24, 180:220, 138:150])
    assert roots < lengths - 5 and shine > lengths + 1


def test_hair_that_is_darkened_keeps_its_shine() -> None:
    before = strands(150, 20)
    after = dyed(before, np.ones((SIDE, SIDE), np.float32), BLACK)
    new = to_lab(after)[..., 0]
    assert abs(float(new.mean()) - float(BLACK.lab[0])) < 4
    assert new[138:150].mean() > new[190:220].mean() + 1


@pytest.mark.parametrize(
    ("hair", "wall", "dye"),
    [(34, (205, 200, 190), PLATINUM), (34, (40, 60, 90), PLATINUM), (170, (60, 90, 60), BLACK)],
)
def test_what_is_seen_through_the_ends_of_hair_stays(
    hair: float, wall: tuple[int, int, int], dye: HairDye
) -> None:
    """A dyed mixture is nearly the mixture of dyed hair and the same wall."""
    front, back = strands(hair, 3), np.full((SIDE, SIDE, 3), wall, np.uint8)
    share = np.clip(np.linspace(2, -1, SIDE, dtype=np.float32), 0, 1)
    opacity = np.ascontiguousarray(np.broadcast_to(share, (SIDE, SIDE)))
    photo = mixed(front, back, opacity)
    ideal = mixed(dyed(front, np.ones((SIDE, SIDE), np.float32), dye), back, opacity)
    found = dyed(photo, opacity, dye)
    assert np.array_equal(found[opacity == 0], photo[opacity == 0])
    lower = np.s_[120:, 85:155]
    off = np.abs(to_lab(found) - to_lab(ideal))[lower]
    assert off[..., 0].mean() < 5 and off[..., 1:].mean() < 3
    # No rim lighter or darker than hair and wall, but for what the hair is estimated off by.
    sides = [to_lab(each)[120:, :, 0] for each in (ideal, back)]
    low, high = min(each.min() for each in sides), max(each.max() for each in sides)
    assert low - 6 < to_lab(found)[lower][..., 0].min()
    assert to_lab(found)[lower][..., 0].max() < high + 6


def test_the_mask_of_a_video_is_none_all_or_soft_between() -> None:
    found = coverage(np.array([[0, 0.1, 0.5, 0.95, 1]], np.float32))
    assert found[0].tolist() == pytest.approx([0, 0, 0.5, 1, 1])


def test_skin_that_the_mask_takes_for_hair_is_left_out() -> None:
    image, mesh, visibility = drawn()
    mask = np.zeros(image.shape[:2], np.float32)
    mask[:60], mask[60:160] = 1, 0.7
    image[:60] = (40, 32, 28)
    everything = np.s_[0 : image.shape[0], 0 : image.shape[1]]
    found = without_skin(image, everything, mask, mesh[:, :2], visibility)
    assert found[:56].min() > 0.95
    forehead = np.s_[66 : int(mesh[9, 1]), 140:180]
    assert mask[forehead].min() > 0.6 and found[forehead].max() < 0.2
    assert (found <= mask + 1e-6).all()


def doubtful_scene() -> tuple[Image, Floats]:
    """Brown hair above, an arm and a scarf that the mask half believes in below, a wall around."""
    random = np.random.default_rng(3)
    image = np.full((SIDE, SIDE, 3), (170, 175, 180), np.float64)
    mask = np.zeros((SIDE, SIDE), np.float32)
    image[40:100, 60:180], mask[40:100, 60:180] = (70, 45, 30), 0.99
    image[100:160, 60:90], mask[100:140, 60:90] = (190, 40, 50), 0.85
    image[100:160, 150:180], mask[100:140, 150:180] = (70, 45, 30), 0.85
    image += random.normal(0, 3, image.shape)
    return np.asarray(np.rint(image).clip(0, 255), np.uint8), mask


def test_what_is_not_sure_to_be_hair_has_to_look_like_it() -> None:
    image, mask = doubtful_scene()
    found = without_doubtful(image, mask, 80.0)
    hair, scarf, lock = np.s_[46:94, 66:174], np.s_[116:136, 66:84], np.s_[116:136, 156:174]
    assert np.abs(found[hair] - mask[hair]).max() < 0.01
    assert found[scarf].max() < 0.5
    assert np.abs(found[lock] - mask[lock]).max() < 0.05
    assert (found <= mask + 1e-6).all()
    # Where the mask is sure of all of it, colours say nothing: dyed ends are hair.
    sure = np.where(mask > 0, np.float32(0.99), mask)
    assert np.abs(without_doubtful(image, sure, 80.0) - sure).max() < 0.01


def test_what_the_mask_hardly_believes_in_is_not_dyed_whatever_its_colour() -> None:
    image, mask = doubtful_scene()
    mask[100:140, 150:180] = 0.55
    found = without_doubtful(image, mask, 80.0)
    assert found[120:136, 156:174].max() < 0.1
    assert found[46:80, 66:174].min() > 0.95


@pytest.mark.parametrize("turn", [0, 90])
def test_a_crown_that_other_looks_do_not_know_is_a_hat(turn: int) -> None:
    mask = np.zeros((SIDE, SIDE), np.float32)
    mask[60:100, 70:170], mask[100:180, 70:90], mask[100:180, 150:170] = 0.95, 0.95, 0.95
    points = np.zeros((478, 2), np.float32)
    points[FOREHEAD], points[CHIN] = (120, 105), (120, 205)
    sure = mask / 0.95
    # The head may lie on its side.
    rows = turn // 90
    if rows:
        points = np.stack([points[:, 1], SIDE - 1 - points[:, 0]], axis=1)

    def found(otherwise: Floats) -> Floats:
        kept = without_hats(np.rot90(mask, rows), np.rot90(otherwise, rows), points)
        return np.rot90(kept, -rows)

    assert (found(sure) == mask).all()
    hat = sure.copy()
    hat[:100] *= 0.6
    kept = found(hat)
    assert kept[60:90].max() < 0.05
    assert kept[120:180, 72:88].min() > 0.94 and kept[120:180, 152:168].min() > 0.94
    hat[:, :120] *= 0.5
    assert found(hat)[120:180, 72:88].max() == 0
    # Of a head that claims no hair on its crown nothing is known.
    bald = np.where(np.arange(SIDE)[:, None] < 110, np.float32(0), mask)
    assert (without_hats(bald, 0 * bald, points) == bald).all() or rows


def test_hair_is_hair_in_other_looks_too() -> None:
    image: Image = pytest.importorskip("skimage.data").astronaut()
    image = np.ascontiguousarray(image[:300, 60:400])
    with kits.HairSegmenter() as kit:
        mask = kit.segment(image).mask
        face = kits.detect_faces(image)[0]
        part = np.s_[10:260, 20:330]
        seen = kit.otherwise(image, face, (0, 0, 340, 300), part)
        assert seen.shape == (250, 310) and seen.min() >= 0 and seen.max() <= 1
        hair, other = mask[part] > 0.95, mask[part] < 0.05
        assert seen[hair].mean() > 0.9 and seen[other].mean() < 0.05
        assert kit.otherwise(image, face, (0, 0, 2, 2), part).shape == seen.shape


@pytest.mark.parametrize("scale", [1, 4])
def test_doubt_is_the_same_in_a_larger_picture(scale: int) -> None:
    image, mask = doubtful_scene()
    size = (SIDE * scale, SIDE * scale)
    large = cv2.resize(image, size, interpolation=cv2.INTER_NEAREST)
    coarse = np.asarray(cv2.resize(mask, size, interpolation=cv2.INTER_NEAREST), np.float32)
    found = without_doubtful(np.asarray(large, np.uint8), coarse, 80.0 * scale)
    assert found.shape == coarse.shape
    small = cv2.resize(found, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    assert np.abs(small - without_doubtful(image, mask, 80.0)).mean() < 0.01


def test_a_head_without_sure_hair_or_with_none_stays_finite() -> None:
    image, mask = doubtful_scene()
    for each in (np.zeros_like(mask), mask * np.float32(0.9), mask[:1, :1], np.ones_like(mask)):
        part = image[: each.shape[0], : each.shape[1]]
        found = without_doubtful(part, each, 80.0)
        assert np.isfinite(found).all() and (found <= each + 1e-6).all()


# Whose hair is whose


def heads(*faces: tuple[float, float, float]) -> tuple[Floats, Floats]:
    """Masks of round heads, and the boxes of their faces: x and y of the middle, side."""
    mask = np.zeros((300, 600), np.float32)
    for x, y, side in faces:
        cv2.circle(mask, (int(x), int(y - 0.2 * side)), int(0.75 * side), 1, -1)
        cv2.circle(mask, (int(x), int(y)), int(0.45 * side), 0, -1)
    sides = [(x - side / 2, y - side / 2, side, side) for x, y, side in faces]
    return mask, np.array(sides, np.float32)


def whole(mask: Floats, boxes: Floats, *wearers: int) -> Floats:
    """All hair of the wearers, in the picture."""
    found = np.zeros_like(mask)
    for own in hair_of_heads(mask, boxes, np.array(wearers, np.intp)):
        np.maximum(found[own.part], own.mask, out=found[own.part])
    return found


@pytest.mark.parametrize(
    "faces", [[(200, 150, 100), (390, 150, 100)], [(200, 150, 120), (330, 90, 40)]]
)
def test_each_head_has_its_own_hair(faces: list[tuple[float, float, float]]) -> None:
    mask, boxes = heads(*faces)
    for row, face in enumerate(faces):
        alone = heads(face)[0]
        found = whole(mask, boxes, row)
        both = heads(faces[1 - row])[0] > 0
        assert (found > 0.5)[(alone > 0) & ~both].mean() > 0.97
        assert (found > 0.5)[both & (alone == 0)].mean() < 0.03
    assert np.array_equal(whole(mask, boxes, 0, 1) > 0.5, mask > 0.5)


def test_hair_above_a_face_that_leans_on_another_is_its_own() -> None:
    # A couple, cheek to cheek, one a head shorter.
    mask, boxes = heads((200, 120, 100), (282, 165, 86))
    crown = np.s_[102:118, 265:300]
    assert mask[crown].all()
    assert whole(mask, boxes, 0)[crown].max() == 0
    assert whole(mask, boxes, 1)[crown].min() == 1


def test_the_crown_of_a_head_in_front_is_its_own() -> None:
    # Somebody further away, whose chin is behind the crown; their hair ends at the ears.
    face, other = (200, 190, 110), (225, 85, 60)
    mask, boxes = heads(face, other)
    crown = np.s_[110:130, 190:235]
    mask[crown] = 1
    assert whole(mask, boxes, 0)[crown].min() == 1
    assert whole(mask, boxes, 1)[crown].max() == 0


def test_what_is_apart_from_the_head_is_nobodys_hair() -> None:
    mask, boxes = heads((200, 120, 100))
    mask[250:280, 180:230] = 1
    found = whole(mask, boxes, 0)
    assert found[250:280, 180:230].max() == 0
    assert (found[:225] == mask[:225]).all()


def test_long_hair_and_its_faint_ends_are_the_heads() -> None:
    mask, boxes = heads((200, 120, 80))
    mask[120:260, 150:170] = 1
    mask = soften(mask, 3)
    assert np.abs(whole(mask, boxes, 0) - mask).max() < 0.02


def test_no_hair_or_nobody_is_nothing() -> None:
    mask, boxes = heads((200, 150, 100))
    assert not [*hair_of_heads(np.zeros_like(mask), boxes, np.array([0]))]
    assert not [*hair_of_heads(mask, boxes, np.zeros(0, np.intp))]
    assert not [*hair_of_heads(mask, boxes + 5000, np.array([0]))]


def found(boxes: Any, ids: Any = None, scores: Any = None) -> Faces:
    boxes = np.array(boxes, np.float32)
    scores = np.ones(len(boxes), np.float32) if scores is None else np.array(scores, np.float32)
    ids = None if ids is None else np.array(ids, np.int64)
    points = np.zeros((len(boxes), 5, 2), np.float32)
    return Faces(600, 300, boxes, scores, points, ids)


THREE = [(400, 100, 60, 60), (100, 100, 90, 90), (290, 140, 30, 30)]


@pytest.mark.parametrize(
    ("which", "rows"),
    [("all", [0, 1, 2]), ("largest", [1]), ("middle", [2]), (0, [1]), (2, [0]), (3, [])],
)
def test_the_face_that_wears_the_look_is_chosen(which: Any, rows: list[int]) -> None:
    assert Wearers(which, None).among(found(THREE)).tolist() == rows


def test_the_choice_is_among_the_faces_of_the_best_score() -> None:
    faces = found(THREE, scores=[0.9, 0.5, 0.8])
    assert Wearers("largest", 2).among(faces).tolist() == [0]
    assert Wearers("all", 2).among(faces).tolist() == [0, 2]
    assert len(Wearers("largest", None).among(found(np.zeros((0, 4))))) == 0


def test_a_tiny_face_of_a_picture_wears_nothing_unless_it_is_sure() -> None:
    boxes = [(10, 10, 20, 18), (100, 10, 20, 18), (200, 10, 30, 24)]
    faces = found(boxes, scores=[0.7, 0.8, 0.6])
    assert Wearers("all", None).among(faces).tolist() == [1, 2]
    assert Wearers("largest", None).among(found(boxes[:1], scores=[0.7])).tolist() == []
    assert Wearers(0, 1).among(faces).tolist() == [1]
    assert Wearers("all", None, doubts=False).among(faces).tolist() == [0, 1, 2]
    tracked = found(boxes, [1, 2, 3], [0.7, 0.8, 0.6])
    assert Wearers("all", None).among(tracked).tolist() == [0, 1, 2]


def test_in_a_video_the_choice_does_not_jump() -> None:
    wearers = Wearers("largest", None)
    first = [(100, 100, 60, 60), (300, 100, 58, 58)]
    then = [(100, 100, 58, 58), (300, 100, 60, 60)]
    later = [(100, 100, 40, 40), (300, 100, 60, 60)]
    chosen = [wearers.among(found(each, [7, 8])).tolist() for each in (first, then, later)]
    assert chosen == [[0], [0], [1]]


@pytest.fixture(scope="module")
def pair() -> Image:
    image: Image = pytest.importorskip("skimage.data").astronaut()[:300, 60:400]
    return np.ascontiguousarray(np.concatenate([image, image[:, ::-1]], axis=1))


@pytest.mark.parametrize("options", [{"face": 0}, {"face": 1}, {"max_faces": 1}])
def test_a_bystander_keeps_the_colour_of_the_hair(pair: Image, options: dict[str, Any]) -> None:
    result = try_on(pair, hair="violet", lipstick="ruby", **options)
    assert len(result.faces) == 1
    changed = (result.after != pair).any(axis=2)
    halves = [changed[:, :340].sum(), changed[:, 340:].sum()]
    if "face" in options:
        assert (result.faces.boxes[0, 0] > 340) == bool(options["face"])
        assert halves[options["face"]] == max(halves)
    assert max(halves) > 5000 and min(halves) == 0


def test_a_face_is_a_word_or_a_number(run: Any, pair: Image, tmp_path: Any) -> None:
    wrong: Any
    for wrong in ("left", -1, 1.5, True):
        with pytest.raises(ValueError, match="face: expected"):
            TryOn(face=wrong)
    kits.write_image(tmp_path / "pair.png", pair)
    told = run(
        "tryon", tmp_path / "pair.png", "-o", tmp_path / "o.png", "--hair", "teal", "--face", "1"
    )
    assert told.code == 0
    changed = (kits.read_image(tmp_path / "o.png") != pair).any(axis=2)
    assert changed[:, 340:].any() and not changed[:, :340].any()
    assert run("tryon", tmp_path / "pair.png", "--hair", "teal", "--face", "left").code == 2


def test_hair_in_a_video_is_dyed_as_in_a_picture(pair: Image) -> None:
    image = np.ascontiguousarray(pair[:, :340])
    look = Look.of(hair="violet")
    with TryOn("video", look=look) as video:
        worn = [video.wear(image, 33 * at) for at in range(3)]
    still = try_on(image, look)
    changed = [(each.after != each.before).any(axis=2) for each in (worn[-1], still)]
    both = changed[0] & changed[1]
    assert both.sum() > 0.9 * (changed[0] | changed[1]).sum()
    means = [mean_of(to_lab(each.after), both.astype(np.float32)) for each in (worn[-1], still)]
    assert np.abs(means[0] - means[1]).max() < 1
