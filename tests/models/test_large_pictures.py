"""Opacity is measured in pictures as if they were several times as large."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from palmkit.kits import segment_hair, segment_portrait
from palmkit.kits.image import Image, write_image
from palmkit.models.segmentation import evaluate, large

MODELS = Path(__file__).parents[2] / "models"


@pytest.fixture
def astronaut() -> Image:
    picture: Image = pytest.importorskip("skimage.data").astronaut()
    return np.ascontiguousarray(picture[:320, 60:380])


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
    (folder / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("hair", "faces", "negatives", "hands", "scan"):
        (tmp_path / "data" / name).mkdir()
        (tmp_path / "data" / name / "index.jsonl").touch()
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
