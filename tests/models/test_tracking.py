"""Whether clips are what they are said to be, and the measure tells right ids from wrong ones."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pillow

from palmkit.kits.boxes import Floats, iou
from palmkit.kits.image import Image
from palmkit.models.tracking import clips
from palmkit.models.tracking.clips import Frame, Photo
from palmkit.models.tracking.evaluate import KITS, ByOverlap, Counts, main, measure

COLOURS = ((200, 0, 0), (0, 200, 0), (0, 0, 200))


def group() -> Photo:
    """A grey photo with a red, a green and a blue square."""
    picture = np.full((320, 480, 3), 90, np.uint8)
    boxes = np.array([[30, 40, 60, 70], [200, 120, 260, 180], [400, 250, 440, 290]], np.float32)
    for (left, top, right, bottom), colour in zip(boxes.astype(int), COLOURS, strict=True):
        picture[top:bottom, left:right] = colour
    return Photo(picture, boxes)


def squares(picture: Image) -> dict[int, Floats]:
    """Return the corners of what is seen of each square, by its row."""
    found: dict[int, Floats] = {}
    for row in range(3):
        others = np.delete(picture, row, axis=2).max(axis=2).astype(int)
        ys, xs = np.nonzero(picture[..., row].astype(int) - others > 60)
        if len(xs):
            box = [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
            found[row] = np.array(box, np.float32)
    return found


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_camera_goes_gently_and_comes_back(seed: int) -> None:
    way = clips.pan(854, 1280, 200, seed)
    width, height = clips.window(854, 1280)
    assert 2 < clips.fastest(way, height, width) <= clips.GENTLE
    np.testing.assert_array_equal(way, clips.pan(854, 1280, 200, seed))
    # It stays over the photo, goes over a good part of it and zooms.
    assert (way[:, :2] >= 0).all() and (way[:, 2] <= 1).all()
    assert (way[:, 0] + way[:, 2] * width <= 1280 + 1e-6).all()
    assert np.ptp(way[:, :2], axis=0).max() > 30 and np.ptp(way[:, 2]) > 0.01
    steps = np.diff(way[:, :2], axis=0)
    assert ((steps > 0).any(axis=0) & (steps < 0).any(axis=0)).all()


def test_a_shaken_camera_is_off_its_way() -> None:
    way = clips.pan(854, 1280, 50, 0)
    off = (clips.shaken(way, 0) - way) / way[:, 2:]
    lengths = np.linalg.norm(off[:, :2], axis=1)
    assert lengths.min() >= 5 and lengths.max() <= 20 and np.ptp(lengths) > 10
    np.testing.assert_array_equal(off[:, 2], 0)


def test_everything_is_where_it_is_said_to_be() -> None:
    photo = clips.enlarged(group())
    assert photo.picture.shape == (853, 1280, 3)
    way = clips.shaken(clips.pan(853, 1280, 40, 1), 1)
    seen = 0
    for frame in clips.filmed(photo, way):
        assert frame.picture.shape == (512, 768, 3)
        found = squares(frame.picture)
        for row in np.flatnonzero(frame.visible):
            clipped = np.clip(frame.boxes[row], 0, (768, 512, 768, 512))
            np.testing.assert_allclose(found[int(row)], clipped, atol=2)
            seen += 1
    assert seen >= 40


def test_photos_are_tiled_with_their_boxes() -> None:
    sheet = clips.tiled([group()] * 3, 2, 240)
    assert sheet.picture.shape == (480, 480, 3) and len(sheet.boxes) == 9
    # The photo is half as large, in the middle of its square: the green one of the third.
    np.testing.assert_allclose(sheet.boxes[7], [100, 240 + 40 + 60, 130, 240 + 40 + 90])
    left, top, right, bottom = sheet.boxes[7].astype(int)
    np.testing.assert_allclose(sheet.picture[top + 5 : bottom - 5, left + 5 : right - 5, 1], 200)


@pytest.mark.parametrize("speeds", [(20.0, 20.0), (0.0, 30.0), (30.0, 10.0)])
def test_faces_cross(speeds: tuple[float, float]) -> None:
    faces: list[Photo] = []
    for row in (1, 0):
        photo = group()
        # Nothing but the one square, which is a face as large as its oval.
        photo.picture[:] = COLOURS[row]
        faces.append(clips.cut_out(Photo(photo.picture, photo.boxes[1:2])))
    frames = list(clips.crossing(faces[0], faces[1], speeds))
    sides = [frame.boxes[0, 0] < frame.boxes[1, 0] for frame in frames]
    assert not sides[0] and sides[-1]
    assert frames[0].visible.all() and frames[-1].visible.all()
    assert any(not frame.visible[0] for frame in frames)
    for frame in frames:
        assert frame.visible[1]
        green, red = (squares(frame.picture).get(row) for row in (1, 0))
        assert red is not None and iou(red[None], frame.boxes[1:])[0, 0] > 0.5
        if frame.visible[0]:
            assert green is not None and iou(green[None], frame.boxes[:1])[0, 0] > 0.3


def still(frames: int, hidden: range = range(0)) -> list[Frame]:
    """Return frames in which two things stand, the first hidden in some."""
    picture = np.zeros((100, 200, 3), np.uint8)
    boxes = np.array([[10, 10, 50, 50], [120, 10, 160, 50]], np.float32)
    return [Frame(picture, boxes, np.array([index not in hidden, True])) for index in range(frames)]


def counted(frames: list[Frame], answers: list[list[tuple[int, int]]]) -> Counts:
    """Return what is counted where pairs of a thing's row and an id are found in each frame."""
    answer = iter(answers)

    def follow(_: Image, __: float) -> tuple[Floats, NDArray[np.int64]]:
        rows, ids = np.array(next(answer), np.int64).reshape(-1, 2).T
        # A third place is empty.
        places = np.concatenate([frames[0].boxes, [[70, 60, 100, 90]]]).astype(np.float32)
        return places[rows] + 2, ids

    counts = Counts()
    measure(frames, follow, counts)
    return counts


