"""The mask networks that ship, and what their measures and views are."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.models.segmentation_pack import SIDES

MODELS = Path(__file__).parents[2] / "models"
SHIPPED = sorted(path.parent.name for path in MODELS.glob("*/*.palm"))
TASKS = [task for task in SIDES if task in SHIPPED]


@pytest.mark.parametrize("task", TASKS)
def test_model_file_says_what_it_is(task: str) -> None:
    from palmkit.engine import load

    path = MODELS / task / f"{task}.palm"
    assert path.stat().st_size <= 1_000_000
    model = load(path)
    assert model.metadata["name"] == task
    assert 0 < float(model.metadata["threshold"]) < 1
    side, size = SIDES[task]
    assert model.inputs["image"].dims == (1, side, side, 3)
    mask = model.run({"image": np.zeros((1, side, side, 3), np.float32)})["mask"]
    assert mask.shape == (1, size, size, 1)
    assert mask.min() >= 0 and mask.max() <= 1
    assert (mask > 0.5).mean() < 0.02


@pytest.mark.parametrize("task", TASKS)
def test_card_names_every_set_and_its_terms(task: str) -> None:
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.face_detector.labels import TERMS
    from palmkit.models.segmentation.dataset import CUT_WEIGHTS, PLACES, SET_WEIGHTS

    task = task.removesuffix("_best")
    rows = (MODELS / task / "card.md").read_text().splitlines()
    pictures = "portrait" if task == "person_finder" else task
    # Places are parts of other sets' pictures.
    for name in (SET_WEIGHTS[pictures] | CUT_WEIGHTS[pictures]).keys() - {PLACES}:
        assert any(row.startswith(f"| {name} |") and TERMS[name] in row for row in rows), name


@pytest.mark.parametrize("task", TASKS)
def test_card_has_the_measured_numbers(task: str) -> None:
    metrics = json.loads((MODELS / task / "metrics.json").read_text())
    rows = (MODELS / task / "card.md").read_text().splitlines()
    for group, numbers in metrics["palmkit"].items():
        for key in numbers if group != "pictures" else ():
            cells = " | ".join(f"{metrics[name][group][key]:.3f}" for name in metrics)
            assert f"| {group} {key} | {cells} |" in rows


def test_square_round_a_face_stays_in_the_picture() -> None:
    from palmkit.models.segmentation.crop import crop_round

    small = crop_round(np.asarray([5, 5, 20, 24], np.float32), 200, 300)
    assert small.side == pytest.approx(84)
    assert small.left == 0 and small.top == 0
    large = crop_round(np.asarray([50, 60, 100, 120], np.float32), 200, 300)
    assert large.side == 300
    assert large.left == pytest.approx(-50) and large.top == 0


def test_square_is_the_kits() -> None:
    from palmkit.kits.portrait.views import square_round
    from palmkit.models.segmentation.crop import crop_round

    random = np.random.default_rng(0)
    for _ in range(50):
        box = random.uniform(5, 120, 4).astype(np.float32)
        left, top, side, _ = square_round(box, 210, 160)
        np.testing.assert_allclose(crop_round(box, 210, 160), (left, top, side), atol=1e-3)


def test_crop_and_back_is_the_picture_again() -> None:
    from palmkit.models.segmentation.crop import Square, fitted, put_back

    rows, columns = np.mgrid[:120, :90]
    picture = np.stack([2 * columns, rows, rows], axis=-1).astype(np.uint8)
    square = Square(10.0, 20.0, 64.0)
    crop = fitted(picture, square, 128)
    assert crop.shape == (128, 128, 3)
    back = put_back(crop[..., 0].astype(np.float32), square, (120, 90))
    np.testing.assert_allclose(back[24:80, 14:70], picture[24:80, 14:70, 0], atol=1.5)
    assert (back[:18] == 0).all() and (back[:, 78:] == 0).all()
    assert (fitted(picture, Square(-64.0, -64.0, 64.0), 32) == 0).all()


def test_boundary_is_exact_where_it_should_be() -> None:
    from palmkit.models.segmentation.samples import Sample
    from palmkit.models.segmentation.scores import boundary, overlap

    truth = np.zeros((100, 100), np.float32)
    truth[20:80, 30:70] = 1
    sample = Sample("ccp", np.zeros((100, 100, 3), np.uint8), truth, np.ones((100, 100), np.bool_))
    assert boundary(truth, sample, 0.0025) == overlap(truth, sample) == 1
    shifted = np.roll(truth, 2, axis=1)
    assert boundary(shifted, sample, 0.02) == 1
    assert boundary(shifted, sample, 0.0025) < 0.6
    assert overlap(shifted, sample) == pytest.approx(38 / 42)
    assert boundary(np.zeros_like(truth), sample, 0.02) == 0


def test_islands_are_all_but_the_largest_piece() -> None:
    from palmkit.models.segmentation.labels import islands

    truth = np.zeros((40, 40), np.float32)
    truth[:20, :20] = 1
    truth[30:33, 30:34] = 1
    found = islands(truth)
    assert found[31, 31] and found[28, 28]
    assert not found[:25, :25].any()


def test_flicker_is_none_where_the_mask_moves_with_the_picture() -> None:
    from palmkit.models.segmentation.scores import flicker

    rows, columns = np.mgrid[:160, :160]
    disk = ((rows - 80) ** 2 + (columns - 80) ** 2 < 1600)[..., None]
    picture = np.repeat(np.where(disk, 220, 20), 3, axis=2).astype(np.uint8)
    follows = flicker(lambda image: (image[..., 0] > 120).astype(np.float32), picture, 0)
    still = disk[..., 0].astype(np.float32)
    assert 2 * follows < flicker(lambda image: still, picture, 0)
