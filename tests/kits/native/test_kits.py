"""Whole kits in C find what those of Python find, with the networks that Python runs for both.

Boxes are means whose last bits depend on the order of a sum, and crops and pixels follow from them:
OFF is what that comes to, in pixels, and OFF_SCORE in scores. In a video it may decide whether a
crop is kept for the next frame, or something is inferred once more: then points differ by
OFF_VIDEO for a few frames.
"""

import contextlib
import ctypes
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from ctypes import byref
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit import engine, kits
from palmkit.kits.camera_motion import Similarity
from palmkit.kits.image import Image, resize
from palmkit.kits.kit import shipped_model
from palmkit.kits.results import GESTURES
from palmkit.kits.tracks import Tracker
from tests.kits import drawn_hands
from tests.kits.conftest import faces_that_cross, far_away
from tests.kits.native import library
from tests.kits.native.library import KitsError, Library
from tests.kits.native.program import SOURCES

OFF, OFF_VIDEO, OFF_SCORE = 0.05, 2.0, 1e-3
# Faces, and masks, depend on resized pixels alone, which are the same.
OFF_FACE, OFF_MASK = 1e-3, 1e-5
Part = tuple[float, float, float, float]
Given = Mapping[str, NDArray[Any]]


Networks = Callable[[str], library.Network]


def options(name: str, **given: Any) -> library.Options:
    """Return the header's defaults of a kit, with what is given."""
    header = (SOURCES / "palm_kits.h").read_text()
    found = re.search(rf"#define PALM_KITS_{name.upper()} \{{sizeof[^,]*, (.*)\}}", header)
    assert found is not None
    numbers = [float(each) if "." in each else int(each) for each in found[1].split(", ")]
    made = library.Options(ctypes.sizeof(library.Options), *numbers)
    for field, value in given.items():
        setattr(made, field, value)
    return made


class Kit:
    """A kit of C; calling it gives what it found in a picture."""

    def __init__(self, c: Library, name: str, kind: Any, *given: Any) -> None:
        self._given, self._kind = given, kind
        self._kit = c.made(name, *(byref(each) for each in given))

    def __call__(
        self,
        picture: Image,
        part: Sequence[float] | None = None,
        timestamp_ms: float | None = None,
        motion: Similarity | None = None,
    ) -> list[Any]:
        given, kept = library.image(picture)
        where = None if part is None else byref(library.Part(*part))
        found, all = library.List(0, 32), (self._kind * 32)()
        self._kit("run", byref(given), where, frame_of(timestamp_ms, motion), all, byref(found))
        assert kept.size
        return list(all[: found.count])


def frame_of(timestamp_ms: float | None, motion: Similarity | None) -> Any:
    if timestamp_ms is None:
        return None
    frame = library.Frame(timestamp_ms, None)
    if motion is not None:
        told = (motion.turn.real, motion.turn.imag, motion.shift.real, motion.shift.imag)
        frame.motion = ctypes.pointer(library.Motion(*told))
    return byref(frame)


@contextlib.contextmanager
def camera(monkeypatch: pytest.MonkeyPatch, stands: bool) -> Generator[list[Similarity]]:
    """Let Python's cameras stand still, or tell how they moved before the last frame."""
    told: list[Similarity] = []
    real = Tracker.look

    def look(tracker: Tracker, image: Image) -> Similarity:
        motion = Similarity()
        if stands:
            tracker.look_from(motion, image.shape[1], image.shape[0])
        else:
            motion = real(tracker, image)
        told.append(motion)
        return motion

    with monkeypatch.context() as patch:
        patch.setattr(Tracker, "look", look)
        yield told


def near(found: Any, expected: Any, off: float = OFF) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=0, atol=off)


def check_faces(found: list[library.Face], expected: kits.Faces, off: float = OFF_FACE) -> None:
    assert len(found) == len(expected)
    for face, wanted in zip(found, expected, strict=True):
        near(face.box, wanted.box, off)
        near(face.keypoints, wanted.keypoints, off)
        near(face.score, wanted.score, OFF_SCORE)
        assert face.id == (-1 if wanted.id is None else wanted.id)


