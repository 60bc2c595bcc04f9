"""Opacity of large pictures and masks of people far away are measured, in videos as well."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits import segment_hair, segment_portrait
from palmkit.kits.image import Image, write_image
from palmkit.models.segmentation import evaluate, far, large, pans
from palmkit.models.segmentation.samples import Sample

MODELS = Path(__file__).parents[2] / "models"


@pytest.fixture
def astronaut() -> Image:
    picture: Image = pytest.importorskip("skimage.data").astronaut()
    return np.ascontiguousarray(picture[:320, 60:380])


def write_indexes(data: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Write the index of portraits, and those of the other folders, which are empty."""
    for name in ("hair", "faces", "negatives", "hands", "scan"):
        (data / name).mkdir()
        (data / name / "index.jsonl").touch()
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (data / "portraits/index.jsonl").write_text(lines)


@pytest.mark.parametrize("task", ["portrait", "hair"])
def test_pictures_as_large_as_they_are_come_out_as_from_the_kits(
    task: str, astronaut: Image
) -> None:
    found = large.maskers(task, MODELS / task / f"{task}.palm", 1)
    kit = segment_portrait if task == "portrait" else segment_hair
    usual, plain = kit(astronaut), kit(astronaut, refine=False)
    assert np.abs(found["enlarged"](astronaut) - plain.mask).max() < 1e-6
    assert np.abs(found["mask"](astronaut) - usual.mask).max() < 1e-6
    assert np.abs(found["opacity"](astronaut) - usual.alpha).max() < 1e-6


def test_the_network_s_mask_is_coarser_in_larger_pictures(astronaut: Image) -> None:
    path = MODELS / "portrait/portrait.palm"
    usual = segment_portrait(astronaut, quality="fast")
    edge = (usual.alpha > 0.05) & (usual.alpha < 0.95)
    made = {times: large.maskers("portrait", path, times) for times in (2, 8)}
    wrong = {
        (times, name): float(np.abs(masker(astronaut) - usual.alpha)[edge].mean())
        for times, each in made.items()
        for name, masker in each.items()
    }
    assert wrong[8, "enlarged"] > 1.2 * wrong[2, "enlarged"]
    assert wrong[2, "opacity"] < wrong[2, "opacity, network's grid"] < wrong[2, "enlarged"]
    # Of so few places as the network draws here opacity is no better than its mask.
    assert wrong[8, "opacity"] < 0.9 * min(
        wrong[8, "opacity, network's grid"], wrong[8, "enlarged"]
    )


