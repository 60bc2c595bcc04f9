import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from palmkit.models.face_detector.labels import Committee
from palmkit.models.face_detector.teachers import Array, Detections, Picture
from palmkit.models.segmentation.by_eye import with_people

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "models"


def index() -> dict[str, dict[str, str]]:
    """models/index.toml, which holds only tables of plain strings and numbers."""
    tables: dict[str, dict[str, str]] = {}
    table: dict[str, str] = {}
    for line in (MODELS / "index.toml").read_text().splitlines():
        if head := re.fullmatch(r"\[(\w+)\]", line):
            table = tables.setdefault(head[1], {})
        elif pair := re.fullmatch(r'(\w+) = "?([^"]*)"?', line):
            table[pair[1]] = pair[2]
    return tables


def test_index_matches_the_files() -> None:
    tables = index()
    assert "face_detector" in tables
    for entry in tables.values():
        content = (MODELS / entry["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"]
        assert len(content) == int(entry["size_bytes"])
        assert entry["licence"] and entry["version"]
    shipped = {str(path.relative_to(MODELS)) for path in MODELS.glob("*/*.palm")}
    assert shipped <= {entry["file"] for entry in tables.values()}


def test_files_are_small() -> None:
    for path in MODELS.glob("*/*.palm"):
        most = 1_000_000 if path.stem.endswith("_best") else 300_000
        assert path.stat().st_size <= most, path.stem


def test_card_names_every_set_and_its_terms() -> None:
    from palmkit.models.face_detector.labels import TERMS

    rows = (MODELS / "face_detector/card.md").read_text().splitlines()
    for name, terms in TERMS.items():
        assert any(row.startswith(f"| {name} |") and terms in row for row in rows), name


class Rejecting(Committee):
    """Teachers that see one large face which the mesh rejects, and one that the mesh accepts."""

    def __init__(self, rejected: list[float]) -> None:
        self.boxes = np.array([rejected, [200, 0, 260, 60]], np.float32)

    def find(self, picture: Picture) -> tuple[Detections, Array]:
        return Detections(
            self.boxes, np.full(2, 0.9, np.float32), np.zeros((2, 5, 2), np.float32)
        ), self.boxes[:0]

    def refine(self, picture: Picture, found: Detections) -> tuple[Array, Array]:
        return found.points, np.array([0.0, 1.0], np.float32)


@pytest.mark.parametrize(
    ("rejected", "ignored"),
    [
        ([0, 0, 60, 60], []),  # in the hand
        ([0, 30, 60, 90], []),  # half of it
        ([0, 40, 60, 100], [[0, 40, 60, 100]]),  # a third of it
        ([100, 100, 160, 160], [[100, 100, 160, 160]]),  # elsewhere
    ],
)
def test_faces_that_the_mesh_rejects_are_ignored_where_no_hand_is(
    rejected: list[float], ignored: list[list[float]]
) -> None:
    row = {"file": "hands/subhi/1.jpg", "set": "subhi", "boxes": [[0, 0, 60, 60]]}
    label = Rejecting(rejected).label(np.zeros((200, 300, 3), np.uint8), row)
    assert label.faces[:, :4].tolist() == [[200, 0, 260, 60]]
    assert label.ignored.tolist() == ignored
    # Where no hands are labelled one may be anywhere.
    unlabelled = Rejecting(rejected).label(np.zeros((200, 300, 3), np.uint8), {**row, "boxes": []})
    assert unlabelled.ignored.tolist() == [rejected]


def test_flowers_and_codes_show_nobody_but_where_the_list_says_so() -> None:
    picture = np.zeros((200, 300, 3), np.uint8)
    with_somebody = min(name for name in with_people() if "zxing" in name)
    for name, count in (("scan/zxing/none.jpg", 0), (with_somebody, 1)):
        for kind in ("zxing", "flowers"):
            row = {"file": name, "set": kind}
            assert len(Rejecting([0, 0, 60, 60]).label(picture, row).faces) == count


def test_model_file_says_what_it_is() -> None:
    from palmkit.engine import load

    model = load(MODELS / "face_detector/face_detector.palm")
    assert model.metadata["name"] == "face_detector"
    assert model.metadata["version"] == index()["face_detector"]["version"]
    assert 0 < float(model.metadata["threshold"]) < 1
    image = np.zeros((1, 64, 96, 3), np.float32)
    outputs = model.run({"image": image})
    for stride in (8, 16, 32):
        cells = (1, 64 // stride, 96 // stride)
        assert outputs[f"score_{stride}"].shape == (*cells, 1)
        assert outputs[f"box_{stride}"].shape == (*cells, 4)
        assert outputs[f"points_{stride}"].shape == (*cells, 10)
        assert (outputs[f"box_{stride}"] > 0).all()
        assert (outputs[f"score_{stride}"] < 0.5).all()


def write_pack(folder: Path) -> None:
    """A few drawn pictures with and without a face, packed as dataset.pack does."""
    folder.mkdir()
    random = np.random.default_rng(0)
    entries: list[dict[str, Any]] = []
    with (folder / "pictures.bin").open("wb") as pictures:
        for number in range(6):
            picture = random.integers(0, 255, (96, 80, 3)).astype(np.uint8)
            path = folder / "picture.webp"
            Image.fromarray(picture).save(path, quality=70)
            face = [20, 20, 60, 70, *[40.0] * 10]
            entry = {
                "set": "aaf" if number % 2 else "grocery",
                "start": pictures.tell(),
                "size": path.stat().st_size,
                "faces": [face] if number % 2 else [],
                "ignored": [],
                "hard": number == 0,
            }
            entries.append(entry)
            pictures.write(path.read_bytes())
    (folder / "labels.json").write_text(json.dumps(entries))


def test_training_resumes_to_the_same_weights(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.face_detector.train import Recipe, trainer
    from palmkit.models.training.loop import train

    write_pack(tmp_path / "pack")
    recipe = Recipe(steps=4, batch=2, size=64, large_every=3, warm_up=2)
    device = torch.device("cpu")

    def fresh() -> Any:
        return trainer(tmp_path / "pack", recipe, None, device)

    whole = train(fresh(), tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("palmkit.models.training.loop.SAVE_EVERY", 2)
        patch.setattr("palmkit.models.training.loop.Trainer.advance", stop_after(2))
        with pytest.raises(KeyboardInterrupt):
            train(fresh(), tmp_path / "broken")
    broken = train(fresh(), tmp_path / "broken")
    states = [torch.load(path, weights_only=True) for path in (whole, broken)]
    assert states[0]["step"] == states[1]["step"] == 4
    for name, value in states[0]["averaged"].items():
        assert torch.equal(value, states[1]["averaged"][name]), name
        assert torch.equal(states[0]["network"][name], states[1]["network"][name]), name


def stop_after(steps: int) -> Any:
    """Trainer.advance that is interrupted once it has done so many steps."""
    from palmkit.models.training.loop import Trainer

    advance = Trainer.advance

    def interrupted(self: Any) -> Any:
        if self.step == steps:
            raise KeyboardInterrupt
        return advance(self)

    return interrupted


def test_the_teacher_judges_pictures_before_they_are_made_worse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.face_detector.train import Recipe, trainer

    monkeypatch.setattr("palmkit.models.detection.compose.degraded", torch.zeros_like)
    seen: dict[str, Any] = {}

    def judge(images: Any) -> tuple[list[Any], list[Any]]:
        seen["teacher"] = images.clone()
        return [torch.full((4, side, side), 0.5) for side in (8, 4, 2)], []

    write_pack(tmp_path / "pack")
    training = trainer(tmp_path / "pack", Recipe(batch=4, size=64), None, torch.device("cpu"))
    training.teacher = judge
    training.network.register_forward_pre_hook(lambda _, given: seen.update(student=given[0]))
    loss, _ = training.loss()
    assert torch.isfinite(loss)
    assert seen["student"][0].abs().max() == 0 < seen["teacher"][0].abs().max()
    assert torch.equal(seen["student"][1:], seen["teacher"][1:])
