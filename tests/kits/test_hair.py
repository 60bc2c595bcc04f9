import numpy as np
import pytest

from palmkit.kits import HairSegmenter
from palmkit.kits.portrait.views import square_round
from tests.kits.conftest import Blobs, picture
from tests.kits.drawn_portraits import SIDE, Reds, iou, scene


def test_hair_is_looked_for_round_each_face(reds: Reds) -> None:
    """The face detector's stand-in takes green and blue squares for faces."""
    image = picture(300, 600, (1, 100, 120, 60), (2, 420, 120, 60))
    image[90:120, 100:160, 0] = image[90:120, 420:480, 0] = 120
    image[10:30, 290:310, 0] = 120
    found = HairSegmenter(model=reds, face_model=Blobs()).segment(image)
    assert len(reds.views) == 2
    assert found.mask[95:115, 105:155].min() > 0.5 and found.mask[95:115, 425:475].min() > 0.5
    # Out of reach of both faces: a square of 3.5 sides round each.
    assert not found.mask[:, 260:320].any()
    reds.views.clear()
    one = HairSegmenter(model=reds, face_model=Blobs(), max_faces=1).segment(image)
    assert len(reds.views) == 1 and one.coverage < 0.7 * found.coverage


def test_hair_without_a_face_is_looked_for_everywhere(reds: Reds) -> None:
    image, inside = scene()
    dim = (image // 12).astype(np.uint8)
    found = HairSegmenter(model=reds, face_model=Blobs(threshold="0.99")).segment(image)
    assert iou(found.mask > 0.5, inside) > 0.93
    assert HairSegmenter(model=reds, face_model=Blobs()).segment(dim).coverage == 0


def test_the_square_round_a_face_may_reach_out_of_the_picture(reds: Reds) -> None:
    image = picture(150, 300, (1, 0, 10, 100))
    image[110:130, :100, 0] = 120
    found = HairSegmenter(model=reds, face_model=Blobs()).segment(image)
    assert iou(found.mask > 0.4, image[..., 0] > 0) > 0.8
    rows = np.flatnonzero(reds.views[0].any(axis=(1, 2)))
    assert rows[0] >= 5 and rows[-1] < 0.75 * SIDE


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((200, 200, 40, 60), (115, 131, 210, 210)),
        ((0, 0, 40, 60), (0, 0, 210, 210)),
        ((560, 420, 40, 60), (390, 270, 210, 210)),
        ((250, 100, 100, 300), (0, -20, 600, 600)),
    ],
)
def test_the_square_round_a_face(box: tuple[float, ...], expected: tuple[float, ...]) -> None:
    found = square_round(np.array(box, np.float32), 600, 480)
    assert found == pytest.approx(expected)


def test_hair_in_a_video_follows_the_face() -> None:
    segmenter = HairSegmenter("video", model=Reds(), face_model=Blobs())
    for step in range(10):
        image = picture(300, 500, (1, 100 + 10 * step, 120, 60))
        image[90:120, 100 + 10 * step : 160 + 10 * step, 0] = 120
        found = segmenter.segment(image).mask
        assert iou(found > 0.4, image[..., 0] > 0) > 0.75
    segmenter.reset()
    assert segmenter.segment(picture(300, 500)).coverage == 0
