"""Both detectors leave one recipe as files that say what they are and run."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is in the extra train")
pytest.importorskip("onnx", reason="onnx is in the extra onnx")

from palmkit.engine import load  # noqa: E402
from palmkit.models.detection.export import Detector  # noqa: E402
from palmkit.models.detection.network import SIZES, DetectorNetwork  # noqa: E402
from palmkit.models.face_detector.export import FACE_DETECTOR  # noqa: E402
from palmkit.models.face_detector_best.export import FACE_DETECTOR_BEST  # noqa: E402
from palmkit.models.hand_detector.export import HAND_DETECTOR  # noqa: E402


@pytest.mark.parametrize(
    "detector", [FACE_DETECTOR, FACE_DETECTOR_BEST, HAND_DETECTOR], ids=lambda each: each.name
)
def test_a_checkpoint_becomes_a_model(detector: Detector, tmp_path: Path) -> None:
    torch.manual_seed(0)
    state = {
        "averaged": DetectorNetwork(len(detector.keypoints), SIZES[detector.network]).state_dict()
    }
    torch.save(state, tmp_path / "checkpoint.pt")
    (tmp_path / "metrics.json").write_text(
        '{"size 320": {"palmkit": 1, "palmkit best": 3, "teacher": 2}}'
    )
    metrics = ["--metrics", str(tmp_path / "metrics.json")]
    detector.main([str(tmp_path / "checkpoint.pt"), str(tmp_path), "--threshold", "0.4", *metrics])
    model = load(tmp_path / f"{detector.name}.palm")
    said = model.metadata
    assert (said["name"], said["kit"], said["threshold"]) == (detector.name, detector.kit, "0.4")
    assert said["keypoints"].startswith(" ".join(detector.keypoints))
    assert ("teacher" in said["metrics"]) == (detector is HAND_DETECTOR)
    found = model.run({"image": np.zeros((1, 64, 96, 3), np.float32)})
    assert found["points_8"].shape == (1, 8, 12, 2 * len(detector.keypoints))
