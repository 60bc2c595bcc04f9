"""The kits of the npm package find what those of Python find."""

import gzip
import json
from typing import Any

import numpy as np
import pytest

from palmkit import kits
from palmkit.kits.image import Image, resize
from palmkit.kits.tryon.look import Look
from tests.engine.web.package import MODULES, needs_package, node
from tests.kits import drawn_hands
from tests.kits.conftest import NoFaces

pytestmark = needs_package

# As between Python and C (tests/kits/native/test_kits.py), and masks as between instruction sets.
OFF, OFF_SCORE, OFF_MASK = 0.05, 1e-3, 1e-4
PROGRAM, LACKS = "../../kits/web/kits.mjs", "../../kits/web/lacks.mjs"
# As kits.mjs has them.
LONG = ((1200, 400), (320, 640), (900, 300), (1200, 300))


@pytest.fixture(scope="module")
def hands() -> Image:
    return drawn_hands.scene([(180, 250, "open_palm", "right"), (460, 260, "four", "left")])


@pytest.fixture(scope="module")
def long(astronaut: Image) -> list[Image]:
    """Return pictures of two faces far apart, up to 4 to 1; what is round them may be a crowd."""
    pictures = list[Image]()
    for width, height in LONG:
        side = min(width, height)
        picture = np.full((height, width, 3), 90, np.uint8)
        for share in (0.25, 0.75):
            x, y = (
                min(max(int(share * each - side / 2), 0), each - side) for each in (width, height)
            )
            picture[y : y + side, x : x + side] = resize(astronaut, side, side)
        pictures.append(picture)
    return pictures


