"""Hats in the training of the hair mask: found by their place, put on others, taught as no hair."""

from pathlib import Path

import numpy as np
import pytest

from palmkit.models.segmentation.hats import hat_mask, hats
from tests.models.segmentation_pack import Made, pack_made

DATA = Path(__file__).parents[2].parent / "shared" / "data"
SKIN, HAT, HAIR, GROUND = (200, 150, 125), (40, 60, 150), (60, 40, 30), (120, 130, 120)


def test_no_picture_is_in_two_lists() -> None:
    known = hats()
    assert len(known.worn) > 60 and len(known.mistaken) > 50
    assert not known.worn & known.uncut
    assert not (known.worn | known.uncut) & known.mistaken


@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data")
def test_every_picture_of_the_lists_is_there() -> None:
    for name in set().union(*hats()):
        assert (DATA / name).is_file(), name


def test_a_hat_is_what_is_above_the_brows_and_no_forehead() -> None:
    picture = np.full((160, 120, 3), GROUND, np.uint8)
    rows, columns = np.mgrid[:160, :120]
    face = ((rows - 90) / 34) ** 2 + ((columns - 60) / 26) ** 2 < 1
    crown = (abs(columns - 60) < 24) & (rows > 25) & (rows < 66)
    hair = (abs(columns - 60) < 32) & (rows > 66) & (rows < 130) & ~face
    for where, colour in ((hair, HAIR), (face, SKIN), (crown, HAT)):
        picture[where] = colour
    person = (face | crown | hair).astype(np.float32)
    eyes = np.array([[48, 88], [72, 88]], np.float32)
    box = np.array([34, 62, 52, 60], np.float32)
    found = hat_mask(picture, person, hair.astype(np.float32), box, eyes) > 0.5
    assert (found & crown).sum() > 0.9 * crown.sum()
    assert (found & ~crown).sum() < 0.05 * crown.sum()


def test_hats_are_put_on_heads_and_are_no_hair(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.compose import Composer, Layer
    from palmkit.models.segmentation.dataset import HATS, Bank
    from palmkit.models.segmentation.frames import Frame

    made: list[Made] = []
    for name in ("ccp", HATS, "backgrounds"):
        label = np.zeros((96, 96, 3), np.uint8)
        label[..., 1] = 255
        label[20:40, 30:66, 2 if name == HATS else 0] = 255
        entry = {"set": name, "faces": [[36, 36, 24, 28]], "hat": name == HATS}
        made.append(Made(np.full_like(label, 130), None if name == "backgrounds" else label, entry))
    pack_made(tmp_path, made, ("hair",))
    torch.manual_seed(1)
    bank = Bank(tmp_path, "hair", torch.device("cpu"))
    assert bank.has_hats
    composer = Composer(bank, "hair", 96)
    rows = torch.zeros(40, dtype=torch.int64)
    frame = Frame(torch.full((40, 2), 48.0), torch.full((40, 2), 96.0))
    straight = torch.eye(2).expand(40, 2, 2)
    plain = composer.layer(rows, frame, straight)
    worn = composer.hatted(plain, rows, frame, straight)
    assert isinstance(worn, Layer) and worn.image.shape == (40, 3, 96, 96)
    count = 12
    assert torch.equal(worn.target[count:], plain.target[count:])
    covered = 1 - worn.target[:count].sum() / plain.target[:count].sum()
    assert covered > 0.75
    assert (worn.weight[:count] >= plain.weight[:count]).all()
    batch = composer.compose(24, torch.zeros(()))
    assert batch.images.shape == (24, 3, 96, 96)
    assert batch.target.min() >= 0 and batch.target.max() <= 1
