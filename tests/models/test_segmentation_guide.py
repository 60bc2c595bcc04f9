"""The guide, and the published networks that it and the larger network begin with or read."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image

from tests.models.segmentation_pack import SIDES, write_pack

SHARED = Path(__file__).parents[3] / "shared"
TEACHER = SHARED / "teachers" / "selfie_segmentation.tflite"
CLASSIFIER = SHARED / "foreign" / "mobilenet_v2_1.0_224_quant.tflite"
POSE = SHARED / "foreign" / "pose_detection.tflite"


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
    with pytest.raises(ValueError, match="guide.pt: expected --teacher as well"):
        read_guide(None, str(tmp_path / "guide.pt"), str(pose))
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
    random = np.random.default_rng(0)
    image = random.integers(0, 255, (1, 256, 256, 3)).astype(np.float32)
    seen = torch.from_numpy(image).permute(0, 3, 1, 2) / 255
    whole = pretrained(tmp_path / "encoder.npz", seen).eval()
    with torch.no_grad():
        # The maps of stride 32 are of different stages.
        for ours, known in zip(network.encoder(seen)[:-1], whole(seen)[:-1], strict=True):
            torch.testing.assert_close(ours, known, rtol=0, atol=1e-3)
    torch.save({"averaged": network.state_dict()}, tmp_path / "checkpoint.pt")
    for task in ("portrait", "hair"):
        side, _ = SIDES[f"{task}_best"]
        image = random.integers(0, 255, (1, side, side, 3)).astype(np.float32)
        with torch.no_grad():
            maps = network(torch.from_numpy(image).permute(0, 3, 1, 2) / 255)
        path = export(f"{task}_best", str(tmp_path / "checkpoint.pt"), tmp_path, {})
        mask = load(path).run({"image": image})["mask"][0, ..., 0]
        np.testing.assert_allclose(mask, maps.logits.sigmoid()[0, 0], atol=0.02)
        assert load(path).graph.metadata["kit"] == task
