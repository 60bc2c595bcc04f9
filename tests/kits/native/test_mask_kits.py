"""Kits of masks in C find what those of Python find, with networks that Python runs for both."""

from collections.abc import Iterator, Sequence
from ctypes import byref
from dataclasses import replace
from itertools import islice
from typing import Any, Literal

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit import kits
from palmkit.kits.image import Image
from palmkit.kits.portrait.views import square_round
from tests.kits.conftest import NoFaces, faces_that_cross
from tests.kits.drawn_portraits import NearReds, Reds, squares
from tests.kits.native import library
from tests.kits.native.library import Library
from tests.kits.native.test_kits import OFF_MASK, Given, Networks, Part, frame_of, near, options


class MaskKit:
    """A kit of masks of C."""

    def __init__(self, c: Library, name: str, *given: Any) -> None:
        self._given = given
        self._kit = c.made(name, *(None if each is None else byref(each) for each in given))

    def tell(self, name: str, *given: Any) -> None:
        """Call a function of the kit."""
        self._kit(name, *given)

    def __call__(
        self,
        picture: Image,
        part: Sequence[float] | None,
        timestamp_ms: float | None,
        *faces: Any,
    ) -> NDArray[np.float32]:
        given, kept = library.image(picture)
        mask = np.full(picture.shape[:2], 7, np.float32)
        where = None if part is None else byref(library.Part(*part))
        to = library.Mask(mask.ctypes.data, 0, picture.shape[1], picture.shape[0])
        frame = frame_of(timestamp_ms, None)
        self._kit("run", byref(given), where, frame, *faces, byref(to))
        assert kept.size
        return mask


# x, y, width and height of people in a large picture.
FAR = ((100, 800, 60, 110), (1500, 300, 60, 110), (600, 100, 80, 80))


@pytest.mark.parametrize("part", [None, (30.0, 41.0, 401.0, 390.0)])
@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize("refined", [1, 0])
def test_portraits(
    c: Library,
    networks: Networks,
    group: Image,
    part: Part | None,
    looks: bool,
    refined: int,
) -> None:
    finder = networks("person_finder") if looks else None
    made = options("masks", is_refined=refined)
    kit = MaskKit(c, "portrait", networks("portrait"), finder, made)
    with kits.PortraitSegmenter(
        quality="fast", second_pass=looks, refine=bool(refined)
    ) as segmenter:
        expected = segmenter.segment(group, roi=part).mask
    assert expected.max() > 0.9
    near(kit(group, part, None), expected, OFF_MASK)


