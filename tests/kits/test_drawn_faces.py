"""The sample of a face is drawn by us, and the kits take it for one."""

import numpy as np

from palmkit import assets, kits
from palmkit.kits.image import read_image
from tests.kits.drawn_faces import scene

# By JPEG at quality 92, on average and at an edge of strands.
OFF, MOST_OFF = 2.0, 80


def test_the_sample_is_what_is_drawn() -> None:
    sample = read_image(assets.path("samples/face.jpg"))
    drawn = scene([(320, 210)], 480, 640, 14.0)
    off = np.abs(sample.astype(int) - drawn)
    assert off.mean() < OFF and off.max() < MOST_OFF


def test_the_kits_see_a_face_a_person_and_hair() -> None:
    sample = assets.path("samples/face.jpg")
    faces = kits.face_mesh(sample)
    assert len(faces) == 1 and faces.scores[0] > 0.8
    nose = faces.keypoints[0, 2]
    assert np.abs(nose - (320, 210 + 4 * 14)).max() < 14
    assert kits.segment_portrait(sample).coverage > 0.25
    assert 0.03 < kits.segment_hair(sample).coverage < 0.2
