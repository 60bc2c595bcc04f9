"""How a picture's faces are looked for, with networks that find what shines in it."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import cv2
import numpy as np
import pytest
import skimage.data
from numpy.typing import NDArray

from palmkit import kits
from palmkit.kits import FaceDetector
from palmkit.kits.detector import Detector
from palmkit.kits.face.options import FaceOptions
from palmkit.kits.face.search import FaceSearch
from palmkit.kits.image import Image, resize
from palmkit.kits.kit import shipped_model
from tests.kits.conftest import picture

WHOLE = (1, 256, 320, 3)


class Spots:
    """Finds each spot that shines; the score is what `score` says of its longer side as seen.

    runs: the input shapes it saw.
    """

    def __init__(self, score: Callable[[float], float] = lambda side: 0.9) -> None:
        self.metadata = {"threshold": "0.6"}
        self.runs: list[tuple[int, ...]] = []
        self._score = score

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        image = inputs["image"][0]
        self.runs.append((1, *image.shape))
        outputs = {
            f"{name}_{stride}": np.zeros(
                (1, image.shape[0] // stride, image.shape[1] // stride, channels), np.float32
            )
            for stride in (8, 16, 32)
            for name, channels in (("score", 1), ("box", 4), ("points", 10))
        }
        lit = (image.max(axis=2) > 100).astype(np.uint8)
        stats = cast("NDArray[np.int32]", cv2.connectedComponentsWithStats(lit)[2])
        for x, y, width, height in stats[1:, :4]:
            column, row = int((x + width / 2) // 8), int((y + height / 2) // 8)
            outputs["score_8"][0, row, column] = self._score(max(width, height))
            centre = np.array([column + 0.5, row + 0.5]) * 8
            before, after = centre - [x, y], np.array([x + width, y + height]) - centre
            outputs["box_8"][0, row, column] = np.concatenate([before, after]) / 8
        return outputs


def spots(*squares: tuple[float, float, float]) -> Image:
    """A picture of 640x480 with white squares: x, y, side."""
    image = picture(480, 640, *[(0, *square) for square in squares])
    image[:] = image[:, :, :1]
    return image


def found_by(network: Spots, image: Image, **options: Any) -> list[list[float]]:
    """The boxes, from left to right."""
    return sorted(FaceDetector(model=network, **options).detect(image).boxes.tolist())


LARGE = (40, 200, 160)
FAR = [(281, 21, 22), (421, 31, 18), (571, 51, 30), (283, 333, 21), (435, 371, 25), (561, 401, 19)]


def test_a_small_face_is_seen_closer_alone() -> None:
    network = Spots()
    found = found_by(network, spots(LARGE, FAR[0]))
    assert network.runs == [WHOLE, (1, 128, 128, 3)]
    np.testing.assert_allclose(found[0], [*LARGE, LARGE[2]], atol=2)
    np.testing.assert_allclose(found[1], [*FAR[0], FAR[0][2]], atol=0.8)


@pytest.mark.parametrize("count", range(2, 7))
def test_small_faces_are_seen_closer_side_by_side(count: int) -> None:
    network = Spots()
    found = found_by(network, spots(LARGE, *FAR[:count]))
    others = count - 1
    sheet = (1, 128 * -(-others // 4), 128 * min(others, 4), 3)
    assert network.runs == [WHOLE, (1, 128, 128, 3), sheet]
    expected = sorted([[*square, square[2]] for square in (LARGE, *FAR[:count])])
    np.testing.assert_allclose(found[1:], expected[1:], atol=0.8)


@pytest.mark.parametrize("x", [0, 3, 30, 320, 601, 614])
@pytest.mark.parametrize("gap", [4, 8, 40, 90])
def test_neighbours_and_borders_do_not_cut_or_double(x: float, gap: float) -> None:
    squares = [(x, 2, 20), (x, 22 + gap, 26)]
    found = found_by(Spots(), spots(*squares))
    assert len(found) == 2
    np.testing.assert_allclose(
        sorted(found, key=lambda box: box[1]), [[*s, s[2]] for s in squares], atol=1.5
    )


CROWD = [(40 + 70 * (i % 8), 40 + 90 * (i // 8), 24) for i in range(16)]
PROBES = (1, 128, 512, 3)


def test_a_frame_with_a_crowd_is_seen_whole() -> None:
    network = Spots()
    search = FaceSearch(network, FaceOptions(), is_video=True)
    found = search.find(spots(*CROWD), None, 0.6)
    assert network.runs == [WHOLE, (1, 128, 128, 3), (1, 480, 640, 3)]
    expected = sorted([x, y, x + side, y + side] for x, y, side in CROWD)
    np.testing.assert_allclose(sorted(found.boxes.tolist()), expected, atol=0.6)


def test_a_picture_of_a_crowd_is_seen_closer_where_it_is() -> None:
    """All of it lies in the upper half, and is seen in a sheet at twice the scale."""
    network = Spots()
    found = found_by(network, spots(*CROWD))
    assert network.runs[:2] == [WHOLE, PROBES]
    ((_, height, width, _),) = network.runs[2:]
    assert height * width < 480 * 640
    np.testing.assert_allclose(found, sorted([*s, s[2]] for s in CROWD), atol=0.6)


DIM = [(40 + 70 * (i % 8), 40 + 90 * (i // 8), 20) for i in range(16)]


def test_where_a_crowd_may_be_the_best_network_searches_again() -> None:
    def runs(*squares: tuple[float, float, float], **options: Any) -> tuple[int, int]:
        """How often either network runs; small faces are in doubt where it sees few pixels."""
        networks = [Spots(lambda side: 0.95 if side > 18 or side == 10 else 0.4) for _ in range(2)]
        kit = FaceDetector("image", model=networks[0], best_detector_model=networks[1], **options)
        kit.detect(spots(*squares))
        return len(networks[0].runs), len(networks[1].runs)

    assert runs(LARGE) == (1, 0)
    assert runs(LARGE, FAR[0], FAR[1]) == (3, 0)
    once, again = runs(LARGE, *CROWD[-8:], *CROWD[:2])
    # That it is a crowd the first one has seen: the best one looks closer at once.
    assert (once, again) == (2, 2)
    for options in ({"quality": "fast"}, {"budget_ms": 1e6}):
        more, none = runs(LARGE, *CROWD[-8:], *CROWD[:2], **options)
        assert more > 2 and none == 0
    assert runs(*CROWD, quality="best")[1] == 0


def test_what_the_best_network_finds_counts_by_its_own_threshold() -> None:
    image = spots(*CROWD)

    def scores(threshold: str, **options: Any) -> list[float]:
        best = Spots(lambda side: 0.8)
        best.metadata = {"threshold": threshold}
        kit = FaceDetector(model=Spots(), best_detector_model=best, **options)
        found: list[float] = kit.detect(image).scores.tolist()
        return found

    # 0.7 is added to each logit: 0.2 since two looks agree, 0.5 for company.
    assert scores("0.7") == pytest.approx([0.890] * len(CROWD), abs=1e-3)
    assert scores("0.9") == []
    assert scores("0.9", min_score=0.7) == scores("0.7")
    assert scores("0.7", quality="fast") == pytest.approx([0.948] * len(CROWD), abs=1e-3)
    # Nobody knows what is better than a model of one's own.
    with FaceDetector(model=Spots()) as alone:
        assert len(alone.detect(image).scores) == len(CROWD)


def test_where_nothing_is_sure_among_much_that_may_be_a_face_the_best_network_looks() -> None:
    def found(*squares: tuple[float, float, float], **options: Any) -> int:
        """The first network is sure of large faces, and in doubt of others."""
        first = Spots(lambda side: 0.9 if side > 60 else 0.4)
        with FaceDetector(model=first, best_detector_model=Spots(), **options) as kit:
            scores = kit.detect(spots(*squares)).scores
        return int((scores > 0.8).sum())

    assert found(*DIM) == found(*DIM, min_score=0.1) == len(DIM)
    assert found(*DIM[:4]) == 0
    assert found(LARGE, *[each for each in DIM if each[0] > 220]) == 1


@pytest.mark.parametrize(("option", "count"), [("size", 3), ("tile", 1)])
def test_of_several_small_faces_in_so_many_pixels_the_best_network_looks(
    option: str, count: int
) -> None:
    """Whoever asks for a size has crowds searched as without one, in three runs."""

    def looks(*squares: tuple[float, float, float]) -> int:
        options: dict[str, Any] = {option: 640}
        best = Spots()
        with FaceDetector(model=Spots(), best_detector_model=best, **options) as kit:
            kit.detect(spots(*squares))
        return len(best.runs)

    assert looks(LARGE, FAR[0]) == 0
    assert looks(LARGE, *FAR[:2]) == count


def in_a_photo(side: int, *groups: tuple[int, int]) -> tuple[Image, list[list[float]]]:
    """A black photo of 2400x1800 with 3x4 faces of this side at each place; and their boxes."""
    faces = [
        (x + 2 * side * (i % 4), y + 2 * side * (i // 4), side)
        for x, y in groups
        for i in range(12)
    ]
    image = picture(1800, 2400, *[(0, *face) for face in faces])
    image[:] = image[:, :, :1]
    return image, sorted([x, y, side, side] for x, y, side in faces)


def pixels(network: Spots) -> int:
    """How many pixels the network saw."""
    return sum(height * width for _, height, width, _ in network.runs)


@pytest.mark.parametrize("side", [20, 40])
def test_a_large_photo_is_seen_as_closely_as_its_faces_need_and_only_there(side: int) -> None:
    image, expected = in_a_photo(side, (150, 200), (1300, 900))
    network = Spots(lambda seen: 0.9 if seen >= 10 else 0.3)
    found = sorted(found_by(network, image), key=lambda box: np.round(box).tolist())
    np.testing.assert_allclose(found, expected, atol=1)
    one = Spots(lambda seen: 0.9 if seen >= 10 else 0.3)
    found_by(one, in_a_photo(side, (150, 200))[0])
    assert pixels(one) < pixels(network)
    closest = next(2**n / 7.5 for n in range(6) if side * 2**n / 7.5 >= 24)
    assert pixels(network) < 2400 * 1800 * closest**2 / 3


def test_what_a_closer_look_refutes_is_no_face() -> None:
    image, _ = in_a_photo(30, (150, 200))
    assert found_by(Spots(lambda seen: 0.9 if seen < 9 or seen > 36 else 0.3), image) == []


def test_two_looks_at_a_small_face_count() -> None:
    """In logits, .8 of the closer one and .2 of the one before, and .2; and .5 for company.

    So the last of three gets -.405 * .8 + .355 * .2 + .7 = .447 where .9 was seen at first; the
    threshold's is .405.
    """
    image, expected = in_a_photo(30, (150, 200))

    def is_found(before: float, closer: float) -> bool:
        # The probes, 128 pixels wide, show them larger; others with 4, 8, 16 and 32 pixels.
        def score(seen: float) -> float:
            return 0.9 if seen > 36 else before if seen < 9 else closer

        return len(found_by(Spots(score), image)) == len(expected)

    assert is_found(0.9, 0.4) and not is_found(0.4, 0.4)
    assert is_found(0.4, 0.42) and not is_found(0.15, 0.42)


def test_small_faces_in_company_need_less() -> None:
    """A logit of 0.5 is added; to all 0.248, as looks agree: 0.42 becomes 0.605, 0.41 0.595."""
    image, expected = in_a_photo(30, (150, 200))

    def count(score: float) -> int:
        # The probes, 128 pixels wide, show them larger.
        return len(found_by(Spots(lambda seen: 0.9 if seen > 36 else score), image))

    assert count(0.42) == len(expected)
    assert count(0.41) == 0
    # A much smaller one beside them has no company.
    image[1500:1514, 2000:2014] = 255
    assert count(0.42) == len(expected)
    assert count(0.58) == len(expected)
    assert count(0.60) == len(expected) + 1
    assert len(found_by(Spots(lambda side: 0.49), spots(FAR[2]))) == 0


def test_a_crowd_has_one_face_that_is_sure_or_two_that_may_be() -> None:
    image, _ = in_a_photo(40, (150, 200))

    def runs(score: float, min_score: float) -> list[tuple[int, ...]]:
        network = Spots(lambda side: score)
        FaceSearch(network, FaceOptions()).find(image, None, min_score)
        return network.runs[1:]

    # Nobody: all is looked at again in more pixels.
    assert runs(0.44, 0.6) == [PROBES, (1, 480, 640, 3), PROBES]
    # Who wants what is less sure gets it, but not as a crowd's.
    assert runs(0.44, 0.1) == [PROBES, (1, 480, 640, 3)]
    for min_score in (0.1, 0.6, 0.9):
        looks = runs(0.46, min_score)
        assert looks[0] == PROBES and len(looks) > 2


def test_a_budget_ends_the_search_with_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr("palmkit.kits.face.search.time.perf_counter", lambda: now_s[0])

    class Slow(Spots):
        """It takes a microsecond a pixel."""

        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            now_s[0] += inputs["image"][0, :, :, 0].size / 1e6
            return super().run(inputs)

    image, expected = in_a_photo(40, (150, 200), (1300, 900))
    looks: list[int] = []
    counts: list[int] = []
    for budget_ms in (0, 100, 160, 450, None):
        network, now_s[0] = Slow(), 0.0
        counts.append(len(found_by(network, image, budget_ms=budget_ms)))
        looks.append(len(network.runs))
        # One look of 320x256 pixels is always taken; estimates are as rough as its margins.
        assert budget_ms is None or now_s[0] <= max(budget_ms / 1000 * 1.1, 320 * 256 / 1e6)
    assert looks[:2] == [1, 1] and looks == sorted(looks) and looks[-1] > looks[2]
    assert counts == [len(expected)] * 5


def test_if_the_likeliest_is_no_face_no_other_is_looked_at() -> None:
    network = Spots(lambda side: 0.3 if side < 24 else 0.6 if side < 60 else 0.9)
    found = found_by(network, spots(LARGE, *FAR))
    assert network.runs == [WHOLE, (1, 128, 128, 3)]
    np.testing.assert_allclose(found, [[*LARGE, LARGE[2]]], atol=2)


def test_what_is_seen_closer_has_to_score_more() -> None:
    """The threshold is 0.6: an eighth of what is left to 1 is added."""
    assert len(found_by(Spots(lambda side: 0.64), spots(FAR[2]))) == 0
    assert len(found_by(Spots(lambda side: 0.66), spots(FAR[2]))) == 1
    assert len(found_by(Spots(lambda side: 0.61), spots(LARGE))) == 1


def test_what_is_looked_at_closer() -> None:
    def runs(score: float, *squares: tuple[float, float, float], **options: Any) -> int:
        network = Spots(lambda side: 0.9 if side > 70 else score)
        found_by(network, spots(*squares), **options)
        return len(network.runs)

    small, tiny, middling = (300, 20, 30), (300, 20, 16), (300, 20, 60)
    assert runs(0.25, LARGE, small) == runs(0.25, small) == 2
    assert runs(0.15, LARGE, small) == runs(0.15, small) == 1
    # The least certain of the smallest only count where there is nothing else.
    assert runs(0.25, LARGE, tiny) == runs(0.15, tiny) == 2
    assert runs(0.15, LARGE, tiny) == runs(0.04, tiny) == 1
    # Large ones look alike in more pixels.
    assert runs(0.55, LARGE, middling) == runs(0.55, middling) == 1


def test_a_picture_that_is_enlarged_as_far_as_can_be_is_seen_once() -> None:
    network = Spots()
    found = found_by(network, picture(120, 160, (0, 30, 30, 9), (0, 100, 60, 60)))
    assert network.runs == [(1, 256, 320, 3)]
    np.testing.assert_allclose(found, [[30, 30, 9, 9], [100, 60, 60, 60]], atol=0.5)


def test_only_the_roi_is_seen_closer() -> None:
    """A face that lies half outside it is as in the whole: what is in it."""
    faces = FaceDetector(model=Spots()).detect(
        spots((300, 100, 30), (390, 220, 20)), roi=(0, 0, 400, 400)
    )
    np.testing.assert_allclose(
        sorted(faces.boxes.tolist()), [[300, 100, 30, 30], [390, 220, 10, 20]], atol=1
    )


def test_as_many_faces_as_wanted_are_enough() -> None:
    network = Spots()
    search = FaceSearch(network, FaceOptions())
    assert len(search.find(spots(FAR[2]), None, 0.6, enough=1)) == 1
    assert network.runs == [(1, 128, 160, 3)]
    network.runs.clear()
    assert len(search.find(spots(FAR[2]), None, 0.6, enough=2)) == 1
    assert network.runs == [(1, 128, 160, 3), WHOLE, (1, 128, 128, 3)]


def test_parts_are_seen_in_rows_and_what_they_cut_is_left_out() -> None:
    network = Spots()
    detector = Detector(network, 5, 2.0)
    image = spots(*FAR)
    parts = [(x - 20, y - 20, 64, 64) for x, y, _ in FAR[:5]] + [(FAR[5][0] + 5, 380, 64, 64)]
    found = detector.infer_parts(image, (0, 0, 640, 480), parts, 128, 0.5)
    assert network.runs == [(1, 256, 512, 3)]
    assert len(found) == 5 and found.keypoints.shape == (5, 5, 2)
    expected = [[x, y, x + side, y + side] for x, y, side in FAR[:5]]
    np.testing.assert_allclose(found.boxes, expected, atol=0.8)


@pytest.mark.skipif(
    not shipped_model("face_detector").is_file(),
    reason="models/face_detector/face_detector.palm has not been made here",
)
def test_small_real_faces_beside_a_large_one() -> None:
    image = kits.read_image(skimage.data.astronaut())  # type: ignore[no-untyped-call]
    x, y, width, height = kits.detect_faces(image).boxes[0].round().astype(int).tolist()
    face = image[y - 30 : y + height + 20, x - 30 : x + width + 30]
    places = [(20, 30, 30), (30, 440, 26), (430, 20, 22)]
    for left, top, side in places:
        image[top : top + side * len(face) // face.shape[1], left : left + side] = resize(
            face, side * len(face) // face.shape[1], side
        )
    centres = [box[:2] + box[2:] / 2 for box in kits.detect_faces(image).boxes]
    for left, top, side in places:
        middle = np.array([left + side / 2, top + side * 0.65])
        assert min(np.abs(centre - middle).max() for centre in centres) < side / 4
