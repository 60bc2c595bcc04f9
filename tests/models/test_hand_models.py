import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "models"
FILES = {name: MODELS / name / f"{name}.palm" for name in ("hand_detector", "hand_landmarks")}
GESTURES = (
    *("fist", "open_palm", "one", "two", "three", "four", "ok"),
    *("thumb_up", "thumb_down", "finger_heart", "other"),
)


def test_weights_fit_together() -> None:
    assert sum(path.stat().st_size for path in FILES.values()) <= 2_500_000


@pytest.mark.parametrize("name", FILES)
def test_card_names_every_set_and_its_terms(name: str) -> None:
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.face_detector.labels import TERMS
    from palmkit.models.hand_detector.dataset import DETECTOR_WEIGHTS

    rows = (MODELS / name / "card.md").read_text().splitlines()
    for each in DETECTOR_WEIGHTS:
        assert any(row.startswith(f"| {each} |") and TERMS[each] in row for row in rows), each


def test_detector_says_what_it_is() -> None:
    from palmkit.engine import load

    model = load(FILES["hand_detector"])
    assert model.metadata["name"] == "hand_detector"
    assert 0 < float(model.metadata["threshold"]) < 1
    outputs = model.run({"image": np.zeros((1, 64, 96, 3), np.float32)})
    for stride in (8, 16, 32):
        cells = (1, 64 // stride, 96 // stride)
        assert outputs[f"score_{stride}"].shape == (*cells, 1)
        assert outputs[f"box_{stride}"].shape == (*cells, 4)
        assert outputs[f"points_{stride}"].shape == (*cells, 4)
        assert (outputs[f"score_{stride}"] < 0.5).all()


def test_landmarks_say_what_they_are() -> None:
    from palmkit.engine import load

    model = load(FILES["hand_landmarks"])
    assert model.metadata["name"] == "hand_landmarks"
    assert tuple(model.metadata["gestures"].split()) == GESTURES
    size = model.inputs["image"].dims[1]
    image = np.zeros((1, size, size, 3), np.float32)
    outputs = model.run({"image": image, "up": np.array([[0, -1]], np.float32)})
    assert outputs["landmarks"].shape == (1, 21, 3)
    assert outputs["landmarks"][0, 0, 2] == 0
    assert outputs["gesture"].shape == (1, 11)
    assert outputs["gesture"].sum() == pytest.approx(1, abs=1e-4)
    assert outputs["presence"].item() < 0.5
    assert 0 <= outputs["handedness"].item() <= 1


def hand(turn: float = 0.0, thumb: bool = False) -> np.ndarray[Any, Any]:
    """21 landmarks of a flat hand of palm length 100, or of a fist with its thumb out."""
    points = np.zeros((21, 3), np.float32)
    points[1:5, :2] = [[30, -25], [50, -50], [65, -75], [80, -95]]
    for finger, x in enumerate((28, 0, -22, -40)):
        steps = (0, 20, 5, -20) if thumb else (0, 40, 65, 85)
        for joint, out in enumerate(steps):
            points[5 + 4 * finger + joint, :2] = x, -100 + 6 * abs(finger - 1) - out
    if thumb:
        points[1:5, :2] = [[30, -30], [60, -50], [95, -50], [130, -50]]
    cos, sin = np.cos(turn), np.sin(turn)
    points[:, :2] = points[:, :2] @ np.array([[cos, sin], [-sin, cos]])
    return points + np.array([200, 200, 0], np.float32)


def test_a_thumb_is_up_or_down_by_the_picture() -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.hand_landmarks.network import THUMB, with_direction

    shapes = torch.zeros(1, 10)
    shapes[0, THUMB] = 1
    landmarks = torch.from_numpy(hand(thumb=True))[None]
    for up, name in (((1, 0), "thumb_up"), ((-1, 0), "thumb_down"), ((0, -1), "other")):
        gesture = with_direction(shapes, landmarks, torch.tensor([up], dtype=torch.float32))
        assert GESTURES[int(gesture.argmax())] == name
        assert float(gesture.sum()) == pytest.approx(1, abs=1e-5)


def test_a_finger_heart_crosses_thumb_and_index() -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.hand_landmarks.compose import finger_hearts

    torch.manual_seed(0)
    hands = torch.from_numpy(hand(thumb=True))[None].repeat(50, 1, 1) / 300
    hearts = finger_hearts(hands)
    palm = 100 / 300
    apart = (hearts[:, 4, :2] - hearts[:, 8, :2]).norm(dim=1)
    assert (apart < 0.6 * palm).all()
    untouched = [0, 9, *range(10, 21)]
    assert (hearts[:, untouched] - hands[:, untouched]).abs().max() < 0.15 * palm


@pytest.mark.parametrize("turn", [0, 1, 2.5])
def test_finger_rule_and_direction(turn: float) -> None:
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.hand_landmarks.pipelines import finger_rule

    assert finger_rule(hand(turn)) == "open_palm"
    assert finger_rule(hand(-np.pi / 2, thumb=True)) == "thumb_up"
    assert finger_rule(hand(np.pi / 2, thumb=True)) == "thumb_down"


def test_macro_f1_counts_classes_alike() -> None:
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.hand_landmarks.evaluate import macro_f1

    pairs = [("one", "one")] * 8 + [("two", "two"), ("two", "none")]
    assert macro_f1(pairs) == pytest.approx((1 + 2 / 3) / 2)
    assert macro_f1([("one", "none")]) == 0


def write_pack(folder: Path) -> None:
    """Drawn pictures with and without a hand, packed as dataset.pack does."""
    from palmkit.models.training.pack import write_pack as write

    random = np.random.default_rng(0)
    for name in ("hands", "others"):
        entries = [
            {
                "file": f"{name}/{number}.jpg",
                "set": "subhi" if name == "hands" else "clothing",
                "hard": False,
                "hands": [
                    {
                        "landmarks": (hand() * 0.4).round(1).tolist(),
                        "right": 1.0,
                        "spread": 0.02,
                        "gesture": ["open_palm", "fist", "thumb_up", None][number],
                    }
                ]
                if name == "hands"
                else [],
                "ignored": [],
            }
            for number in range(4)
        ]
        picture = random.integers(0, 255, (120, 140, 3)).astype(np.uint8)

        def drawn(_: Any, picture: np.ndarray[Any, Any] = picture) -> np.ndarray[Any, Any]:
            return picture

        write(folder / name, entries, drawn, 60)


def test_training_runs_and_resumes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.hand_detector import train as detector
    from palmkit.models.hand_landmarks import train as landmarks
    from palmkit.models.training import loop

    write_pack(tmp_path / "pack")
    device = torch.device("cpu")
    for number, steps in enumerate((1, 2)):
        recipe = detector.Recipe(steps=steps, batch=2, size=96, large_every=2, warm_up=1)
        trainer: loop.Trainer = detector.trainer(tmp_path / "pack", recipe, device)
        loop.train(trainer, tmp_path / "detector")
        recipe_of_landmarks = landmarks.Recipe(steps=steps, batch=landmarks.HEARTS, warm_up=1)
        trainer = landmarks.trainer(tmp_path / "pack", recipe_of_landmarks, device)
        loop.train(trainer, tmp_path / "landmarks")
        for name in ("detector", "landmarks"):
            state = torch.load(tmp_path / name / "checkpoint.pt", weights_only=True)
            assert state["step"] == number + 1
            assert all(value.isfinite().all() for value in state["averaged"].values())


@pytest.mark.parametrize("grid", [None, 0.5])
def test_training_as_rounded_has_the_float_networks_word(
    tmp_path: Path, grid: float | None
) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    pytest.importorskip("onnx", reason="the extra [onnx] is not installed")
    from palmkit.models.hand_landmarks import export, quantized
    from palmkit.models.hand_landmarks.network import HandNetwork
    from palmkit.models.training import loop
    from palmkit.models.training.quantized import QuantizedRecipe

    write_pack(tmp_path / "pack")
    torch.manual_seed(1)
    weights = HandNetwork().state_dict()
    # It sees a hand everywhere.
    weights["traits.bias"] = torch.tensor([0.0, 3.0])
    torch.save({"averaged": weights}, tmp_path / "float.pt")
    model = tmp_path / "float.onnx"
    export.export_onnx(tmp_path / "float.pt", model)
    recipe = QuantizedRecipe(steps=1, batch=6, warm_up=1)
    options = argparse.Namespace(pack=tmp_path / "pack", model=model, grid=grid, weight_bits=8)
    trainer = quantized.trainer(options, recipe, torch.device("cpu"))
    crops = trainer.composer.compose(12).images
    with torch.no_grad():
        said = trainer.teacher(crops)
        same, _ = quantized.apart(said, said)
        before, parts = quantized.apart(trainer.network(crops), said)
    assert 0 <= float(parts[0]) < 0.03
    assert float(same) < float(before)
    loop.train(trainer, tmp_path / "out")
    state = torch.load(tmp_path / "out" / "checkpoint.pt", weights_only=True)
    assert all(value.isfinite().all() for value in state["averaged"].values())


def test_packed_labels_follow_the_picture() -> None:
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.hand_detector.dataset import shrink

    entry = {
        "hands": [{"landmarks": hand().tolist()}],
        "ignored": [[0.0, 0.0, 400.0, 300.0]],
    }
    small = shrink(np.zeros((300, 400, 3), np.uint8), entry, 200)
    assert small.shape == (150, 200, 3)
    packed = np.asarray(json.loads(json.dumps(entry))["hands"][0]["landmarks"])
    assert packed[:, :2] == pytest.approx(hand()[:, :2] / 2, abs=0.06)
    assert entry["ignored"] == [[0.0, 0.0, 200.0, 150.0]]


def test_training_starts_with_what_ships(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.engine import load
    from palmkit.models.hand_detector import train as detector
    from palmkit.models.hand_landmarks import train as landmarks

    write_pack(tmp_path / "pack")
    device = torch.device("cpu")
    image = np.random.default_rng(1).integers(0, 256, (1, 192, 192, 3)).astype(np.float32)
    seen = torch.from_numpy(image).permute(0, 3, 1, 2) / 255
    path = FILES["hand_landmarks"]
    recipe = landmarks.Recipe(batch=landmarks.HEARTS, start=str(path))
    network = landmarks.trainer(tmp_path / "pack", recipe, device).network.eval()
    wanted = load(path).run({"image": image, "up": np.array([[0, -1]], np.float32)})
    with torch.no_grad():
        found = network(seen)
    assert found.landmarks.numpy() == pytest.approx(wanted["landmarks"], abs=0.01)
    assert found.presence.sigmoid().item() == pytest.approx(wanted["presence"].item(), abs=0.01)
    path = FILES["hand_detector"]
    first = detector.trainer(tmp_path / "pack", detector.Recipe(size=96, start=str(path)), device)
    scores = load(path).run({"image": image})["score_16"]
    with torch.no_grad():
        level = first.network.eval()(seen)[1]
    assert level.logits.sigmoid().numpy().ravel() == pytest.approx(scores.ravel(), abs=0.02)


def test_pictures_without_people_need_no_teacher(monkeypatch: pytest.MonkeyPatch) -> None:
    from palmkit.models.hand_detector import labels

    def fail(*_: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(labels.Committee, "label", fail)
    committee = labels.Committee.__new__(labels.Committee)
    row = {"file": "scan/rose.jpg", "set": "flowers", "split": "train", "label": "roses"}
    line = labels.describe(row, committee, np.zeros((40, 40, 3), np.uint8))
    assert (line["hands"], line["ignored"], line["label"]) == ([], [], None)
