"""The training of mask networks and of the finder of people."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.models.segmentation_pack import SIDES, write_pack

MODELS = Path(__file__).parents[2] / "models"


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
    path = export("portrait", str(checkpoint), tmp_path / "out", {})
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
    made = export("person_finder", str(checkpoint), tmp_path / "out", {})
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


def test_a_network_without_a_published_encoder_takes_none(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.train import main

    given = [str(tmp_path), str(tmp_path / "out"), "--network", "fast", "--encoder", "e.npz"]
    with pytest.raises(SystemExit, match="--encoder: --network fast has no published"):
        main([*given, "--device", "cpu"])
    with pytest.raises(SystemExit, match="--stage: expected one of guide, mask, folded, got fold"):
        main([*given, "--device", "cpu", "--stage", "fold"])
    with pytest.raises(SystemExit, match="--stage folded: expected --start as well"):
        main([*given, "--device", "cpu", "--stage", "folded"])


@pytest.mark.parametrize("task", SIDES)
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


def test_a_folded_network_goes_on_from_exactly_what_shipped(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.engine import load
    from palmkit.models.segmentation.checkpoints import read_network
    from palmkit.models.segmentation.dataset import Bank
    from palmkit.models.segmentation.train import MaskRecipe, MaskTrainer, begin
    from palmkit.models.training.loop import train

    path = MODELS / "portrait" / "portrait.palm"
    write_pack(tmp_path / "pack")
    device = torch.device("cpu")
    bank = Bank(tmp_path / "pack", "portrait", device)
    recipe = MaskRecipe(batch=4, warm_up=1, steps=1, stage="folded", start=str(path))
    trainer = MaskTrainer(recipe, bank, device, read_network(path))
    begin(trainer, bank)
    image = np.random.default_rng(0).integers(0, 255, (1, 256, 256, 3)).astype(np.float32)
    given = torch.from_numpy(image).permute(0, 3, 1, 2) / 255
    expected = load(path).run({"image": image})["mask"][0, ..., 0]
    # In training too, where normalisations would take the batch's statistics.
    maps = trainer.network.train()(given)
    np.testing.assert_allclose(maps.logits.sigmoid()[0, 0].detach(), expected, atol=1e-4)
    checkpoint = train(trainer, tmp_path / "run")
    with torch.no_grad():
        later, here = (
            network(given).logits for network in (read_network(checkpoint), trainer.averaged.eval())
        )
    torch.testing.assert_close(later, here)


def test_nobody_asks_the_guide_where_it_is_known_that_nobody_is(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.compose import Batch
    from palmkit.models.segmentation.dataset import Bank
    from palmkit.models.segmentation.network import Maps
    from palmkit.models.segmentation.train import MaskRecipe, MaskTrainer

    class Everybody(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def forward(self, images: Any) -> Maps:
            logits = torch.full_like(images[:, :1], 9.0)
            return Maps(logits, logits, [])

    write_pack(tmp_path / "pack")
    device = torch.device("cpu")
    recipe = MaskRecipe(batch=3, pool=1, truth=0.5)
    bank = Bank(tmp_path / "pack", "portrait", device)
    trainer = MaskTrainer(recipe, bank, device, Everybody())
    target, weight = torch.zeros(3, 1, 256, 256), torch.ones(3, 1, 256, 256)
    # Of the first picture a part is unknown; somebody is in the second, nobody in the third.
    weight[0, 0, :9] = 0
    target[1, 0, :9] = 1
    images = torch.rand(3, 3, 256, 256)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "drawn", lambda: Batch(images, target, weight))
        patch.setattr("palmkit.models.segmentation.train.patched", lambda batch: batch)
        trainer.renew()
    found = trainer.pool[:, 3].float()
    assert found[0, :9].min() > 0.99 and abs(found[0, 20:].mean() - 0.5) < 0.01
    assert found[1, :9].min() > 0.99 and abs(found[1, 20:].mean() - 0.5) < 0.01
    assert found[2].max() == 0


def test_a_guide_may_be_an_earlier_state_of_the_network(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.network import PORTRAIT, MaskNetwork
    from palmkit.models.segmentation.train import read_guide

    networks = [MaskNetwork(PORTRAIT).eval() for _ in range(2)]
    for number, network in enumerate(networks):
        torch.save({"averaged": network.state_dict()}, tmp_path / f"{number}.pt")
    paths = f"{tmp_path / '0.pt'},{tmp_path / '1.pt'}"
    guide = read_guide(None, paths)
    assert guide is not None
    images = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        one, other = (network(images).logits for network in networks)
        found = guide(images).logits
    assert not torch.allclose(one, other)
    torch.testing.assert_close(found, (one + other) / 2, atol=1e-3, rtol=1e-3)


def test_the_mean_of_checkpoints_is_of_their_shares(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.export import mean_weights
    from palmkit.models.segmentation.network import PORTRAIT, MaskNetwork

    one, other = str(tmp_path / "one.pt"), str(tmp_path / "other.pt")
    for path, value in ((one, 1.0), (other, 3.0)):
        network = MaskNetwork(PORTRAIT)
        torch.nn.init.constant_(network.mask.weight, value)
        torch.save({"averaged": network.state_dict()}, path)
    assert mean_weights(other)["mask.weight"].unique().tolist() == [3.0]
    mean = mean_weights(f"{one}=0.25,{other}=0.75")
    assert mean["mask.weight"].unique().tolist() == [2.5]
    with pytest.raises(ValueError, match=r"expected shares that add up to 1"):
        mean_weights(f"{one}=0.25,{other}=0.5")
    with pytest.raises(ValueError, match=r"expected a share after =, such as A\.pt=0\.6"):
        mean_weights(f"{one}=half,{other}=0.5")


def test_weights_of_millions_are_cut_off_where_float16_holds_them(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.segmentation.export import LARGEST, mean_weights
    from palmkit.models.segmentation.network import PORTRAIT, MaskNetwork

    network = MaskNetwork(PORTRAIT)
    torch.nn.init.constant_(network.mask.weight, -3e7)
    torch.save({"averaged": network.state_dict()}, tmp_path / "one.pt")
    assert mean_weights(str(tmp_path / "one.pt"))["mask.weight"].unique().tolist() == [-LARGEST]
    assert LARGEST < 65504
