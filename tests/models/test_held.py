"""The network that finds what people hold, and how its labels and its graph are made."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

MODELS = Path(__file__).parents[2] / "models"
SHIPPED = MODELS / "held_things"
DATA = Path(__file__).parents[2].parent / "shared" / "data"
torch: Any = pytest.importorskip("torch", reason="the extra [train] is not installed")


def test_model_file_says_what_it_is() -> None:
    from palmkit.engine import load

    model = load(SHIPPED / "held_things.palm")
    assert model.metadata["name"] == "held_things" and model.metadata["kit"] == "portrait"
    assert model.inputs["image"].dims == (1, 256, 256, 3)
    mask = model.run({"image": np.zeros((1, 256, 256, 3), np.float32)})["mask"]
    assert mask.shape == (1, 64, 64, 1)
    assert mask.min() >= 0 and mask.max() <= 1
    assert not (mask > 0.5).any()


def test_card_names_every_set_and_has_the_measured_numbers() -> None:
    from palmkit.models.face_detector.labels import TERMS

    rows = (SHIPPED / "card.md").read_text().splitlines()
    for name in ("ccp", "hs290", "cutouts", "backgrounds"):
        assert any(row.startswith(f"| {name} |") and TERMS[name] in row for row in rows), name
    metrics = json.loads((SHIPPED / "metrics.json").read_text())
    for name in ("person iou", "iou", "right", "person found", "found"):
        spread = metrics[name]["all"]
        cells = " | ".join(f"{spread[key]:.3f}" for key in ("mean", "worst_tenth", "failed"))
        assert f"| {name} | {spread['pictures']} | {cells} |" in rows
    assert metrics["right of all pixels"] > 0.9


def test_boxes_are_boxes_and_no_picture_is_in_both_parts() -> None:
    from palmkit.models.segmentation.held_labels import boxes

    train, dev = (boxes()[part] for part in ("train", "dev"))
    assert len(train) > 100 and len(dev) > 70
    assert not train.keys() & dev.keys()
    for drawn in (*train.values(), *dev.values()):
        for left, top, right, bottom in drawn:
            assert 0 <= left < right and 0 <= top < bottom


@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data")
def test_boxes_are_in_pictures_of_their_part() -> None:
    from palmkit.models.segmentation.held_labels import boxes
    from palmkit.models.segmentation.labels import read_rows

    splits = {row["file"]: row["split"] for row in read_rows(DATA)}
    for part, files in boxes().items():
        for file, drawn in files.items():
            assert splits[file] == part
            with Image.open(DATA / file) as picture:
                assert all(box[0] < picture.width and box[1] < picture.height for box in drawn)


def test_a_thing_is_what_differs_from_what_is_round_its_box() -> None:
    from palmkit.models.segmentation.held_labels import held_in

    picture = np.full((120, 100, 3), (120, 130, 120), np.uint8)
    person, bag = np.zeros((2, 120, 100), np.bool_)
    person[10:110, 20:50] = True
    bag[50:80, 44:76] = True
    picture[person], picture[bag] = (40, 60, 150), (150, 60, 30)
    person &= ~bag
    found = held_in(picture, person, [(42, 44, 84, 88)])
    assert (found & bag).sum() > 0.95 * bag.sum()
    assert (found & ~bag).sum() < 0.05 * bag.sum()
    # Of the ground's own colour nothing can be parted: all of the box counts.
    plain = np.full_like(picture, 120)
    assert held_in(plain, person, [(60, 44, 84, 88)])[44:88, 60:84].all()


def test_the_graph_is_the_portrait_networks_and_the_heads() -> None:
    """It gives what the head gives for the portrait network's maps, of which no weight changes."""
    from palmkit.engine import convert
    from palmkit.engine.model import Model
    from palmkit.models.segmentation.held import PORTRAIT, Head, View, exported, maps_of

    torch.manual_seed(0)
    body, head = convert(PORTRAIT), Head()
    random = np.random.default_rng(0)
    image = random.uniform(0, 255, (256, 256, 3)).astype(np.float32)
    (maps,) = maps_of(body, [View(image, torch.zeros(1), torch.zeros(1))])
    for _ in range(3):
        head(*(each[None].float() * random.uniform(0.5, 1) for each in maps))
    head.eval()
    with torch.no_grad():
        logits = head(*(each[None].float() for each in maps))
    graph = exported(body, head, maps)
    assert {*body.constants} - {*graph.constants}
    for name in {*body.constants} & {*graph.constants}:
        assert (body.constants[name] == graph.constants[name]).all()
    mask = Model(graph).run({"image": image[None]})["mask"][0, :, :, 0]
    expected = logits.sigmoid()[0, 0].numpy()
    np.testing.assert_allclose(mask, expected, atol=2e-3)
    assert mask.std() > 0.01