def check_meshes(found: list[library.Mesh], expected: kits.Faces, off: float = OFF) -> None:
    check_faces([each.face for each in found], expected, off)
    for mesh, wanted in zip(found, expected, strict=True):
        near(mesh.points, wanted.mesh, off)
        near(mesh.visibility, wanted.visibility, 0.01 if off == OFF else 1.0)


def check_hands(found: list[library.Hand], expected: kits.Hands, off: float = OFF) -> None:
    assert len(found) == len(expected)
    for hand, wanted in zip(found, expected, strict=True):
        near(hand.box, wanted.box, off)
        near(hand.landmarks, wanted.landmarks, off)
        near(hand.score, wanted.score, OFF_SCORE)
        near(hand.gesture_score, wanted.gesture_score, 0.01)
        assert GESTURES[hand.gesture] == wanted.gesture
        assert ("right" if hand.right > 0.5 else "left") == wanted.handedness
        assert hand.id == (-1 if wanted.id is None else wanted.id)


def hands_picture(shift: float = 0) -> Image:
    # Poses that are read in one way: between two readings the last bit of a pixel would decide.
    return drawn_hands.scene([(180 + shift, 250, "open_palm", "right"), (460, 260, "four", "left")])


def test_the_defaults_are_those_of_python(c: Library) -> None:
    from palmkit.kits.face.options import FaceMeshOptions, FaceOptions
    from palmkit.kits.hands.options import GestureOptions

    assert options("faces").detect_every == FaceOptions().detect_every
    assert (options("faces").detector_size or None) == FaceOptions().size
    assert options("meshes").detect_every == FaceMeshOptions().detect_every
    hands = GestureOptions()
    own = options("hands")
    assert (own.detect_every, own.detector_size or None) == (hands.detect_every, hands.size)
    assert own.hold_ms == hands.hold_ms
    for name, model in (("faces", "face_detector"), ("hands", "hand_detector")):
        metadata = engine.load(shipped_model(model)).metadata
        assert options(name).min_score == float(metadata["threshold"])
    for name, model in (("meshes", "face_mesh"), ("hands", "hand_landmarks")):
        metadata = engine.load(shipped_model(model)).metadata
        assert options(name).min_presence == float(metadata["threshold"])
    named = [c.c.palm_kits_gesture_name(i) for i in range(len(GESTURES))]
    assert [each.decode() for each in named] == list(GESTURES)
    assert c.c.palm_kits_gesture_name(len(GESTURES)) is None
    assert c.c.palm_kits_gesture_name(-1) is None


@pytest.mark.parametrize(
    ("ours", "pythons", "part"),
    [
        ({}, {}, None),
        ({"max_count": 1}, {"max_faces": 1}, None),
        ({"min_face": 0.15}, {"min_face": 0.15}, None),
        ({"min_score": 0.2, "detector_size": 160}, {"min_score": 0.2, "size": 160}, None),
        ({"tile": 200}, {"tile": 200}, None),
        ({}, {}, (380.0, 50.0, 250.0, 300.0)),
    ],
)
def test_faces_of_pictures(
    c: Library,
    networks: Networks,
    group: Image,
    ours: dict[str, Any],
    pythons: dict[str, Any],
    part: Part | None,
) -> None:
    made = options("faces", **{"detector_size": 320, **ours})
    kit = Kit(c, "faces", library.Face, networks("face_detector"), made)
    given: Any = {"size": 320, **pythons}
    with kits.FaceDetector(**given, quality="fast") as detector:
        expected = detector.detect(group, roi=part)
    assert len(expected) > 0
    check_faces(kit(group, part), expected)


def with_faces(picture: Image, *places: tuple[int, int, int]) -> Image:
    """Return a plain 720 x 960 picture with this one at x, y, so many pixels wide."""
    canvas = np.full((720, 960, 3), 120, np.uint8)
    for x, y, side in places:
        canvas[y : y + side, x : x + side] = resize(picture, side, side)
    return canvas