def test_switches_misses_and_false_ones_are_counted() -> None:
    right = [(0, 7), (1, 8)]
    counts = counted(still(4), [right] * 4)
    assert (counts.switches, counts.misses, counts.false) == (0, 0, 0)
    assert (counts.visible, counts.found, counts.frames) == (8, 8, 4)
    # They swap ids, and swap them back.
    counts = counted(still(4), [right, [(0, 8), (1, 7)], right, right])
    assert counts.switches == 4
    # Missed for a frame, then a new id: the switch is from the last one it had.
    counts = counted(still(4), [right, [(1, 8)], [(0, 9), (1, 8)], [(0, 9), (1, 8)]])
    assert (counts.switches, counts.misses) == (1, 1)
    # Hidden: no miss, and what is called so meanwhile does not count.
    counts = counted(still(3, range(1, 2)), [right, [(1, 8)], right])
    assert (counts.switches, counts.misses, counts.visible) == (0, 0, 5)
    counts = counted(still(3, range(1, 2)), [right, [(0, 9), (1, 8)], right])
    assert (counts.switches, counts.misses) == (0, 0)
    counts = counted(still(2), [[*right, (2, 3)], right])
    assert (counts.false, counts.found) == (1, 5)
    assert counts.row()[:3] == ["0", "0.0", "20.0"]


def test_pictures_get_the_id_of_what_they_overlap() -> None:
    one, two, three = [0, 0, 10, 10], [6, 0, 16, 10], [40, 0, 50, 10]

    def update(by: ByOverlap, *boxes: list[int]) -> list[int]:
        ids: list[int] = by.update(np.array(boxes, np.float32).reshape(-1, 4)).tolist()
        return ids

    by = ByOverlap()
    assert update(by, one, three) == [0, 1]
    # The best overlap is first served.
    assert update(by, two, one) == [2, 0]
    for _ in range(30):
        assert update(by, two) == [2]
    # Not seen for as long as 30 frames.
    assert update(by, two, one) == [2, 0]
    assert update(by, three) == [3]


@pytest.mark.parametrize("kit", KITS)
def test_the_command_prints_a_table(
    kit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photo = group()
    Pillow.fromarray(photo.picture).save(tmp_path / "group.png")
    sides = np.concatenate([photo.boxes[:, :2], photo.boxes[:, 2:] - photo.boxes[:, :2]], axis=1)
    row = {"file": "group.png", "split": "dev", "boxes": sides.tolist() * 2}
    other = {"file": "none.png", "split": "train", "boxes": sides.tolist() * 2}
    index = tmp_path / "index.jsonl"
    index.write_text("".join(json.dumps(each) + "\n" for each in (row, other)))
    main([str(index), "--frames", "3", "--motion", "pan", "shake", "--kit", kit, "-q"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    # Squares are no faces and no hands: all are missed.
    for line, motion in zip(lines[2:], ("pan", "shake"), strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[:5] == [motion, kit, "0", "100.0", "0.0"]
