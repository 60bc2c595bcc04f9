"""C programs with palm.h and palm_kits.h find what Python's kits find, in pictures and clips.

SANITIZER=address,undefined runs them with the libraries of `make sanitize`.
"""

import re
import shutil
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import palmkit.models
from palmkit import kits
from palmkit.kits.camera_motion import Similarity
from palmkit.kits.image import Image, resize, write_image
from palmkit.kits.results import GESTURES
from palmkit.kits.tracks import Tracker
from tests.engine.native import program as engine
from tests.kits import drawn_hands
from tests.kits.conftest import faces_that_cross
from tests.kits.native.program import SANITIZER, SOURCES, built, cmake, compiled, run

# In pixels and scores: tests/kits/native/test_kits.py says where they come from.
OFF_FACE, OFF_POINTS, OFF_SCORE, OFF_MASK = 1e-3, 0.1, 1e-3, 1e-5
MODELS = Path(palmkit.models.__file__).parent
PICTURES = engine.ROOT.parent / "shared" / "data"

pytestmark = [
    pytest.mark.skipif(cmake() is None, reason="needs CMake and a C++ compiler"),
    pytest.mark.skipif(engine.compiler() is None, reason="there is no C compiler"),
    pytest.mark.skipif(engine.library(SANITIZER) is None, reason="libpalm.so is not built"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    return compiled([Path(__file__).with_name("kits_test.c")], folder)


@pytest.fixture
def find(program: Path, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that runs a kit of C on pictures.

    It gives the numbers of each picture's things, or for masks the masks.
    """

    def run_on(kind: str, pictures: Sequence[Image], is_video: bool) -> Any:
        paths: list[str] = []
        for index, picture in enumerate(pictures):
            paths.append(str(tmp_path / f"{index}.ppm"))
            write_image(paths[-1], picture)
        masks = tmp_path / "masks"
        printed = run([str(program), kind, str(MODELS), str(int(is_video)), str(masks), *paths])
        if kind in ("portrait", "hair"):
            shape = (len(pictures), *pictures[0].shape[:2])
            return np.fromfile(masks, np.float32).reshape(shape)
        found: list[list[NDArray[np.float64]]] = [[] for _ in pictures]
        for line in printed.splitlines():
            numbers = np.array(line.split(), np.float64)
            found[int(numbers[0])].append(numbers[1:])
        return found

    return run_on


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's cameras stand still, as those of C that nobody tells of do."""

    def look(tracker: Tracker, image: Image) -> Similarity:
        tracker.look_from(Similarity(), image.shape[1], image.shape[0])
        return Similarity()

    monkeypatch.setattr(Tracker, "look", look)


@pytest.fixture(scope="module")
def group(astronaut: Image, admiral: Image) -> Image:
    picture = np.full((480, 640, 3), 90, np.uint8)
    picture[60:380, 10:330] = resize(astronaut, 320, 320)
    picture[100:340, 400:603] = resize(admiral, 240, 203)
    return picture


def near(found: Any, expected: Any, off: float) -> None:
    np.testing.assert_allclose(found, np.asarray(expected).ravel(), rtol=0, atol=off)


def check_faces(
    found: list[NDArray[np.float64]], expected: kits.Faces, off: float = OFF_FACE
) -> None:
    assert len(found) == len(expected)
    for numbers, face in zip(found, expected, strict=True):
        assert numbers[0] == (-1 if face.id is None else face.id)
        near(numbers[1], face.score, OFF_SCORE)
        near(numbers[2:6], face.box, off)
        near(numbers[6:16], face.keypoints, off)
        if face.mesh is not None:
            near(numbers[16:], face.mesh, off)


def check_hands(
    found: list[NDArray[np.float64]], expected: kits.Hands, off: float = OFF_POINTS
) -> None:
    assert len(found) == len(expected)
    for numbers, hand in zip(found, expected, strict=True):
        assert numbers[0] == (-1 if hand.id is None else hand.id)
        near(numbers[1], hand.score, OFF_SCORE)
        near(numbers[2:6], hand.box, off)
        near(numbers[6:69], hand.landmarks, off)
        assert GESTURES[int(numbers[69])] == hand.gesture
        assert bool(numbers[70]) == (hand.handedness == "right")


def hands_clip() -> list[Image]:
    return [
        drawn_hands.scene([(180 + shift, 250, "open_palm", "right"), (460, 260, "four", "left")])
        for shift in range(0, 48, 6)
    ]


def test_faces_and_meshes_of_a_picture(find: Callable[..., Any], group: Image) -> None:
    expected = kits.detect_faces(group, quality="fast")
    assert len(expected) == 2
    check_faces(find("faces", [group], False)[0], expected)
    check_faces(
        find("meshes", [group], False)[0], kits.face_mesh(group, quality="fast"), OFF_POINTS
    )


@pytest.mark.usefixtures("still")
def test_faces_of_a_clip(find: Callable[..., Any]) -> None:
    clip = list(faces_that_cross(16))
    found = find("faces", clip, True)
    with kits.FaceDetector("video") as detector:
        for index, picture in enumerate(clip):
            check_faces(found[index], detector.detect(picture, 40.0 * index))


@pytest.mark.usefixtures("still")
def test_meshes_of_a_clip(find: Callable[..., Any]) -> None:
    clip = list(islice(faces_that_cross(14), 12))
    found = find("meshes", clip, True)
    with kits.FaceMesh("video") as mesh:
        for index, picture in enumerate(clip):
            check_faces(found[index], mesh.detect(picture, 40.0 * index), OFF_POINTS)


@pytest.mark.usefixtures("still")
def test_hands(find: Callable[..., Any]) -> None:
    clip = hands_clip()
    check_hands(find("hands", clip[:1], False)[0], kits.recognize_gestures(clip[0]))
    found = find("hands", clip, True)
    with kits.GestureRecognizer("video") as recognizer:
        for index, picture in enumerate(clip):
            check_hands(found[index], recognizer.recognize(picture, 40.0 * index))


def test_portraits(find: Callable[..., Any], group: Image) -> None:
    (mask,) = find("portrait", [group], False)
    expected = kits.segment_portrait(group, quality="fast").mask
    assert expected.max() > 0.9
    near(mask.ravel(), expected, OFF_MASK)
    clip = list(islice(faces_that_cross(20), 8))
    masks = find("portrait", clip, True)
    with kits.PortraitSegmenter("video") as segmenter:
        for index, picture in enumerate(clip):
            near(masks[index].ravel(), segmenter.segment(picture, 40.0 * index).mask, OFF_MASK)


def test_hair(find: Callable[..., Any], group: Image) -> None:
    (mask,) = find("hair", [group], False)
    expected = kits.segment_hair(group, quality="fast").mask
    assert expected.max() > 0.9
    near(mask.ravel(), expected, OFF_MASK)


def test_photographs(find: Callable[..., Any]) -> None:
    """A clip of people, faces and hands has a shape that the files have plans for."""

    def read(folder: str) -> list[Image]:
        found = sorted((PICTURES / folder).rglob("*.jpg"))[:3]
        return [resize(kits.read_image(path), 480, 640) for path in found]

    people, faces, hands = read("portraits"), read("faces/aaf"), read("hands/hagrid")
    if not (people and faces and hands):
        pytest.skip(f"no pictures in {PICTURES}")
    masks = find("portrait", people, False)
    for mask, picture in zip(masks, people, strict=True):
        near(mask.ravel(), kits.segment_portrait(picture, quality="fast").mask, OFF_MASK)
    found, meshes = find("faces", faces, False), find("meshes", faces, False)
    for index, picture in enumerate(faces):
        check_faces(found[index], kits.detect_faces(picture, quality="fast"))
        check_faces(meshes[index], kits.face_mesh(picture, quality="fast"), OFF_POINTS)
    seen = find("hands", hands, False)
    for index, picture in enumerate(hands):
        # These fill the picture: 0.25 pixels are a thousandth of a hand.
        check_hands(seen[index], kits.recognize_gestures(picture), 0.5)


def test_arguments_that_no_call_may_have(tmp_path: Path) -> None:
    program = compiled([Path(__file__).with_name("arguments_test.c")], tmp_path, with_engine=False)
    run([str(program), "100"])


def test_threads_with_objects_of_their_own(tmp_path: Path) -> None:
    program = compiled([Path(__file__).with_name("threads_test.c")], tmp_path, with_engine=False)
    assert run([str(program)]).startswith("part: lies outside the picture of 120x90 pixels: ")


@pytest.mark.parametrize("language", ["c -std=c99 -pedantic", "c++ -std=c++17"])
@pytest.mark.parametrize("header", ["palm_kits.h", "palm_network.h"])
def test_the_headers_stand_alone(language: str, header: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.c"
    source.write_text(
        f'#include "{header}"\n'
        "palm_kits_options options[] = {PALM_KITS_FACES, PALM_KITS_MESHES, PALM_KITS_HANDS};\n"
        "int main(void) { return PALM_KITS_OK; }\n"
    )
    command = [*(engine.compiler() or []), "-x", *language.split(), "-Wall", "-Wextra", "-Werror"]
    run([*command, f"-I{SOURCES}", f"-I{engine.HEADER}", "-fsyntax-only", str(source)])


def test_the_library_shows_the_header_and_nothing_else() -> None:
    nm = shutil.which("nm")
    if nm is None or SANITIZER:
        pytest.skip("no nm" if nm is None else "sanitizers show symbols of their own")
    listed = run([nm, "-D", "--defined-only", str(built() / "libpalm_kits.so")])
    declared = set(re.findall(r"\b(palm_kits_\w+)\(", (SOURCES / "palm_kits.h").read_text()))
    assert {line.split()[-1] for line in listed.splitlines()} == declared


def test_the_document_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (engine.ROOT / "docs" / "kits_c.md").read_text()
    python, c = re.findall(r"^```(?:python|c)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    exec(compile(python, "kits_c.md", "exec"), {"__name__": "__main__"})
    source = tmp_path / "faces.c"
    source.write_text(c)
    said = run([str(compiled([source], tmp_path))])
    picture = kits.read_image("group.ppm")
    (face,) = kits.face_mesh(picture, quality="fast")
    assert face.mesh is not None
    box = "{:.0f}, {:.0f}: {:.0f} by {:.0f} pixels".format(*face.box)
    nose = "the nose at {:.0f}, {:.0f}".format(*face.mesh[4])
    assert said == f"{face.score:.2f} at {box}, {nose}\n"
