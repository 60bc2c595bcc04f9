"""The views that the face mesh is rounded on."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch", reason="the recipes need torch")

from palmkit.models.face_mesh import refit, rounded
from palmkit.models.face_mesh.rounded import AT_ONCE, Views, read_views

SIZE = 32


def test_views_are_samples_one_by_one() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (5, SIZE, SIZE, 3)).astype(np.uint8)
    views = Views(pictures)
    assert len(views) == 5
    assert np.array_equal(views[3]["image"], pictures[3:4].astype(np.float32))
    assert len(views[1:]) == 4 and np.array_equal(views[-2:].pictures, pictures[3:])
    assert [each["image"].shape for each in views] == [(1, SIZE, SIZE, 3)] * 5


def test_half_of_the_views_are_disturbed_and_all_are_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    draw = np.random.default_rng(1)
    count = AT_ONCE + 10
    crops = draw.integers(0, 256, (count, SIZE, SIZE, 3)).astype(np.float32) / np.float32(255)
    faces = SimpleNamespace(part=np.array(["train"]), masked=np.array([False]))
    faces.select = lambda rows: faces
    monkeypatch.setattr(rounded, "read_labels", lambda path: [])
    monkeypatch.setattr(rounded, "read_meshes", lambda path, entries: faces)
    monkeypatch.setattr(rounded, "is_sure", lambda faces: np.array([True]))
    monkeypatch.setattr(refit, "views", lambda *given: ((crop, crop) for crop in crops))
    views = read_views(tmp_path, tmp_path)
    assert len(views) == count and views.pictures.dtype == np.uint8
    as_they_are = {crop.tobytes() for crop in np.rint(crops * 255).astype(np.uint8)}
    same = sum(view.tobytes() in as_they_are for view in views.pictures)
    assert count // 2 <= same < 0.8 * count
    again = read_views(tmp_path, tmp_path)
    assert np.array_equal(again.pictures, views.pictures)
