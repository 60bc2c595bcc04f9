"""Places without anybody, and labels by close looks."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from palmkit.models.segmentation.by_eye import with_people
from palmkit.models.segmentation.close_looks import CloseLooks, main
from palmkit.models.segmentation.crop import edges
from palmkit.models.segmentation.labels import INDEXES, people_in
from palmkit.models.segmentation.places import largest_rectangle, place_of

DATA = Path(__file__).parents[2].parent / "shared" / "data"


def area(box: Sequence[int]) -> int:
    """Return the area of left, top, right, bottom."""
    return (box[2] - box[0]) * (box[3] - box[1])


def largest_by_trying(free: np.ndarray[Any, Any]) -> int:
    """Return the area of the largest rectangle that is all free, of all there are."""
    rows, columns = free.shape
    return max(
        (
            (bottom - top) * (right - left)
            for top in range(rows)
            for bottom in range(top + 1, rows + 1)
            for left in range(columns)
            for right in range(left + 1, columns + 1)
            if free[top:bottom, left:right].all()
        ),
        default=0,
    )


def test_the_largest_rectangle_is_the_largest() -> None:
    random = np.random.default_rng(5)
    for share in (0.0, 0.2, 0.5, 0.8, 0.95, 1.0):
        for shape in ((7, 9), (1, 6), (6, 1)):
            free = random.random(shape) < share
            left, top, right, bottom = found = largest_rectangle(free)
            assert free[top:bottom, left:right].all()
            assert area(found) == largest_by_trying(free), free


def test_a_place_is_certain_and_without_anybody() -> None:
    label = np.zeros((200, 320, 3), np.uint8)
    label[..., 1] = 255
    label[:, 120:180, 0] = 255
    assert place_of(label) == (180, 0, 320, 200)
    label[150:, 300:, 1] = 100
    place = place_of(label)
    assert place is not None and label[place[1] : place[3], place[0] : place[2], 1].min() == 255
    label[:, ::40, 0] = 255
    assert place_of(label) is None


def looks_at(monkeypatch: pytest.MonkeyPatch) -> CloseLooks:
    """Return looks of a network that takes for a person what is bright."""
    monkeypatch.setattr(CloseLooks, "__init__", lambda self: None)
    monkeypatch.setattr(
        CloseLooks, "look", lambda self, picture: picture[..., 0].astype(np.float32) / 255
    )
    return CloseLooks()


def test_nobody_is_outside_of_the_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = np.full((120, 160, 3), 10, np.uint8)
    picture[20:100, 30:60] = 250
    picture[40:80, 120:150] = 250
    target, trusted, cut = np.moveaxis(
        looks_at(monkeypatch).label(picture, [[30, 20, 30, 80]]), 2, 0
    )
    assert target[25:95, 35:55].min() > 0.9 and trusted[25:95, 35:55].min() > 0.8
    # Somebody whom no box tells of is not known; all else outside of the box is nobody.
    assert trusted[45:75, 125:145].max() == 0
    assert target[:, 70:].max() == 0 and trusted[:30, 70:].min() == 1
    assert cut.max() == 0


def test_an_unsure_answer_is_trusted_less(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = np.full((100, 100, 3), 130, np.uint8)
    target, trusted, _ = np.moveaxis(looks_at(monkeypatch).label(picture, [[10, 10, 80, 80]]), 2, 0)
    assert abs(target[50, 50] - 130 / 255) < 0.01
    assert 0 < trusted[50, 50] < 0.8


def test_a_face_is_somebody_whose_body_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = looks_at(monkeypatch)
    picture = np.full((200, 300, 3), 10, np.uint8)
    # Somebody whom the network sees but for the face, and a face of whose body it sees nothing.
    picture[56:160, 50:80] = 250
    faces = [[55, 40, 20, 20], [200, 60, 24, 24]]
    kit = SimpleNamespace(
        segment=lambda image: SimpleNamespace(mask=np.zeros(image.shape[:2], np.float32))
    )
    monkeypatch.setattr(looks, "kit", kit, raising=False)
    target, trusted, _ = np.moveaxis(looks.label(picture, [], faces), 2, 0)
    for x, y, width, height in faces:
        middle = int(y + height / 2), int(x + width / 2)
        assert target[middle] == 1 and trusted[middle] == 1
    assert target[70:155, 55:75].min() > 0.5 and trusted[70:155, 55:75].min() > 0.4
    assert trusted[100:195, 200:220].max() == 0
    # A face's corner may be none of it, and far from both nobody is.
    assert target[61, 201] < 0.1
    assert target[:, 110:160].max() == 0 and trusted[:, 110:160].min() == 1


def test_faces_are_somebody_outside_of_the_boxes_of_people(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = np.full((200, 300, 3), 10, np.uint8)
    picture[20:100, 30:60] = 250
    target, trusted, _ = np.moveaxis(
        looks_at(monkeypatch).label(
            picture, [[30, 20, 30, 80]], [[200, 60, 24, 24], [300, 60, 24, 24]]
        ),
        2,
        0,
    )
    assert target[72, 212] == 1 and trusted[72, 212] == 1
    assert trusted[120, 212] == 0
    assert trusted[120, 100] == 1 and target[120, 100] == 0


def test_boxes_are_in_the_labels_pixels_and_stay_in_the_picture() -> None:
    row = {"width": 640, "height": 480, "persons": [[64, 32, 128, 256]]}
    assert people_in(row) == [[32, 16, 64, 128]]
    assert people_in({"width": 640, "height": 480}) == []
    assert edges([0, 0, 50, 60], 0.2, (64, 64)) == (0, 0, 61, 64)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data")
def test_every_picture_with_people_is_there() -> None:
    for name in with_people():
        assert (DATA / name).is_file(), name


def test_sets_that_are_not_there_are_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looks_at(monkeypatch)
    for name in INDEXES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.jsonl").write_text("")
    with pytest.raises(SystemExit):
        main([str(tmp_path), str(tmp_path), "--sets", "edens"])
    assert "expected training pictures without masks, got none" in capsys.readouterr().err
