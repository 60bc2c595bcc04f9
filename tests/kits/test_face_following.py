from dataclasses import replace

import numpy as np
import pytest

from palmkit.kits.camera_motion import Similarity
from palmkit.kits.closeup import each_once
from palmkit.kits.crop import Crop
from palmkit.kits.face.following import Mesh, Track
from palmkit.kits.face.topology import POINTS


def mesh(x: float, y: float) -> Mesh:
    """Return a mesh that covers 80 by 80 pixels."""
    points = np.zeros((POINTS, 3), np.float32)
    points[:2, :2] = [[x - 40, y - 40], [x + 40, y + 40]]
    points[2:, :2] = x, y
    crop = Crop(x, y, 120)
    return Mesh(points=points, visibility=np.ones(POINTS, np.float32), presence=1.0, crop=crop)


@pytest.mark.parametrize("pan", [0.0, -12.0])
def test_a_hidden_face_is_expected_where_it_and_the_camera_went(pan: float) -> None:
    """It moves by 3 pixels a frame in the picture of a still camera."""
    track = Track(mesh(300, 200), 0.0)
    for frame in range(20):
        track.take(mesh(300 + (3 + pan) * frame, 200), (frame + 1) / 30)
        track.move(Similarity(shift=complex(pan)))
    for _ in range(3):
        track.move(Similarity(shift=complex(pan)))
    expected = track.expected(24 / 30)
    assert expected is not None
    box, crop = expected
    x = 300 + (3 + pan) * 23
    np.testing.assert_allclose(box, [x - 40, 160, x + 40, 240], atol=1)
    # It keeps the crop while that is off by little.
    assert crop.x == pytest.approx(x, abs=3) and crop.side == 120


def test_the_face_in_front_stays_where_the_mesh_of_one_behind_it_slides_onto_it() -> None:
    behind, front, apart = mesh(300, 200), mesh(240, 200), mesh(500, 200)
    both = [(behind, mesh(252, 200)), (front, mesh(242, 200))]
    for followed in (both, both[::-1]):
        assert each_once([*followed, (apart, apart)], 0.4) == [both[1][1], apart]
    # Of the one behind it is then told where it must be.
    placed = replace(both[0][1], place=behind.box)
    assert each_once([(behind, placed), both[1]], 0.4) == [placed, both[1][1]]
    assert each_once([both[0]], 0.4) == [both[0][1]]
    assert each_once([], 0.4) == []


def test_a_mesh_goes_along_with_the_camera_as_soon_as_its_crop_has_to() -> None:
    seen = mesh(300, 200)
    assert seen.moved(Similarity(shift=1 + 1j)) is seen
    moved = seen.moved(Similarity(2 + 0j, 10 - 20j))
    np.testing.assert_allclose(moved.box, [2 * 260 + 10, 2 * 160 - 20, 2 * 340 + 10, 2 * 240 - 20])
    assert (moved.crop.x, moved.crop.y, moved.crop.side) == (610, 380, 240)