@pytest.fixture(scope="module")
def found(
    group: Image, hands: Image, long: list[Image], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("kits")
    pictures = {"group": group, "hands": hands}
    pictures |= {f"{each.shape[1]}x{each.shape[0]}": each for each in long}
    for name, picture in pictures.items():
        opaque = np.full((*picture.shape[:2], 1), 255, np.uint8)
        (folder / f"{name}.rgba").write_bytes(np.concatenate([picture, opaque], axis=2).tobytes())
    said: dict[str, Any] = json.loads(node(PROGRAM, folder))
    for name in ("portrait", "hair", "heads", "everywhere"):
        mask = np.frombuffer((folder / f"{name}.mask").read_bytes(), np.float32)
        said[name] = mask.reshape(group.shape[:2])
    for name in ("worn.rgba", "plum.rgba"):
        said[name] = np.frombuffer((folder / name).read_bytes(), np.uint8).reshape(480, 640, 4)
    return said


def near(got: Any, expected: Any, off: float = OFF) -> None:
    given = np.asarray(got).reshape(np.shape(expected))
    np.testing.assert_allclose(given, expected, rtol=0, atol=off)


def column(things: list[dict[str, Any]], name: str) -> list[Any]:
    return [each[name] for each in things]


def check_faces(got: list[dict[str, Any]], expected: kits.Faces) -> None:
    assert len(got) == len(expected) > 0
    near(column(got, "box"), expected.boxes)
    near(column(got, "score"), expected.scores, OFF_SCORE)
    near(column(got, "keypoints"), expected.keypoints)
    assert column(got, "id") == [None] * len(got)


def test_faces(group: Image, found: dict[str, Any]) -> None:
    expected = kits.detect_faces(group, quality="fast")
    check_faces(found["faces"], expected)
    check_faces(found["few"], kits.detect_faces(group, max_faces=1, quality="fast"))
    assert found["again"] == found["faces"]


def test_long_pictures(long: list[Image], found: dict[str, Any]) -> None:
    for picture, got in zip(long, found["long"], strict=True):
        expected = kits.detect_faces(picture, quality="fast")
        assert len(expected) == 2
        check_faces(got, expected)


def test_meshes(group: Image, found: dict[str, Any]) -> None:
    expected = kits.face_mesh(group, quality="fast")
    check_faces(found["meshes"], expected)
    near(column(found["meshes"], "mesh"), expected.mesh)
    near(column(found["meshes"], "visibility"), expected.visibility, OFF_SCORE)


def test_hands(hands: Image, found: dict[str, Any]) -> None:
    expected = kits.recognize_gestures(hands)
    got = found["hands"]
    assert len(got) == len(expected) == 2
    near(column(got, "box"), expected.boxes)
    near(column(got, "landmarks"), expected.landmarks)
    near(column(got, "score"), expected.scores, OFF_SCORE)
    assert column(got, "handedness") == list(expected.handedness)
    assert column(got, "gesture") == list(expected.gestures)
    near(column(got, "gesture_score"), expected.gesture_scores, OFF_SCORE)


def test_masks(group: Image, found: dict[str, Any]) -> None:
    near(found["portrait"], kits.segment_portrait(group, quality="fast").mask, OFF_MASK)
    near(found["hair"], kits.segment_hair(group, quality="fast").mask, OFF_MASK)
    assert found["hair"].max() > 0.5
    heads = kits.HairSegmenter(face_model=NoFaces(), quality="fast")
    near(found["heads"], heads.segment(group).mask, OFF_MASK)
    everywhere = kits.HairSegmenter(face_model=NoFaces(), max_faces=1, quality="fast")
    near(found["everywhere"], everywhere.segment(group).mask, OFF_MASK)
    assert np.abs(found["heads"] - found["everywhere"]).max() > 0.5


def test_looks(group: Image, found: dict[str, Any]) -> None:
    """A browser's pixels are Python's, by the bounds of tests/kits/native/test_try_on.py."""
    worn = found["worn"]
    assert worn["faces"] == 2 and worn["bare"]
    look = Look.of(lipstick={"colour": "#a9142a", "finish": "gloss"}, hair="#d9cdb8")
    assert worn["look"] == look.to_dict()
    near_picture(found["worn.rgba"], kits.try_on(group, look, quality="fast").after, group)
    plum = Look.of(lipstick="#5c1f3f")
    near_picture(found["plum.rgba"], kits.try_on(group, plum, quality="fast").after, group)
    assert len({*map(tuple, worn["ids"])}) == 1 and len(worn["ids"][0]) == 1


def test_looks_that_cannot_be(found: dict[str, Any]) -> None:
    worn = found["worn"]
    assert worn["errors"] == [
        'argument: lipstick: expected a colour like #b3202a, got "red"',
        "argument: lipstick opacity: expected 0 to 1, got 2",
        'argument: hair finish: expected one of matte, satin, gloss, got "shimmer"',
        'argument: hair: expected one of colour, opacity, finish, got "shine"',
        "unsupported: look: blush is not worn in browsers: leave it out",
        'argument: look: expected lipstick or hair, got "hat"',
        "argument: palmkit_look: expected 1, got 2",
        "argument: look: no release of the name evening is here",
        'argument: face: expected all, largest, middle or a number from 0 on, got "tallest"',
        "argument: face: expected all, largest, middle or a number from 0 on, got -1",
    ]


def test_a_look_that_is_delivered(found: dict[str, Any]) -> None:
    look = Look.of(lipstick="#5c1f3f").to_dict()
    assert found["worn"]["delivered"] == [look, 1]


def near_picture(got: Image, expected: Image, before: Image) -> None:
    changed = (expected != before).any(axis=2)
    off = np.abs(got[:, :, :3].astype(int) - expected)
    assert changed.sum() > 300 and off.max() <= 16 and off[changed].mean() < 0.05


def test_ids_stay_in_videos(found: dict[str, Any]) -> None:
    for name, count in (("faceFrames", 2), ("meshFrames", 2), ("handFrames", 2)):
        # The order is that of scores.
        ids = [set(column(frame, "id")) for frame in found[name]]
        assert ids[0] == ids[1] == ids[2], name
        assert len(ids[0]) == count and None not in ids[0], name


def test_pictures_that_cannot_be(found: dict[str, Any]) -> None:
    assert found["errors"] == [
        "image: the picture is empty, or not loaded yet: await its decode()",
        "image: expected 400 bytes of 10 x 10 pixels, got 10",
        "image: expected at most 65536 pixels a side and 2^28 in all, got 70000 x 1: "
        "make it smaller, as by createImageBitmap with resizeWidth",
        *(
            "image: expected a picture: an element, a bitmap, a frame, or its pixels, got " + what
            for what in ("undefined", "null", "photo.jpg")
        ),
    ]


def test_modules_are_small() -> None:
    modules = [path for path in MODULES if path.parent.parent.name == "kits"]
    assert len(modules) == 6
    for path in modules:
        content = path.read_bytes()
        most = (370_000, 152_000) if path.stem == "palm_kits_try_on" else (160_000, 65_000)
        assert len(content) <= most[0] and len(gzip.compress(content, 9)) <= most[1], path.name


def test_an_engine_without_simd() -> None:
    said = node(LACKS, "simd")
    assert said.startswith("simd: expected WebAssembly with SIMD: Chrome 91, ")


def test_an_engine_without_memory() -> None:
    said = node(LACKS, "memory", flags=("--wasm-max-mem-pages=2048",)).splitlines()
    remedy = "open the kit again, and give it smaller pictures"
    assert said == [
        "backend: out of memory: could not get 192000000 bytes",
        "0",
        f"backend: out of memory: {remedy}",
        "backend: it failed before: out of memory",
        "0",
    ]
