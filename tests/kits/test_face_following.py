import numpy as np
import pytest

from palmkit.kits.camera_motion import Similarity
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
