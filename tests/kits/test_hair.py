from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits import FaceDetector, HairSegmenter, TryOn
from palmkit.kits.portrait import hair
from palmkit.kits.portrait.network import SegmentationNetwork
from palmkit.kits.portrait.views import heads_without_faces, square_round
from palmkit.kits.quality import Quality
from tests.kits.conftest import Blobs, picture
from tests.kits.drawn_portraits import SIDE, Reds, iou, scene


@pytest.fixture
def hair_networks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the networks that hair kits open from here on, whosever models they are."""
    names: list[str] = []

    class Told(SegmentationNetwork):
        def __init__(self, model: Any, options: Any, name: str, **given: Any) -> None:
            super().__init__(model, options, name, **given)
            names.append(name)

    monkeypatch.setattr(hair, "SegmentationNetwork", Told)
    return names


def test_hair_is_looked_for_round_each_face(reds: Reds) -> None:
    """The face detector's stand-in takes green and blue squares for faces."""
    image = picture(300, 600, (1, 100, 120, 60), (2, 420, 120, 60))
    image[90:120, 100:160, 0] = image[90:120, 420:480, 0] = 120
    image[10:30, 290:310, 0] = 120
    found = HairSegmenter(model=reds, face_model=Blobs(), quality="fast").segment(image)
    assert len(reds.views) == 3
    assert found.mask[95:115, 105:155].min() > 0.5 and found.mask[95:115, 425:475].min() > 0.5
    # Out of reach of both faces: a square of 3.5 sides round each.
    assert not found.mask[:, 260:320].any()
    reds.views.clear()
    one = HairSegmenter(model=reds, face_model=Blobs(), max_faces=1, quality="fast").segment(image)
    assert len(reds.views) == 1 and one.coverage < 0.7 * found.coverage


