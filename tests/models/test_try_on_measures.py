"""What the measures of hair dye say of drawn pictures, and the command on a few photographs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits import TryOn, segment_hair
from palmkit.kits.image import Image, read_image, write_image
from palmkit.kits.tryon.colour import to_lab
from palmkit.kits.tryon.regions import soften
from palmkit.models.segmentation.hats import Hats
from palmkit.models.tryon.evaluate import (
    WORN,
    Dyed,
    dyed_hats,
    leak,
    leaked_together,
    main,
    rim,
    sharpness,
)

SIDE = 200


def disk(radius: float, x: float = SIDE / 2) -> NDArray[np.bool_]:
    down, across = np.ogrid[:SIDE, :SIDE]
    return np.asarray(np.hypot(down - SIDE / 2, across - x) < radius)


def painted(mask: NDArray[np.float32], hair: tuple[int, int, int]) -> NDArray[np.float32]:
    """CIELAB of hair of one colour before a grey wall."""
    wall = np.full((SIDE, SIDE, 3), 170, np.float32)
    share = mask[..., None]
    return to_lab(np.asarray(np.rint(wall * (1 - share) + np.array(hair) * share), np.uint8))


def test_what_is_changed_beside_the_hair_has_leaked() -> None:
    hair = disk(50)
    before = painted(hair.astype(np.float32), (40, 30, 25))
    exact = painted(hair.astype(np.float32), (90, 40, 140))
    assert leak(before, exact, hair) == (0, 1)
    # One pixel more is within what masks are off by, 0.8 % of the diagonal.
    assert leak(before, painted(disk(51).astype(np.float32), (90, 40, 140)), hair)[0] == 0
    both = (hair | disk(12, 20)).astype(np.float32)
    leaked, reached = leak(before, painted(both, (90, 40, 140)), hair)
    assert leaked == pytest.approx((12 / 50) ** 2 / (1 + (12 / 50) ** 2), rel=0.25)
    assert reached == 1
    half = hair & (np.arange(SIDE) < SIDE / 2)
    after = np.where(half[..., None], exact, before)
    assert leak(before, after, hair)[1] == pytest.approx(0.5, abs=0.03)


def test_all_together_leak_what_they_change_in_areas_of_their_faces() -> None:
    many = Dyed(kept=0.99, reached=1, ratio=None, rim=None, distance="distance near", chroma=300)
    little = Dyed(kept=0, reached=1, ratio=None, rim=None, distance="distance near", chroma=1)
    assert leaked_together([([], many)]) == pytest.approx(1)
    assert leaked_together([([], many), ([], little)]) == pytest.approx(100 * 4 / 301, abs=1e-3)
    assert leaked_together([]) == 0


def test_the_sharpness_of_an_outline_is_that_of_its_edge_not_of_its_contrast() -> None:
    hair = disk(50)
    mask = hair.astype(np.float32)
    own = sharpness(painted(soften(mask, 1.5), (40, 30, 25)), hair)
    light = sharpness(painted(soften(mask, 1.5), (235, 225, 200)), hair)
    hard = sharpness(painted(mask, (40, 30, 25)), hair)
    faint = sharpness(painted(soften(mask, 4), (40, 30, 25)), hair)
    assert own is not None and light is not None and hard is not None and faint is not None
    assert light == pytest.approx(own, rel=0.15)
    assert hard > 1.4 * own > 1.6 * faint
    assert sharpness(painted(mask, (168, 168, 168)), hair) is None


def test_a_rim_is_darker_than_both_its_sides() -> None:
    hair = disk(50)
    mask = hair.astype(np.float32)
    clean = painted(soften(mask, 1.5), (235, 225, 200))
    left = disk(50) & ~disk(47)
    rimmed = np.where(left[..., None], to_lab(np.full((1, 1, 3), 40, np.uint8)), clean)
    none, some = rim(clean, hair), rim(rimmed, hair)
    assert none is not None and some is not None
    assert none < 0.5 and some > 15
    assert rim(clean, np.zeros_like(hair)) is None


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An index of three portraits: two with a mask, and one in which nobody is."""
    astronaut: Image = pytest.importorskip("skimage.data").astronaut()[:300, 60:400]
    folder = tmp_path / "data" / "hair"
    folder.mkdir(parents=True)
    mask = (segment_hair(astronaut).mask > 0.5).astype(np.uint8) * 255
    rows: list[dict[str, object]] = []
    nobody = np.full_like(astronaut, 90)
    for name, picture in (("a", astronaut), ("b", astronaut[:, ::-1]), ("c", nobody)):
        write_image(folder / f"{name}.png", np.ascontiguousarray(picture))
        shown = mask[:, ::-1] if name == "b" else mask
        write_image(folder / f"{name}_hair.png", np.repeat(shown[..., None], 3, axis=2))
        row = {"file": f"{name}.png", "hair_mask": f"{name}_hair.png", "set": "figaro"}
        rows.append({**row, "split": "dev"})
    rows.append({**rows[0], "split": "train"})
    (folder / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "data"


def test_the_command_writes_numbers_and_a_sheet(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main([str(data), str(out)]) == 0
    told = capsys.readouterr().out
    assert "3 portraits, 1 without a face" in told and "| kept | pictures |" in told
    found = json.loads((out / "metrics.json").read_text())
    assert found["kept"]["all"]["pictures"] == 2
    # The mask is that of the same network.
    assert found["kept"]["all"]["worst_tenth"] > 0.97
    assert found["reached"]["figaro"]["mean"] > 0.95
    assert found["soft"]["all"]["mean"] > 0.7
    together = found["leak, percent of all together"]
    assert 0 <= together < 3 and f"leak, percent of all together: {together}" in told
    sheet = read_image(out / "figaro_1.jpg")
    assert sheet.shape[1] * 2 == sheet.shape[0] * (len(WORN) + 1)


def test_hats_count_as_dyed_by_their_crowns(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = ("hair/a.png", "hair/c.png", "hair/missing.png")
    listed = Hats(frozenset(), frozenset(), frozenset(seen))
    monkeypatch.setattr("palmkit.models.tryon.evaluate.hats", lambda: listed)
    with TryOn(face="largest") as kit:
        # One has hair on its crown, one nobody, one is not there.
        assert dyed_hats(kit, data) == (1, 1)
        monkeypatch.setattr("palmkit.models.tryon.evaluate.DYED", 1.0)
        assert dyed_hats(kit, data) == (1, 0)


def test_a_folder_without_portraits_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path), str(tmp_path / "out")])
    assert "expected development portraits" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