FEW = ((40, 60, 110), (500, 80, 130), (300, 420, 260))
MANY = tuple((20 + 230 * (i % 4), 20 + 170 * (i // 4), 80 + 6 * i) for i in range(14))


@pytest.fixture(scope="module")
def portrait(admiral: Image) -> Image:
    """Return a face before little else that might be one."""
    return admiral[60:420, 80:440]


@pytest.mark.parametrize("places", [FEW[:1], FEW[:2], FEW[2:]])
def test_small_faces_of_pictures(
    c: Library, networks: Networks, portrait: Image, places: tuple[tuple[int, int, int], ...]
) -> None:
    """Without a size both look closer."""
    picture = with_faces(portrait, *places)
    made = options("faces")
    kit = Kit(c, "faces", library.Face, networks("face_detector"), made)
    expected = kits.detect_faces(picture, quality="fast")
    assert len(expected) == len(places)
    check_faces(kit(picture), expected)
    made = options("meshes", max_count=1)
    mesh = Kit(c, "meshes", library.Mesh, networks("face_detector"), networks("face_mesh"), made)
    check_meshes(mesh(picture), kits.face_mesh(picture, max_faces=1, quality="fast"))


@pytest.mark.parametrize("size", [0, 1000, 2000])
@pytest.mark.parametrize("count", [1, 12])
def test_faces_far_away(c: Library, networks: Networks, size: int, count: int) -> None:
    """Nobody is there only after a second look, and a size finds as much of a crowd."""
    image = far_away(*((60 + 230 * (i // 3), 60 + 250 * (i % 3), 90) for i in range(count)))
    made = options("faces", detector_size=size)
    expected = kits.detect_faces(image, quality="fast", size=size or None)
    assert len(expected) == count
    check_faces(Kit(c, "faces", library.Face, networks("face_detector"), made)(image), expected)


@pytest.mark.parametrize("places", [FEW, MANY])
def test_crowds(
    c: Library,
    networks: Networks,
    monkeypatch: pytest.MonkeyPatch,
    astronaut: Image,
    places: tuple[tuple[int, int, int], ...],
) -> None:
    """In videos both see them in 640 pixels, in pictures ever closer."""
    picture, network = with_faces(astronaut, *places), networks("face_detector")
    kit = Kit(c, "faces", library.Face, network, options("faces", is_video=1))
    with camera(monkeypatch, True), kits.FaceDetector("video") as detector:
        for _ in range(3):
            expected = detector.detect(picture)
            check_faces(kit(picture), expected)
            assert len(expected) >= 0.8 * len(places)
    still = Kit(c, "faces", library.Face, network, options("faces"))
    expected = kits.detect_faces(picture, quality="fast")
    check_faces(still(picture), expected)
    assert len(expected) >= len(places)


def test_a_crowd_on_many_sheets(c: Library, networks: Networks, astronaut: Image) -> None:
    picture = np.full((1500, 2000, 3), 120, np.uint8)
    for i in range(70):
        side = 60 + i
        x, y = 20 + 195 * (i % 10), 20 + 210 * (i // 10)
        picture[y : y + side, x : x + side] = resize(astronaut, side, side)
    expected = kits.detect_faces(picture, quality="fast")
    assert len(expected) > 50
    given = networks("face_detector"), options("faces")
    found = (library.Face * 128)()
    count = library.List(0, 128)
    image, kept = library.image(picture)
    c.made("faces", *map(byref, given))("run", byref(image), None, None, found, byref(count))
    check_faces(list(found[: count.count]), expected)
    assert kept.size


@pytest.mark.parametrize("sizes", [[], [(320, 320), (640, 640)], [(320, 320), (512, 256)]])
def test_a_crowd_that_a_network_makes_up(c: Library, sizes: list[tuple[int, int]]) -> None:
    rng = np.random.default_rng(len(sizes))

    def run(inputs: Given) -> Given:
        found = dict[str, NDArray[np.float32]]()
        for stride in (8, 16, 32):
            cells = [1, *(side // stride for side in inputs["image"].shape[1:3])]
            far = rng.choice([1.5, 3, 30, 1e6])
            for name, count, most in (("score", 1, 1), ("box", 4, far), ("points", 10, 4)):
                values = rng.uniform(-0.2 * (count > 1), 1, (*cells, count)) * most
                # Few score much: the time that it takes grows with the square of these.
                scored = values**30 if name == "score" else values
                found[f"{name}_{stride}"] = scored.astype(np.float32)
        return found

    network = library.network(run, sizes)
    kit = c.made("faces", byref(network), byref(options("faces", min_score=0.3)))
    faces, count = (library.Face * 4000)(), library.List(0, 4000)
    for _ in range(4):
        width, height = rng.integers(330, 700, 2).tolist()
        image, kept = library.image(rng.integers(0, 256, (height, width, 3)).astype(np.uint8))
        kit("run", byref(image), None, None, faces, byref(count))
        for face in faces[: count.count]:
            x, y, wide, high = face.box
            assert x >= 0 and y >= 0 and x + wide <= width + 0.01 and y + high <= height + 0.01
        assert count.count and kept.size


@pytest.mark.parametrize("stands", [True, False])
def test_faces_of_a_video(
    c: Library, networks: Networks, monkeypatch: pytest.MonkeyPatch, stands: bool
) -> None:
    made = options("faces", is_video=1, detector_size=320)
    kit = Kit(c, "faces", library.Face, networks("face_detector"), made)
    ids = set[int]()
    with (
        camera(monkeypatch, stands) as told,
        kits.FaceDetector("video", size=320) as detector,
    ):
        for index, picture in enumerate(faces_that_cross(12)):
            expected = detector.detect(picture, 40.0 * index)
            check_faces(kit(picture, None, 40.0 * index, told[-1]), expected)
            assert expected.ids is not None
            ids.update(expected.ids.tolist())
    assert len(ids) == 2


def test_meshes_of_pictures(c: Library, networks: Networks, group: Image) -> None:
    for twice in (True, False):
        made = options("meshes", second_pass=int(twice), detector_size=320)
        given = networks("face_detector"), networks("face_mesh"), made
        kit = Kit(c, "meshes", library.Mesh, *given)
        with kits.FaceMesh(size=320, second_pass=twice, quality="fast") as mesh:
            expected = mesh.detect(group)
        assert len(expected) == 2
        check_meshes(kit(group), expected)


@pytest.mark.parametrize("most", [0, 1])
def test_meshes_of_a_video(
    c: Library, networks: Networks, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    made = options("meshes", is_video=1, max_count=most, detector_size=320)
    given = networks("face_detector"), networks("face_mesh"), made
    kit = Kit(c, "meshes", library.Mesh, *given)
    with (
        camera(monkeypatch, True),
        kits.FaceMesh("video", size=320, max_faces=most or None) as mesh,
    ):
        off: list[float] = []
        for index, picture in enumerate(faces_that_cross(14)):
            expected = mesh.detect(picture, 40.0 * index)
            found = kit(picture, None, 40.0 * index)
            check_meshes(found, expected, OFF_VIDEO)
            for one, wanted in zip(found, expected, strict=True):
                assert wanted.mesh is not None
                off.append(float(np.abs(np.asarray(one.points) - wanted.mesh).max()))
    assert np.median(off) < OFF


def test_hands_of_pictures(c: Library, networks: Networks) -> None:
    given = networks("hand_detector"), networks("hand_landmarks"), options("hands")
    kit = Kit(c, "hands", library.Hand, *given)
    with kits.GestureRecognizer() as recognizer:
        expected = recognizer.recognize(hands_picture())
    assert len(expected) == 2
    check_hands(kit(hands_picture()), expected)


def test_hands_that_are_far(c: Library, networks: Networks) -> None:
    image = drawn_hands.scene([(250, 250, "four", "right"), (460, 260, "four", "left")], palm=26)
    given = networks("hand_detector"), networks("hand_landmarks")
    with kits.GestureRecognizer() as recognizer, kits.GestureRecognizer(size=224) as quick:
        expected, near = recognizer.recognize(image), quick.recognize(image)
    assert len(expected) == 2 and len(near) < 2
    check_hands(Kit(c, "hands", library.Hand, *given, options("hands"))(image), expected)
    own = options("hands", detector_size=224)
    check_hands(Kit(c, "hands", library.Hand, *given, own)(image), near)


@pytest.mark.parametrize(("palm", "is_seen"), [(10.0, True), (8.0, False)])
def test_hands_that_are_very_far(
    c: Library, networks: Networks, palm: float, is_seen: bool
) -> None:
    """The smaller hand is refused, as the presence of its landmarks is below .97."""
    image = drawn_hands.scene([(900, 700, "one", "right")], 1200, 1800, palm)
    given = networks("hand_detector"), networks("hand_landmarks")
    with kits.GestureRecognizer() as recognizer, kits.GestureRecognizer(size=448) as near:
        expected = recognizer.recognize(image)
        assert len(expected) == is_seen and not near.recognize(image)
    check_hands(Kit(c, "hands", library.Hand, *given, options("hands"))(image), expected)
    with kits.GestureRecognizer(size=896) as told:
        expected = told.recognize(image)
    assert len(expected) == 1
    own = options("hands", detector_size=896)
    check_hands(Kit(c, "hands", library.Hand, *given, own)(image), expected)


def test_far_hands_of_a_video(
    c: Library, networks: Networks, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = networks("hand_detector"), networks("hand_landmarks")
    every = options("hands", is_video=1, detect_every=3)
    kit = Kit(c, "hands", library.Hand, *given, every)
    nobody = drawn_hands.scene([])
    counts: list[int] = []
    with (
        camera(monkeypatch, True),
        kits.GestureRecognizer("video", detect_every=3) as recognizer,
    ):
        for index in range(6):
            hands = [(250 + index, 250, "four", "right"), (460 - index, 260, "four", "left")]
            picture = drawn_hands.scene(hands, palm=26) if index else nobody
            expected = recognizer.recognize(picture, 33.0 * index)
            check_hands(kit(picture, None, 33.0 * index), expected, 0.1)
            counts.append(len(expected))
    # One of them shows at first, the other one in the closer look of the third frame after.
    assert counts == [0, 1, 1, 1, 2, 2]


def test_hands_of_a_video(c: Library, networks: Networks, monkeypatch: pytest.MonkeyPatch) -> None:
    given = networks("hand_detector"), networks("hand_landmarks"), options("hands", is_video=1)
    kit = Kit(c, "hands", library.Hand, *given)
    with camera(monkeypatch, True), kits.GestureRecognizer("video") as recognizer:
        for index in range(12):
            picture = hands_picture(6.0 * index)
            expected = recognizer.recognize(picture, 33.0 * index)
            check_hands(kit(picture, None, 33.0 * index), expected, 0.1)
            assert len(expected) == 2


def test_a_network_that_fails(c: Library, group: Image) -> None:
    def fail(_: Given) -> Given:
        raise RuntimeError

    kit = Kit(c, "faces", library.Face, library.network(fail), options("faces"))
    with pytest.raises(KitsError, match="detector: its function returned 9") as caught:
        kit(group)
    assert caught.value.status == library.ERROR_NETWORK


def test_too_little_room(c: Library, networks: Networks, group: Image) -> None:
    given = networks("face_detector"), options("faces")
    kit = c.made("faces", *(byref(each) for each in given))
    picture, kept = library.image(group)
    found, face = library.List(0, 1), library.Face()
    with pytest.raises(KitsError, match="faces: there are 2, and room for 1"):
        kit("run", byref(picture), None, None, byref(face), byref(found))
    assert found.count == 2 and not face.score and kept.size


def test_detectors_that_run_at_few_sizes(c: Library, networks: Networks, group: Image) -> None:
    """A network of several sizes is run at the one that shows most, and at no other."""
    model, asked = engine.load(shipped_model("face_detector")), set[tuple[int, ...]]()

    def run(inputs: Given) -> Given:
        asked.add(inputs["image"].shape[1:3])
        return model.run(inputs)

    network = library.network(run, [(160, 160), (320, 320), (640, 640)])
    kit = Kit(c, "faces", library.Face, network, options("faces", detector_size=320))
    with kits.FaceDetector(size=320, quality="fast") as detector:
        expected = detector.detect(group)
    check_faces(kit(group), expected, 2.0)
    assert asked == {(320, 320)}
