"""Pictures as albums have them, which the mask kits are measured on."""

from pathlib import Path

import numpy as np
import pytest

from palmkit.models.segmentation import arrangements
from palmkit.models.segmentation.arrangements import ARRANGEMENTS, CELL
from palmkit.models.segmentation.samples import Sample

COLOUR = (200, 60, 30)


def made(number: int = 0, shape: tuple[int, int] = (120, 90)) -> Sample:
    """Return a grey picture with somebody red, and small, above its middle."""
    picture = np.full((*shape, 3), 110 + number, np.uint8)
    truth = np.zeros(shape, np.float32)
    picture[30:46, 20:36], truth[30:46, 20:36] = COLOUR, 1
    return Sample("ccp", picture, truth, np.ones(shape, np.bool_), f"{number}.png")


def red(
    picture: np.ndarray[tuple[int, ...], np.dtype[np.uint8]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Stand for a network that sees who is red, and is not taken in by what is blurred."""
    apart = np.abs(picture.astype(np.float32) - np.asarray(COLOUR, np.float32)).max(axis=2)
    return np.asarray(apart < 8, np.float32)


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_what_is_true_goes_where_the_picture_goes(name: str) -> None:
    samples = [made(number) for number in range(4)]
    kept = [sample.picture.copy() for sample in samples]
    found = arrangements.measured(ARRANGEMENTS[name](samples), red)
    assert len(found) == 4
    assert min(found) > 0.85
    blind = arrangements.measured(
        ARRANGEMENTS[name](samples), lambda picture: np.zeros(picture.shape[:2], np.float32)
    )
    assert blind == [0.0] * 4
    assert all(np.array_equal(one.picture, each) for one, each in zip(samples, kept, strict=True))


def test_each_is_what_it_is_called() -> None:
    def shown(name: str) -> Sample:
        ((_, (placed,)),) = ARRANGEMENTS[name]([made()])
        return placed.sample

    height, width = shown("between bars, tall").picture.shape[:2]
    assert width == 90 and height >= 1.8 * 120
    height, width = shown("wide").picture.shape[:2]
    assert height == 120 and width == pytest.approx(120 * 16 / 9, abs=2)
    assert shown("wide").picture[:, :20].max() == 0
    assert shown("wide, its own blurred").picture[:, :20].min() > 50
    page = shown("on a page").picture
    assert page.shape[0] >= 2 * page.shape[1]
    assert page[:20].min() < 120 and page[:20].max() == 250
    assert shown("on the side").picture.shape == (90, 120, 3)
    tilted = shown("by 30 degrees")
    # The corners are mirrored, and count for nobody.
    assert not tilted.counted[0, 0] and tilted.counted[60, 60]


def test_a_collage_has_four_pictures_in_cells_and_leaves_out_the_rest() -> None:
    samples = [made(number) for number in range(6)]
    ((picture, placed),) = ARRANGEMENTS["four side by side"](samples)
    assert picture.shape == (2 * CELL, 2 * CELL, 3)
    assert len({each.sample.file for each in placed}) == 4
    for rows, columns, sample in placed:
        assert np.array_equal(picture[rows, columns], sample.picture)


def test_the_command_prints_a_row_for_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(data: Path, labels: Path, task: str, part: str) -> list[Sample]:
        assert (data, labels, task) == (Path("d"), Path("l"), "hair")
        empty = made()._replace(set="grocery", truth=np.zeros((120, 90), np.float32))
        return [made(1), made(2), empty] if part == "dev" else [made(3), made(4)]

    monkeypatch.setattr(arrangements, "read_samples", read)
    monkeypatch.setattr(arrangements, "as_they_come", lambda task, teachers: {"eye": red})
    arrangements.main(["hair", "d", "l", "t"])
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head == "| | eye: iou, worst tenth, failed |"
    assert [row.split("|")[1].strip() for row in rows] == [*ARRANGEMENTS, "mean of the worse"]
    assert all(float(row.split("|")[2].split(",")[0]) > 0.85 for row in rows)
