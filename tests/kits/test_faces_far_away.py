"""Faces that are small in large pictures are found, with the networks that ship."""

from typing import get_args

import numpy as np
import pytest

from palmkit.kits import FaceDetector
from palmkit.kits.image import resize
from palmkit.kits.quality import Quality
from tests.kits.conftest import far_away


@pytest.mark.parametrize("quality", get_args(Quality))
def test_nobody_is_in_a_large_picture_only_after_a_second_look(quality: Quality) -> None:
    image = far_away((900, 400, 90))
    detector = FaceDetector(quality=quality)
    (box,) = detector.detect(image).boxes
    np.testing.assert_allclose(box[:2] + box[2:] / 2, (939, 420), atol=6)
    # In half of the pixels it is not looked for again.
    assert not len(detector.detect(resize(image, 288, 640)))


@pytest.mark.parametrize("quality", get_args(Quality))
def test_a_size_sees_as_many_of_a_crowd_as_without_it(quality: Quality) -> None:
    image = far_away(*((60 + 230 * i, 60 + 250 * j, 60) for i in range(4) for j in range(3)))
    for size in (None, 1000, 2000):
        assert len(FaceDetector(quality=quality, size=size).detect(image)) == 12
