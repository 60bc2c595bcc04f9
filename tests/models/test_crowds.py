"""Crowds, which have boxes and no masks: how many people a mask covers."""

from pathlib import Path

import numpy as np
import pytest

from palmkit.models.segmentation.crowds import CROWDS, Crowd, covered, part_of, read_crowds

DATA = Path(__file__).parents[2].parent / "shared" / "data"


def test_people_and_faces_that_a_mask_covers_are_counted() -> None:
    picture = np.zeros((80, 100, 3), np.uint8)
    mask = np.zeros((80, 100), np.float32)
    mask[10:60, 10:20] = 1
    mask[70:74, 90:95] = 1
    people = [[10.0, 10.0, 20.0, 50.0], [50.0, 10.0, 20.0, 50.0]]
    faces = [[11.0, 12.0, 8.0, 8.0], [52.0, 12.0, 8.0, 8.0], [16.0, 12.0, 8.0, 8.0]]
    crowds = [Crowd(picture, people, faces), Crowd(picture, [], [[90.0, 70.0, 4.0, 4.0]])]
    found = covered(crowds, lambda _: mask)
    assert found == {"people": 0.5, "faces": pytest.approx(0.75), "beside": 0.0025}
    assert covered([], lambda _: mask) == {}


@pytest.mark.parametrize("box", [(-30.0, 5.0, 10.0, 10.0), (99.9, 79.9, 0.0, 0.0), (0, 0, 500, 1)])
def test_a_box_beyond_the_picture_still_has_a_pixel(box: tuple[float, ...]) -> None:
    inside = np.zeros((80, 100), np.bool_)
    assert min(part_of(inside, box, -0.25).shape) >= 1


@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data")
def test_boxes_are_in_the_pictures_as_they_are_read() -> None:
    crowds = list(read_crowds(DATA))
    assert len(crowds) == 107 and len(CROWDS) == 3
    assert any(crowd.people for crowd in crowds) and any(crowd.faces for crowd in crowds)
    for crowd in crowds:
        height, width = crowd.picture.shape[:2]
        for x, y, wide, high in [*crowd.people, *crowd.faces]:
            assert x > -0.2 * width and y > -0.2 * height
            assert x + wide < 1.2 * width and y + high < 1.2 * height


def test_what_is_validation_is_not_known_without_labels(tmp_path: Path) -> None:
    from palmkit.models.segmentation.samples import read_samples

    with pytest.raises(FileNotFoundError, match="expected labels.jsonl"):
        next(read_samples(tmp_path, tmp_path, "portrait", "validation"))
