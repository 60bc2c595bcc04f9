from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.engine import convert, load, save
from palmkit.kits import FaceDetector, Faces
from palmkit.kits.crop import Crop
from palmkit.kits.kit import shipped_model
from palmkit.models.face_mesh import presence
from palmkit.models.face_mesh.presence import (
    Place,
    covered,
    fitted,
    lines,
    places,
    with_presence,
)


def test_the_fit_is_where_the_likelihood_is_highest() -> None:
    random = np.random.default_rng(0)
    inputs = random.normal(0, (1, 20), (4000, 2)) + (3, -7)
    chance = 1 / (1 + np.exp(-(2 * inputs[:, 0] - 0.1 * inputs[:, 1] - 6)))
    is_face = random.random(4000) < chance
    each, none = np.ones(4000), np.zeros(4000)
    row = fitted(inputs, is_face, each, none, ridge=0.0)
    np.testing.assert_allclose(row, (2, -0.1, -6), rtol=0.1)
    share = 1 / (1 + np.exp(-(inputs @ row[:-1] + row[-1])))
    full = np.concatenate([inputs, np.ones((4000, 1))], axis=1)
    np.testing.assert_allclose(full.T @ (share - is_face), 0, atol=1e-6)
    # Half of the weight is half of the crops.
    half = np.where(np.arange(4000) < 2000, 1.0, 0.0)
    np.testing.assert_allclose(
        fitted(inputs, is_face, half, none, ridge=0.0)[:-1],
        fitted(inputs[:2000], is_face[:2000], each[:2000], none[:2000], ridge=0.0)[:-1],
        rtol=1e-6,
    )
    # From any row on it is the same row; the ridge keeps to that row, but for the share of faces.
    own = np.array((1.5, -0.1, -4.0))
    logits = inputs @ own[:-1] + own[-1]
    np.testing.assert_allclose(own + fitted(inputs, is_face, each, logits, 0.0), row, rtol=1e-6)
    drawn = own + fitted(inputs, is_face, each, logits, 1e7)
    np.testing.assert_allclose(drawn[:-1], own[:-1], atol=0.01)
    share = 1 / (1 + np.exp(-(inputs @ drawn[:-1] + drawn[-1])))
    assert share.mean() == pytest.approx(is_face.mean(), abs=0.02)


def test_only_presence_changes(tmp_path: Any) -> None:
    before = convert(shipped_model("face_mesh"))
    width = before.constants[presence.WEIGHT].shape[1]
    row = np.append(np.zeros(width), np.log(3.0))
    save(with_presence(before, row), tmp_path / "mesh.palm", weights="smallest", shapes=[])
    picture = np.random.default_rng(1).random((1, 160, 160, 3)).astype(np.float32) * 255
    own, made = (
        load(each).run({"image": picture})
        for each in (shipped_model("face_mesh"), tmp_path / "mesh.palm")
    )
    assert made["presence"][0, 0] == pytest.approx(0.75, abs=1e-5)
    assert own["presence"][0, 0] < 0.5
    for name in ("points", "visibility"):
        np.testing.assert_array_equal(own[name], made[name])


class Everywhere:
    """A detector that finds a face of 50 pixels in any picture."""

    def detect(self, picture: NDArray[np.uint8]) -> Faces:
        keypoints = np.array([[[20, 20], [40, 20], [30, 30], [22, 40], [38, 40]]], np.float32)
        boxes, scores = np.array([[5, 5, 50, 50]], np.float32), np.ones(1, np.float32)
        return Faces(picture.shape[1], picture.shape[0], boxes, scores, keypoints)


