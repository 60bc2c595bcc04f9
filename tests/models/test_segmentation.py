import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "models"
TEACHER = ROOT / "../shared/teachers/selfie_segmentation.tflite"
CLASSIFIER = ROOT / "../shared/foreign/mobilenet_v2_1.0_224_quant.tflite"
POSE = ROOT / "../shared/foreign/pose_detection.tflite"
SHIPPED = sorted(path.parent.name for path in MODELS.glob("*/*.palm"))
# The sides of what each network sees and draws.
SIDES = {
    "portrait": (256, 256),
    "portrait_best": (256, 256),
    "hair": (256, 256),
    "person_finder": (128, 64),
}
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
    from palmkit.models.segmentation.dataset import CUT_WEIGHTS, SET_WEIGHTS

    task = task.removesuffix("_best")
    rows = (MODELS / task / "card.md").read_text().splitlines()
    pictures = "portrait" if task == "person_finder" else task
    for name in SET_WEIGHTS[pictures] | CUT_WEIGHTS[pictures]:
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
    from palmkit.models.segmentation.evaluate import Sample, boundary, overlap

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
    from palmkit.models.segmentation.evaluate import flicker

    rows, columns = np.mgrid[:160, :160]
    disk = ((rows - 80) ** 2 + (columns - 80) ** 2 < 1600)[..., None]
    picture = np.repeat(np.where(disk, 220, 20), 3, axis=2).astype(np.uint8)
    follows = flicker(lambda image: (image[..., 0] > 120).astype(np.float32), picture, 0)
    still = disk[..., 0].astype(np.float32)
    assert 2 * follows < flicker(lambda image: still, picture, 0)


def write_pack(folder: Path) -> None:
    """A few pictures of bright disks on dark ground, packed as dataset.pack does."""
    import io

    folder.mkdir()
    random = np.random.default_rng(0)
    entries: list[dict[str, Any]] = []
    rows, columns = np.mgrid[:96, :80]
    masks, pictures = io.BytesIO(), io.BytesIO()
    for number, name in enumerate(["ccp", "hs290", "cutouts", "backgrounds", "figaro", "ccp"]):
        disk = ((rows - 48) ** 2 + (columns - 40) ** 2 < 600)[..., None]
        picture = np.where(disk, 200, 40) + random.integers(0, 40, (96, 80, 3))
        mask = np.repeat(np.where(disk, 255, 0), 3, axis=2)
        mask[..., 1] = 255
        entry: dict[str, Any] = {"set": name, "file": f"{number}", "faces": [[30, 30, 20, 20]]}
        for content, target in ((picture, pictures), (mask, masks)):
            blob = io.BytesIO()
            Image.fromarray(content.astype(np.uint8)).save(blob, "WEBP", lossless=True, exact=True)
            place = [target.tell(), blob.tell()]
            target.write(blob.getvalue())
            if target is pictures:
                entry["start"], entry["size"] = place
            else:
                known: object = True if name == "backgrounds" else place
                entry |= {"person": known, "hair": known if name != "hs290" else False}
        entries.append(entry)
    (folder / "pictures.bin").write_bytes(pictures.getvalue())
    (folder / "masks.bin").write_bytes(masks.getvalue())
    (folder / "labels.json").write_text(json.dumps(entries))


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