def test_hair_without_a_face_is_looked_for_everywhere(reds: Reds) -> None:
    image, inside = scene()
    dim = (image // 12).astype(np.uint8)
    found = HairSegmenter(model=reds, face_model=Blobs(threshold="0.99")).segment(image)
    assert iou(found.mask > 0.5, inside) > 0.93
    assert HairSegmenter(model=reds, face_model=Blobs()).segment(dim).coverage == 0


def test_hair_is_looked_for_round_heads_without_a_face(reds: Reds, finder: Reds) -> None:
    """Someone from behind stands beside a small face; the finder takes red for people."""
    image = picture(400, 600, (1, 520, 40, 40))
    image[20:38, 520:560, 0] = 120
    image[150:390, 150:250] = (150, 30, 30)
    # Red enough for a body, not for hair.
    image[220:390, 150:250, 0] = 100
    faces = Blobs(threshold="0.7")
    segmenter = HairSegmenter(model=reds, face_model=faces, finder_model=finder, quality="fast")
    mask = segmenter.segment(image).mask
    assert mask[25:35, 525:555].min() > 0.5
    assert mask[160:200, 160:240].min() > 0.5
    assert len(reds.views) == 3
    # Only the head of the figure is looked at, and of those whose faces are asked for nobody else.
    assert not mask[320:, 150:250].any()
    one = HairSegmenter(model=reds, face_model=faces, finder_model=finder, max_faces=1)
    assert not one.segment(image).mask[150:].any()


def test_hair_that_hangs_down_beyond_the_view_is_followed(reds: Reds) -> None:
    """The view of a face of 40 pixels is 140 high; hair hangs to 200 below, a scarf from 240 on."""
    image = picture(480, 320, (1, 140, 60, 40))
    image[40:300, 110:135, 0] = 120
    image[340:400, 110:250, 0] = 120
    segmenter = HairSegmenter(model=reds, face_model=Blobs(), max_faces=1, quality="fast")
    mask = segmenter.segment(image).mask
    assert len(reds.views) == 2
    assert mask[50:290, 115:130].min() > 0.5
    assert not mask[:, 160:].any()
    # Frames of videos are looked at once.
    with HairSegmenter("video", model=reds, face_model=Blobs(), quality="fast") as video:
        assert not video.segment(image, 0.0).mask[170:].any()
    assert len(reds.views) == 3
    # A thread that reaches the view's end is no hair that hangs down.
    image[100:, 112:135, 0] = image[0, 0, 0]
    segmenter.segment(image)
    assert len(reds.views) == 4


class Nobody(Reds):
    """A finder that sees no people."""

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {"mask": np.zeros((1, SIDE // 2, SIDE // 2, 1), np.float32)}


def test_hair_of_a_near_head_is_found_beside_a_far_face(reds: Reds) -> None:
    """Large and red is the hair of a head from behind, which the finder did not notice."""
    image = picture(400, 600, (1, 520, 40, 40))
    image[60:260, 100:300, 0] = 120
    image[330:360, 400:430, 0] = 120
    faces = Blobs(threshold="0.7")
    segmenter = HairSegmenter(model=reds, face_model=faces, finder_model=Nobody())
    mask = segmenter.segment(image).mask
    assert mask[70:250, 110:290].min() > 0.5
    # What is small there is not believed.
    assert not mask[320:].any()
    faces_alone = HairSegmenter(model=reds, face_model=faces, max_faces=1)
    assert not faces_alone.segment(image).mask[:, :300].any()


def test_hair_may_have_to_be_seen_in_the_mirror_too(reds: Reds) -> None:
    image = picture(300, 300, (1, 90, 120, 120))
    image[100:120, 90:210, 0] = 120
    segmenter = HairSegmenter(model=reds, face_model=Blobs(), quality="fast")
    faces = FaceDetector(model=Blobs()).detect(image)
    area = (0, 0, 300, 300)
    once, twice = (segmenter.around(image, faces, area, None, twice=each) for each in (False, True))
    np.testing.assert_allclose(twice, once, atol=0.02)
    # A network that is mistaken to the left of the middle, whatever is there.
    see = reds.run

    def mistaken(inputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        outputs = see(inputs)
        outputs["mask"][:, :, :8] = 1
        return outputs

    reds.run = mistaken  # type: ignore[method-assign]
    once, again = (segmenter.around(image, faces, area, None, twice=each) for each in (False, True))
    assert np.abs(once - twice).max() > 0.9
    np.testing.assert_allclose(again, twice, atol=0.02)


QUALITIES: tuple[Quality, ...] = ("fast", "best")


def test_hair_of_the_best_quality_is_the_mean_of_several_looks(reds: Reds) -> None:
    image = picture(300, 300, (1, 90, 120, 120))
    image[100:120, 90:210, 0] = 120
    fast, best = (
        HairSegmenter(model=reds, face_model=Blobs(), quality=quality, refine=False)
        for quality in QUALITIES
    )
    # Edges are as soft as they are where the middle is seen nearer.
    once, several = fast.segment(image).mask, best.segment(image).mask
    assert np.abs(once - several).mean() < 0.02
    assert np.corrcoef(once.ravel(), several.ravel())[0, 1] > 0.98
    see, looks = reds.run, list[NDArray[np.float32]]()

    def mistaken(inputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        looks.append(np.asarray(inputs["image"]))
        outputs = see(inputs)
        outputs["mask"][:, :, :8] = 1
        return outputs

    reds.run = mistaken  # type: ignore[method-assign]
    assert fast.segment(image).mask.max() > 0.99
    assert len(looks) == 1
    elsewhere = np.ones(once.shape, bool)
    elsewhere[90:130, 80:220] = False
    assert best.segment(image).mask[elsewhere].max() < 0.6
    assert len(looks) == 5
    np.testing.assert_array_equal(looks[2], looks[1][:, :, ::-1])
    np.testing.assert_array_equal(looks[4], looks[3][:, :, ::-1])
    # In videos it is one look.
    with HairSegmenter("video", model=reds, face_model=Blobs(), quality="best") as video:
        video.segment(image)
    assert len(looks) == 6


@pytest.mark.parametrize(("sureness", "is_nearer"), [(1.0, True), (0.6, False)])
def test_where_much_is_in_doubt_two_looks_are_from_farther_off(
    sureness: float, is_nearer: bool
) -> None:
    class Sure(Reds):
        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            return {"mask": super().run(inputs)["mask"].round() * sureness}

    network, image = Sure(), picture(300, 300, (1, 90, 120, 120))
    image[100:120, 90:210, 0] = 220
    kit = HairSegmenter(model=network, face_model=Blobs(), quality="best", refine=False)
    mask = kit.segment(image).mask
    here, _, there, _ = ((view[..., 0] > 100).sum() for view in network.views[:4])
    assert there / here == pytest.approx(1.3**2 if is_nearer else 0.7**2, rel=0.25)
    # All of them see the hair in one place.
    assert mask[105:115, 100:200].mean() == pytest.approx(sureness, abs=0.1)


def test_a_head_that_one_look_leaves_in_doubt_is_looked_at_again() -> None:
    class Doubtful(Reds):
        """Is sure of the right head alone."""

        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            found = super().run(inputs)["mask"]
            is_unsure = (np.asarray(inputs["image"])[..., 2] > 150).any()
            return {"mask": found * 0.7 if is_unsure else found.round()}

    def looks(network: Reds, *channels: int, **options: Any) -> tuple[int, NDArray[np.float32]]:
        image = picture(300, 900, *[(each, 150 + 300 * each, 120, 80) for each in channels])
        image[10:118, :, 0] = 220
        faces = Blobs(threshold="0.9")
        with HairSegmenter(
            model=network, face_model=faces, max_faces=3, refine=False, **options
        ) as kit:
            mask = kit.segment(image).mask
        return len(network.views), mask[:118]

    assert looks(Doubtful(), 1)[0] == 1
    assert looks(Doubtful(), 2)[0] == 4
    once, unsure = looks(Doubtful(), 1, 2)
    assert once == 5
    assert looks(Doubtful(), 1, 2, quality="best")[0] == 8
    assert looks(Doubtful(), 1, 2, quality="fast")[0] == 2
    assert looks(Doubtful(), 1, 2, mode="video")[0] == 2
    # The best network's word counts four times as much as the first one's, whatever the size of its
    # input; only if that is in doubt, too, there are four looks.
    sure, first_word = (looks(each, 1, 2, quality="fast")[1] for each in (Reds(), Doubtful()))
    expected = 0.8 * sure + 0.2 * first_word
    for best, count in ((Reds(), 1), (Reds(side=96), 1), (Doubtful(), 4), (Doubtful(side=96), 4)):
        first, mask = looks(Doubtful(), 1, 2, best_model=best)
        assert (first, len(best.views)) == (2, count)
        assert {view.shape[0] for view in best.views} == {best.side}
        if count == 1:
            assert np.abs(mask - expected).mean() < 0.01
        else:
            assert np.abs(mask - unsure).mean() < 0.01
    assert np.abs(unsure - expected).mean() > 0.05
    unasked, video = Reds(), Reds()
    assert looks(Doubtful(), 1, best_model=unasked)[0] == 1
    assert looks(Doubtful(), 1, 2, mode="video", best_model=video)[0] == 2
    assert not unasked.views and not video.views


def test_a_body_below_a_face_is_no_other_head() -> None:
    people = np.zeros((64, 64), np.float32)
    people[10:60, 20:40] = 1
    nobody = np.zeros((0, 4), np.float32)
    (head,) = heads_without_faces(people, nobody, 640, 640)
    assert head.is_sure and head.part == pytest.approx((185, 72.4, 230, 230))
    face = np.array([[270, 120, 60, 60]], np.float32)
    assert heads_without_faces(people, face, 640, 640) == []
    # A tiny face elsewhere explains nobody, and small rests are nobody.
    people[5:8, 60:63] = 1
    tiny = np.array([[600, 50, 12, 12]], np.float32)
    assert heads_without_faces(people, tiny, 640, 640) == [head]
    people[:, 4:] = 1
    assert heads_without_faces(people, nobody, 640, 400) == [((0, 0, 640, 400), True)]


def test_the_square_round_a_face_may_reach_out_of_the_picture(reds: Reds) -> None:
    image = picture(150, 300, (1, 0, 10, 100))
    image[110:130, :100, 0] = 120
    found = HairSegmenter(model=reds, face_model=Blobs(), quality="fast").segment(image)
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


@pytest.mark.parametrize(
    "given, opened",
    [
        ({}, ["hair", "hair_best"]),
        ({"quality": "fast"}, ["hair"]),
        ({"quality": "best"}, ["hair_best"]),
        ({"mode": "video"}, ["hair"]),
        ({"mode": "video", "quality": "best"}, ["hair_best"]),
        ({"model": Reds()}, ["hair"]),
        ({"model": Reds(), "best_model": Reds()}, ["hair", "hair_best"]),
    ],
)
def test_the_quality_chooses_the_networks(
    given: Mapping[str, Any], opened: list[str], hair_networks: list[str]
) -> None:
    HairSegmenter(**given).close()
    assert hair_networks == opened


@pytest.mark.parametrize(
    "given, opened",
    [
        ({}, "hair_best"),
        ({"quality": "fast"}, "hair"),
        ({"mode": "video"}, "hair"),
        ({"mode": "video", "quality": "best"}, "hair_best"),
    ],
)
def test_the_quality_of_try_on_chooses_its_hair_network(
    given: Mapping[str, Any], opened: str, hair_networks: list[str]
) -> None:
    TryOn(**given).close()
    assert hair_networks == [opened]


def test_kits_that_look_once_ask_the_best_network_once() -> None:
    image = picture(300, 300, (1, 90, 120, 120))
    image[100:120, 90:210, 0] = 120
    reds, faces = Reds(), FaceDetector(model=Blobs(), quality="fast").detect(image)
    kit = HairSegmenter(model=reds, face_model=Blobs(), quality="best")
    kit.around(image, faces, (0, 0, 300, 300), None, once=True)
    assert len(reds.views) == 1
    kit.around(image, faces, (0, 0, 300, 300), None)
    assert len(reds.views) == 5


def test_small_heads_are_not_sure() -> None:
    """In videos they are still looked at where somebody was; in pictures they are nobody's."""
    people = np.zeros((64, 64), np.float32)
    people[10:50, 10:20] = people[10:20, 40:48] = people[40:45, 55:60] = 1
    nobody = np.zeros((0, 4), np.float32)
    heads = heads_without_faces(people, nobody, 640, 640)
    assert [head.is_sure for head in heads] == [True, False]
    assert heads[1].part[0] < 400 < 480 < heads[1].part[0] + heads[1].part[2]


def test_hair_of_heads_without_faces_is_followed_in_videos(reds: Reds, finder: Reds) -> None:
    """Someone from behind walks by, far from a face.

    The finder glances at each fourth frame until it sees somebody.
    """
    masks: list[NDArray[np.float32]] = []
    with HairSegmenter(
        "video", model=reds, face_model=Blobs(threshold="0.7"), finder_model=finder
    ) as segmenter:
        for index in range(20):
            image = picture(400, 600, (1, 520, 40, 40))
            if 5 <= index < 14:
                left = 100 + 10 * index
                image[150:390, left : left + 100] = (150, 30, 30)
                image[220:390, left : left + 100, 0] = 100
            masks.append(segmenter.segment(image, 40.0 * index).mask)
    # Of frame 8 the finder sees somebody, and of each from there on, until HELD_S after the last.
    hair = [bool((mask[150:230] > 0.5).any()) for mask in masks]
    assert hair == [8 <= index < 14 for index in range(20)]
    for index in range(8, 14):
        left = 100 + 10 * index
        assert masks[index][160:200, left + 10 : left + 90].min() > 0.5
        # Its body is none, as all of the picture would show it.
        assert not masks[index][320:].any()


def test_videos_of_so_many_faces_know_no_other_heads(reds: Reds, finder: Reds) -> None:
    image = picture(400, 600, (1, 520, 40, 40))
    image[150:390, 150:250] = (150, 30, 30)
    with HairSegmenter(
        "video", max_faces=1, model=reds, face_model=Blobs(threshold="0.7"), finder_model=finder
    ) as segmenter:
        assert not segmenter.segment(image, 0.0).mask[150:].any()
    assert not finder.views


def test_a_finder_that_says_no_number_spoils_no_later_frame(reds: Reds) -> None:
    class Nowhere(Reds):
        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            mask = super().run(inputs)["mask"]
            return {"mask": mask if len(self.views) > 1 else np.full_like(mask, np.nan)}

    image = picture(400, 600)
    image[150:390, 150:250] = (150, 30, 30)
    finder = Nowhere(finds=True)
    with HairSegmenter(
        "video", model=reds, face_model=Blobs(threshold="0.999"), finder_model=finder
    ) as segmenter:
        masks = [segmenter.segment(image, 40.0 * index).mask for index in range(12)]
    assert len(finder.views) > 2
    assert masks[-1][160:200, 160:240].min() > 0.5