def test_crops_are_of_faces_and_of_what_is_none() -> None:
    picture = np.zeros((100, 120, 3), np.uint8)
    detectors = (cast(FaceDetector, Everywhere()),)
    entry = {"file": "a.jpg", "set": "grocery", "part": "train", "faces": [], "ignored": []}

    def kinds(**changed: Any) -> list[str]:
        return [place.kind for place in places(entry | changed, picture, detectors)]

    crops = presence.NEAR + presence.FAR
    assert kinds() == ["crop"] * crops + ["found"]
    assert kinds(part="dev") == ["crop"] * 3 + ["found"]
    # What a detector finds in a picture of hands may be the face behind them.
    assert kinds(set="obb") == ["crop"] * crops
    assert kinds(set="oi_crowd") == kinds(ignored=[[0, 0, 9, 9]]) == []
    face = [10, 10, 50, 60, 20, 20, 40, 20, 30, 30, 22, 40, 38, 40, 1]
    small, unknown = [*face[:2], 15, 17, *face[4:]], [float("nan"), *face[1:]]
    assert kinds(faces=[face] * 5) == ["face", "hidden", "face"] * presence.MOST
    assert kinds(faces=[face, small, unknown], part="dev") == ["face", "hidden"]


def test_a_share_of_the_face_is_hidden() -> None:
    face, other = np.zeros((60, 60, 3), np.float32), np.ones((60, 60, 3), np.float32)
    for angle, side in ((0.0, np.s_[:, 40:]), (np.pi / 2, np.s_[40:]), (np.pi, np.s_[:, :20])):
        # Of a face of 40 of the crop's 60 columns a quarter is ten.
        shown = covered(face, other, Place(Crop(5, 5, 30), "hidden", 20, (0.25, angle)))
        expected = face.copy()
        expected[side] = 1
        np.testing.assert_array_equal(shown, expected)


def test_what_passes_is_told_by_part_and_size() -> None:
    kind = np.array(["face", "face", "crop", "found", "face", "crop", "hidden"])
    side = np.array([10.0, 30, 30, 30, 30, 30, 30])
    part = np.array(["dev", "dev", "dev", "dev", "train", "validation", "dev"])
    seen = presence.Seen(np.zeros((7, 2)), np.zeros(7), kind, side, part)
    assert list(lines(seen, np.array([1.0, -1, 1, -1, 1, -1, 1]))) == [
        "validation: 0 of 1 crops, 0 of 0 found, 0 of 0 smaller faces, 0 of 0 larger faces,"
        " 0 of 0 hidden ones",
        "dev: 1 of 1 crops, 0 of 1 found, 1 of 1 smaller faces, 0 of 1 larger faces,"
        " 1 of 1 hidden ones",
    ]


def test_the_command_fits_the_row_or_moves_its_bias(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fitted, it tells faces from what is found; as many larger faces pass as before."""
    before = convert(shipped_model("face_mesh"))
    weights, bias = (before.constants[name][-1] for name in (presence.WEIGHT, presence.BIAS))
    random = np.random.default_rng(2)
    kind = np.array(["face", "hidden", "crop", "found"] * 150)
    inputs = random.normal(0, 1, (600, len(weights)))
    inputs[:, 0] += np.where(np.isin(kind, ("face", "hidden")), 2, -2)
    part = np.repeat(["train", "validation", "dev"], 200)
    seen = presence.Seen(inputs, inputs @ weights + bias, kind, np.full(600, 30.0), part)
    monkeypatch.setattr(presence, "look", lambda *_: seen)
    (tmp_path / "labels.jsonl").touch()
    files = [str(tmp_path), str(tmp_path / "labels.jsonl"), str(shipped_model("face_mesh"))]

    def apart(logits: NDArray[np.float64]) -> float:
        is_face = np.isin(kind, ("face", "hidden"))
        return float((logits[is_face].mean() - logits[~is_face].mean()) / logits.std())

    def made(*options: str) -> tuple[NDArray[np.float32], float]:
        presence.main([*files, str(tmp_path / "out.palm"), *options])
        constants = convert(tmp_path / "out.palm").constants
        return constants[presence.WEIGHT][-1], float(constants[presence.BIAS][-1])

    row, offset = made("--shift", "-1.5")
    np.testing.assert_array_equal(row, weights)
    assert offset == pytest.approx(bias - 1.5, abs=1e-3)
    row, offset = made()
    logits = inputs @ row + offset
    kept = (part == "validation") & (kind == "face")
    assert (logits[kept] > 0).sum() == pytest.approx((seen.logits[kept] > 0).sum(), abs=1)
    assert apart(logits) > apart(seen.logits)
    assert capsys.readouterr().out.count("after") == 2