def test_training_lessens_the_loss_and_exports(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    pytest.importorskip("onnx", reason="the extra [onnx] is not installed")
    from palmkit.engine import load
    from palmkit.models.segmentation.dataset import Bank
    from palmkit.models.segmentation.export import export
    from palmkit.models.segmentation.train import MaskRecipe, MaskTrainer
    from palmkit.models.training.loop import train

    write_pack(tmp_path / "pack")
    device = torch.device("cpu")
    recipe = MaskRecipe(steps=6, batch=4, warm_up=2)
    trainer = MaskTrainer(recipe, Bank(tmp_path / "pack", "portrait", device), device)
    first, _ = trainer.loss()
    checkpoint = train(trainer, tmp_path / "run")
    last, _ = trainer.loss()
    assert float(last.detach()) < float(first.detach())
    path = export("portrait", checkpoint, tmp_path / "out", {})
    image = np.random.default_rng(0).integers(0, 255, (1, 256, 256, 3)).astype(np.float32)
    network = trainer.averaged.eval()
    with torch.no_grad():
        maps = network(torch.from_numpy(image).permute(0, 3, 1, 2) / 255)
    expected = maps.logits.sigmoid().permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(load(path).run({"image": image})["mask"], expected, atol=2e-3)


def test_a_finder_learns_from_a_guide(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    pytest.importorskip("onnx", reason="the extra [onnx] is not installed")
    from palmkit.engine import load
    from palmkit.models.segmentation.dataset import Bank
    from palmkit.models.segmentation.export import export
    from palmkit.models.segmentation.finder import FinderTrainer
    from palmkit.models.segmentation.network import FINDER_SIZE, MaskNetwork
    from palmkit.models.segmentation.train import MaskRecipe
    from palmkit.models.training.loop import train

    guide = MaskNetwork().eval()
    write_pack(tmp_path / "pack")
    device = torch.device("cpu")
    recipe = MaskRecipe(steps=2, batch=4, pool=2, reuse=2, warm_up=1)
    trainer = FinderTrainer(recipe, Bank(tmp_path / "pack", "portrait", device), device, guide)
    torch.manual_seed(5)
    batch = trainer.drawn()
    assert batch.images.shape == (4, 3, 256, 256) and batch.target.shape == (4, 1, 256, 256)
    for values in batch:
        assert values.min() >= 0 and values.max() <= 1
    seen = trainer.seen(batch.images)
    assert seen.shape == (4, 3, FINDER_SIZE, FINDER_SIZE)

    checkpoint = train(trainer, tmp_path / "run")
    assert (trainer.pool[:, :3].amax(dim=(1, 2, 3)) > 0).all()
    made = export("person_finder", checkpoint, tmp_path / "out", {})
    side, size = SIDES["person_finder"]
    view = np.random.default_rng(0).integers(0, 255, (1, side, side, 3)).astype(np.float32)
    with torch.no_grad():
        maps = trainer.averaged.eval()(torch.from_numpy(view).permute(0, 3, 1, 2) / 255)
    assert maps.logits.shape == (1, 1, size, size)
    found = load(made)
    assert f"[1, {size}, {size}, 1]" in found.metadata["outputs"]
    np.testing.assert_allclose(
        found.run({"image": view})["mask"][..., 0], maps.logits.sigmoid()[0], atol=2e-3
    )


def test_people_set_far_away_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation import finder
    from palmkit.models.segmentation.dataset import Bank
    from palmkit.models.segmentation.network import Maps
    from palmkit.models.segmentation.train import MaskRecipe

    guide: Any = torch.nn.Identity()
    guide.forward = lambda x: Maps(x[:, :1], x[:, :1, ::8, ::8], [])
    write_pack(tmp_path / "pack")
    device = torch.device("cpu")
    bank = Bank(tmp_path / "pack", "portrait", device)
    recipe = MaskRecipe(steps=2, batch=16, pool=1)
    trainer = finder.FinderTrainer(recipe, bank, device, guide)
    means: list[float] = []
    for share in (0.0, 1.0):
        monkeypatch.setattr(finder, "FAR", share)
        torch.manual_seed(6)
        batch = trainer.drawn()
        means.append(float(batch.target.mean()))
        # Nobody is beside the composition, and that is known.
        assert (batch.weight[batch.target > 0.9] > 0).all()
    assert 0 < means[1] < 0.7 * means[0]


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
    from palmkit.models.segmentation.compose import Composer
    from palmkit.models.segmentation.dataset import Bank, box_of

    write_pack(tmp_path / "pack")
    bank = Bank(tmp_path / "pack", "portrait", torch.device("cpu"))
    rows = torch.nonzero(bank.people[:, 2] > 0)[:, 0]
    assert len(rows) and (bank.people[rows, 3] > 0).all()
    composer = Composer(bank, "portrait", 64)
    for _ in range(5):
        frame = composer.close_frame(rows)
        low, high = frame.centre - frame.span / 2, frame.centre + frame.span / 2
        box, whole = bank.people[rows], bank.pictures.sizes[rows, 0]
        assert (low >= -1e-3).all() and (high <= whole + 1e-3).all()
        assert (low <= box[:, :2] + 1e-3).all() and (high >= box[:, :2] + box[:, 2:] - 1e-3).all()
    mask = np.zeros((9, 7), np.uint8)
    assert box_of(mask) == (0, 0, 0, 0)
    mask[2:5, 6] = 200
    assert box_of(mask) == (6, 2, 1, 3)


def test_a_larger_network_begins_as_the_smaller_one() -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.network import PORTRAIT, MaskNetwork
    from palmkit.models.segmentation.train import adopt

    torch.manual_seed(1)
    small = MaskNetwork(PORTRAIT._replace(blocks=(0, 1, 6, 6), contexts=())).eval()
    trainer = SimpleNamespace(network=MaskNetwork().eval(), averaged=MaskNetwork().eval())
    adopt(cast(Any, trainer), {"averaged": small.state_dict()})
    image = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        for network in (trainer.network, trainer.averaged):
            torch.testing.assert_close(network(image).logits, small(image).logits)


def test_outlines_that_lie_apart_cost() -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.losses import OUTLINE_REACH, outline_loss

    def square(left: int) -> Any:
        mask = torch.zeros(1, 1, 64, 64)
        mask[..., 20:44, left : left + 24] = 1
        return mask

    every = torch.ones(1, 1, 64, 64)
    costs = [
        float(outline_loss(square(20 + away), square(20), every))
        for away in (0, OUTLINE_REACH, OUTLINE_REACH + 3, 12)
    ]
    assert costs[0] == pytest.approx(0, abs=1e-6) and costs[1] == pytest.approx(0, abs=0.05)
    assert costs[1] < costs[2] <= costs[3] + 1e-6 and costs[2] > 0.25
    nobody = torch.zeros_like(every)
    assert float(outline_loss(nobody, nobody, every)) == pytest.approx(0, abs=1e-6)
    assert float(outline_loss(square(20), nobody, every)) > 0.3
    assert float(outline_loss(square(20), nobody, nobody)) == pytest.approx(0, abs=1e-6)
    mask = torch.full_like(every, 0.5).requires_grad_()
    loss: Any = outline_loss(mask * square(18), square(20), every)
    loss.backward()
    assert mask.grad is not None and mask.grad.isfinite().all() and mask.grad.abs().sum() > 0


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


@pytest.mark.skipif(not TEACHER.exists(), reason="../shared/teachers is not there")
def test_a_guide_learns_and_teaches(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.backbone import MobileNetV2
    from palmkit.models.segmentation.dataset import Bank
    from palmkit.models.segmentation.guide import Guide, folded
    from palmkit.models.segmentation.teacher_network import SelfieNetwork, write
    from palmkit.models.segmentation.train import (
        GuideTrainer,
        MaskRecipe,
        MaskTrainer,
        adopt,
        read_guide,
    )

    write(TEACHER, tmp_path / "teacher.npz")
    write_pack(tmp_path / "pack")
    device = torch.device("cpu")
    bank = Bank(tmp_path / "pack", "portrait", device)
    recipe = MaskRecipe(steps=2, batch=3, warm_up=1)
    trainer = GuideTrainer(recipe, bank, device, SelfieNetwork(tmp_path / "teacher.npz"))
    assert isinstance(trainer.network, Guide)
    known = {name: value.clone() for name, value in trainer.network.teacher.named_buffers()}
    before = [value.clone() for value in trainer.network.parameters()]
    trainer.advance()
    after = list(trainer.network.parameters())
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    for name, value in trainer.network.teacher.named_buffers():
        assert torch.equal(value, known[name])

    guide = Guide(SelfieNetwork(tmp_path / "teacher.npz"), MobileNetV2()).eval()
    guide.load_state_dict(trainer.network.state_dict())
    images = torch.rand(1, 3, 256, 256)
    with torch.no_grad():
        expected = guide(images)
        found = folded(guide)(images)
    torch.testing.assert_close(found.logits, expected.logits, atol=1e-3, rtol=1e-3)

    torch.save({"averaged": trainer.network.state_dict()}, tmp_path / "first.pt")
    torch.save({"averaged": trainer.averaged.state_dict()}, tmp_path / "second.pt")
    files = [str(tmp_path / name) for name in ("first.pt", "second.pt")]
    words: list[Any] = []
    for paths in (*files, ",".join(files)):
        read = read_guide(tmp_path / "teacher.npz", paths)
        assert read is not None
        with torch.no_grad():
            words.append(read(images))
    assert not torch.equal(words[0].logits, words[1].logits)
    for one, other, both in zip(*(word[:2] for word in words), strict=True):
        torch.testing.assert_close(both, (one + other) / 2)

    recipe = MaskRecipe(steps=2, batch=3, pool=2, reuse=2, warm_up=1)
    alone = MaskTrainer(recipe, bank, device)
    beside = MaskTrainer(recipe, bank, device, guide)
    adopt(beside, alone.state())
    assert all(
        torch.equal(value, beside.averaged.state_dict()[name])
        for name, value in alone.averaged.state_dict().items()
    )
    beside.advance()
    assert beside.place.tolist() == [0, 1, 2]
    images, target, weight = beside.pool[:, :3], beside.pool[:, 3], beside.pool[:, 4]
    assert (images.amax(dim=(1, 2, 3)) > 0).sum() >= 5
    assert target.min() >= 0 and target.max() <= 1 and weight.min() >= 0.6
    kept = beside.pool.clone()
    beside.advance()
    assert torch.equal(beside.pool, kept)
    beside.advance()
    assert not torch.equal(beside.pool[:3], kept[:3]) and torch.equal(beside.pool[3:], kept[3:])

    # What nobody has drawn counts in a guide's training only if an earlier one says it.
    later = GuideTrainer(recipe, bank, device, SelfieNetwork(tmp_path / "teacher.npz"), guide)
    assert isinstance(later.network, Guide) and later.truth > beside.truth
    later.advance()
    assert later.pool[:, 4].min() >= 0.6


@pytest.mark.skipif(
    not (TEACHER.exists() and POSE.exists()), reason="../shared/teachers or foreign is not there"
)
def test_a_guide_comes_to_heed_a_pose_detector(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation import teacher_network
    from palmkit.models.segmentation.dataset import Bank
    from palmkit.models.segmentation.guide import Guide
    from palmkit.models.segmentation.teacher_network import SelfieNetwork
    from palmkit.models.segmentation.train import GuideTrainer, MaskRecipe, adopt, read_guide

    teacher, pose = tmp_path / "teacher.npz", tmp_path / "pose.npz"
    teacher_network.main([str(TEACHER), str(teacher)])
    teacher_network.main([str(POSE), str(pose), "--pose"])
    write_pack(tmp_path / "pack")
    device = torch.device("cpu")
    bank = Bank(tmp_path / "pack", "portrait", device)
    first = GuideTrainer(MaskRecipe(), bank, device, SelfieNetwork(teacher))
    recipe = MaskRecipe(batch=3, warm_up=1, pose=str(pose))
    trainer = GuideTrainer(recipe, bank, device, SelfieNetwork(teacher))
    adopt(trainer, first.state())
    images = torch.rand(1, 3, 256, 256)
    with torch.no_grad():
        before = trainer.averaged.eval()(images).logits
        assert torch.equal(before, first.averaged.eval()(images).logits)
    trainer.advance()
    assert isinstance(trainer.network, Guide)
    assert all(layer.weight.abs().max() > 0 for layer in trainer.network.posed)

    torch.save({"averaged": trainer.network.state_dict()}, tmp_path / "guide.pt")
    with pytest.raises(ValueError, match="guide.pt: expected --pose as well"):
        read_guide(teacher, str(tmp_path / "guide.pt"))
    read = read_guide(teacher, str(tmp_path / "guide.pt"), str(pose))
    assert read is not None
    with torch.no_grad():
        expected = trainer.network.eval()(images).logits
        torch.testing.assert_close(read(images).logits, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.skipif(not POSE.exists(), reason="../shared/foreign is not there")
def test_the_pose_detectors_maps_are_its_own(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.engine import convert, load, optimise, save
    from palmkit.engine.ir import Type
    from palmkit.models.segmentation.teacher_network import (
        POSE_CHANNELS,
        POSE_FEATURES,
        PoseNetwork,
        needed,
        write,
    )

    write(POSE, tmp_path / "pose.npz", POSE_FEATURES)
    network = PoseNetwork(tmp_path / "pose.npz")
    image = np.random.default_rng(0).random((1, 224, 224, 3), np.float32)
    with torch.no_grad():
        found = network(torch.from_numpy(image).permute(0, 3, 1, 2))
    sides = (28, 14, 7)
    assert [each.shape[1:] for each in found] == [
        (channels, side, side) for channels, side in zip(POSE_CHANNELS, sides, strict=True)
    ]
    graph = optimise(convert(POSE))
    outputs = {name: Type.of(each.numpy()) for name, each in zip(network.read, found, strict=True)}
    graph = replace(graph.with_nodes(tuple(needed(graph.nodes, outputs))), outputs=outputs)
    save(graph, tmp_path / "maps.palm", shapes=())
    expected = load(tmp_path / "maps.palm").run({"input_1": 2 * image - 1})
    for name, ours in zip(network.read, found, strict=True):
        np.testing.assert_allclose(ours.numpy(), expected[name], atol=2e-3)


@pytest.mark.skipif(not TEACHER.exists(), reason="../shared/teachers is not there")
def test_teacher_in_pytorch_is_the_teacher(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.engine import load
    from palmkit.models.segmentation.teacher_network import FEATURE_CHANNELS, SelfieNetwork, write

    write(TEACHER, tmp_path / "teacher.npz")
    image = np.random.default_rng(0).random((1, 256, 256, 3), np.float32)
    model = load(TEACHER)
    (expected,) = model.run({next(iter(model.inputs)): image}).values()
    with torch.no_grad():
        logits, features = SelfieNetwork(tmp_path / "teacher.npz")(
            torch.from_numpy(image).permute(0, 3, 1, 2)
        )
    np.testing.assert_allclose(logits.sigmoid()[0, 0], expected[0, ..., 0], atol=1e-4)
    assert tuple(feature.shape[1] for feature in features) == FEATURE_CHANNELS


@pytest.mark.skipif(not CLASSIFIER.exists(), reason="../shared/foreign is not there")
def test_the_guides_encoder_knows_what_the_classifier_knows(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.engine import convert, load
    from palmkit.models.segmentation.backbone import CHANNELS, pretrained, write
    from palmkit.models.training.start import weights_of

    write(CLASSIFIER, tmp_path / "encoder.npz")
    names = ("astronaut", "chelsea", "coffee", "rocket")
    data = pytest.importorskip("skimage.data", reason="skimage is not installed")
    pictures = [
        np.asarray(Image.fromarray(getattr(data, name)()).resize((224, 224))) for name in names
    ]
    images = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2) / 255
    network = pretrained(tmp_path / "encoder.npz", images).eval()
    *_, (last, last_bias), (classes, bias) = weights_of(convert(CLASSIFIER))
    with torch.no_grad():
        maps = network(images)
        assert tuple(each.shape[1] for each in maps) == CHANNELS
        top = torch.nn.functional.conv2d(
            maps[-1], torch.from_numpy(last), torch.from_numpy(last_bias)
        )
        mean = top.clamp(0, 6).mean(dim=(2, 3))
        found = mean @ torch.from_numpy(classes).flatten(1).t() + torch.from_numpy(bias)
    model = load(CLASSIFIER)
    for picture, scores in zip(pictures, found.softmax(dim=1).numpy(), strict=True):
        (expected,) = model.run({next(iter(model.inputs)): picture[None]}).values()
        assert int(scores.argmax()) in np.argsort(expected.ravel())[-2:]


@pytest.mark.skipif(not CLASSIFIER.exists(), reason="../shared/foreign is not there")
def test_a_network_starts_from_the_published_encoder_and_leaves_as_it_is(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.engine import load
    from palmkit.models.segmentation.backbone import pretrained, write
    from palmkit.models.segmentation.dataset import Bank
    from palmkit.models.segmentation.export import export
    from palmkit.models.segmentation.train import MaskRecipe, MaskTrainer

    write(CLASSIFIER, tmp_path / "encoder.npz")
    write_pack(tmp_path / "pack")
    device = torch.device("cpu")
    bank = Bank(tmp_path / "pack", "portrait", device)
    encoder = str(tmp_path / "encoder.npz")
    recipe = MaskRecipe(network="best", batch=2, warm_up=1, encoder=encoder)
    network = cast(Any, MaskTrainer(recipe, bank, device).averaged).eval()
    image = np.random.default_rng(0).integers(0, 255, (1, 256, 256, 3)).astype(np.float32)
    seen = torch.from_numpy(image).permute(0, 3, 1, 2) / 255
    whole = pretrained(tmp_path / "encoder.npz", seen).eval()
    with torch.no_grad():
        # The maps of stride 32 are of different stages.
        for ours, known in zip(network.encoder(seen)[:-1], whole(seen)[:-1], strict=True):
            torch.testing.assert_close(ours, known, rtol=0, atol=1e-3)
        expected = network(seen).logits.sigmoid()[0, 0].numpy()
    torch.save({"averaged": network.state_dict()}, tmp_path / "checkpoint.pt")
    path = export("portrait_best", tmp_path / "checkpoint.pt", tmp_path, {})
    mask = load(path).run({"image": image})["mask"][0, ..., 0]
    np.testing.assert_allclose(mask, expected, atol=0.02)
    assert load(path).graph.metadata["kit"] == "portrait"


def test_a_network_without_a_published_encoder_takes_none(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.train import main

    given = [str(tmp_path), str(tmp_path / "out"), "--network", "fast", "--encoder", "e.npz"]
    with pytest.raises(SystemExit, match="--encoder: --network fast has no published"):
        main([*given, "--device", "cpu"])


@pytest.mark.parametrize("task", ["portrait", "portrait_best", "hair", "person_finder"])
def test_training_starts_with_the_weights_that_ship(task: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.engine import load
    from palmkit.models.segmentation.dataset import Bank
    from palmkit.models.segmentation.network import WIDTHS, MaskNetwork
    from palmkit.models.segmentation.train import MaskRecipe, MaskTrainer, begin

    path = MODELS / task / f"{task}.palm"
    write_pack(tmp_path / "pack")
    device = torch.device("cpu")
    recipe = MaskRecipe(batch=2, warm_up=1, start=str(path))
    bank = Bank(tmp_path / "pack", "portrait", device)
    trainer = MaskTrainer(recipe, bank, device, network=MaskNetwork(WIDTHS[task]))
    coarse = cast(Any, trainer.network).coarse.weight.clone()
    begin(trainer, bank)
    assert torch.equal(cast(Any, trainer.network).coarse.weight, coarse)
    side, size = SIDES[task]
    image = np.random.default_rng(0).integers(0, 255, (1, side, side, 3)).astype(np.float32)
    with torch.no_grad():
        maps = trainer.averaged.eval()(torch.from_numpy(image).permute(0, 3, 1, 2) / 255)
    expected = load(path).run({"image": image})["mask"].reshape(size, size)
    np.testing.assert_allclose(maps.logits.sigmoid()[0, 0], expected, atol=1e-4)
