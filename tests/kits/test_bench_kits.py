"""The kits' benchmark: what it runs, and that a peer which is not there is said to be missing."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from palmkit.engine.bench.engines import find
from palmkit.kits.bench.jobs import HEIGHT, JOBS, WIDTH, frame
from palmkit.kits.cli import main


@pytest.mark.parametrize("name", JOBS)
def test_every_job_has_its_contenders(name: str) -> None:
    job = JOBS[name]
    assert find(job.ours).name == "palmkit"
    for peer, place in job.peers.items():
        assert find(place).name == peer


def test_frame_holds_the_whole_picture_in_the_middle() -> None:
    picture = np.full((300, 100, 3), 200, np.uint8)
    found = frame(picture)
    assert found.shape == (HEIGHT, WIDTH, 3)
    columns = np.flatnonzero(found[HEIGHT // 2, :, 0])
    assert columns.min() == 240 and columns.max() == 399
    assert (found[:, 240:400] == 200).all()


def test_times_a_kit_and_says_which_peer_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "grey.png"
    Image.fromarray(np.full((48, 64, 3), 90, np.uint8)).save(path)
    options = ["--seconds", "0.02", "--turns", "1", "--loads", "1", "--json", "-q"]
    assert main(["bench", "--kits", "face", str(path), *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["file"] == "grey.png" and facts["engines"]["palmkit"]["runs"] >= 1
    if find_spec("mediapipe") is None:
        assert "no module mediapipe" in facts["refusals"]["mediapipe"]


def test_unknown_job_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "--kits", "nothing", "a.png"])
    assert ended.value.code == 2
    assert "got 'nothing'" in capsys.readouterr().err
