import json
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
SMALL = ("--device", "cpu", "--pictures", "24", "--held-out", "8", "--batch", "4")


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


def test_arrays_bring_a_network_back() -> None:
    from palmkit.models.icons.network import SqueezeNet, folded, restored
    from palmkit.models.icons.pruning import Masks

    torch.manual_seed(0)
    network = SqueezeNet()
    masks = Masks(network)
    masks.keep_weights(0.1)
    plain = folded(network)
    again = restored({name: value.numpy() for name, value in plain.state_dict().items()})
    image = 255 * torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(plain(image), again(image))
    # Another's masks follow from what is not zero.
    other = Masks(SqueezeNet())
    other.take(masks.weights)
    assert other.density == pytest.approx(masks.density)
    assert all(torch.equal(a, b) for a, b in zip(other.alive, masks.alive, strict=True))


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
    bits = [2 + at % 3 for at in range(len(gone))]
    add_codebooks(network, bits)
    remove_codebooks(network)
    for conv, zero, most in zip(network.convolutions(), gone, bits, strict=True):
        assert not conv.weight[zero].any()
        assert len(set(conv.weight[~zero].tolist())) <= 2**most - 1
    assert entropy_bytes(network) < 0.3 * before


def test_bits_go_where_they_mend_most() -> None:
    from palmkit.models.icons.codebooks import (
        BITS,
        add_codebooks,
        choose_bits,
        entropy_bytes,
        remove_codebooks,
    )
    from palmkit.models.icons.network import SqueezeNet, folded

    torch.manual_seed(0)
    network = folded(SqueezeNet())
    for conv in network.convolutions():
        conv.weight.data.mul_(8.0 * (torch.rand_like(conv.weight) < 0.1))
    # A layer whose weights are few already needs no more.
    plain = network.convolutions()[3].weight.data
    plain.copy_(plain.sign() * 0.4)
    weights = [conv.weight.clone() for conv in network.convolutions()]
    images = 255 * torch.rand(4, 3, 64, 64)
    tight, wide = (choose_bits(network, images, most) for most in (65_000, 80_000))
    assert tight[3] == wide[3] == BITS[0]
    assert sum(tight) < sum(wide) and set(wide) <= set(BITS)
    for conv, weight in zip(network.convolutions(), weights, strict=True):
        assert torch.equal(conv.weight, weight)
    add_codebooks(network, tight)
    remove_codebooks(network)
    assert 0.97 * 65_000 < entropy_bytes(network) <= 65_000


def test_new_pictures_take_the_places_of_the_oldest() -> None:
    from palmkit.models.icons.pictures import Painters, Pictures

    def some(first: int, end: int) -> Any:
        return np.zeros((end - first, 4, 4, 3), np.uint8), np.arange(first, end)

    pictures = Pictures(some(0, 5), torch.device("cpu"), 8)
    assert set(pictures.varied(200)[1].tolist()) == {*range(5)}
    pictures.add(some(5, 11))
    assert pictures.count == 8 and pictures.kinds.tolist() == [8, 9, 10, 3, 4, 5, 6, 7]
    assert set(pictures.varied(300)[1].tolist()) == {*range(3, 11)}
    # Painters go on from a number, and draw what anybody draws by it.
    painters = Painters(1, LOOKS["plain"], 1)
    try:
        painters.begin(7)
        while not (parts := painters.finished()):
            pass
        drawn, kinds = parts[0]
        again, same = draw.draw_set(1, 3, LOOKS["plain"], 7, processes=1)
        assert np.array_equal(drawn[:3], again) and np.array_equal(kinds[:3], same)
    finally:
        painters.close()


def test_recipe_from_pictures_to_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it in seconds: nothing is learned, every file runs, and small ones are small."""
    from palmkit.models.icons import evaluate, export, squeeze

    monkeypatch.setattr(squeeze, "BASELINE_DENSITIES", (0.2,))
    monkeypatch.setattr(squeeze, "OURS", ((0.07, 50_000), (0.05, 40_000)))
    monkeypatch.setattr(squeeze, "JUDGES", 4)
    out = str(tmp_path / "weights")
    # Stopped in the middle, and taken up again.
    squeeze.main([out, "--minutes", "0.3", "--pause", "0.1", *SMALL])
    assert (tmp_path / "weights/partial.pt").exists()
    assert not (tmp_path / "weights/baseline.npz").exists()
    squeeze.main([out, "--minutes", "0.05", *SMALL])
    results = json.loads((tmp_path / "weights/results.json").read_text())
    named = ["float, one cycle", "float", "ours-0.07", "deep-compression-0.2", "ours-0.05"]
    assert [each["name"] for each in results] == named
    # Again: all is there.
    squeeze.main([out, "--minutes", "0.01", *SMALL])
    assert json.loads((tmp_path / "weights/results.json").read_text()) == results
    files = export.export(tmp_path / "weights", tmp_path / "files")
    assert [*files] == ["float", "deep-compression-0.2", "ours-0.07", "ours-0.05"]
    sizes = {name: path.stat().st_size for name, path in files.items()}
    assert sizes["float"] > 2_900_000
    assert sizes["ours-0.07"] < sizes["float"] / 52 and sizes["ours-0.05"] < sizes["float"] / 64
    weights = export.networks(tmp_path / "weights/ours.npz")["ours-0.07"]
    whole = export.as_graph(weights, "whole", 64, tmp_path)
    image = {"image": np.full((1, 3, 64, 64), 99, np.float32)}
    wanted = engine.Model(whole).run(image)["logits"]
    found = engine.load(files["ours-0.07"]).run(image)["logits"]
    np.testing.assert_allclose(found, wanted, atol=2e-2 * float(np.abs(wanted).max()) + 1e-3)
    measured = evaluate.evaluate(tmp_path / "files", tmp_path, 4, "plain", "told <so>")
    assert [each.name for each in measured] == [*files]
    told = json.loads((tmp_path / "metrics.json").read_text())
    for each in told["networks"]:
        assert each["pictures"]["all"]["pictures"] == 4
        assert set(each["pictures"]) - {"all"} <= set(CLASSES)
        assert 0 < each["pictures"]["all"]["mean"] < 1
    page = (tmp_path / "report.html").read_text()
    assert "told &lt;so&gt;" in page and page.count("deep-compression-0.2") > 2


def test_best_is_the_smallest_that_is_allowed() -> None:
    from palmkit.models.icons.evaluate import Measured, best

    right = np.arange(1000)
    files = [
        Measured(name, size, right < good, {})
        for name, size, good in (
            ("float", 1000, 900), ("deep-compression", 15, 899), ("ours-a", 50, 892),
            ("ours-b", 20, 880),
        )
    ]  # fmt: skip
    assert best(files, 1.0) == files[2] and best(files, 2.5) == files[3]
    assert best(files, 0.5) is None
    assert files[2].points_lost(files[0]) == pytest.approx(0.8)
    assert files[2].points_error(files[0]) == pytest.approx(0.282, abs=0.001)
