from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.models.icons import draw
from palmkit.models.icons.draw import LOOKS
from palmkit.models.icons.shapes import CLASSES, SHAPES

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
SMALL = ("--minutes", "0.02", "--pictures", "24", "--held-out", "8", "--batch", "4")


def test_pictures_follow_from_the_seed() -> None:
    pictures, kinds = draw.draw_set(1, 12, processes=1)
    again, same = draw.draw_set(1, 6, start=6, processes=2)
    assert pictures.shape == (12, 96, 96, 3) and pictures.dtype == np.uint8
    assert np.array_equal(again, pictures[6:]) and np.array_equal(same, kinds[6:])
    assert not np.array_equal(draw.draw_set(2, 12, processes=1)[0], pictures)
    assert draw.draw_set(1, 2, LOOKS["plain"], processes=1)[0].shape == (2, 64, 64, 3)


def test_every_class_is_drawn() -> None:
    assert len(CLASSES) == len(set(CLASSES)) == 24
    kinds = draw.draw_set(1, 400, processes=1)[1]
    assert set(kinds.tolist()) == set(range(24))
    for shape in SHAPES:
        for line in shape(np.random.default_rng(0)):
            assert line.ndim == 2 and np.isfinite(line).all() and np.abs(line).max() < 1.3


def test_folding_changes_nothing() -> None:
    from palmkit.models.icons.network import SqueezeNet, folded

    torch.manual_seed(0)
    network = SqueezeNet()
    for layer in network.layers():
        norm: Any = layer.norm
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
        torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
        torch.nn.init.normal_(norm.bias)
    network.eval()
    image = 255 * torch.rand(2, 3, 96, 96)
    with torch.no_grad():
        wanted, found = network(image), folded(network)(image)
    assert float((wanted - found).abs().max()) < 1e-4 * float(wanted.abs().max())


def test_unfolding_and_narrowing_change_nothing() -> None:
    from palmkit.models.icons.network import SqueezeNet, folded, restored, unfolded
    from palmkit.models.icons.pruning import Masks, narrowed

    torch.manual_seed(0)
    network = SqueezeNet()
    masks = Masks(network)
    masks.keep_weights(0.1)
    image = 255 * torch.rand(4, 3, 64, 64)
    network(image)
    plain = folded(network)
    again = unfolded(plain, image)
    small = narrowed(again)
    assert sum(conv.weight.numel() for conv in small.convolutions()) < masks.size
    slim = folded(small)
    arrays = {name: value.numpy() for name, value in slim.state_dict().items()}
    with torch.no_grad():
        wanted = plain(image)
        for found in (again, small, slim, restored(arrays)):
            found.eval()
            assert float((wanted - found(image)).abs().max()) < 1e-3 * float(wanted.abs().max())
        # Its statistics are the pictures', so training sees what evaluating does.
        for layer in again.layers():
            norm: Any = layer.norm
            assert torch.isfinite(norm.running_var).all()


def test_masks_take_what_is_useless_along() -> None:
    from palmkit.models.icons.network import SqueezeNet, folded
    from palmkit.models.icons.pruning import Masks

    torch.manual_seed(0)
    masks = Masks(SqueezeNet())
    masks.keep_weights(0.1)
    assert masks.density == pytest.approx(0.1, abs=0.01)
    # A squeeze that is gone takes what reads it along, and what only it reads.
    masks.alive[1][3] = 0
    masks.settle()
    assert not masks.weights[1][3].any() and not masks.weights[2][:, 3].any()
    plain = folded(masks.network)
    for conv, mask in zip(plain.convolutions(), masks.weights, strict=True):
        assert not (conv.weight[mask == 0]).any()


def test_codebooks_keep_zeros_and_few_values() -> None:
    from palmkit.models.icons.codebooks import add_codebooks, entropy_bytes, remove_codebooks
    from palmkit.models.icons.network import SqueezeNet, folded

    torch.manual_seed(0)
    network = folded(SqueezeNet())
    for conv in network.convolutions():
        conv.weight.data.mul_(torch.rand_like(conv.weight) < 0.2)
    gone = [conv.weight == 0 for conv in network.convolutions()]
    before = entropy_bytes(network)
    add_codebooks(network, 3)
    remove_codebooks(network)
    for conv, zero in zip(network.convolutions(), gone, strict=True):
        assert not conv.weight[zero].any()
        assert len(set(conv.weight[~zero].tolist())) <= 7
    assert entropy_bytes(network) < 0.3 * before


def test_recipe_from_pictures_to_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it in seconds: nothing is learned, every file runs, and small ones are small."""
    from palmkit.models.icons import adapt, evaluate, export, squeeze

    monkeypatch.setattr(squeeze, "BASELINE_DENSITIES", (0.2,))
    monkeypatch.setattr(squeeze, "DENSITIES", (0.07,))
    squeeze.main([str(tmp_path / "weights"), "--device", "cpu", *SMALL])
    files = export.export(tmp_path / "weights", tmp_path / "files")
    assert [*files] == ["float", "deep-compression-0.2", "ours-0.07-4"]
    sizes = {name: path.stat().st_size for name, path in files.items()}
    assert sizes["float"] > 2_900_000
    assert sizes["ours-0.07-4"] < sizes["float"] / 50
    weights = export.networks(tmp_path / "weights/ours.npz")["ours-0.07-4"]
    whole = export.as_graph(weights, "whole", 96, tmp_path)
    image = {"image": np.full((1, 3, 96, 96), 99, np.float32)}
    wanted = engine.Model(whole).run(image)["logits"]
    found = engine.load(files["ours-0.07-4"]).run(image)["logits"]
    np.testing.assert_allclose(found, wanted, atol=2e-2 * float(np.abs(wanted).max()) + 1e-3)
    measured = evaluate.evaluate(tmp_path / "files", tmp_path, 4, "hard", "told <so>")
    assert {each.name for each in measured} == set(files)
    assert "told &lt;so&gt;" in (tmp_path / "report.html").read_text()
    # And on from there with plain pictures.
    plain, few = str(tmp_path / "plain"), ("--pictures", "24", "--held-out", "8", "--batch", "4")
    monkeypatch.setattr(adapt, "DENSITY", 0.05)
    monkeypatch.setattr(adapt, "STATISTICS", 8)
    adapt.main([str(tmp_path / "weights"), plain, "--minutes", "0.02", *few])
    files = export.export(tmp_path / "plain", tmp_path / "plain", "plain")
    assert [*files] == ["float", "deep-compression-0.2", "ours-0.05-4"]
    assert files["ours-0.05-4"].stat().st_size < sizes["ours-0.07-4"]
    evaluate.evaluate(tmp_path / "plain", tmp_path, 4, "plain", "")


def test_best_is_the_smallest_that_is_allowed() -> None:
    from palmkit.models.icons.evaluate import Measured, best

    files = [Measured("float", 1000, 90.0), Measured("a", 50, 89.2), Measured("b", 20, 88.0)]
    assert best(files, 1.0) == files[1] and best(files, 2.5) == files[2]
    assert best(files, 0.5) is None