def test_the_command_prints_opacity_by_kind_of_picture(
    tmp_path: Path, astronaut: Image, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data/portraits"
    folder.mkdir(parents=True)
    write_image(folder / "a.png", astronaut)
    person = segment_portrait(astronaut)
    mask = (person.mask > 0.5).astype(np.uint8) * 255
    write_image(folder / "a_mask.png", np.repeat(mask[..., None], 3, axis=2))
    write_image(folder / "b.png", np.full_like(astronaut, 90))
    person.save(folder / "c.png", "cutout")
    rows = [
        {"file": "a.png", "mask": "a_mask.png", "set": "ccp", "split": "dev"},
        {"file": "b.png", "set": "backgrounds", "split": "dev"},
        {"file": "c.png", "set": "cutouts", "split": "dev"},
    ]
    write_indexes(tmp_path / "data", rows)
    paths = [str(tmp_path / name) for name in ("data", "labels", "teachers", "out")]
    evaluate.main(["portrait", *paths, "--times", "4"])
    told = json.loads((tmp_path / "out/large.json").read_text())
    assert set(told) == {"enlarged", "mask", "opacity, network's grid", "opacity"}
    assert told["opacity"]["ccp"]["iou"] > 0.9
    assert told["opacity"]["pictures"]["all"]["pictures"] == 2
    printed = capsys.readouterr().out
    assert "| opacity | pictures | iou: mean | iou: worst tenth | iou: failed | edge" in printed
    assert "| cutouts | 1 |" in printed.partition("| fringe |")[2]
    assert not (tmp_path / "out/metrics.json").exists()
    for wrong in (["portrait", *paths, "--times", "0"], ["person_finder", *paths, "--times", "4"]):
        with pytest.raises(SystemExit):
            evaluate.main(wrong)
    assert "--times: expected 1 or more" in capsys.readouterr().err
    (folder / "index.jsonl").write_text("")
    with pytest.raises(SystemExit):
        evaluate.main(["portrait", *paths, "--times", "4"])
    assert "expected dev pictures with masks, got none" in capsys.readouterr().err


def index_of_cutouts(data: Path, astronaut: Image, split: str) -> None:
    """Write a folder of indexes with one background, and one cut-out of somebody."""
    folder = data / "portraits"
    folder.mkdir(parents=True)
    ramp = np.linspace(90, 150, 320).astype(np.uint8)[None, :, None]
    write_image(folder / "wall.png", np.broadcast_to(ramp, (240, 320, 3)).copy())
    segment_portrait(astronaut).save(folder / "person.png", "cutout")
    rows = [
        {"file": "wall.png", "set": "backgrounds", "split": split},
        {"file": "person.png", "set": "cutouts", "split": split},
    ]
    write_indexes(data, rows)


def test_people_far_away_have_the_share_of_the_height_that_is_asked_for(
    tmp_path: Path, astronaut: Image
) -> None:
    index_of_cutouts(tmp_path, astronaut, "dev")
    for height in far.HEIGHTS:
        (sample,) = far.composed(tmp_path, height)
        assert sample.picture.shape == (240, 320, 3) and sample.truth.shape == (240, 320)
        rows = np.flatnonzero((sample.truth > 0.5).any(axis=1))
        assert 0.85 * height < len(rows) / 240 <= height
        # Standing in the lower half of what is left.
        assert rows[-1] >= 240 - 0.6 * (240 - len(rows)) - 4
        # Beside the person the picture is the background.
        outside = sample.truth == 0
        assert sample.picture[outside].max() <= 150 and sample.picture[outside].min() >= 89


class Nobody:
    """Stands for a network that sees nobody."""

    def __init__(self, path: Path) -> None:
        assert path.name == "selfie_segmentation.tflite"

    def once(self, picture: Image) -> NDArray[np.float32]:
        return np.zeros(picture.shape[:2], np.float32)


def test_the_command_prints_how_people_far_away_are_found(
    tmp_path: Path,
    astronaut: Image,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(evaluate, "PersonTeacher", Nobody)
    monkeypatch.setattr(far, "HEIGHTS", (1.0, 0.33))
    index_of_cutouts(tmp_path, astronaut, "dev")
    far.main([str(tmp_path), str(tmp_path)])
    head, _, *lines = capsys.readouterr().out.splitlines()
    assert head == "| | share of the height | pictures | IoU | worst tenth | below .5 | nobody |"
    rows = [line.strip("| ").split(" | ") for line in lines]
    assert [row[:3] for row in rows] == [
        [name, height, "1"]
        for name in ("palmkit auto", "palmkit fast", "palmkit best", "selfie_segmentation")
        for height in ("1.0", "0.33")
    ]
    for row in rows[:6]:
        assert float(row[3]) > 0.8 and row[4] == row[3] and row[5:] == ["0.000", "0.000"]
    assert [row[3:] for row in rows[6:]] == [["0.000", "0.000", "1.000", "1.000"]] * 2


def test_without_cutouts_the_command_says_what_it_expected(
    tmp_path: Path, astronaut: Image, capsys: pytest.CaptureFixture[str]
) -> None:
    index_of_cutouts(tmp_path, astronaut, "train")
    with pytest.raises(SystemExit):
        far.main([str(tmp_path), str(tmp_path)])
    assert "expected dev cut-outs and backgrounds, got none" in capsys.readouterr().err


def test_a_window_goes_over_a_picture(tmp_path: Path, astronaut: Image) -> None:
    index_of_cutouts(tmp_path, astronaut, "dev")
    (sample,) = far.composed(tmp_path, 0.5)
    frames = list(pans.clip(sample, 0.5, np.random.default_rng(0)))
    assert {frame.picture.shape for frame in frames} == {(120, 160, 3)}
    first, last = frames[0], frames[-1]
    assert (first.truth == sample.truth[:120, :160]).all()
    assert (last.truth == sample.truth[36:156, 160:]).all()
    off = first.picture.astype(float) - sample.picture[:120, :160]
    assert 2.5 < off.std() < 3.5


def test_flicker_is_what_the_truth_does_not_do() -> None:
    truth = np.zeros((20, 20), np.float32)
    truth[5:15, 5:15] = 1
    sample = Sample("a", np.zeros((20, 20, 3), np.uint8), truth, np.ones((20, 20), np.bool_))
    frames = [sample] * pans.FRAMES
    assert pans.measured(lambda _: truth, lambda _: truth, frames) == (1, 0)
    # Half of it comes and goes.
    masks = cycle((truth, truth * (np.arange(20) < 10)))
    found = pans.measured(lambda _: truth, lambda _: next(masks), frames)
    assert found == pytest.approx((0.75, 0.5))
    moved = [sample._replace(truth=np.roll(truth, number)) for number in range(pans.FRAMES)]
    true = iter([frame.truth for frame in moved[1:]])
    assert pans.measured(lambda _: truth, lambda _: next(true), moved) == (1, 0)
    assert pans.measured(lambda _: truth, lambda _: truth, frames[:1]) is None


def test_the_command_prints_how_people_in_videos_are_found(
    tmp_path: Path,
    astronaut: Image,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(evaluate, "PersonTeacher", Nobody)
    monkeypatch.setattr(pans, "HEIGHTS", (0.33,))
    index_of_cutouts(tmp_path, astronaut, "dev")
    pans.main([str(tmp_path), str(tmp_path), str(tmp_path)])
    head, _, *lines = capsys.readouterr().out.splitlines()
    assert head == "| | set | clips | IoU | worst tenth | below .5 | flicker |"
    rows = [line.strip("| ").split(" | ") for line in lines]
    small = [row for row in rows if "0.33" in row[1]]
    assert [row[0] for row in small] == ["kit", "one look", "selfie_segmentation"]
    assert float(small[0][3]) > 0.8 and small[2][3] == "0.000"


@pytest.mark.parametrize(
    ("split", "window", "told"),
    [
        ("dev", "0", "--window: expected a share above 0 and below 1, got 0.0"),
        ("train", "0.9", "expected dev pictures of people, got none"),
    ],
)
def test_without_pictures_or_a_window_the_command_says_what_it_expected(
    split: str,
    window: str,
    told: str,
    tmp_path: Path,
    astronaut: Image,
    capsys: pytest.CaptureFixture[str],
) -> None:
    index_of_cutouts(tmp_path, astronaut, split)
    with pytest.raises(SystemExit):
        pans.main([str(tmp_path), str(tmp_path), str(tmp_path), "--window", window])
    assert told in capsys.readouterr().err
