"""Animals in the training of the person mask: cut out, set before people, taught as nobody."""

from pathlib import Path

import numpy as np
import pytest

from palmkit.models.segmentation.animals import animal_mask, animals
from tests.models.segmentation_pack import Made, pack_made

DATA = Path(__file__).parents[2].parent / "shared" / "data"


def test_boxes_are_within_pictures() -> None:
    assert len(animals()) > 40
    for name, (left, top, width, height) in animals().items():
        assert min(left, top) >= 0 and min(width, height) > 0.1, name
        assert max(left + width, top + height) <= 1.005, name


@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data")
def test_every_picture_of_the_list_is_there() -> None:
    for name in animals():
        assert (DATA / name).is_file(), name


def test_an_animal_is_what_differs_from_all_outside_of_its_box() -> None:
    random = np.random.default_rng(3)
    rows, columns = np.mgrid[:120, :160]
    body = ((rows - 70) / 30) ** 2 + ((columns - 90) / 44) ** 2 < 1
    collar = body & (abs(columns - 70) < 2) & (abs(rows - 60) < 6)
    picture = np.full((120, 160, 3), (90, 140, 70), np.uint8)
    picture[body] = (150, 100, 60)
    picture[collar] = (90, 140, 70)
    noise = random.integers(0, 12, (*body.shape, 3))
    box = (40 / 160, 35 / 160, 100 / 160, 70 / 160)
    alpha = animal_mask((picture + noise).astype(np.uint8), box)
    assert alpha.dtype == np.float32 and alpha.shape == body.shape
    assert alpha.min() >= 0 and alpha.max() <= 1
    found = alpha > 0.5
    assert (found & body).sum() > 0.97 * body.sum()
    assert (found & ~body).sum() < 0.02 * body.sum()
    assert found[collar].mean() > 0.9
    assert ((alpha > 0.1) & (alpha < 0.9)).any()


def test_animals_are_set_before_people_and_are_nobody(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.compose import BEFORE, Batch, Composer
    from palmkit.models.segmentation.dataset import ANIMALS, Bank

    made: list[Made] = []
    for name, grey in (("voc_person", 60), (ANIMALS, 220), ("backgrounds", 130)):
        label = np.zeros((96, 96, 3), np.uint8)
        label[..., 1] = 255
        label[20:76, 24:72, 2 if name == ANIMALS else 0] = 255
        picture = np.full_like(label, grey)
        made.append(
            Made(picture, None if name == "backgrounds" else label, {"set": name, "faces": []})
        )
    pack_made(tmp_path, made, ("person",))
    torch.manual_seed(1)
    bank = Bank(tmp_path, "portrait", torch.device("cpu"))
    assert bank.has_animals and not bank.has_hats
    assert bank.people[1].tolist() == pytest.approx([24, 20, 48, 56], abs=1)
    composer = Composer(bank, "portrait", 96)
    count = 40
    people = Batch(
        torch.full((count, 3, 96, 96), 0.2),
        torch.ones(count, 1, 96, 96),
        torch.zeros(count, 1, 96, 96),
    )
    hidden = composer.hidden(people)
    kept = count - round(BEFORE * count)
    for before, after in zip(people, hidden, strict=True):
        assert torch.equal(before[:kept], after[:kept])
    is_animal = hidden.target[kept:] < 0.5
    assert 0.01 < is_animal.float().mean() < 0.9
    assert (is_animal.flatten(1).any(1)).float().mean() > 0.9
    # Where one is, it is known that nobody is seen, whatever was known before.
    assert hidden.weight[kept:][is_animal].min() >= 0.5
    assert hidden.images[kept:].mean(1, keepdim=True)[is_animal].min() > 0.4
    batch = composer.compose(24, torch.zeros(()))
    assert batch.images.shape == (24, 3, 96, 96)
    assert batch.target.min() >= 0 and batch.target.max() <= 1
