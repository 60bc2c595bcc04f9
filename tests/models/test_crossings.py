"""Whether the measure of crossings tells right ids from wrong ones."""

import numpy as np
import pytest

from palmkit.kits.results import Faces
from palmkit.models.face_mesh.crossings import SIDE, clip, keeps_ids
from palmkit.models.face_mesh.teacher import Picture

BEHIND, FRONT = (
    np.full((SIDE, SIDE, 3), colour, np.uint8) for colour in ((0, 200, 0), (200, 0, 0))
)


def middles(frame: Picture) -> list[float]:
    """Of the green face and of the red one, as far as they are seen."""
    seen = [np.flatnonzero((frame[..., channel] == 200).any(axis=0)) for channel in (1, 0)]
    return [float(columns.mean()) for columns in seen if len(columns)]


@pytest.mark.parametrize(
    ("swapped", "late", "expected"),
    [(False, False, True), (True, False, False), (False, True, None)],
)
@pytest.mark.parametrize("speeds", [(20.0, 20.0), (0.0, 30.0), (30.0, 10.0)])
def test_right_ids_are_told_from_swapped_ones(
    speeds: tuple[float, float], swapped: bool, late: bool, expected: bool | None
) -> None:
    frames = list(clip(BEHIND, FRONT, speeds))

    def kit(frame: Picture, timestamp_ms: float) -> Faces:
        places = middles(frame)
        ids = np.arange(2)[-len(places) :]
        if swapped and timestamp_ms > 300:
            ids = 1 - ids
        if late and not timestamp_ms:
            places, ids = places[:1], ids[:1]
        boxes = np.array([[x - 50, 90, 100, 100] for x in places], np.float32)
        count = len(places)
        points = np.zeros((count, 5, 2), np.float32)
        return Faces(640, 360, boxes, np.ones(count, np.float32), points, ids)

    assert keeps_ids(frames, kit) is expected
