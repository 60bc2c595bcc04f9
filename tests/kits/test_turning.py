"""People who lie, and pictures held sideways or upside down."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits import FaceDetector, FaceMesh, HairSegmenter, Look, PortraitSegmenter, TryOn
from palmkit.kits.boxes import corners
from palmkit.kits.boxes import iou as box_iou
from palmkit.kits.detection import Candidates
from palmkit.kits.face.turning import SURE, quarters_of, turned_back, upright, upright_faces
from palmkit.kits.image import Image, resize
from palmkit.kits.quarter_turns import turned, turned_boxes
from tests.kits.drawn_portraits import iou

QUARTERS = (1, 2, 3)


class Scores(NamedTuple):
    scores: NDArray[np.float32]


def scored(*scores: float) -> Scores:
    return Scores(np.array(scores, np.float32))


@pytest.fixture
def portrait(astronaut: Image) -> Image:
    """A person off the middle of a picture that is wider than high."""
    return np.ascontiguousarray(astronaut[:256, 64:448])


@pytest.mark.parametrize("quarters", QUARTERS)
def test_a_turned_picture_is_turned_counterclockwise(quarters: int) -> None:
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    assert np.array_equal(turned(image, quarters), np.rot90(image, quarters))


@pytest.mark.parametrize("quarters", QUARTERS)
def test_places_in_a_turned_area_are_known_in_the_picture(quarters: int) -> None:
    """A dark mark in an area of a picture has its place there, however the area is turned."""
    left, top, right, bottom = area = (20, 10, 70, 40)
    image = np.zeros((60, 90, 3), np.uint8)
    image[12:18, 31:43] = 255
    part = turned(image[top:bottom, left:right], quarters)
    rows, columns = np.nonzero(part[..., 0])
    sides = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1], np.float32)
    mark = Candidates(sides[None], np.ones(1, np.float32), sides.reshape(1, 2, 2))
    found = turned_back(mark, quarters, area)
    assert found.boxes.tolist() == [[31, 12, 43, 18]]
    assert sorted(found.keypoints[0, :, 0].tolist()) == [31, 43]
    assert sorted(found.keypoints[0, :, 1].tolist()) == [12, 18]
    box = np.array([[31, 12, 12, 6]], np.float32)
    again = turned_boxes(box, quarters, area)[0]
    assert again.tolist() == [*sides[:2], *(sides[2:] - sides[:2])]


def test_which_way_is_up_is_asked_only_where_no_face_is_sure() -> None:
    image = np.zeros((4, 6, 3), np.uint8)
    asked: list[tuple[int, ...]] = []

    def find(picture: Image) -> Scores:
        asked.append(picture.shape)
        return scored(0.2, (0.88, 0.97, 0.9)[len(asked) - 1])

    sure = scored(SURE)
    assert upright(image, find, sure) == (0, sure)
    assert not asked
    quarters, found = upright(image, find, scored())
    assert quarters == 2
    assert found.scores[1] == np.float32(0.97)
    assert asked == [(6, 4, 3), (4, 6, 3), (6, 4, 3)]


@pytest.mark.parametrize(("given", "turned_ones"), [(0.86, 0.9), (0.5, 0.8), (0.0, 0.8)])
def test_pictures_stay_as_they_come_unless_a_turned_one_is_surer(
    given: float, turned_ones: float
) -> None:
    found = scored(given)
    image = np.zeros((4, 6, 3), np.uint8)
    assert upright(image, lambda _: scored(turned_ones), found) == (0, found)


@pytest.mark.parametrize("quarters", QUARTERS)
def test_a_face_that_lies_is_found_where_it_is(portrait: Image, quarters: int) -> None:
    standing = FaceDetector().detect(portrait)
    area = (0, 0, portrait.shape[1], portrait.shape[0])
    kit = FaceDetector()
    found = kit.detect(turned(portrait, quarters))
    assert len(found) == len(standing) == 1
    np.testing.assert_allclose(
        found.boxes, turned_boxes(standing.boxes, quarters, area), rtol=0, atol=0.01
    )
    assert quarters_of(found[0]) == -quarters % 4
    canvas = np.zeros((600, 700, 3), np.uint8)
    lying = turned(portrait, quarters)
    canvas[90 : 90 + lying.shape[0], 150 : 150 + lying.shape[1]] = lying
    roi = (150, 90, lying.shape[1], lying.shape[0])
    np.testing.assert_allclose(
        kit.detect(canvas, roi=roi).boxes, found.boxes + [150, 90, 0, 0], rtol=0, atol=0.01
    )


@pytest.mark.parametrize("quarters", QUARTERS)
def test_the_best_network_sees_faces_that_lie(portrait: Image, quarters: int) -> None:
    """It is sure of some as they lie, whose boxes are less exact."""
    kit = FaceDetector(quality="best")
    standing, lying = kit.detect(portrait), kit.detect(turned(portrait, quarters))
    area = (0, 0, portrait.shape[1], portrait.shape[0])
    there = turned_boxes(standing.boxes, quarters, area)
    assert len(standing) == len(lying) == 1
    assert box_iou(corners(there), corners(lying.boxes))[0, 0] > 0.6


@pytest.mark.parametrize("options", [{"quality": "fast"}, {"budget_ms": 1e6}, {"tile": 640}])
def test_who_asks_for_speed_gets_one_look(portrait: Image, options: dict[str, Any]) -> None:
    lying = turned(portrait, 2)
    assert len(FaceDetector(**options).detect(portrait)) == 1
    assert len(FaceDetector(**options).detect(lying)) == 0


def test_videos_are_taken_as_they_come(portrait: Image) -> None:
    lying = turned(portrait, 2)
    for kit in (FaceDetector("video"), FaceMesh("video")):
        assert not len(kit.detect(lying, 0.0))


@pytest.mark.parametrize("quarters", QUARTERS)
def test_the_mesh_of_a_face_that_lies_lies_on_it(portrait: Image, quarters: int) -> None:
    standing, lying = (FaceMesh().detect(each) for each in (portrait, turned(portrait, quarters)))
    assert standing.mesh is not None and lying.mesh is not None
    points = np.concatenate([standing.mesh[0, :, :2], np.zeros((478, 2), np.float32)], axis=1)
    area = (0, 0, portrait.shape[1], portrait.shape[0])
    there = turned_boxes(points, quarters, area)[:, :2]
    apart = np.hypot(*(lying.mesh[0, :, :2] - there).T)
    assert apart.mean() < 0.02 * standing.boxes[0, 2]


@pytest.mark.parametrize("quarters", QUARTERS)
@pytest.mark.parametrize("kind", [PortraitSegmenter, HairSegmenter])
def test_masks_of_people_who_lie_are_those_of_people_who_stand(
    portrait: Image, quarters: int, kind: type[PortraitSegmenter] | type[HairSegmenter]
) -> None:
    standing = kind().segment(portrait).mask
    lying = kind().segment(turned(portrait, quarters)).mask
    np.testing.assert_array_equal(lying, np.rot90(standing, quarters))
    assert standing.max() > 0.9
    # Within a part of a picture, too, and nowhere else.
    canvas = np.zeros((600, 700, 3), np.uint8)
    rows, columns = slice(90, 90 + lying.shape[0]), slice(150, 150 + lying.shape[1])
    canvas[rows, columns] = turned(portrait, quarters)
    part = (150, 90, lying.shape[1], lying.shape[0])
    found = kind().segment(canvas, roi=part).mask
    np.testing.assert_array_equal(found[rows, columns], lying)
    assert np.count_nonzero(found) == np.count_nonzero(lying)


def test_what_people_who_lie_hold_is_theirs(portrait: Image) -> None:
    kit = PortraitSegmenter(include="held")
    standing, lying = (kit.segment(each).mask for each in (portrait, turned(portrait, 1)))
    np.testing.assert_array_equal(lying, np.rot90(standing, 1))


@pytest.mark.parametrize("quarters", QUARTERS)
def test_hair_of_people_who_lie_is_dyed(portrait: Image, quarters: int) -> None:
    kit = TryOn(look=Look.of(hair="violet"))
    standing, lying = (kit.wear(each) for each in (portrait, turned(portrait, quarters)))

    def dyed(before: Image, after: Image) -> NDArray[np.bool_]:
        return np.asarray(np.abs(after.astype(np.int16) - before).max(axis=2) > 12)

    stands, lies = (dyed(each.before, each.after) for each in (standing, lying))
    assert stands.mean() > 0.03
    assert iou(lies, np.rot90(stands, quarters)) > 0.9


def test_large_pictures_are_found_to_lie_in_few_pixels(portrait: Image) -> None:
    """What is found then is of all pixels."""
    large = resize(portrait, 1024, 1536)
    lying = turned(large, 1)
    standing, found = FaceDetector().detect(large), FaceDetector().detect(lying)
    area = (0, 0, 1536, 1024)
    there = turned_boxes(standing.boxes, 1, area)
    np.testing.assert_allclose(found.boxes, there, rtol=0, atol=0.01)
    kit = PortraitSegmenter()
    np.testing.assert_array_equal(kit.segment(lying).mask, np.rot90(kit.segment(large).mask))


def test_a_turned_picture_in_which_nobody_is_left_is_left_alone() -> None:
    """Its few pixels show a face, all of them none."""
    found = scored(0.1)
    image = np.zeros((900, 1200, 3), np.uint8)

    def find(picture: Image) -> Scores:
        return scored(0.95) if max(picture.shape) == 640 else scored()

    assert upright_faces(image, find, found) == (0, found)
