"""A training starts from weights that shipped, and its pictures are blurred."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is in the extra train")
pytest.importorskip("onnx", reason="onnx is in the extra onnx")

from palmkit.engine import convert  # noqa: E402
from palmkit.models.detection.network import SIZES, DetectorNetwork, ExportedNetwork  # noqa: E402
from palmkit.models.face_mesh import network as meshes  # noqa: E402
from palmkit.models.face_mesh.network import FaceMesh  # noqa: E402
from palmkit.models.training.export import export_onnx  # noqa: E402
from palmkit.models.training.pixels import blur  # noqa: E402
from palmkit.models.training.start import start_from  # noqa: E402


def test_a_network_goes_on_from_what_was_exported(tmp_path: Path) -> None:
    torch.manual_seed(0)
    images = torch.rand(4, 3, 64, 64)
    old = DetectorNetwork(5).train()
    for _ in range(3):
        old(images)
    names = [f"{kind}_{stride}" for stride in (8, 16, 32) for kind in ("score", "box", "points")]
    expected = [level.distances for level in old.eval()(images)]
    exported = ExportedNetwork(copy.deepcopy(old))
    export_onnx(exported, torch.zeros(1, 64, 64, 3), names, tmp_path / "old.onnx")
    new = DetectorNetwork(5)
    start_from(new, convert(tmp_path / "old.onnx"), images, unit=255)
    for is_training in (False, True):
        # In training the statistics are those of the same images.
        found = [level.distances for level in new.train(is_training)(images)]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.detach(), other.detach(), rtol=2e-3, atol=2e-3)
    with pytest.raises(ValueError, match="expected a model with layers of"):
        start_from(DetectorNetwork(5, SIZES["best"]), convert(tmp_path / "old.onnx"), images)


def graph_of(network: Any, folder: Path) -> Any:
    """Return a mesh network's graph."""
    exported = meshes.ExportedNetwork(copy.deepcopy(network))
    names = ("points", "visibility", "presence")
    export_onnx(exported, torch.zeros(1, 64, 64, 3), names, folder / "of.onnx")
    return convert(folder / "of.onnx")


def test_a_larger_network_grows_out_of_what_was_exported(tmp_path: Path) -> None:
    torch.manual_seed(0)
    images = torch.rand(4, 3, 64, 64)
    old = FaceMesh(64, meshes.Size(reduced=(2, 4, 6), code=12)).train()
    for _ in range(3):
        old(images)
    expected = old.eval()(images)
    graph = graph_of(old, tmp_path)
    larger = meshes.Size(24, (48, 96, 128, 192), (2, 4, 4, 3), (3, 5, 5, 5), (2, 4, 6), 16, 8)
    new = FaceMesh(64, larger)
    assert new.finder is not None
    with pytest.raises(ValueError, match="expected a model with layers of"):
        start_from(new, graph, images, 255, tuple(new.finder.modules()))
    start_from(new, graph, images, 255, tuple(new.finder.modules()), grow=True)
    found = new.eval()(images)
    np.testing.assert_allclose(found.points.detach(), expected.points.detach(), atol=2e-3)
    np.testing.assert_allclose(found.visibility.detach(), expected.visibility.detach(), atol=2e-2)
    with pytest.raises(ValueError, match="expected a model with layers of"):
        start_from(old, graph_of(new, tmp_path), images, grow=True)


def test_blur_spreads_and_keeps_the_light() -> None:
    image = torch.zeros(2, 3, 21, 21)
    image[:, :, 10, 10] = 1
    sharp, across = blur(image, torch.tensor([[0.0, 0.0], [2.0, 0.0]]))
    assert torch.equal(sharp, image[0])
    assert across.sum(dim=(1, 2)).allclose(torch.ones(3), atol=1e-5)
    assert across[0, 10, 8] > 0.05 and across[0, 8, 10] == 0
    plain = torch.full((1, 3, 9, 9), 0.5)
    assert blur(plain, torch.tensor([[1.5, 3.0]])).allclose(plain)
