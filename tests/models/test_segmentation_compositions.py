"""The pictures that mask networks learn from."""

from pathlib import Path

import numpy as np
import pytest

from tests.models.segmentation_pack import Made, pack_made, write_pack


@pytest.mark.parametrize("task", ["portrait", "hair"])
def test_compositions_carry_their_masks(tmp_path: Path, task: str) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.compose import Composer, roughen
    from palmkit.models.segmentation.dataset import Bank

    write_pack(tmp_path / "pack")
    device = torch.device("cpu")
    torch.manual_seed(3)
    composer = Composer(Bank(tmp_path / "pack", task, device), task, 64)
    batch = composer.compose(24, torch.zeros(()))
    assert batch.images.shape == (24, 3, 64, 64)
    assert batch.target.shape == batch.weight.shape == (24, 1, 64, 64)
    rough = roughen(batch.images, torch.zeros(()))
    for values in (*batch, rough):
        assert values.min() >= 0 and values.max() <= 1
    assert 0.005 < (rough - batch.images).abs().mean() < 0.2
    assert (batch.target.amax(dim=(1, 2, 3)) == 0).any()
    inside, outside = batch.target > 0.9, batch.target < 0.1
    grey = batch.images.mean(dim=1, keepdim=True)
    assert inside.any() and grey[inside].mean() > grey[outside].mean() + 0.1


def test_striped_cloth_hangs_in_some_scenes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.compose import STRIPED, Composer
    from palmkit.models.segmentation.dataset import Bank

    write_pack(tmp_path / "pack")
    device = torch.device("cpu")
    torch.manual_seed(3)
    composer = Composer(Bank(tmp_path / "pack", "portrait", device), "portrait", 64)
    grey = torch.full((400, 3, 64, 64), 0.5)
    scenes = composer.striped(grey)
    assert scenes.min() >= 0 and scenes.max() <= 1
    changed = (scenes != grey).any(dim=1).float().mean(dim=(1, 2))
    assert 0.7 * STRIPED < (changed > 0).float().mean() < 1.1 * STRIPED
    assert changed[changed > 0].std() > 0.05


def test_close_frames_hold_all_of_the_mask_and_lie_in_the_picture(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.dataset import Bank, box_of
    from palmkit.models.segmentation.frames import Framer

    write_pack(tmp_path / "pack")
    bank = Bank(tmp_path / "pack", "portrait", torch.device("cpu"))
    rows = torch.nonzero(bank.people[:, 2] > 0)[:, 0]
    assert len(rows) and (bank.people[rows, 3] > 0).all()
    framer = Framer(bank, "portrait")
    for _ in range(5):
        frame = framer.close_frame(rows)
        low, high = frame.centre - frame.span / 2, frame.centre + frame.span / 2
        box, whole = bank.people[rows], bank.pictures.sizes[rows, 0]
        assert (low >= -1e-3).all() and (high <= whole + 1e-3).all()
        assert (low <= box[:, :2] + 1e-3).all() and (high >= box[:, :2] + box[:, 2:] - 1e-3).all()
    mask = np.zeros((9, 7), np.uint8)
    assert box_of(mask) == (0, 0, 0, 0)
    mask[2:5, 6] = 200
    assert box_of(mask) == (6, 2, 1, 3)


def test_parts_of_other_pictures_come_with_their_masks() -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.compose import PATCH, PATCHED, Batch, patched

    torch.manual_seed(4)
    values = torch.arange(400.0)[:, None, None, None]
    batch = patched(
        Batch(values.repeat(1, 3, 32, 32), values.repeat(1, 1, 32, 32), values.repeat(1, 1, 32, 32))
    )
    for each in batch[1:]:
        assert torch.equal(each, batch.images[:, :1])
    foreign = batch.target != values
    assert torch.equal(batch.target[foreign], values.roll(1, 0).expand_as(batch.target)[foreign])
    areas = foreign.float().mean(dim=(1, 2, 3))
    assert 0.7 * PATCHED < (areas > 0).float().mean() < 1.3 * PATCHED
    assert areas.max() < PATCH[1] ** 2 + 0.05


def test_some_pictures_are_in_light_of_one_colour() -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.compose import LIT, lit

    torch.manual_seed(2)
    grey = torch.full((2000, 3, 4, 4), 0.6)
    after = lit(grey)
    assert after.min() >= 0 and after.max() <= 1
    changed = (after != grey).flatten(1).any(dim=1)
    assert changed.float().mean() == pytest.approx(LIT, abs=0.02)
    channels = after[changed].mean(dim=(2, 3))
    # Any colour is as likely as another, and most are plainly coloured.
    assert channels.argmax(dim=1).bincount(minlength=3).min() > 0.25 * len(channels)
    assert ((channels.amax(dim=1) - channels.amin(dim=1)) > 0.2).float().mean() > 0.6


def test_colours_of_what_is_nobody_are_exchanged(tmp_path: Path) -> None:
    """So that a flower is not told by being red; people keep their colours."""
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.compose import EXCHANGED, Composer, exchanged, is_empty
    from palmkit.models.segmentation.dataset import Bank

    red = torch.tensor([0.9, 0.4, 0.1])[None, :, None, None].expand(3000, 3, 2, 2)
    after = exchanged(red)
    assert torch.equal(after.sort(dim=1).values, red.sort(dim=1).values)
    # One order in six is that which it was.
    share = (after != red).flatten(1).any(dim=1).float().mean()
    assert share == pytest.approx(EXCHANGED * 5 / 6, abs=0.03)

    label = np.zeros((64, 64, 3), np.uint8)
    label[..., 1] = 255
    person = label.copy()
    person[8:56, 16:48, ::2] = 255
    picture = np.full_like(label, (200, 60, 20))
    made = [
        Made(picture, person, {"set": "voc_person", "faces": []}),
        Made(picture, None, {"set": "backgrounds", "faces": []}),
    ]
    pack_made(tmp_path, made, ("person",))
    torch.manual_seed(1)
    batch = Composer(Bank(tmp_path, "portrait", torch.device("cpu")), "portrait", 32).compose(
        120, torch.ones(())
    )
    empty = is_empty(batch.target, batch.weight)[:, 0, 0, 0]
    assert 0 < empty.sum() < len(empty)
    first = batch.images.argmax(dim=1, keepdim=True)
    where = (batch.target > 0.9) & (batch.images.amax(dim=1, keepdim=True) > 0.3)
    assert where.any() and (first[where] == 0).all()