@pytest.mark.parametrize("places", [(), FAR[:1], FAR[:2], FAR])
def test_people_far_away(c: Library, places: tuple[tuple[int, int, int, int], ...]) -> None:
    """Both look at parts of the picture where a look at the whole shows hardly anybody."""
    picture, _ = squares(*places)
    reds, finder = NearReds(side=128), NearReds(side=64, finds=True)
    kit = MaskKit(c, "portrait", _network(reds), _network(finder), options("masks"))
    python = kits.PortraitSegmenter(model=reds, finder_model=finder, quality="fast")
    expected = python.segment(picture).mask
    near(kit(picture, None, None), expected, OFF_MASK)
    for x, y, width, height in places:
        assert expected[y : y + height, x : x + width].mean() > 0.8
    assert (expected > 0.5).mean() < 0.01


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_people_apart_from_others(c: Library, count: int) -> None:
    """Both look at each of those alone who stand apart from others and leave a doubt."""
    places = [(40 + 360 * (i % 5), 40 + 600 * (i // 5), 130, 250 + 20 * i) for i in range(count)]
    picture, _ = squares(*places)
    reds, finder = Reds(side=128), Reds(side=64, finds=True)
    reds.run = lambda inputs: {"mask": 0.85 * Reds.run(reds, inputs)["mask"]}  # type: ignore[method-assign]
    kit = MaskKit(c, "portrait", _network(reds), _network(finder), options("masks"))
    python = kits.PortraitSegmenter(model=reds, finder_model=finder, quality="fast")
    reds.views.clear()
    expected = python.segment(picture).mask
    assert len(reds.views) == (1 if count == 1 else 1 + min(count, 8))
    near(kit(picture, None, None), expected, OFF_MASK)


@pytest.mark.parametrize("looks", [True, False])
def test_portraits_of_a_video(c: Library, networks: Networks, looks: bool) -> None:
    finder = networks("person_finder") if looks else None
    kit = MaskKit(c, "portrait", networks("portrait"), finder, options("masks", is_video=1))
    with kits.PortraitSegmenter("video", second_pass=looks) as segmenter:
        for index, picture in enumerate(islice(faces_that_cross(20), 12)):
            expected = segmenter.segment(picture, 40.0 * index).mask
            near(kit(picture, None, 40.0 * index), expected, OFF_MASK)


def frames_of_small_people() -> Iterator[tuple[Image, int]]:
    """Frames of one of a video, and how many people there are to be found by its end."""
    for number in range(16):
        yield squares((100 + 9 * number, 800, 60, 110))[0], 1
    for number in range(8):
        yield squares((244, 800, 60, 110), (1500 - 80 * number, 300, 200, 200))[0], 2
    for number in range(8):
        yield squares((244, 800, 60, 110), (900 - 80 * number, 300, 200, 200))[0], 2
    for _ in range(6):
        yield squares((244, 800, 60, 110), (200, 100, 900, 700))[0], 1
    for _ in range(14):
        yield squares()[0], 0
    for _ in range(4):
        yield np.ascontiguousarray(squares((700, 500, 200, 200))[0][300:, 400:]), 1


@pytest.mark.parametrize("smoothing", [1, 0])
def test_small_people_of_a_video(c: Library, smoothing: int) -> None:
    reds, finder = NearReds(side=128), NearReds(side=64, finds=True)
    made = options("masks", is_video=1, is_smooth=smoothing)
    kit = MaskKit(c, "portrait", _network(reds), _network(finder), made)
    python = kits.PortraitSegmenter(
        "video", model=reds, finder_model=finder, smoothing=bool(smoothing)
    )
    seen: list[int] = []
    frames = list(frames_of_small_people())
    for index, (picture, _) in enumerate(frames):
        # Another part is looked at for a while.
        part = (50.0, 20.0, 1700.0, 1100.0) if 31 < index < 35 else None
        expected = python.segment(picture, 40.0 * index, roi=part).mask
        near(kit(picture, part, 40.0 * index), expected, OFF_MASK)
        count, _ = cv2.connectedComponents((expected > 0.5).astype(np.uint8))
        seen.append(count - 1)
    ends = np.flatnonzero(np.diff([people for _, people in frames])).tolist()
    assert [seen[end] for end in ends] == [frames[end][1] for end in ends]


def faces_of(faces: kits.Faces) -> Any:
    made = (library.Face * len(faces))()
    for own, face in zip(made, faces, strict=True):
        own.box[:] = face.box.tolist()
        own.id = -1 if face.id is None else face.id
    return made


@pytest.mark.parametrize("part", [None, (350.0, 40.0, 290.0, 400.0)])
def test_hair(c: Library, networks: Networks, group: Image, part: Part | None) -> None:
    kit = MaskKit(c, "hair", networks("hair"), options("masks"))
    faces = kits.detect_faces(group, max_faces=5, roi=part, quality="fast")
    with kits.HairSegmenter(max_faces=5, quality="fast") as segmenter:
        expected = segmenter.segment(group, roi=part).mask
    assert expected.max() > 0.9
    near(kit(group, part, None, faces_of(faces), len(faces)), expected, OFF_MASK)


def test_hair_that_hangs_down_beyond_the_view(c: Library, networks: Networks, group: Image) -> None:
    kit = MaskKit(c, "hair", networks("hair"), options("masks"))
    found = kits.detect_faces(group, max_faces=1, roi=(0, 0, 340, 480), quality="fast")
    # Half as large and above the face: the view, 3.5 times as large, ends beside the eyes.
    x, y, width, height = found.boxes[0].tolist()
    box = (x + width / 4, y - 0.8 * height, width / 2, height / 2)
    faces = replace(found, boxes=np.array([box], np.float32))
    with kits.HairSegmenter(max_faces=1, quality="fast") as segmenter:
        expected = segmenter.around(group, faces, (0, 0, 640, 480), None)
    _, top, _, side = square_round(faces[0].box, 640, 480)
    assert expected[round(top + side) + 2 :].max() > 0.9
    near(kit(group, None, None, faces_of(faces), 1), expected, OFF_MASK)


def test_hair_of_a_video(c: Library, networks: Networks) -> None:
    kit = MaskKit(c, "hair", networks("hair"), options("masks", is_video=1))
    with kits.HairSegmenter("video") as segmenter, kits.FaceDetector("video") as detector:
        for index, picture in enumerate(islice(faces_that_cross(16), 10)):
            faces = detector.detect(picture, 40.0 * index)
            expected = segmenter.segment(picture, 40.0 * index).mask
            near(kit(picture, None, 40.0 * index, faces_of(faces), len(faces)), expected, OFF_MASK)


class Heads:
    """Hair round heads without faces, by C and by Python, with the same networks."""

    def __init__(self, c: Library, hair: Reds, finder: Reds, mode: Literal["image", "video"]):
        self.c = MaskKit(c, "hair", _network(hair), options("masks", is_video=mode == "video"))
        self.finder = _network(finder)
        self.c.tell("find_heads", byref(self.finder))
        self.python = kits.HairSegmenter(
            mode, model=hair, face_model=NoFaces(), finder_model=finder, quality="fast"
        )

    def __call__(
        self, picture: Image, part: Part | None = None, timestamp_ms: float | None = None
    ) -> NDArray[np.float32]:
        found = self.c(picture, part, timestamp_ms, None, 0)
        near(found, self.python.segment(picture, timestamp_ms, roi=part).mask, OFF_MASK)
        return found


def _network(reds: Reds) -> library.Network:
    return library.network(reds.run, [(reds.side, reds.side)])


def figures(*places: tuple[int, int, int, int]) -> Image:
    """Return a grey picture with people, x, y, width and height, whose upper half is their hair."""
    picture = np.full((400, 600, 3), 60, np.uint8)
    for x, y, width, height in places:
        picture[y : y + height, x : x + width] = (150, 30, 30)
        # Red enough for a body, not for hair.
        picture[y + height // 2 : y + height, x : x + width, 0] = 118
    return picture


FIGURES = {
    "one": figures((150, 150, 100, 240)),
    "several": figures(
        (20, 100, 90, 290), (180, 200, 60, 180), (300, 40, 200, 350), (540, 300, 40, 90)
    ),
    "one of near size beside others": figures((60, 40, 300, 355), (420, 250, 40, 140)),
    "many": figures(*((20 + 80 * i, 100 + 10 * i, 50, 180 - 6 * i) for i in range(7))),
    "far": figures((150, 150, 30, 70), (400, 140, 28, 70)),
    "nobody": figures(),
}


@pytest.mark.parametrize("part", [None, (91.0, 30.0, 430.0, 370.0)])
@pytest.mark.parametrize("picture", FIGURES.values(), ids=FIGURES)
def test_hair_of_heads_without_faces(c: Library, picture: Image, part: Part | None) -> None:
    heads = Heads(c, Reds(), Reds(finds=True), "image")
    mask = heads(picture, part)
    assert (mask > 0.5).any() == (picture[:, 91:521] > 140).any()
    # The body is no hair, which all of the picture at once would show as well.
    heads.c.tell("find_heads", None)
    alone = heads.c(picture, part, None, None, 0)
    assert (picture[alone > 0.5][:, 0] > 60).all()


def test_hair_of_one_near_whom_the_finder_misses(c: Library) -> None:
    """What is small in the look at all of the picture is not believed."""

    class Right(Reds):
        def run(self, inputs: Given) -> dict[str, NDArray[Any]]:
            mask = super().run(inputs)["mask"]
            mask[:, :, : mask.shape[2] * 3 // 4] = 0
            return {"mask": mask}

    picture = figures((60, 40, 200, 350), (470, 150, 110, 240), (330, 300, 20, 40))
    mask = Heads(c, Reds(), Right(finds=True), "image")(picture)
    assert mask[60:180, 70:250].min() > 0.5 and mask[165:250, 480:570].min() > 0.5
    assert mask[290:, 320:360].max() < 0.1


def test_hair_of_photos_from_heads_alone(c: Library, networks: Networks, group: Image) -> None:
    """C and Python agree on a photo where the shipped finder tells of the heads."""
    kit = MaskKit(c, "hair", networks("hair"), options("masks"))
    whole, finder = kit(group, None, None, None, 0), networks("person_finder")
    kit.tell("find_heads", byref(finder))
    expected = kits.HairSegmenter(face_model=NoFaces(), quality="fast").segment(group).mask
    assert expected.max() > 0.9 and np.abs(whole - expected).max() > 0.5
    near(kit(group, None, None, None, 0), expected, OFF_MASK)


def test_hair_of_heads_without_faces_in_a_video(c: Library) -> None:
    """Two people walk, one goes behind the edge, then both are gone, and one comes back."""
    heads = Heads(c, Reds(), Reds(finds=True), "video")
    noise = np.random.default_rng(0)
    shown: list[bool] = []
    for index in range(60):
        right = [(60 + 5 * index, 140, 60, 240)] if index < 30 or index > 45 else []
        left = [(max(160 - 8 * index, 0), 100, 80 - 2 * index, 260)] if index < 25 else []
        picture = figures(*right, *left).astype(np.int16)
        picture += noise.integers(-4, 5, picture.shape, np.int16)
        found = heads(picture.astype(np.uint8), None, 40.0 * index)
        shown.append(bool((found > 0.5).any()))
    assert all(shown[:30]) and not any(shown[32:46]) and all(shown[51:])
